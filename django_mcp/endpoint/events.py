"""The two endpoints of the HTTP+SSE transport."""

from django_mcp.core.server import MCPServer
from django_mcp.endpoint.gate import Endpoint
from django_mcp.revisions.legacy.http_sse import MESSAGES, STREAM, open_events, receive_message


class EventsEndpoint(Endpoint):
    """Opens a session and its stream."""

    verbs = {"GET": open_events}  # noqa: RUF012 - nobody changes it


class MessagesEndpoint(Endpoint):
    """Takes the messages of a session."""

    verbs = {"POST": receive_message}  # noqa: RUF012 - nobody changes it


def events_endpoints(server: MCPServer) -> dict[str, Endpoint]:
    """Endpoints by what their paths have after the server's own."""
    return {STREAM: EventsEndpoint(server), MESSAGES: MessagesEndpoint(server)}
