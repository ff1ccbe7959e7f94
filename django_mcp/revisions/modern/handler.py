"""Protocol 2026-07-28: stateless requests, their channel, and ``requestState``.

The client can read it and cannot change it: it is signed with ``SECRET_KEY`` (and read with its fallbacks, so keys
can be rotated while questions are open), and good only for the same caller, endpoint, host, method and arguments,
for ``ELICITATION_TTL`` (2026-07-28, Multi Round-Trip Requests, Server Requirements 4 and 5). It holds nothing the
client did not say itself.
"""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.core import signing

from django_mcp.conf import settings
from django_mcp.core.channel import LEVELS, Cancelled
from django_mcp.core.context import ASKING, Context
from django_mcp.core.dispatch import can_interact, dispatch
from django_mcp.core.elicitation import Dialogue, InputRequired
from django_mcp.core.policies import policy_cache
from django_mcp.core.request import host_of
from django_mcp.core.server import MCPServer
from django_mcp.core.tool_search import called_tool
from django_mcp.models import Task
from django_mcp.primitives.markers import Mirror
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
from django_mcp.pubsub.once import StepChannel
from django_mcp.revisions.base import (
    ACCEPTED,
    Event,
    MCPRequest,
    MCPResponse,
    ResponseStream,
    adopt_key,
    capabilities,
    context_for,
    notification,
    response,
)
from django_mcp.revisions.modern.listen import listen
from django_mcp.tasks.extension import is_declared, not_declared


