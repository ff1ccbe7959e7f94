"""Protocol 2026-07-28: each request stands alone and says in ``_meta`` what a handshake used to say."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from django_mcp.core.registry import MCPServer
from django_mcp.eras.base import ACCEPTED, Answer, Inbound, run
from django_mcp.protocol import envelope, headers, versions
from django_mcp.protocol.envelope import Envelope, meta_of
from django_mcp.protocol.errors import (
    HeaderMismatch,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.jsonrpc import (
    Notification,
    Request,
    Response,
    encode_error,
    encode_result,
    parse,
)
from django_mcp.protocol.results import Result


class ModernEra:
    """The stateless protocol."""

    async def serve(self, inbound: Inbound) -> Answer:
        """Answer one body. A notification is accepted and forgotten: this version defines none over HTTP."""
        message = parse(inbound.body)
        if type(message) is Request:
            try:
                return Answer(200, await self._result(message, inbound))
            except ProtocolError as error:
                return Answer(error.http_status, encode_error(message.id, error))
        if type(message) is Response:
            refusal = "A client sends no responses: answers to questions go into the repeated request."
            raise InvalidRequest(refusal, request_id=message.id)
        assert type(message) is Notification  # noqa: S101
        check_version(inbound.headers, meta_of(message.params).get(envelope.VERSION))
        return ACCEPTED

    async def _result(self, request: Request, inbound: Inbound) -> bytes:
        asked = check_request(request, inbound.headers)
        server = inbound.server
        if request.method == "server/discover":
            return encode_result(request.id, complete(discover(server), server))
        if request.method == "initialize":
            speaks = ", ".join(versions.SUPPORTED)
            raise MethodNotFound(f"Protocol {asked.version} has no 'initialize'. This server speaks {speaks}.")
        return await run(
            inbound, request, asked.client, asked.capabilities, asked.version, partial(complete, server=server)
        )


def check_request(request: Request, header: Mapping[str, str]) -> Envelope:
    """The ladder every request climbs; the first rung that breaks is the answer.

    1. The version in the header is one we have, or the body disagrees with it (checked first: a client that
       contradicts itself is told so).
    2. ``_meta`` has what it must have.
    3. The headers repeat the body.

    Raises:
        ProtocolError: whose code tells the rung.
    """
    check_version(header, meta_of(request.params).get(envelope.VERSION))
    asked = Envelope.read(request.params)
    headers.check_mirrors(header, request.method, request.params)
    return asked


def check_version(header: Mapping[str, str], claimed: Any) -> None:
    """Compare the version of the header with that of ``_meta`` and with those we have.

    Raises:
        HeaderMismatch: the header is missing, or ``_meta`` names another version.
        UnsupportedProtocolVersion: both agree on one we do not speak.
    """
    version = header.get(headers.VERSION)
    if version is None:
        raise HeaderMismatch(f"The header MCP-Protocol-Version is missing; it must repeat {claimed!r} of '_meta'.")
    version = version.strip()
    if isinstance(claimed, str) and claimed != version:
        message = f"Header mismatch: MCP-Protocol-Version is {version[:100]!r}, but '_meta' says {claimed[:100]!r}."
        raise HeaderMismatch(message)
    if version not in versions.MODERN:
        raise UnsupportedProtocolVersion(version[:100], versions.SUPPORTED)


def discover(server: MCPServer) -> Result:
    """``server/discover``: what a client may want to know before it calls."""
    fields: dict[str, Any] = {
        "supportedVersions": list(versions.SUPPORTED),
        "capabilities": server.capabilities,
    }
    if server.instructions:
        fields["instructions"] = server.instructions
    return Result(fields, ttl_ms=server.ttl_ms, public=True)


def complete(result: Result, server: MCPServer) -> dict[str, Any]:
    """``resultType``, who answered, and for how long and whom the answer may be kept."""
    own_meta = result.fields.get("_meta")
    info = {envelope.SERVER_INFO: server.implementation}
    fields = {"resultType": "complete", **result.fields, "_meta": {**own_meta, **info} if own_meta else info}
    if result.ttl_ms is not None:
        fields["ttlMs"] = result.ttl_ms
        fields["cacheScope"] = "public" if result.public else "private"
    return fields
