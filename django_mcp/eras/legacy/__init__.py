"""Protocols 2025-11-25, 2025-06-18, 2025-03-26 and 2024-11-05: a handshake, and then calls.

This folder could be deleted as one, with the clients that need it.
"""

from collections.abc import Sequence
from typing import Any

from django_mcp.core.registry import MCPServer
from django_mcp.eras.base import ACCEPTED, Answer, Inbound, run
from django_mcp.eras.legacy.shapes import shape
from django_mcp.eras.modern import complete, discover
from django_mcp.protocol import headers, versions
from django_mcp.protocol.errors import (
    InvalidParams,
    InvalidRequest,
    ProtocolError,
    ResourceNotFound,
)
from django_mcp.protocol.jsonrpc import (
    Message,
    Request,
    Response,
    encode_error,
    encode_result,
    parse,
)

MOST_MESSAGES = 50
"""The longest batch."""


class SessionNotFound(ProtocolError):
    """The session is unknown, expired, or somebody else's; the client has to ``initialize`` again."""

    code = -32600
    http_status = 404
    broken_envelope = True


class FormerResourceNotFound(ProtocolError):
    """What ``ResourceNotFound`` was until 2025-11-25."""

    code = -32002


class LegacyEra:
    """The protocols with a handshake."""

    async def serve(self, inbound: Inbound) -> Answer:
        """Answer one body: a message, or a batch in the one version that has them."""
        version = inbound.headers.get(headers.VERSION, versions.ASSUMED).strip()
        if type(inbound.body) is list:
            return await self._batch(inbound.body, version, inbound)
        return await self._one(parse(inbound.body), version, inbound)

    async def _batch(self, messages: Sequence[Any], version: str, inbound: Inbound) -> Answer:
        if version not in versions.BATCHING:
            raise InvalidRequest(f"Protocol {version} has no batches. Send each message in a POST of its own.")
        if not 0 < len(messages) <= MOST_MESSAGES:
            raise InvalidRequest(f"A batch holds 1 to {MOST_MESSAGES} messages; this one holds {len(messages)}.")
        bodies: list[bytes] = []
        for each in messages:
            try:
                message = parse(each)
                if type(message) is Request and message.method == "initialize":
                    raise InvalidRequest("'initialize' must not be part of a batch.", request_id=message.id)
                answer = await self._one(message, version, inbound)
            except ProtocolError as error:
                answer = Answer(200, encode_error(error.request_id, error))
            if answer.body:
                bodies.append(answer.body)
        return Answer(200, b"[%b]" % b",".join(bodies)) if bodies else ACCEPTED

    async def _one(self, message: Message, version: str, inbound: Inbound) -> Answer:
        if type(message) is Response:
            raise InvalidRequest("Nothing was asked that this could answer.", request_id=message.id)
        if type(message) is not Request:
            return ACCEPTED
        if headers.SESSION in inbound.headers and message.method != "initialize":
            raise SessionNotFound("There is no such session. Send 'initialize' again.", request_id=message.id)
        try:
            return Answer(200, await self._result(message, version, inbound))
        except ResourceNotFound as error:
            return Answer(200, encode_error(message.id, FormerResourceNotFound(error.message, error.data)))
        except ProtocolError as error:
            status = error.http_status if error.broken_envelope else 200
            return Answer(status, encode_error(message.id, error))

    async def _result(self, request: Request, version: str, inbound: Inbound) -> bytes:
        server = inbound.server
        match request.method:
            case "initialize":
                return encode_result(request.id, initialize(server, request))
            case "ping":
                return encode_result(request.id, {})
            case "server/discover":  # a connector that rewrites the header must still be able to discover us
                return encode_result(request.id, complete(discover(server), server))
        return await run(
            inbound, request, None, {}, version, lambda result: shape(result.fields, request.method, version)
        )


def initialize(server: MCPServer, request: Request) -> dict[str, Any]:
    """The handshake: agree on a version, say what there is (2025-11-25, Lifecycle, Initialization)."""
    requested = request.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise InvalidParams('"params.protocolVersion" must be a string.')
    version = versions.negotiate(requested)
    fields: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": server.capabilities,
        "serverInfo": server.implementation,
    }
    if server.instructions:
        fields["instructions"] = server.instructions
    return shape(fields, "initialize", version)
