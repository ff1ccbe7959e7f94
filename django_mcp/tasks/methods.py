"""``tasks/get``, ``tasks/update`` and ``tasks/cancel`` (Tasks extension)."""

from functools import partial
from typing import Any

from django_mcp.core.context import Context
from django_mcp.core.server import Extension
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Result
from django_mcp.tasks.calling import stop, take_answers
from django_mcp.tasks.extension import NAME, is_declared, not_declared
from django_mcp.tasks.finding import found, task_id_of
from django_mcp.tasks.wire import detailed


async def get_task(context: Context) -> Result:
    """``tasks/get``."""
    return Result(await context.runner.sync(partial(_detailed, context, _task_id(context))))


def _detailed(context: Context, task_id: str) -> dict[str, Any]:
    return detailed(found(context, task_id))


async def update_task(context: Context) -> Result:
    """``tasks/update``: an empty acknowledgement; what was not asked is ignored."""
    task_id = _task_id(context)
    responses = context.params.get("inputResponses")
    if not isinstance(responses, dict):
        raise InvalidParams("\"params.inputResponses\" must be an object: question's key -> the client's result.")

    def update() -> None:
        found(context, task_id)
        take_answers(context, task_id, responses)

    await context.runner.sync(update)
    return Result({})


async def cancel_task(context: Context) -> Result:
    """``tasks/cancel``: an empty acknowledgement, also of a task that is over."""
    task_id = _task_id(context)

    def cancel() -> None:
        found(context, task_id)
        stop(context, task_id)

    await context.runner.sync(cancel)
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
