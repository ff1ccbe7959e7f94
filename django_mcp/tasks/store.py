"""Queries on task rows. Each change of state is one conditional ``UPDATE``."""

import datetime
import json
import secrets
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.elicitation import Dialogue
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.models import OVER, Task, TaskInput
from django_mcp.pubsub import event_store

UNFINISHED = [status for status in Task.Status if status not in OVER]


def topic(task_id: str) -> str:
    return f"task:{task_id}"


def publish(task_id: str, **entry: Any) -> None:
    event_store.append([(topic(task_id), json.dumps(entry))])


def unfinished(principal: Principal, server: MCPServer) -> int:
    return _of(principal, server).filter(status__in=UNFINISHED).count()


def find(task_id: str, principal: Principal, server: MCPServer) -> Task | None:
    if "\0" in task_id:  # PostgreSQL rejects NUL
        return None
    return _of(principal, server).select_related("user").filter(task_id=task_id).first()


def latest(principal: Principal, server: MCPServer, after: int | None, most: int) -> list[Task]:
    """Return the caller's tasks, newest first.

    Args:
        after: primary key of the last one seen.
        most: maximum number.
    """
    found = _of(principal, server)
    if after is not None:
        found = found.filter(pk__lt=after)
    return list(found.order_by("-pk")[:most])


def _of(principal: Principal, server: MCPServer) -> "QuerySet[Task]":
    return Task.objects.filter(
        server=server.name, principal_kind=principal.kind, principal_id=principal.id, expires__gt=timezone.now()
    )


def create(seconds: float | None = None, **fields: Any) -> Task:
    """Create a task, to be started after commit.

    Args:
        seconds: how long the client wants it kept.
    """
    now = timezone.now()
    kept = settings.TASK_TTL if seconds is None else min(seconds, settings.TASK_TTL)
    expires = now + datetime.timedelta(seconds=kept)
    return Task.objects.create(
        task_id=secrets.token_urlsafe(24), created=now, updated=now, expires=expires, lease=lease_end(), **fields
    )


# Leases. With a lease but no worker, a task is about to be handed to one. Without a lease it needs none: it waits in a
# durable queue, waits for input, or is over.


def lease_end() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.TASK_LEASE_TTL)


def claim(task_id: str, worker: str) -> Task | None:
    """Return the task for *worker* to run, or None if it need not or must not be run."""
    # A task of another worker is not claimed even if its lease has expired: recover() decides whether it may run again.
    # Q(worker=worker) repeats a claim whose response was lost with the connection.
    is_free = Q(worker="") | Q(worker=worker)
    found = Task.objects.filter(is_free, task_id=task_id, status=Task.Status.WORKING, expires__gt=timezone.now())
    if not found.update(worker=worker, lease=lease_end(), attempts=F("attempts") + 1):
        return None
    return Task.objects.select_related("user").filter(task_id=task_id, worker=worker).first()


def _held(task: Task) -> "QuerySet[Task]":
    # This matches nothing once the task was cancelled or taken over.
    return Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker=task.worker, attempts=task.attempts)


CHUNK_SIZE = 400
"""Tasks per statement, with two parameters each: databases limit them."""


def _held_tasks(held: Mapping[str, str]) -> "Iterator[QuerySet[Task]]":
    # Queued tasks have no worker yet.
    items = list(held.items())
    for start in range(0, len(items), CHUNK_SIZE):
        chunk = dict(items[start : start + CHUNK_SIZE])
        waiting = Q(worker="", task_id__in=[task_id for task_id, worker in chunk.items() if not worker])
        running = Q(worker__in=[worker for worker in chunk.values() if worker])  # unique per run
        yield Task.objects.filter(waiting | running, task_id__in=list(chunk), status=Task.Status.WORKING)


def renew(held: Mapping[str, str]) -> None:
    for tasks in _held_tasks(held):
        tasks.update(lease=lease_end())


def still_working(held: Mapping[str, str]) -> set[str]:
    """Return ids of tasks that should go on (see ``_held_tasks``)."""
    now = timezone.now()
    return {
        task_id
        for tasks in _held_tasks(held)
        for task_id in tasks.filter(expires__gt=now).values_list("task_id", flat=True)
    }


def renew_queued(task_id: str) -> bool:
    """Lease a task that is about to be queued again. Return False if it need not or must not be run."""
    found = Task.objects.filter(task_id=task_id, status=Task.Status.WORKING, worker="", expires__gt=timezone.now())
    # Conditional: a worker that took the task meanwhile has a lease of its own, which this must not move.
    return bool(found.update(lease=lease_end()))


def end_lease(task: Task) -> None:
    # Only without a worker: a run that has begun meanwhile keeps its lease.
    Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker="").update(lease=None)


def release(held: Mapping[str, str]) -> None:
    """End leases now, for others to recover the tasks (see ``_held_tasks``)."""
    for tasks in _held_tasks(held):
        tasks.update(lease=timezone.now())


def abandoned() -> list[Task]:
    return list(Task.objects.filter(status=Task.Status.WORKING, lease__lt=timezone.now()).order_by("lease")[:100])


