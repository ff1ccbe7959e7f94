"""The registry, the context of a call, and the one table from method name to handler."""
