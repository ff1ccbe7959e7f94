"""The stream of a client that waits for the outcome of a task: its questions, what it says, and the end."""

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from django_mcp.core.channel import is_wanted
from django_mcp.core.concurrency import patiently, shared_pool
from django_mcp.core.context import Context
from django_mcp.eras.base import KEEP_ALIVE, Event, notification
from django_mcp.eras.legacy import sessions
from django_mcp.eras.legacy.channel import RETRY_MS
from django_mcp.eras.legacy.task_questions import event_id, unseen
from django_mcp.eras.legacy.tasks import ended, related
from django_mcp.models import Call, Session, Task
from django_mcp.protocol.errors import InternalError, InvalidRequest, ProtocolError
from django_mcp.protocol.jsonrpc import encode_error
from django_mcp.protocol.meta import meta_of
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.follower import follow, position
from django_mcp.tasks import store
from django_mcp.tasks.api import found


class Speech(NamedTuple):
    """What is to be said.

    Attributes:
        events: in their order.
        is_last: nothing comes after them.
    """

    events: Sequence[Event] = ()
    is_last: bool = False


class Waiting:
    """One client that waits.

    Args:
        context: of its ``tasks/result``.
        session: of the client, or None.
        call: what is kept of a client that can be asked, and can come back.
        seen: the last question that reached it; None where it has just begun to wait.
    """

    def __init__(self, context: Context, session: Session | None, call: Call | None, seen: int | None = None) -> None:
        self.context, self.call = context, call
        self.task_id: str = context.params["taskId"]
        self._session = session
        self._is_new, self._seen = seen is None, seen or 0
        self._words: Words | None = None

    async def events(self) -> AsyncGenerator[Event, None]:
        """All of the stream."""
        async with aclosing(self._speeches()) as speeches:
            async for speech in speeches:
                for event in speech.events:
                    yield event
                if speech.is_last:
                    return

    async def _speeches(self) -> AsyncGenerator[Speech, None]:
        topics = [store.topic(self.task_id), *([] if self._session is None else [sessions.topic(self._session)])]
        began = await position()
        subscription = await follow(*topics, principal=self.context.principal)
        try:
            yield Speech([self.first()])
            yield await patiently(shared_pool(), self.look)
            async with aclosing(subscription.entries()) as entries:
                async for entry in entries:
                    if entry is None:  # nobody says so where a task expires, or its worker dies
                        yield Speech([KEEP_ALIVE])
                        yield await patiently(shared_pool(), self.look)
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
            return await patiently(shared_pool(), self.look)
        # What was said before somebody listened is none of its business.
        return Speech(self._words.events(told) if self._words is not None and entry.id > began else ())

    def first(self) -> Event:
        """With which the headers go out, and the id with which to come back."""
        if self.call is None:
            return KEEP_ALIVE
        return Event(id=event_id(self.call, 0) if self._is_new else "", retry=RETRY_MS)

    def _parting(self) -> Speech:
        """The server goes down, or the caller's credential is over."""
        if self.call is not None:
            return Speech([Event(retry=RETRY_MS)])
        return self._failed(InternalError("The stream ends here. Send tasks/result again."))

    def look(self) -> Speech:
        """What there is to say as things stand. Blocks."""
        try:
            task = found(self.context, self.task_id)
            if task.is_over:
                if self.call is not None:  # whoever lost the answer may still come back for it
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
                "The task has questions. To be asked, send tasks/result in a session, with text/event-stream in Accept."
            )
        questions = unseen(task, self.call, self._seen)
        if questions is None:
            return Speech(is_last=True)
        if questions:
            self._seen = questions[-1].number
        return Speech([each.event for each in questions])

    def _failed(self, error: ProtocolError) -> Speech:
        return Speech([Event(encode_error(self.context.request_id, error))], is_last=True)


class Words:
    """What a task says meanwhile, for one client.

    Args:
        task: as it was found first; what it said until then is not repeated.
        context: of the request that waits.
        log_level: the least severe level the client wants to read.
    """

    def __init__(self, task: Task, context: Context, log_level: str | None) -> None:
        self._meta = related(task.task_id)
        self._log_level = log_level
        self._progress = task.progress
        # The token of the call is good for as long as there is the task (2025-11-25, Tasks, Progress Notifications).
        tokens = (meta_of(params).get("progressToken") for params in (task.request["params"], context.params))
        self._token: Any = next((each for each in tokens if type(each) is int or type(each) is str), None)

    def events(self, told: Mapping[str, Any]) -> Sequence[Event]:
        """The notification for an entry of the log, where the client wants it."""
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
