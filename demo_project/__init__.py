"""A travel agency whose site has an MCP endpoint."""
