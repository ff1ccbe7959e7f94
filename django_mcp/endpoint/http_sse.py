"""The two URLs of the HTTP+SSE transport beside each endpoint, where ``DJANGO_MCP["HTTP_SSE"]`` is on."""

from django_mcp.conf import settings
from django_mcp.core.later import later
from django_mcp.core.registry import MCPServer
from django_mcp.endpoint.gate import Endpoint

_events_endpoints = later("django_mcp.endpoint.events.events_endpoints")


def http_sse_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    """Endpoints by what their paths have after the server's own; none where they are not wanted."""
    return _events_endpoints(server) if settings.HTTP_SSE else {}
