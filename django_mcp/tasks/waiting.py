"""Waiting for a task: for clients that know none, and for those that ask for the result before there is one."""

import json
from functools import partial
from typing import Any

from django_mcp.core.channel import is_wanted
from django_mcp.core.concurrency import patiently
from django_mcp.core.context import Context
from django_mcp.models import Task
from django_mcp.pubsub import event_store
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.waiting import wait_for
from django_mcp.tasks import rows
from django_mcp.tasks.finding import look_up


class _Telling:
    """What a task says, passed on to whoever waits for it; each word once.

    Args:
        context: of who waits.
        task_id: of the task.
        since: the entry of the log after which its words are news.
    """

    def __init__(self, context: Context, task_id: str, since: int) -> None:
        self._context, self._topic, self._since = context, rows.topic(task_id), since
        self._told: set[int] = set()

    def wants(self, entry: Entry) -> bool:
        """Whether it is news."""
        return entry.id > self._since

    def tell(self, entry: Entry) -> bool:
        """Pass it on; False where it is something else that happened."""
        said = json.loads(entry.data)
        if "progress" not in said and "message" not in said:
            return False
        if entry.id not in self._told:
            self._told.add(entry.id)
            self._pass_on(said)
        return True

    def _pass_on(self, said: dict[str, Any]) -> None:
        if "progress" in said:
            self._context.report_progress(*said["progress"])
        elif is_wanted(said["message"]["level"], self._context.channel.log_level):
            self._context.channel.notify("notifications/message", said["message"])

    def rest(self) -> None:
        """Pass on what did not come by itself. Blocks."""
        if self._context.channel.log_level is not None or "progressToken" in self._context.meta:
            for entry in event_store.after(self._since, [self._topic]):
                self.tell(entry)


async def wait(context: Context, task_id: str, seconds: float | None, since: int | None = None) -> Task | None:
    """The task once it is over, or asks; or as it is when the time is up. None where it is gone.

    What it says meanwhile is passed on to whoever waits.

    Args:
        context: of who waits.
        task_id: of the task.
        seconds: how long; None for as long as it takes.
        since: the entry of the log after which its words are news; None for the newest.
    """
    if since is None:
        since = await patiently(context.runner, event_store.newest)
    telling = _Telling(context, task_id, since)
    look = partial(look_up, context, task_id)
    topic = rows.topic(task_id)
    found = await wait_for(context, topic, look, _has_come, seconds, wants=telling.wants, takes=telling.tell)
    await patiently(context.runner, telling.rest)
    return found


def _has_come(task: Task | None) -> bool:
    return task is None or task.status != Task.Status.WORKING
