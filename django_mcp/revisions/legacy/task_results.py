"""``tasks/result``: waiting for the outcome of an experimental task (2025-11-25, Tasks).

Each waiting client has a ``Call`` row with the ids of the questions sent to it, so each client is asked once. Event ids
hold the last question sent, so any worker can resume a stream.
"""

import datetime
import json
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Channel, is_wanted
from django_mcp.core.concurrency import retry_database, shared_pool
from django_mcp.core.context import Context
from django_mcp.models import Call, PendingRequest, Session, Task, TaskInput
from django_mcp.protocol.errors import InternalError, InvalidRequest, ProtocolError
from django_mcp.protocol.jsonrpc import JSONRPC, Request, encode, encode_error
from django_mcp.protocol.meta import meta_of
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import follow, position
from django_mcp.revisions.base import ACCEPTED, KEEP_ALIVE, Event, MCPRequest, MCPResponse, context_for, notification
from django_mcp.revisions.legacy import calls, sessions
from django_mcp.revisions.legacy.channel import RETRY_MS
from django_mcp.revisions.legacy.downgrade import question
from django_mcp.revisions.legacy.tasks import VERSION, ended, related
from django_mcp.revisions.subscriptions import SlotStream, StreamSlot
from django_mcp.tasks import store
from django_mcp.tasks.api import found, take_answers, task_id_of, wait


class Asked(NamedTuple):
    """A question for one client.

    Attributes:
        number: its place among the client's questions.
        event: the request; its event id confirms receipt.
    """

    number: int
    event: Event


def unseen(task: Task, call: Call, seen: int) -> Sequence[Asked] | None:
    """Return the task's open questions after question *seen*, or None if the client no longer waits. Blocks."""
    with database.atomic():
        # The lost and the new stream of a client must not both create the row.
        if not Call.objects.select_for_update().filter(pk=call.pk, status=Call.Status.ASKING).exists():
            return None
        asked = {question.key: question for question in call.questions.order_by("pk")}
        pairs = [(question, asked.get(question.key) or _noted(call, question)) for question in store.questions(task)]
    found = [
        Asked(pending.pk, _request(task, task_input, pending)) for task_input, pending in pairs if pending.pk > seen
    ]
    return sorted(found, key=attrgetter("number"))


def _noted(call: Call, task_input: TaskInput) -> PendingRequest:
    return PendingRequest.objects.create(call=call, request_id=secrets.token_urlsafe(12), key=task_input.key)


def _request(task: Task, task_input: TaskInput, pending: PendingRequest) -> Event:
    asked = question(task_input.request, pending.request_id, VERSION)
    params = {**asked["params"], "_meta": {**asked["params"].get("_meta", {}), **related(task.task_id)}}
    message = {"jsonrpc": JSONRPC, "id": pending.request_id, **asked, "params": params}
    return Event(encode(message), id=event_id(pending.call, pending.pk))


def event_id(call: Call, seen: int) -> str:
    """Return the event id after question *seen*, or 0 for none."""
    return f"{call.key}.{seen}"


def take(pending: PendingRequest, mcp_request: MCPRequest) -> None:
    """Pass an answer to the task that asked. Blocks."""
    request = Request(pending.call.request_id, **pending.call.request)
    context = context_for(mcp_request, request, None, {}, Channel())
    response = pending.answer.get("result", pending.answer)  # or the error that the client answered with
    take_answers(context, request.params["taskId"], {pending.key: response})


class Speech(NamedTuple):
    """Events to send. The stream ends after them if ``is_last``."""

    events: Sequence[Event] = ()
    is_last: bool = False


class Waiting:
    """A client that waits for a task.

    Args:
        context: context of ``tasks/result``.
        session: the client's session, or None.
        call: row of a client that can be asked and can resume, or None.
        seen: number of the last question received; None for a new stream.
    """

    def __init__(self, context: Context, session: Session | None, call: Call | None, seen: int | None = None) -> None:
        self.context, self.call = context, call
        self.task_id: str = context.params["taskId"]
        self._session = session
        self._is_new, self._seen = seen is None, seen or 0
        self._words: Words | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """Yield the whole stream."""
        async with aclosing(self._speeches()) as speeches:
            async for speech in speeches:
                for event in speech.events:
                    yield event
                if speech.is_last:
                    return

    async def _speeches(self) -> AsyncGenerator[Speech, None]:
        topics = [store.topic(self.task_id), *([] if self._session is None else [sessions.topic(self._session)])]
        began = await position()
        subscription = await follow(*topics, principal=self.context.principal, server=self.context.server)
        try:
            yield Speech([self.first()])
            yield await retry_database(shared_pool(), self.look)
            async with aclosing(subscription.entries()) as entries:
                async for entry in entries:
                    if entry is None:  # expiry and death of the worker publish no entry
                        yield Speech([KEEP_ALIVE])
                        yield await retry_database(shared_pool(), self.look)
                    else:
                        yield await self._heard(entry, began)
            yield self._parting()
        finally:
            subscription.close()

    async def _heard(self, entry: Entry, began: int) -> Speech:
        told = json.loads(entry.data)
        if entry.topic != store.topic(self.task_id):
            request_id = self.context.request_id
            return Speech(is_last="ended" in told or ("cancelled" in told and told["cancelled"] == request_id))
        if "status" in told:
            return await retry_database(shared_pool(), self.look)
        # Earlier messages are not repeated.
        return Speech(self._words.events(told) if self._words is not None and entry.id > began else ())

    def first(self) -> Event:
        """Return the first event: a keep-alive or the id to resume from."""
        if self.call is None:
            return KEEP_ALIVE
        return Event(id=event_id(self.call, 0) if self._is_new else "", retry=RETRY_MS)

    def _parting(self) -> Speech:
        if self.call is not None:
            return Speech([Event(retry=RETRY_MS)])
        return self._failed(InternalError("The stream ends here. Send tasks/result again."))

    def look(self) -> Speech:
        """Return the events for the task's current state. Blocks."""
        try:
            task = found(self.context, self.task_id)
            if task.is_over:
                if self.call is not None:  # kept, so that the client can resume for a lost response
                    self.call.questions.all().delete()
                    Call.objects.filter(pk=self.call.pk).update(status=Call.Status.ENDED)
                return Speech([Event(ended(self.context.request_id, task))], is_last=True)
            if self._words is None:
                self._words = Words(task, self.context, None if self._session is None else self._session.log_level)
            return self._asked(task) if task.status == Task.Status.INPUT_REQUIRED else Speech()
        except ProtocolError as error:
            return self._failed(error)

    def _asked(self, task: Task) -> Speech:
        if self.call is None:
            raise InvalidRequest(
                "The task needs input. To receive its requests, send tasks/result in a session, with text/event-stream "
                "in Accept."
            )
        questions = unseen(task, self.call, self._seen)
        if questions is None:
            return Speech(is_last=True)
        if questions:
            self._seen = questions[-1].number
        return Speech([question.event for question in questions])

    def _failed(self, error: ProtocolError) -> Speech:
        return Speech([Event(encode_error(self.context.request_id, error))], is_last=True)


