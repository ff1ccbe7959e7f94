"""The two URLs of the HTTP+SSE transport beside each endpoint, where ``DJANGO_MCP["HTTP_SSE"]`` is on."""

from django_mcp.conf import settings
from django_mcp.core.registry import MCPServer
from django_mcp.endpoint.gate import Endpoint
from django_mcp.eras.legacy.http_sse import MESSAGES, STREAM, open_events, receive_message


class EventsEndpoint(Endpoint):
    """Opens a session and its stream."""

    verbs = {"GET": open_events}  # noqa: RUF012 - nobody changes it


class MessagesEndpoint(Endpoint):
    """Takes the messages of a session."""

    verbs = {"POST": receive_message}  # noqa: RUF012 - nobody changes it


def http_sse_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    """Endpoints by what their paths have after the server's own; none where they are not wanted."""
    if not settings.HTTP_SSE:
        return {}
    return {STREAM: EventsEndpoint(server), MESSAGES: MessagesEndpoint(server)}
