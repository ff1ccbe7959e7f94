"""Protocol 2026-07-28: requests, their channel, and the signed ``requestState``.

``requestState`` is signed with ``SECRET_KEY`` or its fallbacks, not encrypted, and holds nothing the client did not
send. It is valid for ``ELICITATION_TTL`` and for one caller, endpoint, host, method and arguments (2026-07-28, Multi
Round-Trip Requests, Server Requirements 4 and 5).
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
    parse,
)
from django_mcp.protocol.meta import Envelope, meta_of
from django_mcp.pubsub import once
from django_mcp.pubsub.once import StepChannel
from django_mcp.revisions.base import (
    ACCEPTED,
    MCPRequest,
    MCPResponse,
    ResponseStream,
    SSEEvent,
    adopt_idempotency_key,
    capabilities,
    encode_notification,
    encode_response,
)
from django_mcp.revisions.modern.listen import listen
from django_mcp.tasks.extension import is_declared, not_declared, shown


class ModernChannel(StepChannel):
    """Sends notifications before the response; a disconnect cancels the call."""

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
        if self.mcp_request.response.takes_events:
            self.mcp_request.response.send(SSEEvent(encode_notification(method, params), is_optional=True))

    def watch_client(self) -> None:
        # A disconnect cancels the call (Streamable HTTP, Cancellation).
        if self.mcp_request.response.is_live:
            self._task = asyncio.current_task()
            self.mcp_request.response.watch(self.cancel)

    def cancel(self) -> None:
        # Once: a second notification would interrupt what the first one made the call clean up.
        if self.cancelled:
            return
        self.cancelled = True
        # A function in a thread stops at its next use of the context.
        if self._task is not None:
            self._task.cancel()

    def wants_task(self, support: str) -> bool:
        # Clients only declare the extension. The server decides which calls become tasks.
        if is_declared(self.capabilities):
            return True
        if support == "required":
            raise not_declared("This tool runs only as a task. It")
        return False

    def announce_task(self, task: Task) -> Result:
        # See Tasks extension, Task Creation.
        return Result({"resultType": "task", **shown(task)})

    def check_mirrors(self, mirrors: Sequence[Mirror], arguments: Mapping[str, Any]) -> None:
        if self.mcp_request.over_http:
            headers.check_parameters(
                self.mcp_request.headers, [(mirror.header, mirror.path) for mirror in mirrors], arguments
            )


SALT = "django_mcp.request_state"


def seal(context: Context, params: Mapping[str, Any]) -> str:
    """Return the ``requestState`` for the next round.

    *params* are the client's; the context may hold those of a tool called through tool search.
    """
    value = {"for": _binding(context, params), **context.channel.dialogue.to_json()}
    return signing.dumps(value, salt=SALT, compress=True)


def unseal(state: Any, context: Context) -> Dialogue:
    """Return the dialogue of a ``requestState``, before the call runs.

    Raises:
        InvalidParams: the state is not signed by this site, belongs to another call, or has expired.
    """
    if not isinstance(state, str):
        raise InvalidParams('"params.requestState" must be a string, as it was sent.')
    try:
        value = signing.loads(state, salt=SALT, max_age=settings.ELICITATION_TTL)
    except signing.SignatureExpired:
        raise InvalidParams("This requestState has expired. Repeat the call without it.") from None
    except Exception:  # noqa: BLE001 - decoding unsigned data may fail in any way
        raise InvalidParams("This requestState was not issued by this server, or has been altered.") from None
    if value.pop("for", None) != _binding(context, context.params):
        raise InvalidParams("This requestState belongs to another call. Repeat the call with the same arguments.")
    return Dialogue(**value)


def _binding(context: Context, params: Mapping[str, Any]) -> str:
    principal = context.principal
    params = {key: value for key, value in params.items() if key not in {"_meta", "inputResponses", "requestState"}}
    caller = [*context.addressed_to, principal.kind, principal.id]
    parts = [context.server.name, *caller, context.method, params]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


class ModernRevision:
    """The stateless protocol."""

    async def serve(self, mcp_request: MCPRequest) -> MCPResponse:
        request = parse(mcp_request.body)
        if type(request) is not Request:
            return _take(request, mcp_request)
        channel = None
        try:
            asked = check_request(request, mcp_request)
            if headers.IDEMPOTENCY_KEY in mcp_request.headers:
                adopt_idempotency_key(request, mcp_request)
            if request.method in OWN:
                return await _serve_own(request, asked, mcp_request)
            channel = ModernChannel(mcp_request, asked)
            context = Context(mcp_request, request, channel, asked.client, asked.capabilities)
            check_state = None
            if ("inputResponses" in request.params or "requestState" in request.params) and request.method in ASKING:
                check_state = partial(resume, context)
            mcp_request.response.is_request = True
            try:
                if can_interact(mcp_request.server, request.method, request.params):
                    channel.watch_client()
                result = await dispatch(context, extended=True, check_request=check_state)
            except InputRequired as needed:
                result = await _ask(context, channel, request.params, needed)
            return MCPResponse(200, encode_response(request.id, result, asked.version, complete, mcp_request.server))
        except ProtocolError as error:
            return MCPResponse(error.http_status, encode_error(request.id, error), error.headers)
        except (Cancelled, asyncio.CancelledError):
            if channel is None or not channel.cancelled:
                raise
            return GONE


async def _ask(context: Context, channel: ModernChannel, params: Mapping[str, Any], needed: InputRequired) -> Result:
    if channel.has_steps or channel.dialogue.round:  # before the state is sent
        await context.runner.own.sync(partial(once.extend, channel.dialogue.id))
    state = seal(context, params)
    return Result({"resultType": "input_required", "inputRequests": needed.requests, "requestState": state})


OWN = frozenset({"server/discover", "initialize", "subscriptions/listen"})
"""Methods of this protocol version that ``dispatch`` does not handle."""

GONE = MCPResponse(499)
"""Response to a call cancelled by a disconnect; not sent."""


async def _serve_own(request: Request, asked: Envelope, mcp_request: MCPRequest) -> MCPResponse:
    if request.method == "subscriptions/listen":
        return await listen(request, asked.capabilities, mcp_request)
    if request.method == "initialize":
        speaks = ", ".join(versions.SUPPORTED)
        raise MethodNotFound(f"Protocol {asked.version} has no 'initialize'. This server supports {speaks}.")
    await policy_cache.refresh(mcp_request.runner)  # policies decide whether there are tasks
    result = discover(mcp_request.server, mcp_request.response)
    return MCPResponse(200, encode_response(request.id, result, asked.version, complete, mcp_request.server))


def _take(message: Message, mcp_request: MCPRequest) -> MCPResponse:
    # This version defines no notifications over HTTP.
    if type(message) is Response:
        refusal = "A client must not send responses. Put answers into 'inputResponses' of the repeated request."
        raise InvalidRequest(refusal, request_id=message.id)
    assert type(message) is Notification  # noqa: S101
    check_version(mcp_request.headers, meta_of(message.params).get(meta.VERSION))
    return ACCEPTED


async def resume(context: Context) -> None:
    """Restore the state and answers of earlier rounds.

    Answers without a state are valid: a client may know the questions in advance.

    Raises:
        InvalidParams: the state or the answers are invalid.
    """
    params = context.params
    if "requestState" in params:
        dialogue = unseal(params["requestState"], context)
        context.channel.dialogue = dialogue
        if not is_repeatable(context):
            # Spent later: a call refused by a limit is repeated with the same answers.
            context.consume_state = partial(once.claim_step, dialogue.id, f"round:{dialogue.round}")
    if "inputResponses" in params:
        responses = params["inputResponses"]
        if not isinstance(responses, dict):
            raise InvalidParams('"params.inputResponses" must be an object from question keys to client results.')
        context.channel.dialogue.answer(responses)


def is_repeatable(context: Context) -> bool:
    tool = called_tool(context.server, context.params)
    return context.method != "tools/call" or tool is None or tool.is_repeatable


def check_request(request: Request, mcp_request: MCPRequest) -> Envelope:
    """Validate a request; the first failed check decides the error.

    1. The header's version is supported and agrees with the body.
    2. ``_meta`` is complete.
    3. Headers, if any, repeat the body.

    Raises:
        ProtocolError: a check failed.
    """
    try:
        asked = Envelope.read(request.params)
    except InvalidParams:
        check_version(mcp_request.headers, meta_of(request.params).get(meta.VERSION))
        raise
    version = asked.version
    if not (version in versions.MODERN and mcp_request.headers.get(headers.VERSION) == version):  # the common case
        check_version(mcp_request.headers, version)
    if mcp_request.over_http:
        headers.check_mirrors(mcp_request.headers, request.method, request.params)
    return asked


def check_version(header: Mapping[str, str], claimed: Any) -> None:
    """Compare the header's version with ``_meta`` and the supported versions.

    Raises:
        HeaderMismatch: the header is missing or contradicts ``_meta``.
        UnsupportedProtocolVersion: the version is not supported.
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
    declared = capabilities(server, response)
    if server.extensions:
        declared["extensions"] = {name: dict(extension.settings) for name, extension in server.extensions.items()}
    fields: dict[str, Any] = {"supportedVersions": list(versions.SUPPORTED), "capabilities": declared}
    if server.instructions:
        fields["instructions"] = server.instructions
    return Result(fields, ttl_ms=server.ttl_ms, public=True)


def complete(result: Result, server: MCPServer) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a result's fields, and what this version adds: ``resultType``, server info and cache control."""
    fields = result.fields
    added: dict[str, Any] = {"_meta": {meta.SERVER_INFO: server.implementation}}
    if "_meta" in fields:
        added["_meta"] = {**(fields["_meta"] or {}), **added["_meta"]}
        fields = {name: value for name, value in fields.items() if name != "_meta"}
    if "resultType" not in fields:
        added["resultType"] = "complete"
    if result.ttl_ms is not None:
        added["ttlMs"] = result.ttl_ms
        added["cacheScope"] = "public" if result.public else "private"
    return fields, added
