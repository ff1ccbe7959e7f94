"""Answer requests of the protocols before 2026-07-28: the handshake, single messages and batches."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from django.db import Error as DatabaseError

from django_mcp.core.database import is_unmigrated
from django_mcp.core.failures import log_seldom
from django_mcp.core.policies import book
from django_mcp.eras.base import ACCEPTED, Answer, Inbound, adopt_key, capabilities
from django_mcp.eras.legacy import control, sessions
from django_mcp.eras.legacy.channel import QuietChannel
from django_mcp.eras.legacy.connections import named_session
from django_mcp.eras.legacy.running import answered, failed, receive, serve_request
from django_mcp.eras.legacy.shapes import shape
from django_mcp.eras.legacy.task_calls import capability
from django_mcp.models import Session
from django_mcp.protocol import headers, versions
from django_mcp.protocol.errors import InvalidParams, InvalidRequest, ProtocolError
from django_mcp.protocol.jsonrpc import Message, Notification, Request, Response, encode_error, encode_result, parse

MOST_MESSAGES = 50
"""The longest batch."""


class LegacyEra:
    """The protocols with a handshake."""

    async def serve(self, inbound: Inbound) -> Answer:
        """Answer one body: a message, or a batch in the one version that has them."""
        session = None
        if headers.SESSION in inbound.headers and not _is_initialize(inbound.body):
            session = await named_session(inbound)
        assumed = versions.ASSUMED if session is None else session.version
        version = inbound.headers.get(headers.VERSION, assumed).strip()
        if type(inbound.body) is list:
            return await self._batch(inbound.body, version, session, inbound)
        return await self._one(parse(inbound.body), version, session, inbound)

    async def _batch(self, messages: Sequence[Any], version: str, session: Session | None, inbound: Inbound) -> Answer:
        if version not in versions.BATCHING:
            raise InvalidRequest(f"Protocol {version} has no batches. Send each message by itself.")
        if not 0 < len(messages) <= MOST_MESSAGES:
            raise InvalidRequest(f"A batch holds 1 to {MOST_MESSAGES} messages; this one holds {len(messages)}.")
        bodies: list[bytes] = []
        for each in messages:
            try:
                message = parse(each)
                if type(message) is Request:
                    if message.method == "initialize":
                        raise InvalidRequest("'initialize' must not be part of a batch.", request_id=message.id)
                    inbound.wire.is_request = True
                    # Several calls share one answer, so none of them has a stream to speak on.
                    answer = await answered(message, version, session, inbound, QuietChannel(version))
                else:
                    answer = await self._one(message, version, session, inbound)
            except ProtocolError as error:
                answer = Answer(200, encode_error(error.request_id, error))
            if answer.body:
                bodies.append(answer.body)
        return Answer(200, b"[%b]" % b",".join(bodies)) if bodies else ACCEPTED

    async def _one(self, message: Message, version: str, session: Session | None, inbound: Inbound) -> Answer:
        if type(message) is Response:
            return await receive(message, session, inbound)
        if type(message) is Notification:
            if message.method == "notifications/cancelled" and session is not None:
                await inbound.runner.sync(partial(control.cancel, session, message.params))
            return ACCEPTED
        assert isinstance(message, Request)  # noqa: S101
        try:
            if message.method == "initialize":
                return await initialize(message, inbound)
            if headers.IDEMPOTENCY_KEY in inbound.headers:
                adopt_key(message, inbound)
            inbound.wire.is_request = True
            return await serve_request(message, version, session, inbound)
        except ProtocolError as error:
            return failed(message, error)


async def initialize(request: Request, inbound: Inbound) -> Answer:
    """The handshake: agree on a version, say what there is, open a session (2025-11-25, Lifecycle, Initialization)."""
    version, body = await greet(request, inbound)
    client, declared = request.params.get("clientInfo"), request.params.get("capabilities")
    opening = partial(sessions.open_session, inbound.server, inbound.principal, version, client, declared)
    try:
        session_id = await inbound.runner.sync(opening)
    except DatabaseError as error:
        if is_unmigrated(error):
            raise
        # All that needs no session works without; and what needs one says so.
        log_seldom(logging.ERROR, "no session could be opened: %s", error)
        session_id = None
    return Answer(200, body, [] if session_id is None else [("Mcp-Session-Id", session_id)])


async def greet(request: Request, inbound: Inbound) -> tuple[str, bytes]:
    """The version to speak, and the response to ``initialize``.

    Raises:
        InvalidParams: the client names no version.
    """
    requested = request.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise InvalidParams('"params.protocolVersion" must be a string.')
    version = versions.negotiate(requested)
    server = inbound.server
    await book.refresh(inbound.runner)  # whether there are tasks may depend on it
    fields: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": {**capabilities(server, inbound.wire), **capability(server, version, inbound.principal)},
        "serverInfo": server.implementation,
    }
    if server.instructions:
        fields["instructions"] = server.instructions
    return version, encode_result(request.id, shape(fields, "initialize", version))


def _is_initialize(body: Any) -> bool:
    return type(body) is dict and body.get("method") == "initialize"
