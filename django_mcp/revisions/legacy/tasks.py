"""Experimental tasks of 2025-11-25, stored like tasks of the extension; ``tasks/result`` is in ``task_results``."""

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
from django_mcp.revisions.legacy.downgrade import shape
from django_mcp.tasks import store
from django_mcp.tasks.api import TaskFailed, cancel_unfinished, require_task, task_id_of
from django_mcp.tasks.extension import NAME, poll_interval_ms, status_message, timestamp, ttl_ms

VERSION = "2025-11-25"
"""The only version with these tasks."""
RESULT = "tasks/result"


def has_tasks(server: MCPServer, version: str) -> bool:
    return version == VERSION and NAME in server.extensions and database.has_database()


IMMEDIATE = PREFIX + "model-immediate-response"


def capability(server: MCPServer, version: str, principal: Principal) -> dict[str, Any]:
    if not has_tasks(server, version):
        return {}
    # Only known callers may list tasks (2025-11-25, Tasks, Task Isolation).
    listed: dict[str, Any] = {} if principal.is_anonymous else {"list": {}}
    return {"tasks": {**listed, "cancel": {}, "requests": {"tools": {"call": {}}}}}


def with_support(fields: dict[str, Any], server: MCPServer) -> dict[str, Any]:
    return {**fields, "tools": [_with_support(tool, server) for tool in fields["tools"]]}


def _with_support(entry: dict[str, Any], server: MCPServer) -> dict[str, Any]:
    tool = server.tools.get(entry["name"])
    support = None if tool is None else _support(tool, server)
    return entry if support is None else {**entry, "execution": {"taskSupport": support}}


def _support(tool: Tool, server: MCPServer) -> str | None:
    # Tools that may require approval support tasks, too.
    return tool.task or ("optional" if tool.key in server.policies.asking else None)


async def check_call(context: Context, version: str) -> None:
    """Validate ``task`` of a ``tools/call``.

    Raises:
        InvalidParams: it is malformed.
        MethodNotFound: the tool does not support tasks.
    """
    params = context.params
    if "task" not in params:
        return
    await policy_cache.refresh(context.runner)  # policies decide which calls may be tasks
    if not has_tasks(context.server, version):  # a server without tasks ignores it (2025-11-25, Tasks, Task Support)
        context.params = {key: value for key, value in params.items() if key != "task"}
        return
    context.params = {**params, "task": _metadata(params["task"])}
    tool = called_tool(context.server, params)
    if tool is not None and _support(tool, context.server) is None and await may_use(context, tool):
        raise MethodNotFound(f"The tool {tool.name!r} does not run as a task. Call it without 'task'.")


def _metadata(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise InvalidParams(f'"params.task" must be an object, like {{"ttl": 60000}}, not {kind_name(given)}.')
    ttl = given.get("ttl")
    if ttl is None:
        return {}
    if type(ttl) not in {int, float} or not ttl > 0:
        raise InvalidParams('"params.task.ttl" must be a positive number of milliseconds.')
    return {"ttl": min(ttl, settings.TASK_TTL * 1000)}


def wants_task(params: Mapping[str, Any], support: str) -> bool:
    """Return True if the call requests a task.

    Raises:
        MethodNotFound: it does not, but the tool requires it.
    """
    if support == "required" and "task" not in params:
        raise MethodNotFound("This tool runs only as a task. Call it with 'task', then send tasks/result.")
    return "task" in params


def require_created(context: Context, result: Result) -> None:
    """Check that a call which requested a task became one.

    Raises:
        InvalidParams: with the text of the tool's result.
    """
    if "task" in context.params and "task" not in result.fields:
        texts = [block["text"] for block in result.fields["content"] if block["type"] == "text"]
        raise InvalidParams("\n".join(texts))


def task_result(task: Task) -> Result:
    words = f"The call continues in the background as task {task.task_id}. The result follows later."
    return Result({"task": task_object(task), "_meta": {IMMEDIATE: words}})


RELATED = PREFIX + "related-task"
MAX_MESSAGE_LENGTH = 300
"""Maximum length of a tool's error in ``statusMessage``."""


# Task objects


def task_object(task: Task) -> dict[str, Any]:
    # In this version a result with isError has the status failed.
    failed = task.status == Task.Status.COMPLETED and bool(task.result.get("isError"))
    fields = {"taskId": task.task_id, "status": str(Task.Status.FAILED if failed else task.status)}
    if message := _status_text(task.result) if failed else status_message(task):
        fields["statusMessage"] = message
    return {
        **fields,
        "createdAt": timestamp(task.created),
        "lastUpdatedAt": timestamp(task.updated),
        "ttl": ttl_ms(task),
        "pollInterval": poll_interval_ms(),
    }


def encode_outcome(request_id: RequestId, task: Task) -> bytes:
    match task.status:
        case Task.Status.COMPLETED:
            meta = {**task.result.get("_meta", {}), **related(task.task_id)}
            return encode_result(request_id, {**shape(task.result, "tools/call", VERSION), "_meta": meta})
        case Task.Status.FAILED:
            return encode_error(request_id, TaskFailed(task.error))
    return encode_error(request_id, InvalidParams("The task was cancelled, so it has no result."))


def _status_text(result: Mapping[str, Any]) -> str:
    texts = (block["text"] for block in result.get("content", ()) if block.get("type") == "text")
    return shortened(next(texts, ""), MAX_MESSAGE_LENGTH)


def related(task_id: str) -> dict[str, Any]:
    # See 2025-11-25, Tasks, Associating Task-Related Messages.
    return {RELATED: {"taskId": task_id}}


# Methods


async def get_task(context: Context, _: Session | None) -> dict[str, Any]:
    return task_object(await context.runner.checks.sync(partial(require_task, context, task_id_of(context))))


async def list_tasks(context: Context, _: Session | None) -> dict[str, Any]:
    if context.principal.is_anonymous:
        raise MethodNotFound("Tasks are not listed for anonymous callers.")
    cursor = context.params.get("cursor")
    after = None if cursor is None else decode_cursor(cursor)
    return await context.runner.checks.sync(partial(_page, context, after))


def _page(context: Context, after: int | None) -> dict[str, Any]:
    size = context.server.page_size
    tasks = store.latest(context.principal, context.server, after, size + 1)
    page = tasks[:size]
    if policy_cache.is_due:
        policy_cache.reload_if_due()
    hidden = {name for name in {task.tool for task in page} if _is_hidden(context, name)}
    fields: dict[str, Any] = {"tasks": [task_object(task) for task in page if task.tool not in hidden]}
    if len(tasks) > size:
        fields["nextCursor"] = encode_cursor(page[-1].pk)
    return fields


def _is_hidden(context: Context, name: str) -> bool:
    tool = context.server.tools.get(name)
    return tool is not None and right(context, tool) is not Right.USE


async def cancel_task(context: Context, _: Session | None) -> dict[str, Any]:
    return task_object(await context.runner.checks.sync(partial(_cancel, context, task_id_of(context))))


def _cancel(context: Context, task_id: str) -> Task:
    task = require_task(context, task_id)
    is_stopped = cancel_unfinished(context, task_id)
    task.refresh_from_db()
    if not is_stopped:
        raise InvalidParams(f"The task cannot be cancelled: its status is already {task_object(task)['status']}.")
    return task


HANDLERS: Mapping[str, Callable[[Context, Session | None], Awaitable[dict[str, Any]]]] = {
    "tasks/get": get_task,
    "tasks/list": list_tasks,
    "tasks/cancel": cancel_task,
}
