"""What ``mcp_call`` is made of: a client in the same process, and a person at a terminal."""
