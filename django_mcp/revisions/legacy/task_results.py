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
from django_mcp.core.concurrency import checks_pool, retry_database
from django_mcp.core.context import Context
from django_mcp.models import Call, PendingRequest, Session, Task, TaskInput
from django_mcp.protocol.errors import InternalError, InvalidRequest, ProtocolError
from django_mcp.protocol.jsonrpc import JSONRPC, Request, encode, encode_error
from django_mcp.protocol.meta import meta_of
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import follow, position
from django_mcp.pubsub.stream_slots import StreamSlot
from django_mcp.revisions.base import (
    ACCEPTED,
    KEEP_ALIVE,
    MCPRequest,
    MCPResponse,
    SSEEvent,
    encode_notification,
)
from django_mcp.revisions.legacy import calls, sessions
from django_mcp.revisions.legacy.channel import RETRY_MS
from django_mcp.revisions.legacy.downgrade import question
from django_mcp.revisions.legacy.tasks import VERSION, encode_outcome, related
from django_mcp.revisions.subscriptions import Begun, SlotStream, replace_stream
from django_mcp.tasks import store
from django_mcp.tasks.api import require_task, store_answers, task_id_of, wait


class SentQuestion(NamedTuple):
    """A question for one client.

    Attributes:
        number: its place among the client's questions.
        event: the request; its event id confirms receipt.
    """

    number: int
    event: SSEEvent


@database.retry_conflicts
def open_questions(task: Task, call: Call, seen: int) -> Sequence[SentQuestion] | None:
    """Return the task's open questions after question *seen*, or None if the client no longer waits. Blocks."""
    with database.atomic():
        # The lost and the new stream of a client must not both create the row.
        if not Call.objects.select_for_update().filter(pk=call.pk, status=Call.Status.ASKING).exists():
            return None
        asked = {question.key: question for question in call.questions.order_by("pk")}
        pairs = [
            (question, asked.get(question.key) or _create_pending(call, question)) for question in store.questions(task)
        ]
    found = [
        SentQuestion(pending.pk, _question_event(task, task_input, pending))
        for task_input, pending in pairs
        if pending.pk > seen
    ]
    return sorted(found, key=attrgetter("number"))


def _create_pending(call: Call, task_input: TaskInput) -> PendingRequest:
    return PendingRequest.objects.create(call=call, request_id=secrets.token_urlsafe(12), key=task_input.key)


def _question_event(task: Task, task_input: TaskInput, pending: PendingRequest) -> SSEEvent:
    asked = question(task_input.request, pending.request_id, VERSION)
    params = {**asked["params"], "_meta": {**asked["params"].get("_meta", {}), **related(task.task_id)}}
    message = {"jsonrpc": JSONRPC, "id": pending.request_id, **asked, "params": params}
    return SSEEvent(encode(message), id=event_id(pending.call, pending.pk))


def event_id(call: Call, seen: int) -> str:
    """Return the event id after question *seen*, or 0 for none."""
    return f"{call.key}.{seen}"


def pass_answer(pending: PendingRequest, mcp_request: MCPRequest) -> None:
    request = Request(pending.call.request_id, **pending.call.request)
    context = Context(mcp_request, request, Channel())
    response = pending.answer.get("result", pending.answer)  # or the error that the client answered with
    store_answers(context, request.params["taskId"], {pending.key: response})


class EventBatch(NamedTuple):
    """Events to send. The stream ends after them if ``is_last``."""

    events: Sequence[SSEEvent] = ()
    is_last: bool = False


class TaskResultStream:
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
        self._messages: TaskMessages | None = None

    async def events(self, begun: Begun) -> AsyncGenerator[SSEEvent, None]:
        async with aclosing(self._batches(begun)) as batches:
            async for batch in batches:
                for event in batch.events:
                    yield event
                if batch.is_last:
                    return

    async def _batches(self, begun: Begun) -> AsyncGenerator[EventBatch, None]:
        topics = [store.topic(self.task_id), *([] if self._session is None else [sessions.topic(self._session)])]
        began = await position()
        subscription = await follow(*topics, principal=self.context.principal, server=self.context.server)
        try:
            begun(subscription)
            yield EventBatch([self.first_event()])
            yield await retry_database(checks_pool(), self.read)
            async with aclosing(subscription.entries()) as entries:
                async for entry in entries:
                    if entry is None:  # expiry and death of the worker publish no entry
                        yield EventBatch([KEEP_ALIVE])
                        yield await retry_database(checks_pool(), self.read)
                    else:
                        yield await self._batch_for(entry, began)
            yield self._closing_batch()
        finally:
            subscription.close()

    async def _batch_for(self, entry: Entry, began: int) -> EventBatch:
        change = json.loads(entry.data)
        if entry.topic != store.topic(self.task_id):
            request_id = self.context.request_id
            return EventBatch(
                is_last="ended" in change or ("cancelled" in change and change["cancelled"] == request_id)
            )
        if "status" in change:
            return await retry_database(checks_pool(), self.read)
        # Earlier messages are not repeated.
        return EventBatch(self._messages.events(change) if self._messages is not None and entry.id > began else ())

    def first_event(self) -> SSEEvent:
        if self.call is None:
            return KEEP_ALIVE
        return SSEEvent(id=event_id(self.call, 0) if self._is_new else "", retry=RETRY_MS)

    def _closing_batch(self) -> EventBatch:
        if self.call is not None:
            return EventBatch([SSEEvent(retry=RETRY_MS)])
        return self._error_batch(InternalError("The stream ends here. Send tasks/result again."))

    def read(self) -> EventBatch:
        try:
            task = require_task(self.context, self.task_id)
            if task.is_over:
                if self.call is not None:  # kept, so that the client can resume for a lost response
                    Call.objects.filter(pk=self.call.pk).update(status=Call.Status.ENDED)  # in this order, as end_call
                    self.call.questions.all().delete()
                return EventBatch([SSEEvent(encode_outcome(self.context.request_id, task))], is_last=True)
            if self._messages is None:
                self._messages = TaskMessages(
                    task, self.context, None if self._session is None else self._session.log_level
                )
            return self._question_batch(task) if task.status == Task.Status.INPUT_REQUIRED else EventBatch()
        except ProtocolError as error:
            return self._error_batch(error)

    def _question_batch(self, task: Task) -> EventBatch:
        if self.call is None:
            raise InvalidRequest(
                "The task needs input. To receive its requests, send tasks/result in a session, with text/event-stream "
                "in Accept."
            )
        questions = open_questions(task, self.call, self._seen)
        if questions is None:
            return EventBatch(is_last=True)
        if questions:
            self._seen = questions[-1].number
        return EventBatch([question.event for question in questions])

    def _error_batch(self, error: ProtocolError) -> EventBatch:
        return EventBatch([SSEEvent(encode_error(self.context.request_id, error))], is_last=True)