class Words:
    """Progress and log messages of a task for one client; those before the stream are not repeated."""

    def __init__(self, task: Task, context: Context, log_level: str | None) -> None:
        self._meta = related(task.task_id)
        self._log_level = log_level
        self._progress = task.progress
        # The call's token is valid for the life of the task (2025-11-25, Tasks, Progress Notifications).
        tokens = (meta_of(params).get("progressToken") for params in (task.request["params"], context.params))
        self._token: Any = next((token for token in tokens if type(token) is int or type(token) is str), None)

    def events(self, told: Mapping[str, Any]) -> Sequence[Event]:
        """Return the notification for an entry if the client wants it."""
        if "message" in told:
            return self._logged(told["message"])
        return self._progressed(*told["progress"]) if "progress" in told else ()

    def _logged(self, message: Mapping[str, Any]) -> Sequence[Event]:
        if not is_wanted(message["level"], self._log_level):
            return ()
        return [Event(notification("notifications/message", {**message, "_meta": self._meta}))]

    def _progressed(self, progress: float, total: float | None, message: str | None) -> Sequence[Event]:
        if self._token is None or (self._progress is not None and progress <= self._progress):
            return ()
        self._progress = progress
        optional = {"total": total, "message": message}
        given = {key: value for key, value in optional.items() if value is not None}
        params = {"progressToken": self._token, "progress": progress, **given, "_meta": self._meta}
        return [Event(notification("notifications/progress", params))]


async def answered(request: Request, session: Session | None, mcp_request: MCPRequest) -> MCPResponse:
    """Answer ``tasks/result`` when the task has ended.

    Raises:
        ProtocolError: the task is unknown, or runs longer than the transport can wait.
    """
    context = context_for(mcp_request, request, None, {}, Channel())
    task = await mcp_request.runner.sync(partial(found, context, task_id_of(context)))
    if task.is_over:
        return MCPResponse(200, ended(request.id, task))
    call = None
    is_held = mcp_request.response.can_hold and mcp_request.response.takes_events
    slot = StreamSlot(mcp_request.principal) if is_held else None  # before a row is written
    if session is not None and mcp_request.response.takes_events:
        call = await mcp_request.runner.sync(partial(_begin, session, request, task))
    waiting = Waiting(context, session, call)
    if is_held:
        return MCPResponse(200, stream=SlotStream(waiting.events(), slot))
    return await _for_a_while(waiting, mcp_request, is_new=True)


async def resumed(call: Call, seen: int, mcp_request: MCPRequest) -> MCPResponse:
    """Resume ``tasks/result`` after question *seen* for a client that reconnects."""
    request = Request(call.request_id, **call.request)
    waiting = Waiting(context_for(mcp_request, request, None, {}, Channel()), call.session, call, seen)
    if mcp_request.response.can_hold:
        return MCPResponse(200, stream=SlotStream(waiting.events(), StreamSlot(mcp_request.principal)))
    return await _for_a_while(waiting, mcp_request, is_new=False)


def _begin(session: Session, request: Request, task: Task) -> Call:
    """Create the row of a waiting client, which can be withdrawn like a call that waits."""
    call = calls.begin(session, request)
    kept = timezone.now() + datetime.timedelta(seconds=settings.ELICITATION_TTL)
    call.status, call.expires = Call.Status.ASKING, max(task.expires, kept)
    call.save(update_fields=["status", "expires"])
    return call


async def _for_a_while(waiting: Waiting, mcp_request: MCPRequest, *, is_new: bool) -> MCPResponse:
    """Answer without holding a stream; the client resumes for the rest.

    Raises:
        InternalError: the client cannot resume.
    """
    await wait(waiting.context, waiting.task_id, settings.TASK_WAIT_TIMEOUT)
    speech = await mcp_request.runner.sync(waiting.look)
    if is_new and speech.is_last:
        return MCPResponse(200, speech.events[0].data) if speech.events else ACCEPTED
    if waiting.call is None:
        raise InternalError("The task is still running. Poll tasks/get, then send tasks/result again.")
    if is_new:
        mcp_request.response.send(waiting.first())
    for event in speech.events:
        mcp_request.response.send(event)
    mcp_request.response.send(Event(retry=RETRY_MS))
    return MCPResponse(200)
