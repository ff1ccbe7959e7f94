"""What django_mcp is compared with: the official SDK's server, and a bare ASGI application as the limit."""
