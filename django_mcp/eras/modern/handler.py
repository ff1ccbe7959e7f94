"""Answer requests of protocol 2026-07-28: check them, dispatch them, and mark their results."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from django_mcp.core.channel import Cancelled
from django_mcp.core.context import ASKING, Context
from django_mcp.core.dispatch import dispatch, may_speak
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.policies import book
from django_mcp.core.server import MCPServer
from django_mcp.core.tool_search import behind
from django_mcp.eras.base import (
    ACCEPTED,
    Answer,
    Inbound,
    Wire,
    adopt_key,
    capabilities,
    context_for,
    response,
)
from django_mcp.eras.modern.channel import ModernChannel
from django_mcp.eras.modern.listening import listen
from django_mcp.eras.modern.states import seal, unseal
from django_mcp.protocol import headers, meta, versions
from django_mcp.protocol.errors import (
    HeaderMismatch,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    ProtocolError,
    UnsupportedProtocolVersion,
)
from django_mcp.protocol.jsonrpc import (
    Message,
    Notification,
    Request,
    Response,
    Result,
    encode_error,
    encode_result,
    parse,
)
from django_mcp.protocol.meta import Envelope, meta_of
from django_mcp.pubsub import once


class ModernEra:
    """The stateless protocol."""

    async def serve(self, inbound: Inbound) -> Answer:
        """Answer one body."""
        request = parse(inbound.body)
        if type(request) is not Request:
            return _take(request, inbound)
        channel = None
        try:
            asked = check_request(request, inbound)
            if headers.IDEMPOTENCY_KEY in inbound.headers:
                adopt_key(request, inbound)
            if request.method in OWN:
                return await _serve_own(request, asked, inbound)
            channel = ModernChannel(inbound, asked)
            context = context_for(inbound, request, asked.client, asked.capabilities, channel)
            begin = None
            if ("inputResponses" in request.params or "requestState" in request.params) and request.method in ASKING:
                begin = partial(resume, context)
            inbound.wire.is_request = True
            try:
                serving = dispatch(context, extended=True, begin=begin)
                can_stop = may_speak(inbound.server, request.method, request.params)
                result = await (channel.followed(serving) if can_stop else serving)
            except InputRequired as needed:
                state = seal(context, request.params)
                fields = {"resultType": "input_required", "inputRequests": needed.requests, "requestState": state}
                result = Result(fields)
            return Answer(200, response(request.id, result, asked.version, complete, inbound.server))
        except ProtocolError as error:
            return Answer(error.http_status, encode_error(request.id, error), error.headers)
        except (Cancelled, asyncio.CancelledError):
            if channel is None or not channel.cancelled:
                raise
            return GONE


OWN = frozenset({"server/discover", "initialize", "subscriptions/listen"})
"""Methods that are about this version of the protocol, and not for ``dispatch``."""

GONE = Answer(499)
"""Nobody reads it: the client closed its connection, and the call was stopped."""


async def _serve_own(request: Request, asked: Envelope, inbound: Inbound) -> Answer:
    if request.method == "subscriptions/listen":
        return await listen(request, asked.capabilities, inbound)
    if request.method == "initialize":
        speaks = ", ".join(versions.SUPPORTED)
        raise MethodNotFound(f"Protocol {asked.version} has no 'initialize'. This server speaks {speaks}.")
    await book.refresh(inbound.runner)  # whether there are tasks may depend on it
    result = discover(inbound.server, inbound.wire)
    return Answer(200, encode_result(request.id, complete(result, inbound.server)))


def _take(message: Message, inbound: Inbound) -> Answer:
    """A notification is accepted and forgotten: this version defines none over HTTP."""
    if type(message) is Response:
        refusal = "A client sends no responses: answers to questions go into the repeated request."
        raise InvalidRequest(refusal, request_id=message.id)
    assert type(message) is Notification  # noqa: S101
    check_version(inbound.headers, meta_of(message.params).get(meta.VERSION))
    return ACCEPTED


async def resume(context: Context) -> None:
    """Take up what the client brings of earlier rounds: its answers, and the state it was given with the questions.

    Answers without a state are answers all the same: a client may know beforehand what it will be asked.

    Raises:
        InvalidParams: one of them is malformed, or not ours.
    """
    params = context.params
    if "requestState" in params:
        dialogue = unseal(params["requestState"], context)
        context.channel.dialogue = dialogue
        if not is_repeatable(context):
            # Not yet: a call that a limit refuses is made again with the same answers.
            context.spend = partial(once.take, dialogue.id, f"round:{dialogue.round}")
    if "inputResponses" in params:
        responses = params["inputResponses"]
        if not isinstance(responses, dict):
            raise InvalidParams("\"params.inputResponses\" must be an object: question's key -> the client's result.")
        context.channel.dialogue.answer(responses)


def is_repeatable(context: Context) -> bool:
    """Whether running the call again with the same answers does no harm."""
    server, params = context.server, context.params
    tool = server.tools.get(str(params.get("name"))) or behind(server, params)
    return context.method != "tools/call" or tool is None or tool.is_repeatable


def check_request(request: Request, inbound: Inbound) -> Envelope:
    """The ladder every request climbs; the first rung that breaks is the answer.

    1. The version in the header is one we have, or the body disagrees with it (checked first: a client that
       contradicts itself is told so).
    2. ``_meta`` has what it must have.
    3. The headers repeat the body, where there are headers.

    Raises:
        ProtocolError: whose code tells the rung.
    """
    try:
        asked = Envelope.read(request.params)
    except InvalidParams:
        check_version(inbound.headers, meta_of(request.params).get(meta.VERSION))
        raise
    version = asked.version
    if not (version in versions.MODERN and inbound.headers.get(headers.VERSION) == version):  # as most are
        check_version(inbound.headers, version)
    if inbound.over_http:
        headers.check_mirrors(inbound.headers, request.method, request.params)
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


def discover(server: MCPServer, wire: Wire) -> Result:
    """``server/discover``: what a client may want to know before it calls."""
    declared = capabilities(server, wire)
    if server.extensions:
        declared["extensions"] = {name: dict(each.settings) for name, each in server.extensions.items()}
    fields: dict[str, Any] = {"supportedVersions": list(versions.SUPPORTED), "capabilities": declared}
    if server.instructions:
        fields["instructions"] = server.instructions
    return Result(fields, ttl_ms=server.ttl_ms, public=True)


def complete(result: Result, server: MCPServer) -> dict[str, Any]:
    """``resultType``, who answered, and for how long and whom the answer may be kept."""
    own_meta = result.fields.get("_meta")
    info = {meta.SERVER_INFO: server.implementation}
    fields = {"resultType": "complete", **result.fields, "_meta": {**own_meta, **info} if own_meta else info}
    if result.ttl_ms is not None:
        fields["ttlMs"] = result.ttl_ms
        fields["cacheScope"] = "public" if result.public else "private"
    return fields
