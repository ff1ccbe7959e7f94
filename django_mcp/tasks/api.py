"""Creation, lookup, awaiting, answering and cancellation of tasks."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Cancelled, IdempotencyRecord, is_wanted
from django_mcp.core.concurrency import create_background_task, retry_database, run_inline
from django_mcp.core.context import Context
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.execution import idempotency_record
from django_mcp.core.permissions import may_use
from django_mcp.core.policies import policy_cache
from django_mcp.models import Task
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InvalidParams, ProtocolError
from django_mcp.protocol.jsonrpc import Result
from django_mcp.pubsub import event_store, once
from django_mcp.pubsub.event_store import Entry
from django_mcp.pubsub.once import NOT_YOURS
from django_mcp.pubsub.waiting import wait_for
from django_mcp.tasks import store
from django_mcp.tasks.backends import recover, start, task_backend
from django_mcp.tasks.extension import status_message
from django_mcp.tasks.principal_snapshot import snapshot
from django_mcp.tasks.worker import heartbeat


def look_up(context: Context, task_id: str) -> Task | None:
    """Return the caller's task, or None without a task or the right to use its tool. Blocks.

    A task with an expired lease is recovered first.
    """
    if not database.has_database():  # no database, no tasks
        return None
    task = store.find(task_id, context.principal, context.server)
    if task is None:
        return None
    if policy_cache.is_due:  # not every caller has refreshed it
        policy_cache.reload_if_due()
    tool, policies = context.server.tools.get(task.tool), context.server.policies
    is_guarded = tool is not None and (
        tool.is_guarded or policies.limits_tools(context.principal) or policies.may_block(tool)
    )
    if tool is not None and is_guarded and not run_inline(may_use(context.inline(), tool)):
        return None
    if task.status == Task.Status.WORKING and task.lease is not None and task.lease < timezone.now():
        recover(task)
        return store.find(task_id, context.principal, context.server)
    return task


def task_id_of(context: Context) -> str:
    """Return the task id of a request.

    Raises:
        InvalidParams: it is not a string.
    """
    task_id = context.params.get("taskId")
    if not isinstance(task_id, str):
        raise InvalidParams('"params.taskId" must be a string.')
    return task_id


def require_task(context: Context, task_id: str) -> Task:
    """Return the task from ``look_up``. Blocks.

    Raises:
        InvalidParams: there is none.
    """
    task = look_up(context, task_id)
    if task is None:
        raise InvalidParams(f"Task {task_id[:100]!r} was not found. It may have expired.")
    return task


OF_THE_REQUEST = frozenset({"task", "inputResponses", "requestState"})
"""Parameters of the request, not of the call."""


class _LostRace(Exception):
    """A concurrent attempt of the call created its task first."""


def find_or_create(context: Context, tool: Tool, *, is_answer: bool) -> tuple[Task, bool]:
    """Return the task of a call, and whether it is new and has been started. Blocks.

    Args:
        is_answer: whether the task itself is the response.

    Raises:
        ToolError: the caller has too many tasks, used the idempotency key for another call, or may be another caller
            than its first user.
    """
    repeat = idempotency_record(context, tool, context.params.get("arguments") or {})
    before = None if repeat is None else repeat.task()
    found = None if before is None else store.find(before, context.principal, context.server)
    if found is not None and _is_reusable(found):
        return _check_shared(found, repeat), False
    try:
        task = _create(context, tool, repeat, before, is_answer=is_answer)
    except _LostRace:
        return _created_elsewhere(context, repeat), False
    context.channel.is_recorded = is_answer
    start(task)
    return task, True


def _check_shared(task: Task, repeat: IdempotencyRecord | None) -> Task:
    if repeat is not None and repeat.is_shared:
        raise ToolError(NOT_YOURS)
    return task


def _is_reusable(task: Task) -> bool:
    # A failed call may be retried with the same key.
    return not task.is_over or (task.status == Task.Status.COMPLETED and not task.result.get("isError"))


def _created_elsewhere(context: Context, repeat: IdempotencyRecord | None) -> Task:
    task_id = None if repeat is None else repeat.task()
    task = None if task_id is None else store.find(task_id, context.principal, context.server)
    if task is None:  # already deleted
        raise ToolError("Another call with this idempotency key is in progress. Retry in a few seconds.")
    return _check_shared(task, repeat)


def check_room(context: Context) -> None:
    """Check ``MAX_TASKS_PER_CALLER`` in the transaction that makes a task, one after the other for each caller.

    Raises:
        ToolError: it is reached.
    """
    once.lock("tasks", context.server.name, context.principal.kind, context.principal.id)
    if store.unfinished(context.principal, context.server) >= settings.MAX_TASKS_PER_CALLER:
        raise ToolError(
            f"You have {settings.MAX_TASKS_PER_CALLER} unfinished tasks, the maximum. Wait for one to finish, "
            "or cancel one."
        )


@database.retry_conflicts
def _create(
    context: Context, tool: Tool, repeat: IdempotencyRecord | None, before: str | None, *, is_answer: bool
) -> Task:
    with database.atomic():
        # This locks, so it comes first: concurrent calls count and create one after the other.
        check_room(context)
        task = create(context, tool, _requested_ttl(context))
        if repeat is not None and not repeat.store_task(task.task_id, before):
            raise _LostRace
        if is_answer:
            record(context, task)
    return task


def record(context: Context, task: Task) -> None:
    # In the transaction that creates the task, for later the task may hold SQLite's write lock.
    if context.channel.record is not None:
        context.channel.record(context.channel.announce_task(task).fields)


def create(context: Context, tool: Tool, seconds: float | None) -> Task:
    """Create a task's row.

    Args:
        seconds: how long to keep it; None for the site's maximum.
    """
    return store.create(seconds, **_fields(context, tool))


def _fields(context: Context, tool: Tool) -> dict[str, Any]:
    principal, user = context.principal, context.user
    params = {key: value for key, value in context.params.items() if key not in OF_THE_REQUEST}
    return {
        "server": context.server.name,
        "tool": tool.name,
        "principal_kind": principal.kind,
        "principal_id": principal.id,
        "user": user if isinstance(user, get_user_model()) and user.pk is not None else None,
        "caller": snapshot(context),
        "client": context.client._asdict(),
        "capabilities": dict(context.capabilities),
        "request": {"method": context.method, "params": params},
        "dialogue": context.channel.dialogue.to_json(),
        "backend": task_backend().name,
    }


def _requested_ttl(context: Context) -> float | None:
    asked = context.params.get("task") if context.channel.takes_ttl else None
    ttl: Any = asked.get("ttl") if isinstance(asked, dict) else None
    # The protocol has milliseconds.
    return ttl / 1000 if type(ttl) in {int, float} and ttl > 0 else None


class _Forwarder:
    """Forwards progress and log messages of a task, each once.

    Args:
        since: id of the last event not forwarded.
    """

    def __init__(self, context: Context, task_id: str, since: int) -> None:
        self._context, self._topic, self._since = context, store.topic(task_id), since
        self._forwarded: set[int] = set()

    def matches(self, entry: Entry) -> bool:
        return entry.id > self._since

    def forward(self, entry: Entry) -> bool:
        said = json.loads(entry.data)
        if "progress" not in said and "message" not in said:
            return False
        # Both the subscription and forward_missed() may have read the event.
        if entry.id not in self._forwarded:
            self._forwarded.add(entry.id)
            self._send(said)
        return True

    def _send(self, said: dict[str, Any]) -> None:
        if "progress" in said:
            self._context.report_progress(*said["progress"])
        elif is_wanted(said["message"]["level"], self._context.channel.log_level):
            self._context.channel.notify("notifications/message", said["message"])

    def forward_missed(self) -> None:
        if self._context.channel.log_level is not None or "progressToken" in self._context.meta:
            for entry in event_store.after(self._since, [self._topic]):
                self.forward(entry)


async def wait(context: Context, task_id: str, seconds: float | None, since: int | None = None) -> Task | None:
    """Return the task when it is over or needs input, or after the timeout; None if deleted.

    Progress and log messages are forwarded meanwhile.

    Args:
        seconds: timeout; None for no limit.
        since: id of the last event not forwarded; None for the newest.
    """
    if since is None:
        since = await retry_database(context.runner.own, event_store.newest)
    telling = _Forwarder(context, task_id, since)
    look = partial(look_up, context, task_id)
    topic = store.topic(task_id)
    found = await wait_for(context, topic, look, _is_ready, seconds, matches=telling.matches, handles=telling.forward)
    await retry_database(context.runner.own, telling.forward_missed)
    return found


def _is_ready(task: Task | None) -> bool:
    return task is None or task.status != Task.Status.WORKING


class TaskFailed(ProtocolError):
    """The error with which a task ended."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"], error.get("data"))
        self.code = error["code"]  # type: ignore[misc] # the code of the original error


