"""Calls of tools that may go on in the background: the client gets a task, or somebody waits for it."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import detached
from django_mcp.core.context import Context
from django_mcp.core.elicitation import InputRequired
from django_mcp.models import Task
from django_mcp.primitives.tool import Tool, ToolError
from django_mcp.protocol.errors import ProtocolError
from django_mcp.protocol.jsonrpc import Result
from django_mcp.pubsub import event_store
from django_mcp.tasks import rows
from django_mcp.tasks.engines import start
from django_mcp.tasks.finding import look_up
from django_mcp.tasks.keeping import keeper
from django_mcp.tasks.making import begin
from django_mcp.tasks.waiting import wait
from django_mcp.tasks.wire import status_message


class TaskFailed(ProtocolError):
    """The error a task ended with."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"], error.get("data"))
        self.code = error["code"]  # type: ignore[misc] # that of whatever it was


async def answer(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """Answer a call of a tool with tasks: with a task, or with its outcome; None where it is to be run there and then.

    Args:
        context: of the call.
        tool: which has tasks.
        keywords: the arguments, checked.

    Raises:
        ProtocolError: the tool is nothing for this client, or that was the outcome.
        ToolError: too many tasks; or that was the outcome.
        InputRequired: ``before_task`` asks, or the task does.
    """
    wants = context.channel.wants_task(tool.task or "")
    task_id = context.channel.dialogue.task
    if task_id is None:
        await run_before(context, tool, keywords)
        if not database.has_database():  # without a database there is nothing that lasts
            return None
    own = [] if task_id is None else [task_id]
    since = None
    try:
        if wants or task_id is None:
            task = await context.runner.sync(partial(_task_of, context, tool, own, is_answer=wants))
            if wants:
                return context.channel.task_made(task)
            task_id, since = task.task_id, 0 if own else None
        context.channel.task_id = task_id
        return await outcome(context, task_id, settings.TASK_WAIT_SECONDS, tool, since)
    except (Cancelled, asyncio.CancelledError):  # nobody else knows of it
        stopping = context.runner.sync(partial(_stop_all, context, own))
        await stopping if context.runner.is_inline else detached(stopping)
        raise


async def run_before(context: Context, tool: Tool, keywords: Mapping[str, Any]) -> None:
    """Run ``before_task``, where there is one.

    Raises:
        ToolError, InputRequired: whatever it raises.
    """
    function = tool.before_task
    if function is None:
        return
    given = {each.name: keywords[each.name] for each in function.parameters if each.name in keywords}
    if function.context is not None:
        given[function.context] = context
    if function.is_async:
        await context.site_runner.coroutine(function.call, **given)
    else:
        await context.site_runner.sync(partial(function.call, **given))


def _task_of(context: Context, tool: Tool, own: list[str], *, is_answer: bool) -> Task:
    """The task of a call. One that it makes goes into *own*."""
    dialogue = context.channel.dialogue
    if dialogue.task is not None:  # in an earlier round its client did not know tasks
        take_answers(context, dialogue.task, dialogue.answers)
        found = look_up(context, dialogue.task)
        if found is None:
            raise _gone(dialogue.task)
        return found
    task, is_new = begin(context, tool, is_answer=is_answer)
    if is_new:
        own.append(task.task_id)
        if context.channel.cancelled:  # whoever stops what is our own may have looked already
            _stop_all(context, own)
    return task


def _gone(task_id: str) -> ToolError:
    return ToolError(f"There is no task {task_id[:100]!r} of yours any more.")


async def outcome(
    context: Context, task_id: str, seconds: float | None, tool: Tool | None = None, since: int | None = None
) -> Result:
    """What the call behind a task would have given, when it has; answers that came with the request go to the task.

    Args:
        context: of who asks.
        task_id: of the task.
        seconds: how long to wait; None for as long as it takes.
        tool: the one that was called, where its call is what waits.
        since: see ``wait``.

    Raises:
        ProtocolError, ToolError: that was the outcome, or there is no such task.
        InputRequired: the task has questions.
    """
    dialogue = context.channel.dialogue
    if dialogue.task == task_id and dialogue.answers:
        since = await context.runner.sync(event_store.newest)
        await context.runner.sync(partial(take_answers, context, task_id, dialogue.answers))
    task = await wait(context, task_id, seconds, since)
    if task is None:
        raise _gone(task_id)
    match task.status:
        case Task.Status.COMPLETED:
            return Result(task.result)
        case Task.Status.FAILED:
            raise TaskFailed(task.error)
        case Task.Status.CANCELLED:
            raise ToolError("The task was cancelled.")
        case Task.Status.INPUT_REQUIRED:
            questions = await context.runner.sync(partial(rows.questions, task))
            if not questions:  # somebody else has answered them at this very moment
                return await outcome(context, task_id, seconds, tool, since)
            dialogue.task = task_id
            raise InputRequired({each.key: each.request for each in questions})
    return _later(task, tool)


def _later(task: Task, tool: Tool | None) -> Result:
    """Where to ask for the result, in words for a model."""
    said = status_message(task)
    far = f" So far: {said}" if said else ""
    text = (
        f"This takes longer than a call may, and goes on as task {task.task_id}.{far}\n"
        f'Call get_task_result with {{"task_id": "{task.task_id}"}} to have the result; it waits for a while.'
    )
    fields: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if tool is not None and tool.output.schema is not None:  # which this would not fit
        fields["isError"] = True
    return Result(fields)


def take_answers(context: Context, task_id: str, answers: Mapping[str, Any]) -> None:
    """Give answers to a caller's task, and let it go on when it has all."""
    task = rows.find(task_id, context.principal, context.server)
    if task is not None and rows.answer(task, answers):
        task.refresh_from_db()
        start(task)


def stop(context: Context, task_id: str) -> bool:
    """Cancel a caller's task; False where it was over already, or is not theirs."""
    task = rows.find(task_id, context.principal, context.server)
    if task is None or task.is_over:
        return False
    # What runs here goes first: on SQLite its transaction may hold the lock that the row needs.
    keeper.cancel(task_id)
    return rows.cancel(task)


def _stop_all(context: Context, task_ids: Iterable[str]) -> None:
    for task_id in task_ids:
        stop(context, task_id)
