"""``manage.py mcp_doctor`` against deployments of which each has one fault."""
