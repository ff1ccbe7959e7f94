"""Waiting for a task: for clients that know none, and for those that ask for the result before there is one."""

import asyncio
import json
import time
from contextlib import aclosing
from functools import partial
from typing import Any

from django_mcp.core.channel import is_wanted
from django_mcp.core.context import Context
from django_mcp.live import log
from django_mcp.live.follower import follow
from django_mcp.live.log import Entry
from django_mcp.live.patience import patiently
from django_mcp.models import Task
from django_mcp.tasks import rows
from django_mcp.tasks.finding import look_up

SHORTEST, LONGEST = 0.02, 0.5
"""Seconds between two looks at the row where nothing can be waited for; first often, then less so."""


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
            for entry in log.after(self._since, [self._topic]):
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
        since = await patiently(context.runner, log.newest)
    telling = _Telling(context, task_id, since)
    if context.runner.is_inline:
        found = _wait_here(context, task_id, seconds)
        telling.rest()
        return found
    found = await _followed(context, task_id, seconds, telling)
    await patiently(context.runner, telling.rest)
    return found


async def _followed(context: Context, task_id: str, seconds: float | None, telling: _Telling) -> Task | None:
    look = partial(patiently, context.runner, partial(look_up, context, task_id))
    subscription = await follow(rows.topic(task_id), principal=context.principal)
    subscription.wants = telling.wants
    try:
        async with asyncio.timeout(seconds):
            found = await look()
            if _has_come(found):
                return found
            async with aclosing(subscription.entries()) as entries:
                async for entry in entries:
                    if (entry is None or not telling.tell(entry)) and _has_come(found := await look()):
                        return found
    except TimeoutError:
        pass
    finally:
        subscription.close()
    return await look()


def _has_come(task: Task | None) -> bool:
    return task is None or task.status != Task.Status.WORKING


def _wait_here(context: Context, task_id: str, seconds: float | None) -> Task | None:
    """In this thread, which has nothing else to do."""
    until = None if seconds is None else time.monotonic() + seconds
    pause = SHORTEST
    while True:
        found = look_up(context, task_id)
        if _has_come(found) or (until is not None and time.monotonic() >= until):
            return found
        time.sleep(pause)
        pause = min(LONGEST, pause * 1.5)
