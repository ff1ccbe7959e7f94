"""A client of MCP endpoints in this process, for tests, ``mcp_call`` and the playground."""
