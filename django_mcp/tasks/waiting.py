"""Waiting for a task: for clients that know none, and for those that ask for the result before there is one."""

import asyncio
import json
import time
from contextlib import aclosing
from functools import partial
from typing import Any

from django_mcp.core.channel import is_wanted
from django_mcp.core.context import Context
from django_mcp.live.follower import follow
from django_mcp.live.patience import patiently
from django_mcp.models import Task
from django_mcp.tasks import rows
from django_mcp.tasks.finding import look_up

SHORTEST, LONGEST = 0.02, 0.5
"""Seconds between two looks at the row where nothing can be waited for; first often, then less so."""


async def wait(context: Context, task_id: str, seconds: float | None) -> Task | None:
    """The task once it is over, or asks; or as it is when the time is up. None where it is gone.

    What it says meanwhile is passed on to whoever waits.

    Args:
        context: of who waits.
        task_id: of the task.
        seconds: how long; None for as long as it takes.
    """
    if context.runner.is_inline:
        return _wait_here(context, task_id, seconds)
    look = partial(patiently, context.runner, partial(look_up, context, task_id))
    subscription = await follow(rows.topic(task_id), principal=context.principal)
    try:
        async with asyncio.timeout(seconds):
            found = await look()
            if _has_come(found):
                return found
            async with aclosing(subscription.entries()) as entries:
                async for entry in entries:
                    told = {} if entry is None else json.loads(entry.data)
                    if not _pass_on(context, told) and _has_come(found := await look()):
                        return found
    except TimeoutError:
        pass
    finally:
        subscription.close()
    return await look()


def _has_come(task: Task | None) -> bool:
    return task is None or task.status != Task.Status.WORKING


def _pass_on(context: Context, told: dict[str, Any]) -> bool:
    """Tell the client what the task said; False where it is something else that happened."""
    if "progress" in told:
        context.report_progress(*told["progress"])
    elif "message" in told:
        if is_wanted(told["message"]["level"], context.channel.log_level):
            context.channel.notify("notifications/message", told["message"])
    else:
        return False
    return True


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
