"""Tasks that wait for an approval before they begin."""

import datetime

from django_mcp.approvals import words
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.models import Approval, Task
from django_mcp.primitives.tool import Tool
from django_mcp.tasks import store
from django_mcp.tasks.api import check_room, make, record
from django_mcp.tasks.backends import start as start_task


def park(context: Context, tool: Tool, approval: Approval | None, *, start: bool = False) -> Task:
    """The task of a call that waits, the same for each try of it. Blocks.

    Its lease ends with the ticket: then it is run like one whose worker is gone, finds that nobody approved it, and
    ends with these words. So it ends even where nobody is left who knows of the ticket.

    Args:
        context: of the call.
        tool: that is called.
        approval: its ticket.
        start: it may run already.

    Raises:
        ToolError: the caller has too many tasks.
    """
    with database.atomic():
        if approval is not None and not start:
            # No join: PostgreSQL locks no rows that may be missing.
            approval = Approval.objects.select_for_update().get(pk=approval.pk)
            if approval.task is not None:
                return approval.task
        if start:
            check_room(context)
        task = make(context, tool, None)
        if approval is not None and not start:
            task.needs_approval, task.message, task.lease = True, words.short(context, approval), approval.expires
            task.expires = approval.expires + datetime.timedelta(seconds=settings.TASK_SECONDS)
            task.save(update_fields=["needs_approval", "message", "lease", "expires"])
            Approval.objects.filter(pk=approval.pk).update(task=task)
            if approval.state != Approval.State.PENDING:  # it was decided at this very moment
                database.on_commit(lambda: release(task))
        if start:
            record(context, task)
    if start:
        context.channel.is_recorded = True
        start_task(task)
    return task


def release(task: Task) -> None:
    """Run a task whose ticket was decided: it goes on, or finds that it was refused."""
    found = Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker="")
    if found.update(lease=store.lease_end(), message=""):
        start_task(task)