async def answer_call(context: Context, tool: Tool, keywords: dict[str, Any]) -> Result | None:
    """Answer a call with a task or its outcome, or return None to run it without a task.

    Raises:
        ProtocolError: the client lacks the extension, or it is the outcome.
        ToolError: there are too many tasks, or it is the outcome.
        InputRequired: ``before_task`` or the task asks.
    """
    wants = context.channel.wants_task(tool.task or "")
    task_id = context.channel.dialogue.task
    if task_id is None:
        await run_before(context, tool, keywords)
        if not database.has_database():  # no database, no tasks
            return None
    own = [] if task_id is None else [task_id]
    since = None
    try:
        if wants or task_id is None:
            task = await context.runner.checks.sync(partial(_task_of, context, tool, own, is_answer=wants))
            if wants:
                return context.channel.announce_task(task)
            task_id, since = task.task_id, 0 if own else None
        context.channel.task_id = task_id
        return await outcome(context, task_id, settings.TASK_WAIT_TIMEOUT, tool, since)
    except (Cancelled, asyncio.CancelledError):  # the client does not know the task
        stopping = context.runner.checks.sync(partial(_cancel_all, context, own))
        # This must go on although the calling asyncio task is cancelled.
        await stopping if context.runner.is_inline else create_background_task(stopping)
        raise


