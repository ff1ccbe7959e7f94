"""``tasks/result``: the outcome of a task, for which a client may have to wait (2025-11-25, Tasks, Result Retrieval).

Nothing of a client that waits is in memory or in the log: there is a row that says what it asked for, and in its event
ids is the last question it was sent. So any worker takes its stream up again.
"""

import datetime
from functools import partial

from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core.channel import Channel
from django_mcp.eras.base import ACCEPTED, Answer, Event, Inbound, context_for
from django_mcp.eras.legacy import calls
from django_mcp.eras.legacy.channel import RETRY_MS
from django_mcp.eras.legacy.outcome_streams import Waiting
from django_mcp.eras.legacy.tasks import ended
from django_mcp.models import Call, Session, Task
from django_mcp.protocol.errors import InternalError
from django_mcp.protocol.jsonrpc import Request
from django_mcp.tasks.api import found, task_id_of, wait


async def answered(request: Request, session: Session | None, inbound: Inbound) -> Answer:
    """The answer to ``tasks/result``: at once where the task is over, else as soon as it is.

    Raises:
        ProtocolError: there is no such task, or it takes longer than this edge can wait.
    """
    context = context_for(inbound, request, None, {}, Channel())
    task = await inbound.runner.sync(partial(found, context, task_id_of(context)))
    if task.is_over:
        return Answer(200, ended(request.id, task))
    call = None
    if session is not None and inbound.wire.takes_events:
        call = await inbound.runner.sync(partial(_begin, session, request, task))
    waiting = Waiting(context, session, call)
    if inbound.wire.can_hold and inbound.wire.takes_events:
        return Answer(200, stream=waiting.events())
    return await _for_a_while(waiting, inbound, is_new=True)


async def resumed(call: Call, seen: int, inbound: Inbound) -> Answer:
    """The same for a client that lost its stream.

    Args:
        call: its request.
        seen: the last question that reached it.
        inbound: the GET it came back with.
    """
    request = Request(call.request_id, **call.request)
    waiting = Waiting(context_for(inbound, request, None, {}, Channel()), call.session, call, seen)
    if inbound.wire.can_hold:
        return Answer(200, stream=waiting.events())
    return await _for_a_while(waiting, inbound, is_new=False)


def _begin(session: Session, request: Request, task: Task) -> Call:
    """Note that a client waits. Such a call is withdrawn like any that waits for its client."""
    call = calls.begin(session, request)
    kept = timezone.now() + datetime.timedelta(seconds=settings.INPUT_SECONDS)
    call.status, call.expires = Call.Status.ASKING, max(task.expires, kept)
    call.save(update_fields=["status", "expires"])
    return call


async def _for_a_while(waiting: Waiting, inbound: Inbound, *, is_new: bool) -> Answer:
    """What there is to say when no stream is held: a client that can be told to comes back for the rest.

    Raises:
        InternalError: it cannot.
    """
    await wait(waiting.context, waiting.task_id, settings.TASK_WAIT_SECONDS)
    speech = await inbound.runner.sync(waiting.look)
    if is_new and speech.is_last:
        return Answer(200, speech.events[0].data) if speech.events else ACCEPTED
    if waiting.call is None:
        raise InternalError("The task is still under way. Ask tasks/get how far it is, and then tasks/result again.")
    if is_new:
        inbound.wire.send(waiting.first())
    for event in speech.events:
        inbound.wire.send(event)
    inbound.wire.send(Event(retry=RETRY_MS))
    return Answer(200)
