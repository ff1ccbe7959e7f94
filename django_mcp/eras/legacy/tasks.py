"""Tasks as 2025-11-25 has them, where they are experimental (2025-11-25, Tasks). The rows are those of the extension.

How one is made is in ``task_calls``, and who waits for its outcome in ``outcomes``.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, right
from django_mcp.core.policies import book
from django_mcp.models import Session, Task
from django_mcp.primitives.validation_errors import shortened
from django_mcp.protocol.errors import InvalidParams, MethodNotFound, RequestId
from django_mcp.protocol.jsonrpc import encode_error, encode_result
from django_mcp.protocol.meta import PREFIX
from django_mcp.protocol.pagination import decode_cursor, encode_cursor
from django_mcp.tasks import store
from django_mcp.tasks.api import TaskFailed, found, stop, task_id_of
from django_mcp.tasks.extension import poll_interval_ms, status_message, timestamp, ttl_ms

RELATED = PREFIX + "related-task"
LONGEST_MESSAGE = 300
"""Characters of a tool's error that are told with the status."""


# What is said of one


def shown(task: Task) -> dict[str, Any]:
    """A ``Task``. One whose result is an error has failed here, and the result stays what it is."""
    failed = task.status == Task.Status.COMPLETED and bool(task.result.get("isError"))
    fields = {"taskId": task.task_id, "status": str(Task.Status.FAILED if failed else task.status)}
    if message := _first_words(task.result) if failed else status_message(task):
        fields["statusMessage"] = message
    return {
        **fields,
        "createdAt": timestamp(task.created),
        "lastUpdatedAt": timestamp(task.updated),
        "ttl": ttl_ms(task),
        "pollInterval": poll_interval_ms(),
    }


def ended(request_id: RequestId, task: Task) -> bytes:
    """The response to ``tasks/result`` of a task that is over: what its call would have been answered with."""
    match task.status:
        case Task.Status.COMPLETED:
            meta = {**task.result.get("_meta", {}), **related(task.task_id)}
            return encode_result(request_id, {**task.result, "_meta": meta})
        case Task.Status.FAILED:
            return encode_error(request_id, TaskFailed(task.error))
    return encode_error(request_id, InvalidParams("The task was cancelled, so it has no result."))


def _first_words(result: Mapping[str, Any]) -> str:
    texts = (each["text"] for each in result.get("content", ()) if each.get("type") == "text")
    return shortened(next(texts, ""), LONGEST_MESSAGE)


def related(task_id: str) -> dict[str, Any]:
    """``_meta`` of what belongs to a task (2025-11-25, Tasks, Associating Task-Related Messages)."""
    return {RELATED: {"taskId": task_id}}


# Methods


async def get_task(context: Context, _: Session | None) -> dict[str, Any]:
    """``tasks/get``."""
    return shown(await context.runner.sync(partial(found, context, task_id_of(context))))


async def list_tasks(context: Context, _: Session | None) -> dict[str, Any]:
    """``tasks/list``: a page, the newest first."""
    if context.principal.is_anonymous:
        raise MethodNotFound("Tasks are not listed here: nobody can tell yours from those of others.")
    cursor = context.params.get("cursor")
    after = None if cursor is None else decode_cursor(cursor)
    return await context.runner.sync(partial(_page, context, after))


def _page(context: Context, after: int | None) -> dict[str, Any]:
    size = context.server.page_size
    tasks = store.latest(context.principal, context.server, after, size + 1)
    page = tasks[:size]
    if book.is_due:
        book.bring_up_to_date()
    hidden = {name for name in {each.tool for each in page} if _is_hidden(context, name)}
    fields: dict[str, Any] = {"tasks": [shown(each) for each in page if each.tool not in hidden]}
    if len(tasks) > size:
        fields["nextCursor"] = encode_cursor(page[-1].pk)
    return fields


def _is_hidden(context: Context, name: str) -> bool:
    """Whether the caller may not use a tool any more; what is ``found`` goes by the same."""
    tool = context.server.tools.get(name)
    return tool is not None and right(context, tool) is not Right.USE


async def cancel_task(context: Context, _: Session | None) -> dict[str, Any]:
    """``tasks/cancel``: the task, cancelled."""
    return shown(await context.runner.sync(partial(_cancel, context, task_id_of(context))))


def _cancel(context: Context, task_id: str) -> Task:
    task = found(context, task_id)
    is_stopped = stop(context, task_id)
    task.refresh_from_db()
    if not is_stopped:
        raise InvalidParams(f"The task is over, so it cannot be cancelled: it is {shown(task)['status']}.")
    return task


HANDLERS: Mapping[str, Callable[[Context, Session | None], Awaitable[dict[str, Any]]]] = {
    "tasks/get": get_task,
    "tasks/list": list_tasks,
    "tasks/cancel": cancel_task,
}
