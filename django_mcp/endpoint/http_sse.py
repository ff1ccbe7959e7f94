"""The two URLs of the HTTP+SSE transport beside each endpoint, where ``DJANGO_MCP["HTTP_SSE"]`` is on."""

from django_mcp.conf import settings
from django_mcp.core.server import MCPServer
from django_mcp.endpoint.gate import Endpoint


def http_sse_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    """Endpoints by what their paths have after the server's own; none where they are not wanted."""
    if not settings.HTTP_SSE:
        return {}
    from django_mcp.endpoint.events import events_endpoints  # noqa: PLC0415 - most sites have no use for it

    return events_endpoints(server)
