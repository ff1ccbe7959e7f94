"""Experimental tasks of 2025-11-25, on the rows of the extension.

Who waits for the outcome of one is in ``task_results``.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, may_use, right
from django_mcp.core.policies import policy_cache
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.core.tool_search import called_tool
from django_mcp.models import Session, Task
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import kind_name, shortened
from django_mcp.protocol.errors import InvalidParams, MethodNotFound, RequestId
from django_mcp.protocol.jsonrpc import Result, encode_error, encode_result
from django_mcp.protocol.meta import PREFIX
from django_mcp.protocol.pagination import decode_cursor, encode_cursor
from django_mcp.tasks import store
from django_mcp.tasks.api import TaskFailed, found, stop, task_id_of
from django_mcp.tasks.extension import NAME, poll_interval_ms, status_message, timestamp, ttl_ms

VERSION = "2025-11-25"
"""The one version that has them."""
RESULT = "tasks/result"


def has_tasks(server: MCPServer, version: str) -> bool:
    """Whether a client of *version* finds tasks here: where tools have them, and there is a database for the rows."""
    return version == VERSION and NAME in server.extensions and database.has_database()


IMMEDIATE = PREFIX + "model-immediate-response"


def capability(server: MCPServer, version: str, principal: Principal) -> dict[str, Any]:
    """What is declared. Tasks are listed where callers can be told apart (2025-11-25, Tasks, Task Isolation)."""
    if not has_tasks(server, version):
        return {}
    listed: dict[str, Any] = {} if principal.is_anonymous else {"list": {}}
    return {"tasks": {**listed, "cancel": {}, "requests": {"tools": {"call": {}}}}}


def with_support(fields: dict[str, Any], server: MCPServer) -> dict[str, Any]:
    """``tools/list`` with what each tool says of tasks."""
    return {**fields, "tools": [_with_support(each, server) for each in fields["tools"]]}


def _with_support(entry: dict[str, Any], server: MCPServer) -> dict[str, Any]:
    tool = server.tools.get(entry["name"])
    support = None if tool is None else _support(tool, server)
    return entry if support is None else {**entry, "execution": {"taskSupport": support}}


def _support(tool: Tool, server: MCPServer) -> str | None:
    """Whether calls of a tool may be tasks: its own word, or that they may have to wait for an approval."""
    return tool.task or ("optional" if tool.key in server.policies.asking else None)


async def check_call(context: Context, version: str) -> None:
    """Look at ``task`` of a ``tools/call``.

    Raises:
        InvalidParams: it is malformed.
        MethodNotFound: the tool has no tasks.
    """
    params = context.params
    if "task" not in params:
        return
    await policy_cache.refresh(context.runner)  # which calls may be tasks depends on what was decided
    if not has_tasks(context.server, version):  # who declares none ignores it (2025-11-25, Tasks, Task Support)
        context.params = {key: value for key, value in params.items() if key != "task"}
        return
    context.params = {**params, "task": _metadata(params["task"])}
    tool = called_tool(context.server, params)
    if tool is not None and _support(tool, context.server) is None and await may_use(context, tool):
        raise MethodNotFound(f"The tool {tool.name!r} does not run as a task. Call it without 'task'.")


def _metadata(given: Any) -> dict[str, Any]:
    """``TaskMetadata`` with no more time than tasks get."""
    if not isinstance(given, dict):
        raise InvalidParams(f'"params.task" must be an object, like {{"ttl": 60000}}, not {kind_name(given)}.')
    ttl = given.get("ttl")
    if ttl is None:
        return {}
    if type(ttl) not in {int, float} or not ttl > 0:
        raise InvalidParams('"params.task.ttl" must be a positive number of milliseconds.')
    return {"ttl": min(ttl, settings.TASK_TTL * 1000)}


def wants_task(params: Mapping[str, Any], support: str) -> bool:
    """Whether a call asks for a task.

    Raises:
        MethodNotFound: it does not, and the tool is called no other way.
    """
    if support == "required" and "task" not in params:
        raise MethodNotFound("This tool runs only as a task. Call it with 'task', then send tasks/result.")
    return "task" in params


def check_made(context: Context, result: Result) -> None:
    """Look at what answers a call that asked for a task: nothing but a task may.

    Raises:
        InvalidParams: there is none, for the reason that the tool's result gives.
    """
    if "task" in context.params and "task" not in result.fields:
        texts = [each["text"] for each in result.fields["content"] if each["type"] == "text"]
        raise InvalidParams("\n".join(texts))


def made(task: Task) -> Result:
    """``CreateTaskResult``, with words for the model in place of a result."""
    words = f"This continues in the background as task {task.task_id}. Its result comes later."
    return Result({"task": shown(task), "_meta": {IMMEDIATE: words}})


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
        raise MethodNotFound("Tasks are not listed for anonymous callers.")
    cursor = context.params.get("cursor")
    after = None if cursor is None else decode_cursor(cursor)
    return await context.runner.sync(partial(_page, context, after))


def _page(context: Context, after: int | None) -> dict[str, Any]:
    size = context.server.page_size
    tasks = store.latest(context.principal, context.server, after, size + 1)
    page = tasks[:size]
    if policy_cache.is_due:
        policy_cache.bring_up_to_date()
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
        raise InvalidParams(f"The task cannot be cancelled: its status is already {shown(task)['status']}.")
    return task


HANDLERS: Mapping[str, Callable[[Context, Session | None], Awaitable[dict[str, Any]]]] = {
    "tasks/get": get_task,
    "tasks/list": list_tasks,
    "tasks/cancel": cancel_task,
}