def to_check(held: Collection[str], after: int, most: int) -> list[Task]:
    """Return the unfinished tasks among *held*, and up to *most* others with a primary key greater than *after*."""
    unfinished = Task.objects.filter(status__in=UNFINISHED).select_related("user").order_by("pk")
    others = unfinished.exclude(task_id__in=held).filter(pk__gt=after)
    return [*others[:most], *unfinished.filter(task_id__in=held)]


def take_over(task: Task) -> bool:
    # The lease that was read is compared: several processes may find the task abandoned, and one may take it.
    found = Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker=task.worker, lease=task.lease)
    return bool(found.update(worker="", lease=lease_end()))


# State changes


def save_progress(task: Task, progress: float, total: float | None, message: str | None) -> bool:
    """Save progress. Return False if not held any more."""
    fields: dict[str, Any] = {"progress": progress, "total": total, "updated": timezone.now()}
    if message is not None:
        fields["message"] = database.storable_text(message)
    if not _held(task).update(**fields):
        return False
    publish(task.task_id, progress=[progress, total, message])
    return True


@database.retry_conflicts
def finish(task: Task, **outcome: Any) -> bool:
    """End a held task with ``result`` or ``error``. Return False if not held any more."""
    status = Task.Status.COMPLETED if "result" in outcome else Task.Status.FAILED
    if "message" in outcome:
        outcome["message"] = database.storable_text(outcome["message"])
    with database.atomic():
        if not _held(task).update(status=status, updated=timezone.now(), lease=None, **outcome):
            return False
        publish(task.task_id, status=status)
    return True


@database.retry_conflicts
def fail(task: Task, error: Mapping[str, Any]) -> bool:
    """Fail a task without worker. Return False if it ended, or runs again."""
    # The attempt is compared, because the task may have been taken over since it was read.
    found = Task.objects.filter(pk=task.pk, status__in=UNFINISHED, worker=task.worker, attempts=task.attempts)
    with database.atomic():
        if not found.update(
            status=Task.Status.FAILED, error=error, message=error["message"], updated=timezone.now(), lease=None
        ):
            return False
        publish(task.task_id, status=Task.Status.FAILED)
    return True


@database.retry_conflicts
def cancel(task: Task) -> bool:
    """Cancel a task, wherever it runs. Return False if it is over."""
    with database.atomic():
        # Whoever runs it. The run notices at its next heartbeat, and what it saves until then matches no row (_held).
        found = Task.objects.filter(pk=task.pk, status__in=UNFINISHED)
        if not found.update(
            status=Task.Status.CANCELLED, message="The task was cancelled.", updated=timezone.now(), lease=None
        ):
            return False
        publish(task.task_id, status=Task.Status.CANCELLED)
    return True


# Questions and answers


@database.retry_conflicts
def ask(task: Task, requests: Mapping[str, Any], dialogue: Dialogue) -> bool:
    """Save questions. Return False if not held any more."""
    with database.atomic():
        saved = {**dialogue.to_json(), "progress": dialogue.progress}
        if not _held(task).update(
            status=Task.Status.INPUT_REQUIRED, dialogue=saved, updated=timezone.now(), lease=None, worker=""
        ):
            return False
        used = set(task.inputs.values_list("key", flat=True))
        TaskInput.objects.bulk_create(
            TaskInput(task=task, key=_unused(name, used), name=name, request=request)
            for name, request in requests.items()
        )
        publish(task.task_id, status=Task.Status.INPUT_REQUIRED)
    return True


def _unused(name: str, used: set[str]) -> str:
    # Keys must never be reused within a task (Tasks extension, Task Update Requests).
    name = name[:240]
    number = 1
    key = name
    while key in used:
        number += 1
        key = f"{name}~{number}"
    used.add(key)
    return key


def questions(task: Task) -> list[TaskInput]:
    return list(task.inputs.filter(answer__isnull=True).order_by("pk"))


@database.retry_conflicts
def answer(task: Task, responses: Mapping[str, Any]) -> bool:
    """Save answers to open questions. Return True if the task should be resumed.

    Only one of several concurrent requests gets True.
    """
    with database.atomic():
        asking = Task.objects.filter(pk=task.pk, status=Task.Status.INPUT_REQUIRED)
        # Lock the row first. Otherwise two concurrent requests would not see each other's answers, and neither would
        # resume the task.
        if not asking.update(status=Task.Status.INPUT_REQUIRED):
            return False
        waiting = questions(task)
        given = [question for question in waiting if question.key in responses]
        for question in given:
            question.answer = {"result": responses[question.key]}
            question.save(update_fields=["answer"])
        if not given:
            return False
        if len(given) < len(waiting):
            publish(task.task_id, status=Task.Status.INPUT_REQUIRED)
            return False
        asking.update(status=Task.Status.WORKING, updated=timezone.now(), worker="", lease=lease_end())
        publish(task.task_id, status=Task.Status.WORKING)
    return True


def dialogue_of(task: Task) -> Dialogue:
    dialogue = Dialogue(**task.dialogue)
    # In order of asking: if a question was asked again, the last answer counts.
    answered = task.inputs.filter(answer__isnull=False).order_by("pk")
    dialogue.answer({question.name: question.answer["result"] for question in answered})
    return dialogue
