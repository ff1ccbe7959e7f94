"""What the edges and the core hand each other."""

from collections.abc import Sequence
from typing import NamedTuple

from django_mcp.auth.base import Head as Head  # noqa: PLC0414 - the edges make it, authenticators read it
from django_mcp.core.principal import Principal
from django_mcp.protocol.errors import InvalidRequest
from django_mcp.protocol.jsonrpc import encode_error
from django_mcp.revisions.base import EventStream

Headers = Sequence[tuple[str, str]]


class Reply(NamedTuple):
    """An answer.

    Attributes:
        stream: events to send after *body*, as they come.
    """

    status: int
    headers: Headers = ()
    body: bytes = b""
    stream: EventStream | None = None


class Refusal(Exception):
    """A request turned down at the level of HTTP, before its message was looked at.

    Args:
        status: the HTTP status.
        message: what is wrong, then what would be right.
        headers: more headers for the reply.
        body: by default a JSON-RPC error that has no id, for clients that look at bodies only.

    Attributes:
        is_of_caller: it is about who calls, and so one for the log of calls.
        principal: the caller, where they are known.
    """

    is_of_caller = False
    principal: Principal | None = None

    def __init__(self, status: int, message: str, headers: Headers = (), body: bytes | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = headers
        self.body = encode_error(None, InvalidRequest(message)) if body is None else body

    def reply(self, headers: Headers = ()) -> Reply:
        """The reply."""
        kind = ("Content-Type", "application/json")
        return Reply(self.status, (*headers, *self.headers, kind), self.body)
