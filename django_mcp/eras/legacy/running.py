"""Running a request of a client that may have a session: to its answer, or to the questions it has first."""

import asyncio
import logging
from functools import partial
from typing import Any

from django_mcp.core.channel import Cancelled, Channel
from django_mcp.core.concurrency import detached, patiently
from django_mcp.core.context import Context
from django_mcp.core.dispatch import dispatch, may_speak
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.policies import book
from django_mcp.core.server import MCPServer
from django_mcp.eras.base import ACCEPTED, Answer, Event, Inbound, context_for, response
from django_mcp.eras.legacy import calls, control
from django_mcp.eras.legacy.channel import RETRY_MS, LegacyChannel
from django_mcp.eras.legacy.shapes import shape
from django_mcp.eras.legacy.streams import tail
from django_mcp.eras.legacy.task_calls import check_call, check_made, with_support
from django_mcp.eras.legacy.task_support import RESULT, has_tasks
from django_mcp.eras.modern.handler import complete, discover
from django_mcp.models import Call, Session
from django_mcp.protocol.errors import InternalError, InvalidRequest, ProtocolError, ResourceNotFound
from django_mcp.protocol.jsonrpc import Request, Response, Result, encode_error, encode_result

logger = logging.getLogger("django_mcp")


class FormerResourceNotFound(ProtocolError):
    """What ``ResourceNotFound`` was until 2025-11-25."""

    code = -32002


async def serve_request(request: Request, version: str, session: Session | None, inbound: Inbound) -> Answer:
    """The answer to a request."""
    if request.method == RESULT and has_tasks(inbound.server, version):
        from django_mcp.eras.legacy import outcomes  # noqa: PLC0415 - most sites have no tasks

        return await outcomes.answered(request, session, inbound)
    channel = LegacyChannel(inbound, session, request, version)
    if session is None or not inbound.wire.is_live or not may_speak(inbound.server, request.method, request.params):
        return await answered(request, version, session, inbound, channel)
    # What is under way must not end with the connection: a client that lost it did not withdraw its request.
    channel.task = detached(answered(request, version, session, inbound, channel))
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
    request: Request, version: str, session: Session | None, inbound: Inbound, channel: Channel
) -> Answer:
    """Run a request and answer it: plainly, or on the stream that was opened meanwhile."""
    speaks = channel if isinstance(channel, LegacyChannel) else None
    try:
        try:
            body = await _result(request, version, session, inbound, channel)
        except InputRequired as needed:
            assert speaks is not None  # noqa: S101 - others have no capabilities, so nothing is asked
            return await _asked(needed, speaks, inbound)
        except Cancelled:
            return ACCEPTED if speaks is None else await _withdrawn(speaks)
        except ProtocolError as error:
            answer = failed(request, error)
            if speaks is None or not speaks.opened:
                return answer
            body = answer.body
        if speaks is None or not speaks.opened:
            return Answer(200, body)
        return await speaks.finish(body)
    finally:
        if speaks is not None and speaks.call is not None:
            speaks.release()


async def receive(answer: Response, session: Session | None, inbound: Inbound) -> Answer:
    """Take an answer to a question; the last one that a call waits for lets it go on.

    Raises:
        InvalidRequest: there is no session in which it could have been asked.
    """
    if session is None:
        raise InvalidRequest("Nothing was asked that this could answer.", request_id=answer.id)
    call = await inbound.runner.sync(partial(_taken, answer, session, inbound))
    if call is not None:
        await inbound.runner.later(partial(_next_round, call, session, inbound))
    return ACCEPTED


def _taken(answer: Response, session: Session, inbound: Inbound) -> Call | None:
    """The call that an answer lets go on. What a task asked is given to the task, and whoever waits for it reads on."""
    pending = calls.receive(session, answer)
    if pending is not None and pending.call.request["method"] == RESULT:
        from django_mcp.eras.legacy.task_questions import take  # noqa: PLC0415 - most sites have no tasks

        take(pending, inbound)
        return None
    return None if pending is None else calls.completed(pending, leased=inbound.wire.is_live)


