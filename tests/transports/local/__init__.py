"""A site for clients on the same machine: the conformance tools, and some that do what disturbs standard streams."""
