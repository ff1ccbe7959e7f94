"""What the eras share: what comes in, what goes out."""

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from django_mcp.core.concurrency import Runner
from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer
from django_mcp.protocol.errors import InternalError, RequestId

logger = logging.getLogger("django_mcp")


class Inbound(NamedTuple):
    """One POST, authenticated and decoded.

    Attributes:
        headers: by lower-case name.
        body: the JSON value.
        runner: how the edge runs a site's code.
        edge: gives a Django request for this POST.
    """

    server: MCPServer
    principal: Principal
    runner: Runner
    edge: Callable[[], Any]
    headers: Mapping[str, str]
    body: Any


class Answer(NamedTuple):
    """What goes back: an HTTP status and one JSON text, or none.

    Streams come beside this: an era that has more to say than one message will return an iterator of them.
    """

    status: int
    body: bytes = b""


ACCEPTED = Answer(202)


class Era(Protocol):
    """A family of protocol versions."""

    async def serve(self, inbound: Inbound) -> Answer:
        """Answer one body.

        Raises:
            ProtocolError: nothing could be answered under a request's id.
        """


def unencodable(request_id: RequestId, error: Exception) -> InternalError:
    """The error for a result that JSON cannot hold; the log says which."""
    reference = secrets.token_hex(4)
    logger.error("[%s] the result of request %r cannot be encoded: %s", reference, request_id, error)
    message = f"The result cannot be sent as JSON. The server's log has the details under {reference}."
    return InternalError(message)
