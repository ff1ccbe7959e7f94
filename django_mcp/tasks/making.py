"""Making the task of a call. A call that is repeated under its idempotency key has the task of the first try."""

from typing import Any

from django.contrib.auth import get_user_model

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Repeat
from django_mcp.core.context import Context
from django_mcp.core.execution import repeat_of
from django_mcp.models import Task
from django_mcp.primitives.tool import Tool, ToolError
from django_mcp.pubsub.once import NOT_YOURS
from django_mcp.tasks import rows
from django_mcp.tasks.callers import saved
from django_mcp.tasks.engines import engine, start

OF_THE_REQUEST = frozenset({"task", "inputResponses", "requestState"})
"""Parameters that say how a call is made, and not what is called."""


class _Slower(Exception):
    """Another try of the same call was faster."""


def begin(context: Context, tool: Tool, *, is_answer: bool) -> tuple[Task, bool]:
    """The task of a call, and whether it is a new one, which is committed and begun. Blocks.

    Args:
        context: of the call.
        tool: that is called.
        is_answer: the task is what the client gets, and nobody waits for its result.

    Raises:
        ToolError: the caller has too many, or has used the key for another call, or may be another one than the first.
    """
    repeat = repeat_of(context, tool, context.params.get("arguments") or {})
    before = None if repeat is None else repeat.task()
    found = None if before is None else rows.find(before, context.principal, context.server)
    if found is not None and _is_of_use(found):
        return _given(found, repeat), False
    try:
        task = _make(context, tool, repeat, before, is_answer=is_answer)
    except _Slower:
        return _made_elsewhere(context, repeat), False
    context.channel.is_recorded = is_answer
    start(task)
    return task, True


def _given(task: Task, repeat: Repeat | None) -> Task:
    """Return the task of an earlier try.

    Raises:
        ToolError: it may be another caller's.
    """
    if repeat is not None and repeat.is_shared:
        raise ToolError(NOT_YOURS)
    return task


def _is_of_use(task: Task) -> bool:
    """A call that failed may be tried again under its key."""
    return not task.is_over or (task.status == Task.Status.COMPLETED and not task.result.get("isError"))


def _made_elsewhere(context: Context, repeat: Repeat | None) -> Task:
    task_id = None if repeat is None else repeat.task()
    task = None if task_id is None else rows.find(task_id, context.principal, context.server)
    if task is None:  # it is gone again already
        raise ToolError("A call with this idempotency key was made at the same time. Repeat it in a few seconds.")
    return _given(task, repeat)


def check_room(context: Context) -> None:
    """See whether a caller may have one more task.

    Raises:
        ToolError: they have too many.
    """
    if rows.unfinished(context.principal, context.server) >= settings.TASKS_PER_CALLER:
        raise ToolError(
            f"You have {settings.TASKS_PER_CALLER} unfinished tasks, which is the most at once. Wait for one of them, "
            "or cancel it."
        )


def _make(context: Context, tool: Tool, repeat: Repeat | None, before: str | None, *, is_answer: bool) -> Task:
    check_room(context)
    with database.atomic():
        task = make(context, tool, _seconds(context))
        if repeat is not None and not repeat.note_task(task.task_id, before):
            raise _Slower
        if is_answer:
            record(context, task)
    return task


def record(context: Context, task: Task) -> None:
    """Have the call written down whose answer is a task, in the transaction in which that is made.

    Later it could not be where the task holds the one lock of SQLite.
    """
    if context.channel.record is not None:
        context.channel.record(context.channel.task_made(task).fields)


def make(context: Context, tool: Tool, seconds: float | None) -> Task:
    """The row of a task, for whoever starts it.

    Args:
        context: of the call.
        tool: that is called.
        seconds: how long it is to be kept; None for as long as the site keeps tasks.
    """
    return rows.make(seconds, **_fields(context, tool))


def _fields(context: Context, tool: Tool) -> dict[str, Any]:
    """Of the row: all it takes to make the call again."""
    principal, user = context.principal, context.user
    params = {key: value for key, value in context.params.items() if key not in OF_THE_REQUEST}
    return {
        "server": context.server.name,
        "tool": tool.name,
        "principal_kind": principal.kind,
        "principal_id": principal.id,
        "user": user if isinstance(user, get_user_model()) and user.pk is not None else None,
        "caller": saved(context),
        "client": context.client._asdict(),
        "capabilities": dict(context.capabilities),
        "request": {"method": context.method, "params": params},
        "dialogue": context.channel.dialogue.to_json(),
        "backend": engine().name,
    }


def _seconds(context: Context) -> float | None:
    """How long the client wants it to be kept, where it may say so."""
    asked = context.params.get("task") if context.channel.takes_ttl else None
    ttl: Any = asked.get("ttl") if isinstance(asked, dict) else None
    return ttl / 1000 if type(ttl) in {int, float} and ttl > 0 else None
