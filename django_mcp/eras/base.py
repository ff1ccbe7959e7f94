"""What the eras share: what comes in, what goes out."""

import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from django_mcp.core.concurrency import Runner
from django_mcp.core.context import Context
from django_mcp.core.methods import dispatch
from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer
from django_mcp.protocol.errors import InternalError, RequestId
from django_mcp.protocol.jsonrpc import Request, UnencodableResult, encode, encode_result
from django_mcp.protocol.results import Result

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


async def run(
    inbound: Inbound,
    request: Request,
    client: Any,
    capabilities: Mapping[str, Any],
    version: str,
    finish: Callable[[Result], dict[str, Any]],
) -> bytes:
    """Dispatch a request and encode its response.

    Args:
        inbound: the POST it came in.
        request: the request.
        client: what the client says it is, unread.
        capabilities: what the client declared.
        version: under which the encoding of a result that many requests share is kept.
        finish: puts the marks of *version* on a result.

    Raises:
        ProtocolError: and nothing else.
    """
    context = Context(
        inbound.server,
        inbound.principal,
        inbound.runner,
        inbound.edge,
        request.id,
        request.method,
        request.params,
        client,
        capabilities,
    )
    result = await dispatch(context)
    try:
        kept = result.encoded
        if kept is None:
            return encode_result(request.id, finish(result))
        if version not in kept:
            kept[version] = encode(finish(result))
        return encode_result(request.id, kept[version])
    except UnencodableResult as error:
        raise _unencodable(request.id, error) from None


def _unencodable(request_id: RequestId, error: Exception) -> InternalError:
    """The error for a result that JSON cannot hold; the log says which."""
    reference = secrets.token_hex(4)
    logger.error("[%s] the result of request %r cannot be encoded: %s", reference, request_id, error)
    message = f"The result cannot be sent as JSON. The server's log has the details under {reference}."
    return InternalError(message)