class ModernChannel(StepChannel):
    """Notifications go out before the answer; a closed connection stops the call."""

    takes_ttl = False
    _task: asyncio.Task[Any] | None = None

    def __init__(self, mcp_request: MCPRequest, asked: Envelope) -> None:
        self.mcp_request = mcp_request
        self.protocol = asked.version
        self.capabilities = asked.capabilities
        if asked.log_level is not None:
            if asked.log_level not in LEVELS:
                raise InvalidParams(f"Unknown log level; use one of {', '.join(LEVELS)}.")
            self.log_level = asked.log_level

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send it, where the client takes streams."""
        if self.mcp_request.response.takes_events:
            self.mcp_request.response.send(Event(notification(method, params)))

    def watch_client(self) -> None:
        """Stop the call when the client closes its connection (Streamable HTTP, Cancellation)."""
        if self.mcp_request.response.is_live:
            self._task = asyncio.current_task()
            self.mcp_request.response.watch(self.cancel)

    def cancel(self) -> None:
        """Stop: a coroutine where it waits, a function where it next uses its context."""
        self.cancelled = True
        if self._task is not None:
            self._task.cancel()

    def wants_task(self, support: str) -> bool:
        """Whether the client declared the extension in this request; then it is the server who decides."""
        if is_declared(self.capabilities):
            return True
        if support == "required":
            raise not_declared("This tool takes longer than a call may. It")
        return False

    def task_made(self, task: Task) -> Result:
        """``CreateTaskResult`` (Tasks extension, Task Creation)."""
        from django_mcp.tasks.extension import shown  # noqa: PLC0415 - most sites have no tasks

        return Result({"resultType": "task", **shown(task)})

    def check_mirrors(self, mirrors: Sequence[Mirror], arguments: Mapping[str, Any]) -> None:
        """The arguments, against ``Mcp-Param-*``."""
        if self.mcp_request.over_http:
            headers.check_parameters(
                self.mcp_request.headers, [(each.header, each.path) for each in mirrors], arguments
            )


SALT = "django_mcp.request_state"


def seal(context: Context, params: Mapping[str, Any]) -> str:
    """The state for the next round of a call.

    Args:
        context: of the call.
        params: as the client sent them; those of the context may be of the tool that ``call_tool`` named.
    """
    value = {"for": _binding(context, params), **context.channel.dialogue.to_json()}
    return signing.dumps(value, salt=SALT, compress=True)


def unseal(state: Any, context: Context) -> Dialogue:
    """The dialogue a state holds.

    Args:
        state: as the client sent it.
        context: of the call that it came with, before anything runs.

    Raises:
        InvalidParams: it is not ours, not for this call, or too old.
    """
    if not isinstance(state, str):
        raise InvalidParams('"params.requestState" must be a string, as it was sent.')
    try:
        value = signing.loads(state, salt=SALT, max_age=settings.ELICITATION_TTL)
    except signing.SignatureExpired:
        raise InvalidParams("This requestState has expired. Repeat the call without it.") from None
    except Exception:  # noqa: BLE001 - what is not signed may break the decoding in any way
        raise InvalidParams("This requestState was not issued by this server, or has been altered.") from None
    if value.pop("for", None) != _binding(context, context.params):
        raise InvalidParams("This requestState belongs to another call: repeat the call with the same arguments.")
    return Dialogue(**value)


def _binding(context: Context, params: Mapping[str, Any]) -> str:
    principal = context.principal
    params = {key: value for key, value in params.items() if key not in {"_meta", "inputResponses", "requestState"}}
    caller = [host_of(context.request.META), principal.kind, principal.id]
    parts = [context.server.name, *caller, context.method, params]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class ModernRevision:
    """The stateless protocol."""

    async def serve(self, mcp_request: MCPRequest) -> MCPResponse:
        """Answer one body."""
        request = parse(mcp_request.body)
        if type(request) is not Request:
            return _take(request, mcp_request)
        channel = None
        try:
            asked = check_request(request, mcp_request)
            if headers.IDEMPOTENCY_KEY in mcp_request.headers:
                adopt_key(request, mcp_request)
            if request.method in OWN:
                return await _serve_own(request, asked, mcp_request)
            channel = ModernChannel(mcp_request, asked)
            context = context_for(mcp_request, request, asked.client, asked.capabilities, channel)
            begin = None
            if ("inputResponses" in request.params or "requestState" in request.params) and request.method in ASKING:
                begin = partial(resume, context)
            mcp_request.response.is_request = True
            try:
                if can_interact(mcp_request.server, request.method, request.params):
                    channel.watch_client()
                result = await dispatch(context, extended=True, begin=begin)
            except InputRequired as needed:
                state = seal(context, request.params)
                fields = {"resultType": "input_required", "inputRequests": needed.requests, "requestState": state}
                result = Result(fields)
            return MCPResponse(200, response(request.id, result, asked.version, complete, mcp_request.server))
        except ProtocolError as error:
            return MCPResponse(error.http_status, encode_error(request.id, error), error.headers)
        except (Cancelled, asyncio.CancelledError):
            if channel is None or not channel.cancelled:
                raise
            return GONE


OWN = frozenset({"server/discover", "initialize", "subscriptions/listen"})
"""Methods that are about this version of the protocol, and not for ``dispatch``."""

GONE = MCPResponse(499)
"""Nobody reads it: the client closed its connection, and the call was stopped."""


async def _serve_own(request: Request, asked: Envelope, mcp_request: MCPRequest) -> MCPResponse:
    if request.method == "subscriptions/listen":
        return await listen(request, asked.capabilities, mcp_request)
    if request.method == "initialize":
        speaks = ", ".join(versions.SUPPORTED)
        raise MethodNotFound(f"Protocol {asked.version} has no 'initialize'. This server supports {speaks}.")
    await policy_cache.refresh(mcp_request.runner)  # whether there are tasks may depend on it
    result = discover(mcp_request.server, mcp_request.response)
    return MCPResponse(200, encode_result(request.id, complete(result, mcp_request.server)))


def _take(message: Message, mcp_request: MCPRequest) -> MCPResponse:
    """A notification is accepted and forgotten: this version defines none over HTTP."""
    if type(message) is Response:
        refusal = "A client must not send responses: put answers into 'inputResponses' of the repeated request."
        raise InvalidRequest(refusal, request_id=message.id)
    assert type(message) is Notification  # noqa: S101
    check_version(mcp_request.headers, meta_of(message.params).get(meta.VERSION))
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
    tool = called_tool(context.server, context.params)
    return context.method != "tools/call" or tool is None or tool.is_repeatable


def check_request(request: Request, mcp_request: MCPRequest) -> Envelope:
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
        check_version(mcp_request.headers, meta_of(request.params).get(meta.VERSION))
        raise
    version = asked.version
    if not (version in versions.MODERN and mcp_request.headers.get(headers.VERSION) == version):  # as most are
        check_version(mcp_request.headers, version)
    if mcp_request.over_http:
        headers.check_mirrors(mcp_request.headers, request.method, request.params)
    return asked


def check_version(header: Mapping[str, str], claimed: Any) -> None:
    """Compare the version of the header with that of ``_meta`` and with those we have.

    Raises:
        HeaderMismatch: the header is missing, or ``_meta`` names another version.
        UnsupportedProtocolVersion: both agree on one we do not speak.
    """
    version = header.get(headers.VERSION)
    if version is None:
        raise HeaderMismatch(f"Missing header MCP-Protocol-Version: it must repeat {claimed!r} of '_meta'.")
    version = version.strip()
    if isinstance(claimed, str) and claimed != version:
        message = f"Header mismatch: MCP-Protocol-Version is {version[:100]!r}, but '_meta' says {claimed[:100]!r}."
        raise HeaderMismatch(message)
    if version not in versions.MODERN:
        raise UnsupportedProtocolVersion(version[:100], versions.SUPPORTED)


def discover(server: MCPServer, response: ResponseStream) -> Result:
    """``server/discover``: what a client may want to know before it calls."""
    declared = capabilities(server, response)
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
