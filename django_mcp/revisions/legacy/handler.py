"""Protocols 2025-11-25 to 2024-11-05: handling of handshake, requests, batches, GET and DELETE."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from django.db import Error as DatabaseError

from django_mcp.core.channel import Cancelled, Channel
from django_mcp.core.concurrency import create_background_task, retry_database
from django_mcp.core.context import Context
from django_mcp.core.database import is_unmigrated
from django_mcp.core.dispatch import can_interact, dispatch
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.policies import policy_cache
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.server import MCPServer
from django_mcp.models import Call, Session
from django_mcp.protocol import headers, versions
from django_mcp.protocol.errors import (
    InvalidParams,
    InvalidRequest,
    ProtocolError,
    ResourceNotFound,
    TooManyRequests,
)
from django_mcp.protocol.jsonrpc import (
    Notification,
    Request,
    Response,
    Result,
    encode_error,
    encode_result,
    id_of,
    parse,
)
from django_mcp.protocol.meta import APPS, shows_apps
from django_mcp.revisions.base import (
    ACCEPTED,
    EventStream,
    MCPRequest,
    MCPResponse,
    SSEEvent,
    adopt_idempotency_key,
    capabilities,
    encode_failure,
    encode_response,
)
from django_mcp.revisions.legacy import calls, sessions, task_results, tasks
from django_mcp.revisions.legacy.channel import RETRY_MS, LegacyChannel, QuietChannel
from django_mcp.revisions.legacy.downgrade import shape
from django_mcp.revisions.legacy.sessions import SessionNotFound
from django_mcp.revisions.legacy.streams import call_stream, has_reader, open_get, tail
from django_mcp.revisions.legacy.tasks import RESULT, capability, check_call, has_tasks, require_created, with_support
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
        return await mcp_request.runner.own.sync(
            partial(sessions.find_session, session_id, mcp_request.server, mcp_request.principal)
        )
    except SessionNotFound:
        raise SessionNotFound(id_of(mcp_request.body)) from None
    except DatabaseError as error:
        log_rate_limited(logging.ERROR, "sessions cannot be read: %s", error)
        raise Unavailable("Sessions are temporarily unavailable. Retry later.") from None


async def open_stream(mcp_request: MCPRequest) -> MCPResponse:
    if _is_modern(mcp_request) or headers.SESSION not in mcp_request.headers:
        return _not_served("GET")
    session = await named_session(mcp_request)
    answer = await open_get(session, mcp_request.headers.get(headers.LAST_EVENT), mcp_request)
    return _not_served("GET") if answer is None else answer


async def end_session(mcp_request: MCPRequest) -> MCPResponse:
    if _is_modern(mcp_request):
        return _not_served("DELETE")
    if headers.SESSION not in mcp_request.headers:
        raise InvalidRequest("DELETE requires the header Mcp-Session-Id, the session to end.")
    session = await named_session(mcp_request)
    await mcp_request.runner.own.sync(partial(sessions.end_session, session))
    return MCPResponse(204)


def _not_served(verb: str) -> MCPResponse:
    error = NotServed(f"{verb} is not supported here; send a message with POST.")
    return MCPResponse(error.http_status, encode_error(None, error), [("Allow", "POST, OPTIONS")])


def _is_modern(mcp_request: MCPRequest) -> bool:
    return mcp_request.headers.get(headers.VERSION, "").strip() in versions.MODERN


class FormerResourceNotFound(ProtocolError):
    """``ResourceNotFound`` with its code until 2025-11-25."""

    code = -32002


async def serve_request(
    request: Request, version: str, session: Session | None, mcp_request: MCPRequest
) -> MCPResponse:
    if request.method == RESULT and has_tasks(mcp_request.server, version):
        return await task_results.answer(request, session, mcp_request)
    channel = LegacyChannel(mcp_request, session, request, version)
    if (
        session is None
        or not mcp_request.response.is_live
        or not can_interact(mcp_request.server, request.method, request.params)
    ):
        return await _answer_on_stream(request, version, session, mcp_request, channel)
    # A lost connection does not cancel the call, so it runs in a task of its own.
    channel.task = create_background_task(_answer_on_stream(request, version, session, mcp_request, channel))
    try:
        _watch_later(session, channel)
        # Shielded: the server cancels the request when its client disconnects.
        return await asyncio.shield(channel.task)
    except BaseException as error:
        if not isinstance(error, asyncio.CancelledError) and not channel.task.done():
            channel.cancel()  # it could not be watched, and its client reads of the error
        channel.task.add_done_callback(_drop_stream)
        raise


def _drop_stream(answering: asyncio.Task[MCPResponse]) -> None:
    # The connection is gone, so nothing else would close the stream.
    if answering.cancelled() or answering.exception() is not None:
        return
    if (stream := answering.result().stream) is not None:
        create_background_task(_close(stream))


async def _close(stream: EventStream) -> None:
    await stream.aclose()


async def answer_unstreamed(
    request: Request, version: str, session: Session | None, mcp_request: MCPRequest, channel: Channel
) -> MCPResponse:
    try:
        return MCPResponse(200, await _result(request, version, session, mcp_request, channel))
    except Cancelled:
        return ACCEPTED
    except ProtocolError as error:
        return error_response(request, error)


async def _answer_on_stream(
    request: Request, version: str, session: Session | None, mcp_request: MCPRequest, channel: LegacyChannel
) -> MCPResponse:
    try:
        try:
            body = await _result(request, version, session, mcp_request, channel)
        except InputRequired as needed:
            return await _ask(needed, channel, mcp_request)
        except ProtocolError as error:
            answer = error_response(request, error)
            if not channel.opened:
                return answer
            body = answer.body
        return await channel.finish(body) if channel.opened else MCPResponse(200, body)
    except (Cancelled, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and not channel.cancelled:  # the server stops
            raise
        if not channel.opened:
            return ACCEPTED
        await channel.end([])
        return MCPResponse(200)
    except Exception as error:
        if not channel.opened:
            raise
        # Its client waits for the end of the stream, here or where it comes back.
        return await channel.finish(encode_failure(request.id, error))
    finally:
        channel.close()


async def receive(answer: Response, session: Session | None, mcp_request: MCPRequest) -> MCPResponse:
    """Take an answer to a question; the last one continues its call.

    Raises:
        InvalidRequest: there is no session, so nothing was asked.
    """
    if session is None:
        raise InvalidRequest("This response answers no pending request.", request_id=answer.id)
    continuing = _continue(answer, session, mcp_request)
    # Runs to its end even if the client leaves: between its two steps no process would run the call.
    await (continuing if mcp_request.runner.is_inline else asyncio.shield(create_background_task(continuing)))
    return ACCEPTED


async def _continue(answer: Response, session: Session, mcp_request: MCPRequest) -> None:
    runner = mcp_request.runner
    call = await runner.own.sync(partial(_claim_call, answer, session, mcp_request))
    if call is None:
        return
    try:
        await runner.later(partial(_next_round, call, session, mcp_request))
    except BaseException:  # it does not run here, so the same answer, sent again, may run it elsewhere
        await runner.own.sync(partial(calls.unclaim, call))
        raise


def _claim_call(answer: Response, session: Session, mcp_request: MCPRequest) -> Call | None:
    pending = calls.store_answer(session, answer)
    if pending is not None and pending.call.request["method"] == RESULT:
        task_results.pass_answer(pending, mcp_request)
        return None
    return None if pending is None else calls.claim_answered(pending, leased=mcp_request.response.is_live)


def error_response(request: Request, error: ProtocolError) -> MCPResponse:
    if isinstance(error, ResourceNotFound):
        error = FormerResourceNotFound(error.message, error.data)
    status = error.http_status if error.broken_envelope else 200
    return MCPResponse(status, encode_error(request.id, error), error.headers)


async def _app_extensions(session: Session | None, mcp_request: MCPRequest) -> Mapping[str, Any]:
    looking = partial(sessions.app_extensions, mcp_request.server, mcp_request.principal, session)
    try:
        return await mcp_request.runner.own.sync(looking)
    except DatabaseError as error:  # the text of a result is enough
        log_rate_limited(logging.ERROR, "other sessions of a client cannot be read: %s", error)
        return {}


_DIFFER_WITH_APPS = frozenset({"tools/list", "tools/call", "resources/list"})
"""Methods whose results differ for clients that show apps."""


async def _result(
    request: Request, version: str, session: Session | None, mcp_request: MCPRequest, channel: Channel
) -> bytes:
    match request.method:
        case "ping":
            return encode_result(request.id, {})
        case "server/discover":  # for connectors that rewrite the version header
            await policy_cache.refresh(mcp_request.runner)  # policies decide whether there are tasks
            found = discover(mcp_request.server, mcp_request.response)
            return encode_response(request.id, found, version, complete, mcp_request.server)
    handler = sessions.HANDLERS.get(request.method)
    if request.method.startswith("tasks/") and has_tasks(mcp_request.server, version):
        handler = tasks.HANDLERS.get(request.method, handler)
    if handler is not None:
        context = Context(mcp_request, request, channel)
        return encode_result(request.id, await handler(context, session))
    declared: Mapping[str, Any] = session.capabilities if session else {}
    if session and not (isinstance(channel, LegacyChannel) and channel.can_ask):
        declared = {"extensions": declared.get("extensions")}  # showing apps needs no stream
    if APPS in mcp_request.server.extensions and request.method in _DIFFER_WITH_APPS and not shows_apps(declared):
        declared = {**declared, **await _app_extensions(session, mcp_request)}
    context = Context(mcp_request, request, channel, session.client if session else None, declared)
    if request.method == "tools/call" and "task" in request.params:
        result = await _dispatch_task(context, version)
    else:
        result = await dispatch(context)
    if request.method == "tools/list" and has_tasks(mcp_request.server, version):
        return encode_response(request.id, result, version, partial(_shape_tools, version), mcp_request.server)
    finish = partial(_shape_result, version, request.method)
    return encode_response(request.id, result, version, finish, mcp_request.server)


async def _dispatch_task(context: Context, version: str) -> Result:
    result = await dispatch(context, check_request=partial(check_call, context, version))
    require_created(context, result)
    return result


def _shape_result(version: str, method: str, result: Result, _: MCPServer) -> tuple[dict[str, Any], dict[str, Any]]:
    return shape(result.fields, method, version), {}


def _shape_tools(version: str, result: Result, server: MCPServer) -> tuple[dict[str, Any], dict[str, Any]]:
    return with_support(shape(result.fields, "tools/list", version), server), {}


async def _ask(needed: InputRequired, channel: LegacyChannel, mcp_request: MCPRequest) -> MCPResponse:
    position = await channel.ask(needed.requests)
    assert channel.call is not None  # noqa: S101
    if not mcp_request.over_http:  # one client, which cannot come back
        return MCPResponse(200, stream=tail(channel.call, position, mcp_request))
    if mcp_request.response.can_hold and not has_reader(channel.call):  # else it has come back already
        with suppress(TooManyRequests):
            return MCPResponse(200, stream=call_stream(channel.call, position, mcp_request))
    # The client comes back, once it has closed another stream if it has too many.
    mcp_request.response.send(SSEEvent(retry=RETRY_MS))
    return MCPResponse(200)


async def _next_round(call: Call, session: Session, mcp_request: MCPRequest) -> None:
    request, dialogue = await retry_database(mcp_request.runner.own, partial(calls.restore, call))
    channel = LegacyChannel(mcp_request, session, request, session.version, call)
    try:
        channel.take_lease(call)
        channel.dialogue = dialogue
        try:
            if mcp_request.response.is_live:
                channel.task = asyncio.current_task()
                _watch_later(session, channel)
            await _run_round(request, session, mcp_request, channel)
        except (Cancelled, asyncio.CancelledError):
            # The client waits for the end of its stream, on whichever connection it reads it.
            await channel.end([])
        except Exception as error:  # noqa: BLE001 - it is logged
            await channel.end([encode_failure(request.id, error)])
    finally:
        channel.close()


async def _run_round(request: Request, session: Session, mcp_request: MCPRequest, channel: LegacyChannel) -> None:
    try:
        body = await _result(request, session.version, session, mcp_request, channel)
    except InputRequired as needed:
        await channel.ask(needed.requests)
        return
    except ProtocolError as error:
        body = error_response(request, error).body
    await channel.end([body])


def _watch_later(session: Session, channel: LegacyChannel) -> None:
    # The connection may end before the call, which must still be cancellable then.
    sessions.register_call(session, channel)
    timer = asyncio.get_running_loop().call_later(
        sessions.CANCEL_WATCH_DELAY, sessions.watch_cancellation, session, channel
    )
    if channel.task is not None:
        channel.task.add_done_callback(lambda _: timer.cancel())


class LegacyRevision:
    """The protocols with a handshake."""

    async def serve(self, mcp_request: MCPRequest) -> MCPResponse:
        session, body = None, mcp_request.body
        opens_another = type(body) is dict and body.get("method") == "initialize"
        if headers.SESSION in mcp_request.headers and not opens_another:
            session = await named_session(mcp_request)
        assumed = versions.ASSUMED if session is None else session.version
        version = mcp_request.headers.get(headers.VERSION, assumed).strip()
        if type(body) is list:
            return await self._batch(body, version, session, mcp_request)
        message = parse(body)
        if not isinstance(message, Request):
            return await take(message, session, mcp_request)
        try:
            if message.method == "initialize":
                return await initialize(message, mcp_request)
            if headers.IDEMPOTENCY_KEY in mcp_request.headers:
                adopt_idempotency_key(message, mcp_request)
            mcp_request.response.is_request = True
            return await serve_request(message, version, session, mcp_request)
        except ProtocolError as error:
            return error_response(message, error)

    async def _batch(
        self, messages: Sequence[Any], version: str, session: Session | None, mcp_request: MCPRequest
    ) -> MCPResponse:
        if version not in versions.BATCHING:
            raise InvalidRequest(f"Protocol {version} has no batches. Send one message per request.")
        bodies: list[bytes] = []
        for value in messages:
            try:
                message = parse(value)
                if isinstance(message, Request):
                    if message.method == "initialize":
                        raise InvalidRequest("'initialize' must not be part of a batch.", request_id=message.id)
                    mcp_request.response.is_request = True
                    # Calls of a batch share one response, so none has a stream.
                    answer = await answer_unstreamed(message, version, session, mcp_request, QuietChannel(version))
                else:
                    answer = await take(message, session, mcp_request)
            except ProtocolError as error:
                answer = MCPResponse(200, encode_error(error.request_id, error))
            if answer.body:
                bodies.append(answer.body)
        return MCPResponse(200, b"[%b]" % b",".join(bodies)) if bodies else ACCEPTED


async def take(message: Notification | Response, session: Session | None, mcp_request: MCPRequest) -> MCPResponse:
    """Take a message that gets no response, or an answer to a question."""
    if isinstance(message, Response):
        return await receive(message, session, mcp_request)
    if message.method == "notifications/cancelled" and session is not None:
        await mcp_request.runner.own.sync(partial(sessions.cancel, session, message.params))
    return ACCEPTED


async def initialize(request: Request, mcp_request: MCPRequest) -> MCPResponse:
    """Agree on a version and open a session (2025-11-25, Lifecycle, Initialization)."""
    version, body = await greet(request, mcp_request)
    client, declared = request.params.get("clientInfo"), request.params.get("capabilities")
    opening = partial(sessions.open_session, mcp_request.server, mcp_request.principal, version, client, declared)
    try:
        session_id = await mcp_request.runner.own.sync(opening)
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
    # These versions only have extensions without methods, such as MCP Apps.
    found = {name: dict(extension.settings) for name, extension in server.extensions.items() if not extension.methods}
    return {"extensions": found} if found else {}
