"""Finding the task a request is about, for its caller alone."""

from django.utils import timezone

from django_mcp.core import database
from django_mcp.core.concurrency import run_inline
from django_mcp.core.context import Context
from django_mcp.core.permissions import may_use
from django_mcp.core.policies import book
from django_mcp.models import Task
from django_mcp.protocol.errors import InvalidParams
from django_mcp.tasks import rows
from django_mcp.tasks.engines import recover


def look_up(context: Context, task_id: str) -> Task | None:
    """The caller's task as it is now; None where they have none such, or may not use its tool any more. Blocks.

    One whose worker is gone is seen to first.
    """
    if not database.has_database():  # without a database there are no tasks
        return None
    task = rows.find(task_id, context.principal, context.server)
    if task is None:
        return None
    if book.is_due:  # not every way here is a call that looked before
        book.bring_up_to_date()
    tool = context.server.tools.get(task.tool)
    is_guarded = tool is not None and (
        tool.is_guarded or context.principal.tools is not None or context.server.policies.may_block(tool)
    )
    if tool is not None and is_guarded and not run_inline(may_use(context.inline(), tool)):
        return None
    if task.status == Task.Status.WORKING and task.lease is not None and task.lease < timezone.now():
        recover(task)
        return rows.find(task_id, context.principal, context.server)
    return task


def task_id_of(context: Context) -> str:
    """Which task a request names.

    Raises:
        InvalidParams: none.
    """
    task_id = context.params.get("taskId")
    if not isinstance(task_id, str):
        raise InvalidParams('"params.taskId" must be a string.')
    return task_id


def found(context: Context, task_id: str) -> Task:
    """The same as ``look_up``, for methods whose answer is that task. Blocks.

    Raises:
        InvalidParams: it does not exist, or is not this caller's to know, or was kept long enough.
    """
    task = look_up(context, task_id)
    if task is None:
        raise InvalidParams(f"Unknown task: {task_id[:100]!r}. It may have expired.")
    return task