def failed(request: Request, error: ProtocolError) -> Answer:
    """The answer to a request that failed."""
    if isinstance(error, ResourceNotFound):
        error = FormerResourceNotFound(error.message, error.data)
    status = error.http_status if error.broken_envelope else 200
    return Answer(status, encode_error(request.id, error), error.headers)


async def _result(request: Request, version: str, session: Session | None, inbound: Inbound, channel: Channel) -> bytes:
    match request.method:
        case "ping":
            return encode_result(request.id, {})
        case "server/discover":  # a connector that rewrites the header must still be able to discover us
            await book.refresh(inbound.runner)  # whether there are tasks may depend on it
            return encode_result(request.id, complete(discover(inbound.server, inbound.wire), inbound.server))
    handler = control.HANDLERS.get(request.method)
    if request.method.startswith("tasks/") and has_tasks(inbound.server, version):
        from django_mcp.eras.legacy.tasks import HANDLERS  # noqa: PLC0415 - most sites have no tasks

        handler = HANDLERS.get(request.method, handler)
    if handler is not None:
        context = context_for(inbound, request, None, {}, channel)
        return encode_result(request.id, await handler(context, session))
    declared = session.capabilities if session and isinstance(channel, LegacyChannel) and channel.can_ask else {}
    context = context_for(inbound, request, session.client if session else None, declared, channel)
    if request.method == "tools/call" and "task" in request.params:
        result = await _with_task(context, version)
    else:
        result = await dispatch(context)
    if request.method == "tools/list" and has_tasks(inbound.server, version):
        return response(request.id, result, version, partial(_listed, version), inbound.server)
    finish = partial(_shaped, version, request.method)
    return response(request.id, result, version, finish, inbound.server)


async def _with_task(context: Context, version: str) -> Result:
    result = await dispatch(context, begin=partial(check_call, context, version))
    check_made(context, result)
    return result


def _shaped(version: str, method: str, result: Result, _: MCPServer) -> dict[str, Any]:
    return shape(result.fields, method, version)


def _listed(version: str, result: Result, server: MCPServer) -> dict[str, Any]:
    return with_support(shape(result.fields, "tools/list", version), server)


async def _asked(needed: InputRequired, channel: LegacyChannel, inbound: Inbound) -> Answer:
    """The stream of a call that has questions: it stays open where it can, and can be taken up again where not."""
    position = await channel.ask(needed.requests)
    assert channel.call is not None  # noqa: S101
    if inbound.wire.can_hold:
        return Answer(200, stream=tail(channel.call, position, inbound.principal))
    inbound.wire.send(Event(retry=RETRY_MS))
    return Answer(200)


async def _withdrawn(channel: LegacyChannel) -> Answer:
    """No answer goes to a request that was cancelled; a stream that was opened for it ends."""
    if channel.opened:
        await channel.end([])
        return Answer(200)
    return ACCEPTED


async def _next_round(call: Call, session: Session, inbound: Inbound) -> None:
    """Run a call again, with the answers so far. What comes of it goes into its stream."""
    request, dialogue = await patiently(inbound.runner, partial(calls.resume, call))
    channel = LegacyChannel(inbound, session, request, session.version, call)
    channel.hold()
    channel.dialogue = dialogue
    if inbound.wire.is_live:
        channel.task = asyncio.current_task()
        _watch_later(session, channel)
    try:
        body = await _result(request, session.version, session, inbound, channel)
    except InputRequired as needed:
        await channel.ask(needed.requests)
    except (Cancelled, asyncio.CancelledError):
        await channel.end([])
    except ProtocolError as error:
        await channel.end([failed(request, error).body])
    except Exception:
        logger.exception("a round of %s could not be run", request.method)
        broken = InternalError("Something went wrong on the server. Make the call again.")
        await channel.end([failed(request, broken).body])
    else:
        await channel.end([body])
    finally:
        channel.release()


def _watch_later(session: Session, channel: LegacyChannel) -> asyncio.TimerHandle:
    control.expect(session, channel)
    return asyncio.get_running_loop().call_later(control.PATIENCE_SECONDS, control.watch, session, channel)
