"""A Django site that speaks MCP with djangorestframework-mcp-server."""
