"""The core: endpoints, the context of a call, and dispatch from methods to handlers."""
