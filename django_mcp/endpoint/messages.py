"""What the edges and the core hand each other."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from django_mcp.protocol.errors import InvalidRequest, ProtocolError
from django_mcp.protocol.jsonrpc import encode_error


class Head(NamedTuple):
    """A request without its body.

    Attributes:
        headers: by lower-case name; a header sent twice is joined with ", " (RFC 9110, section 5.2).
        host: the host and port it was sent to, as the client knows them.
        secure: tells whether it came over https.
        edge: gives a Django request.
    """

    method: str
    headers: Mapping[str, str]
    host: str
    secure: Callable[[], bool]
    edge: Callable[[], Any]


Headers = Sequence[tuple[str, str]]


class Reply(NamedTuple):
    """An answer.

    Attributes:
        stream: events to send after *body*, as they come.
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    stream: AsyncGenerator[Any, None] | None = None


class Refusal(Exception):
    """A request turned down at the level of HTTP, before its message was looked at.

    Args:
        status: the HTTP status.
        message: what is wrong, then what would be right.
        headers: more headers for the reply.
    """

    def __init__(self, status: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.error: ProtocolError = InvalidRequest(message)
        self.headers = headers

    def reply(self, headers: Headers = ()) -> Reply:
        """The reply, with a JSON-RPC error that has no id, for clients that look at bodies only."""
        kind = ("Content-Type", "application/json")
        return Reply(self.status, (*headers, *self.headers, kind), encode_error(None, self.error))