async def run_before(context: Context, tool: Tool, keywords: Mapping[str, Any]) -> None:
    function = tool.before_task
    if function is None:
        return
    given = {
        parameter.name: keywords[parameter.name] for parameter in function.parameters if parameter.name in keywords
    }
    if function.context is not None:
        given[function.context] = context
    if function.is_async:
        await context.site_runner.coroutine(function.call, **given)
    else:
        await context.site_runner.sync(partial(function.call, **given))


def _task_of(context: Context, tool: Tool, own: list[str], *, is_answer: bool) -> Task:
    dialogue = context.channel.dialogue
    if dialogue.task is not None:  # created in an earlier round by a client without task support
        store_answers(context, dialogue.task, dialogue.answers)
        found = look_up(context, dialogue.task)
        if found is None:
            raise _deleted_error(dialogue.task)
        return found
    task, is_new = find_or_create(context, tool, is_answer=is_answer)
    if is_new:
        own.append(task.task_id)
        if context.channel.cancelled:  # the cancellation may have read *own* before the append
            _cancel_all(context, own)
    return task


def _deleted_error(task_id: str) -> ToolError:
    return ToolError(f"Task {task_id[:100]!r} no longer exists.")


async def outcome(
    context: Context, task_id: str, seconds: float | None, tool: Tool | None = None, since: int | None = None
) -> Result:
    """Return a task's result. Answers in the request are given to the task first.

    Args:
        seconds: timeout; None for no limit.
        tool: the called tool, if its call waits.
        since: see ``wait``.

    Raises:
        ProtocolError, ToolError: it is the outcome, or the task is gone.
        InputRequired: the task asks.
    """
    dialogue = context.channel.dialogue
    if dialogue.task == task_id and dialogue.answers:
        since = await context.runner.own.sync(event_store.newest)
        await context.runner.checks.sync(partial(store_answers, context, task_id, dialogue.answers))
    task = await wait(context, task_id, seconds, since)
    if task is None:
        raise _deleted_error(task_id)
    match task.status:
        case Task.Status.COMPLETED:
            return Result(task.result)
        case Task.Status.FAILED:
            raise TaskFailed(task.error)
        case Task.Status.CANCELLED:
            raise ToolError("The task was cancelled.")
        case Task.Status.INPUT_REQUIRED:
            questions = await context.runner.own.sync(partial(store.questions, task))
            if not questions:  # answered by a concurrent request
                return await outcome(context, task_id, seconds, tool, since)
            dialogue.task = task_id
            raise InputRequired({question.key: question.request for question in questions})
    return _still_running(task, tool)


def _still_running(task: Task, tool: Tool | None) -> Result:
    said = status_message(task)
    far = f" Progress: {said}" if said else ""
    text = (
        f"The call is still running, as task {task.task_id}.{far}\nTo get the result, call get_task_result "
        f'with {{"task_id": "{task.task_id}"}}. It waits up to a limit for the task to finish.'
    )
    fields: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    if tool is not None and tool.output.schema is not None:  # this result does not match it
        fields["isError"] = True
    return Result(fields)


def store_answers(context: Context, task_id: str, answers: Mapping[str, Any]) -> None:
    task = store.find(task_id, context.principal, context.server)
    if task is not None and store.answer(task, answers):
        task.refresh_from_db()
        start(task)


def cancel_unfinished(context: Context, task_id: str) -> bool:
    """Cancel a caller's task. Return False if it is over, or not theirs."""
    task = store.find(task_id, context.principal, context.server)
    if task is None or task.is_over:
        return False
    # Stop the local run first: on SQLite its transaction may hold the lock that the update needs.
    heartbeat.cancel(task_id)
    return store.cancel(task)


def _cancel_all(context: Context, task_ids: Iterable[str]) -> None:
    for task_id in task_ids:
        cancel_unfinished(context, task_id)
