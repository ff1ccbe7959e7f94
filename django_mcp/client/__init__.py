"""In-process client of MCP endpoints, for tests, ``mcp_call`` and the playground."""
