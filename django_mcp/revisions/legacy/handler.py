"""Protocols 2025-11-25 to 2024-11-05: handling of handshake, requests, batches, GET and DELETE."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from django.db import Error as DatabaseError

from django_mcp.core.channel import Cancelled, Channel
from django_mcp.core.concurrency import detached, patiently
from django_mcp.core.context import Context
from django_mcp.core.database import is_unmigrated
from django_mcp.core.dispatch import can_interact, dispatch
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.failures import log_rate_limited
from django_mcp.core.policies import policy_cache
from django_mcp.core.server import MCPServer
from django_mcp.models import Call, Session
from django_mcp.protocol import headers, versions
from django_mcp.protocol.errors import InternalError, InvalidParams, InvalidRequest, ProtocolError, ResourceNotFound
from django_mcp.protocol.jsonrpc import (
    Message,
    Notification,
    Request,
    Response,
    Result,
    encode_error,
    encode_result,
    id_of,
    parse,
)
from django_mcp.revisions.base import (
    ACCEPTED,
    Event,
    MCPRequest,
    MCPResponse,
    adopt_key,
    capabilities,
    context_for,
    response,
)
from django_mcp.revisions.legacy import calls, sessions
from django_mcp.revisions.legacy import sessions as control
from django_mcp.revisions.legacy.channel import RETRY_MS, LegacyChannel, QuietChannel
from django_mcp.revisions.legacy.downgrade import shape
from django_mcp.revisions.legacy.sessions import SessionNotFound
from django_mcp.revisions.legacy.streams import open_get, tail
from django_mcp.revisions.legacy.tasks import RESULT, capability, check_call, check_made, has_tasks, with_support
from django_mcp.revisions.modern.handler import complete, discover


class Unavailable(ProtocolError):
    """Sessions cannot be read from the database."""

    code = -32603
    http_status = 503
    broken_envelope = True


class NotServed(ProtocolError):
    """The HTTP method is not supported here."""

    code = -32600
    http_status = 405


async def named_session(mcp_request: MCPRequest) -> Session:
    """Return the session that a request names.

    Raises:
        SessionNotFound: the caller has no such session.
        Unavailable: the database is not available.
    """
    session_id = mcp_request.headers[headers.SESSION]
    try:
        return await mcp_request.runner.sync(
            partial(sessions.find_session, session_id, mcp_request.server, mcp_request.principal)
        )
    except SessionNotFound:
        raise SessionNotFound(id_of(mcp_request.body)) from None
    except DatabaseError as error:
        log_rate_limited(logging.ERROR, "sessions cannot be read: %s", error)
        raise Unavailable("Sessions are temporarily unavailable. Retry later.") from None


async def open_stream(mcp_request: MCPRequest) -> MCPResponse:
    """Answer a GET: resume a stream or open one of changes."""
    if _is_modern(mcp_request) or headers.SESSION not in mcp_request.headers:
        return _not_served("GET")
    session = await named_session(mcp_request)
    answer = await open_get(session, mcp_request.headers.get(headers.LAST_EVENT), mcp_request)
    return _not_served("GET") if answer is None else answer


async def end_session(mcp_request: MCPRequest) -> MCPResponse:
    """Answer a DELETE: end the session."""
    if _is_modern(mcp_request):
        return _not_served("DELETE")
    if headers.SESSION not in mcp_request.headers:
        raise InvalidRequest("DELETE requires the header Mcp-Session-Id, the session to end.")
    session = await named_session(mcp_request)
    await mcp_request.runner.sync(partial(sessions.end_session, session))
    return MCPResponse(204)


def _not_served(verb: str) -> MCPResponse:
    error = NotServed(f"{verb} is not supported here; send a message with POST.")
    return MCPResponse(error.http_status, encode_error(None, error), [("Allow", "POST, OPTIONS")])


def _is_modern(mcp_request: MCPRequest) -> bool:
    return mcp_request.headers.get(headers.VERSION, "").strip() in versions.MODERN


logger = logging.getLogger("django_mcp")


class FormerResourceNotFound(ProtocolError):
    """``ResourceNotFound`` with its code until 2025-11-25."""

    code = -32002


async def serve_request(
    request: Request, version: str, session: Session | None, mcp_request: MCPRequest
) -> MCPResponse:
    """Answer a request."""
    if request.method == RESULT and has_tasks(mcp_request.server, version):
        from django_mcp.revisions.legacy import task_results  # noqa: PLC0415 - most sites have no tasks

        return await task_results.answered(request, session, mcp_request)
    channel = LegacyChannel(mcp_request, session, request, version)
    if (
        session is None
        or not mcp_request.response.is_live
        or not can_interact(mcp_request.server, request.method, request.params)
    ):
        return await answered(request, version, session, mcp_request, channel)
    # A lost connection does not cancel the call, so it runs in a task of its own.
    channel.task = detached(answered(request, version, session, mcp_request, channel))
    watching = _watch_later(session, channel)
    try:
        return await asyncio.shield(channel.task)
    except asyncio.CancelledError:
        if not channel.cancelled:
            raise
        return await _withdrawn(channel)
    finally:
        watching.cancel()


async def answered(
    request: Request, version: str, session: Session | None, mcp_request: MCPRequest, channel: Channel
) -> MCPResponse:
    """Run a request and answer it, on the stream if it was opened."""
    speaks = channel if isinstance(channel, LegacyChannel) else None
    try:
        try:
            body = await _result(request, version, session, mcp_request, channel)
        except InputRequired as needed:
            assert speaks is not None  # noqa: S101 - other channels have no capabilities to ask
            return await _asked(needed, speaks, mcp_request)
        except Cancelled:
            return ACCEPTED if speaks is None else await _withdrawn(speaks)
        except ProtocolError as error:
            answer = failed(request, error)
            if speaks is None or not speaks.opened:
                return answer
            body = answer.body
        if speaks is None or not speaks.opened:
            return MCPResponse(200, body)
        return await speaks.finish(body)
    finally:
        if speaks is not None and speaks.call is not None:
            speaks.release()


async def receive(answer: Response, session: Session | None, mcp_request: MCPRequest) -> MCPResponse:
    """Take an answer to a question; the last one continues its call.

    Raises:
        InvalidRequest: there is no session, so nothing was asked.
    """
    if session is None:
        raise InvalidRequest("This response answers no pending request.", request_id=answer.id)
    call = await mcp_request.runner.sync(partial(_taken, answer, session, mcp_request))
    if call is not None:
        await mcp_request.runner.later(partial(_next_round, call, session, mcp_request))
    return ACCEPTED


def _taken(answer: Response, session: Session, mcp_request: MCPRequest) -> Call | None:
    """Return the call that an answer completes; pass answers to questions of a task to the task."""
    pending = calls.receive(session, answer)
    if pending is not None and pending.call.request["method"] == RESULT:
        from django_mcp.revisions.legacy.task_results import take  # noqa: PLC0415 - most sites have no tasks

        take(pending, mcp_request)
        return None
    return None if pending is None else calls.completed(pending, leased=mcp_request.response.is_live)


def failed(request: Request, error: ProtocolError) -> MCPResponse:
    """Return the response to a failed request."""
    if isinstance(error, ResourceNotFound):
        error = FormerResourceNotFound(error.message, error.data)
    status = error.http_status if error.broken_envelope else 200
    return MCPResponse(status, encode_error(request.id, error), error.headers)


async def _result(
    request: Request, version: str, session: Session | None, mcp_request: MCPRequest, channel: Channel
) -> bytes:
    match request.method:
        case "ping":
            return encode_result(request.id, {})
        case "server/discover":  # for connectors that rewrite the version header
            await policy_cache.refresh(mcp_request.runner)  # policies decide whether there are tasks
            return encode_result(
                request.id, complete(discover(mcp_request.server, mcp_request.response), mcp_request.server)
            )
    handler = control.HANDLERS.get(request.method)
    if request.method.startswith("tasks/") and has_tasks(mcp_request.server, version):
        from django_mcp.revisions.legacy.tasks import HANDLERS  # noqa: PLC0415 - most sites have no tasks

        handler = HANDLERS.get(request.method, handler)
    if handler is not None:
        context = context_for(mcp_request, request, None, {}, channel)
        return encode_result(request.id, await handler(context, session))
    declared: Mapping[str, Any] = session.capabilities if session else {}
    if session and not (isinstance(channel, LegacyChannel) and channel.can_ask):
        declared = {"extensions": declared.get("extensions")}  # showing apps needs no stream
    context = context_for(mcp_request, request, session.client if session else None, declared, channel)
    if request.method == "tools/call" and "task" in request.params:
        result = await _with_task(context, version)
    else:
        result = await dispatch(context)
    if request.method == "tools/list" and has_tasks(mcp_request.server, version):
        return response(request.id, result, version, partial(_listed, version), mcp_request.server)
    finish = partial(_shaped, version, request.method)
    return response(request.id, result, version, finish, mcp_request.server)


async def _with_task(context: Context, version: str) -> Result:
    result = await dispatch(context, begin=partial(check_call, context, version))
    check_made(context, result)
    return result


def _shaped(version: str, method: str, result: Result, _: MCPServer) -> dict[str, Any]:
    return shape(result.fields, method, version)


def _listed(version: str, result: Result, server: MCPServer) -> dict[str, Any]:
    return with_support(shape(result.fields, "tools/list", version), server)


async def _asked(needed: InputRequired, channel: LegacyChannel, mcp_request: MCPRequest) -> MCPResponse:
    """Return the stream of a call with questions: held open if possible, else to be resumed."""
    position = await channel.ask(needed.requests)
    assert channel.call is not None  # noqa: S101
    if mcp_request.response.can_hold:
        return MCPResponse(200, stream=tail(channel.call, position, mcp_request.principal))
    mcp_request.response.send(Event(retry=RETRY_MS))
    return MCPResponse(200)


async def _withdrawn(channel: LegacyChannel) -> MCPResponse:
    if channel.opened:
        await channel.end([])
        return MCPResponse(200)
    return ACCEPTED


async def _next_round(call: Call, session: Session, mcp_request: MCPRequest) -> None:
    request, dialogue = await patiently(mcp_request.runner, partial(calls.resume, call))
    channel = LegacyChannel(mcp_request, session, request, session.version, call)
    channel.hold()
    channel.dialogue = dialogue
    if mcp_request.response.is_live:
        channel.task = asyncio.current_task()
        _watch_later(session, channel)
    try:
        body = await _result(request, session.version, session, mcp_request, channel)
    except InputRequired as needed:
        await channel.ask(needed.requests)
    except (Cancelled, asyncio.CancelledError):
        await channel.end([])
    except ProtocolError as error:
        await channel.end([failed(request, error).body])
    except Exception:
        logger.exception("the next round of %s failed", request.method)
        broken = InternalError("Internal server error. Retry the call.")
        await channel.end([failed(request, broken).body])
    else:
        await channel.end([body])
    finally:
        channel.release()


def _watch_later(session: Session, channel: LegacyChannel) -> asyncio.TimerHandle:
    control.expect(session, channel)
    return asyncio.get_running_loop().call_later(control.PATIENCE_SECONDS, control.watch, session, channel)


MAX_MESSAGES = 50
"""Maximum number of messages in a batch."""


class LegacyRevision:
    """The protocols with a handshake."""

    async def serve(self, mcp_request: MCPRequest) -> MCPResponse:
        """Answer a message, or a batch in the version that has batches."""
        session = None
        if headers.SESSION in mcp_request.headers and not _is_initialize(mcp_request.body):
            session = await named_session(mcp_request)
        assumed = versions.ASSUMED if session is None else session.version
        version = mcp_request.headers.get(headers.VERSION, assumed).strip()
        if type(mcp_request.body) is list:
            return await self._batch(mcp_request.body, version, session, mcp_request)
        return await self._one(parse(mcp_request.body), version, session, mcp_request)

    async def _batch(
        self, messages: Sequence[Any], version: str, session: Session | None, mcp_request: MCPRequest
    ) -> MCPResponse:
        if version not in versions.BATCHING:
            raise InvalidRequest(f"Protocol {version} has no batches. Send one message per request.")
        if not 0 < len(messages) <= MAX_MESSAGES:
            raise InvalidRequest(f"A batch holds 1 to {MAX_MESSAGES} messages; this one holds {len(messages)}.")
        bodies: list[bytes] = []
        for each in messages:
            try:
                message = parse(each)
                if type(message) is Request:
                    if message.method == "initialize":
                        raise InvalidRequest("'initialize' must not be part of a batch.", request_id=message.id)
                    mcp_request.response.is_request = True
                    # Calls of a batch share one response, so none has a stream.
                    answer = await answered(message, version, session, mcp_request, QuietChannel(version))
                else:
                    answer = await self._one(message, version, session, mcp_request)
            except ProtocolError as error:
                answer = MCPResponse(200, encode_error(error.request_id, error))
            if answer.body:
                bodies.append(answer.body)
        return MCPResponse(200, b"[%b]" % b",".join(bodies)) if bodies else ACCEPTED

    async def _one(
        self, message: Message, version: str, session: Session | None, mcp_request: MCPRequest
    ) -> MCPResponse:
        if type(message) is Response:
            return await receive(message, session, mcp_request)
        if type(message) is Notification:
            if message.method == "notifications/cancelled" and session is not None:
                await mcp_request.runner.sync(partial(control.cancel, session, message.params))
            return ACCEPTED
        assert isinstance(message, Request)  # noqa: S101
        try:
            if message.method == "initialize":
                return await initialize(message, mcp_request)
            if headers.IDEMPOTENCY_KEY in mcp_request.headers:
                adopt_key(message, mcp_request)
            mcp_request.response.is_request = True
            return await serve_request(message, version, session, mcp_request)
        except ProtocolError as error:
            return failed(message, error)


async def initialize(request: Request, mcp_request: MCPRequest) -> MCPResponse:
    """Agree on a version and open a session (2025-11-25, Lifecycle, Initialization)."""
    version, body = await greet(request, mcp_request)
    client, declared = request.params.get("clientInfo"), request.params.get("capabilities")
    opening = partial(sessions.open_session, mcp_request.server, mcp_request.principal, version, client, declared)
    try:
        session_id = await mcp_request.runner.sync(opening)
    except DatabaseError as error:
        if is_unmigrated(error):
            raise
        # Most methods work without a session; the others report that it is missing.
        log_rate_limited(logging.ERROR, "no session could be opened: %s", error)
        session_id = None
    return MCPResponse(200, body, [] if session_id is None else [("Mcp-Session-Id", session_id)])


async def greet(request: Request, mcp_request: MCPRequest) -> tuple[str, bytes]:
    """Return the negotiated version and the response to ``initialize``.

    Raises:
        InvalidParams: the client names no version.
    """
    requested = request.params.get("protocolVersion")
    if not isinstance(requested, str):
        raise InvalidParams('"params.protocolVersion" must be a string.')
    version = versions.negotiate(requested)
    server = mcp_request.server
    await policy_cache.refresh(mcp_request.runner)  # policies decide whether there are tasks
    fields: dict[str, Any] = {
        "protocolVersion": version,
        "capabilities": {
            **capabilities(server, mcp_request.response),
            **capability(server, version, mcp_request.principal),
            **_extensions(server),
        },
        "serverInfo": server.implementation,
    }
    if server.instructions:
        fields["instructions"] = server.instructions
    return version, encode_result(request.id, shape(fields, "initialize", version))


def _extensions(server: MCPServer) -> dict[str, Any]:
    """Return the ``extensions`` that add no methods, such as MCP Apps; this version has no others."""
    found = {name: dict(each.settings) for name, each in server.extensions.items() if not each.methods}
    return {"extensions": found} if found else {}


def _is_initialize(body: Any) -> bool:
    return type(body) is dict and body.get("method") == "initialize"
