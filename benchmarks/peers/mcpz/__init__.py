"""A Django site that speaks MCP with django-mcpz."""
