"""``tasks/get``, ``tasks/update``, ``tasks/cancel`` (Tasks extension), and the tool ``get_task_result``."""

from functools import partial
from typing import Annotated, Any

from django.core.exceptions import ImproperlyConfigured
from pydantic import Field

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.server import Extension, MCPServer
from django_mcp.core.tool_search import Finder
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.content import TextContent
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Result
from django_mcp.tasks.api import (
    answer_call,
    cancel_unfinished,
    look_up,
    outcome,
    require_task,
    store_answers,
    task_id_of,
)
from django_mcp.tasks.extension import NAME, detailed, is_declared, not_declared


async def get_task(context: Context) -> Result:
    return Result(await context.runner.checks.sync(partial(_detailed, context, _task_id(context))))


def _detailed(context: Context, task_id: str) -> dict[str, Any]:
    return detailed(require_task(context, task_id))


async def update_task(context: Context) -> Result:
    # Unknown keys are ignored.
    task_id = _task_id(context)
    responses = context.params.get("inputResponses")
    if not isinstance(responses, dict):
        raise InvalidParams(
            "\"params.inputResponses\" must be an object that maps each question's key to the client's result."
        )

    def update() -> None:
        require_task(context, task_id)
        store_answers(context, task_id, responses)

    await context.runner.checks.sync(update)
    return Result({})


async def cancel_task(context: Context) -> Result:
    # Cancelling a task that has ended is no error.
    task_id = _task_id(context)

    def cancel() -> None:
        require_task(context, task_id)
        cancel_unfinished(context, task_id)

    await context.runner.checks.sync(cancel)
    return Result({})


def _task_id(context: Context) -> str:
    if not is_declared(context.capabilities):
        raise not_declared(context.method)
    return task_id_of(context)


EXTENSION = Extension(
    NAME,
    {},
    {"tasks/get": get_task, "tasks/update": update_task, "tasks/cancel": cancel_task},
    lambda server, uri: (),  # noqa: ARG005 - no task has a URI
)


RESULT_TOOL = "get_task_result"


def get_task_result(task_id: Annotated[str, Field(max_length=100)]) -> TextContent:
    """Get the result of a tool call that continues as a background task.

    Waits up to a limit for the task to finish. If it is still running, the answer says so; call again.

    Args:
        task_id: The task id from the answer to the original call.
    """
    raise NotImplementedError  # see get_result


async def get_result(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result:  # noqa: ARG001
    """Return the result of the call behind a task."""
    task_id = keywords["task_id"]
    if await context.runner.checks.sync(lambda: look_up(context, task_id)) is None:
        raise ToolError(f"Task {task_id!r} was not found. It may have expired; call the tool again to start a new one.")
    return await outcome(context, task_id, settings.TASK_WAIT_TIMEOUT)


def result_tool() -> Tool:
    """Return a new ``get_task_result`` tool."""
    tool = Finder(
        get_task_result,
        context_type=Context,
        title="Get a task's result",
        read_only=True,
        idempotent=True,
        open_world=False,
    )
    tool.is_generated = True
    tool.is_interactive = True  # the task may ask for input
    tool.always_listed = True  # even with tool search: results refer to it
    tool.task_handler = get_result
    return tool


def prepare_server(server: MCPServer, tool: Tool) -> None:
    """Prepare an endpoint for a tool with tasks.

    Raises:
        ImproperlyConfigured: another tool is named ``get_task_result``, or ``before_task`` has parameters the tool
            lacks.
    """
    _check_before_task(tool)
    tool.extension = EXTENSION
    tool.task_handler = answer_call
    if tool.task == "optional":
        _offer_results(server, tool)


def _offer_results(server: MCPServer, tool: Tool) -> None:
    known = server.tools.get(RESULT_TOOL)
    if known is None and tool.key != RESULT_TOOL:
        server.add(result_tool())
    elif known is None or not known.is_generated:
        msg = (
            f'{tool.label}: task="optional" adds a tool {RESULT_TOOL!r} to {server!r} for clients without '
            "task support, but a tool with that name is already registered. Rename yours, or use "
            'task="required".'
        )
        raise ImproperlyConfigured(msg)


def _check_before_task(tool: Tool) -> None:
    if tool.before_task is None or tool.read.is_unbound:
        return
    known = {parameter.name for parameter in tool.read.parameters}
    strange = [
        parameter.name
        for parameter in tool.before_task.parameters
        if parameter.required and parameter.name not in known
    ]
    if strange:
        msg = f"{tool.label}: before_task has parameters that the tool does not: {', '.join(strange)}."
        raise ImproperlyConfigured(msg)