class TaskMessages:
    """Progress and log messages of a task for one client; those before the stream are not repeated."""

    def __init__(self, task: Task, context: Context, log_level: str | None) -> None:
        self._meta = related(task.task_id)
        self._log_level = log_level
        self._progress = task.progress
        # The call's token is valid for the life of the task (2025-11-25, Tasks, Progress Notifications).
        tokens = (meta_of(params).get("progressToken") for params in (task.request["params"], context.params))
        self._token: Any = next((token for token in tokens if type(token) is int or type(token) is str), None)

    def events(self, change: Mapping[str, Any]) -> Sequence[SSEEvent]:
        if "message" in change:
            return self._log_events(change["message"])
        return self._progress_events(*change["progress"]) if "progress" in change else ()

    def _log_events(self, message: Mapping[str, Any]) -> Sequence[SSEEvent]:
        if not is_wanted(message["level"], self._log_level):
            return ()
        return [SSEEvent(encode_notification("notifications/message", {**message, "_meta": self._meta}))]

    def _progress_events(self, progress: float, total: float | None, message: str | None) -> Sequence[SSEEvent]:
        if self._token is None or (self._progress is not None and progress <= self._progress):
            return ()
        self._progress = progress
        optional = {"total": total, "message": message}
        given = {key: value for key, value in optional.items() if value is not None}
        params = {"progressToken": self._token, "progress": progress, **given, "_meta": self._meta}
        return [SSEEvent(encode_notification("notifications/progress", params))]


async def answer(request: Request, session: Session | None, mcp_request: MCPRequest) -> MCPResponse:
    """Answer ``tasks/result`` when the task has ended.

    Raises:
        ProtocolError: the task is unknown, or runs longer than the transport can wait.
    """
    context = Context(mcp_request, request, Channel())
    task = await mcp_request.runner.checks.sync(partial(require_task, context, task_id_of(context)))
    if task.is_over:
        return MCPResponse(200, encode_outcome(request.id, task))
    call, slot, key = None, None, calls.new_key()
    if mcp_request.response.can_hold and mcp_request.response.takes_events:  # before a row is written
        slot = StreamSlot(mcp_request.principal, key=calls.topic_of(key), kind=mcp_request.stream_kind)
    if session is not None and mcp_request.response.takes_events:
        call = await mcp_request.runner.own.sync(partial(_create_call, session, request, task, key))
    stream = TaskResultStream(context, session, call)
    if slot is not None:
        return MCPResponse(200, stream=SlotStream(stream.events(replace_stream(slot.key)), slot))
    return await _answer_in_time(stream, mcp_request, is_new=True)


async def resume(call: Call, seen: int, mcp_request: MCPRequest) -> MCPResponse:
    request = Request(call.request_id, **call.request)
    stream = TaskResultStream(Context(mcp_request, request, Channel()), call.session, call, seen)
    if mcp_request.response.can_hold:
        slot = StreamSlot(mcp_request.principal, key=calls.topic(call), kind=mcp_request.stream_kind)
        return MCPResponse(200, stream=SlotStream(stream.events(replace_stream(slot.key)), slot))
    return await _answer_in_time(stream, mcp_request, is_new=False)


def _create_call(session: Session, request: Request, task: Task, key: str) -> Call:
    # The status lets the client cancel it like a waiting call.
    call = calls.create_call(session, request, key)
    kept = timezone.now() + datetime.timedelta(seconds=settings.ELICITATION_TTL)
    call.status, call.expires = Call.Status.ASKING, max(task.expires, kept)
    call.save(update_fields=["status", "expires"])
    return call


async def _answer_in_time(stream: TaskResultStream, mcp_request: MCPRequest, *, is_new: bool) -> MCPResponse:
    """Answer without holding a stream; the client resumes for the rest.

    Raises:
        InternalError: the client cannot resume.
    """
    await wait(stream.context, stream.task_id, settings.TASK_WAIT_TIMEOUT)
    batch = await mcp_request.runner.checks.sync(stream.read)
    if is_new and batch.is_last:
        return MCPResponse(200, batch.events[0].data) if batch.events else ACCEPTED
    if stream.call is None:
        raise InternalError("The task is still running. Poll tasks/get, then send tasks/result again.")
    if is_new:
        mcp_request.response.send(stream.first_event())
    for event in batch.events:
        mcp_request.response.send(event)
    mcp_request.response.send(SSEEvent(retry=RETRY_MS))
    return MCPResponse(200)
