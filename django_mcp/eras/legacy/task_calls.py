"""Calls of tools with tasks (2025-11-25, Tasks): what is said of them beforehand, and what answers them."""

from collections.abc import Mapping
from typing import Any

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.permissions import may_use
from django_mcp.core.policies import book
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.core.tool_search import behind
from django_mcp.eras.legacy.task_support import has_tasks
from django_mcp.models import Task
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import kind_name
from django_mcp.protocol.errors import InvalidParams, MethodNotFound
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import PREFIX

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
    await book.refresh(context.runner)  # which calls may be tasks depends on what was decided
    if not has_tasks(context.server, version):  # who declares none ignores it (2025-11-25, Tasks, Task Support)
        context.params = {key: value for key, value in params.items() if key != "task"}
        return
    context.params = {**params, "task": _metadata(params["task"])}
    tool = context.server.tools.get(str(params.get("name"))) or behind(context.server, params)
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
    return {"ttl": min(ttl, settings.TASK_SECONDS * 1000)}


def wants_task(params: Mapping[str, Any], support: str) -> bool:
    """Whether a call asks for a task.

    Raises:
        MethodNotFound: it does not, and the tool is called no other way.
    """
    if support == "required" and "task" not in params:
        raise MethodNotFound("This tool runs as a task only. Call it with 'task', and ask tasks/result for the result.")
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
    from django_mcp.eras.legacy.tasks import shown  # noqa: PLC0415 - most sites have no tasks

    words = f"This goes on in the background, as task {task.task_id}. Its result comes later."
    return Result({"task": shown(task), "_meta": {IMMEDIATE: words}})
