"""Rows of tasks. Each change of state is one conditional ``UPDATE``."""

import datetime
import json
import secrets
from collections.abc import Mapping
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
    """Under which is logged what happens to a task."""
    return f"task:{task_id}"


def tell(task_id: str, **entry: Any) -> None:
    """Log that something happened: ``status``, ``progress`` or ``message``, and what it is."""
    event_store.append([(topic(task_id), json.dumps(entry))])


def unfinished(principal: Principal, server: MCPServer) -> int:
    """How many tasks of a caller are under way."""
    return _of(principal, server).filter(status__in=UNFINISHED).count()


def find(task_id: str, principal: Principal, server: MCPServer) -> Task | None:
    """The caller's own task; None where they have none such, or no more."""
    if "\0" in task_id:  # which PostgreSQL would refuse to look for
        return None
    return _of(principal, server).select_related("user").filter(task_id=task_id).first()


def latest(principal: Principal, server: MCPServer, after: int | None, most: int) -> list[Task]:
    """The caller's tasks, the newest first.

    Args:
        principal: the caller.
        server: the endpoint.
        after: the primary key of the last one that was seen already.
        most: how many.
    """
    found = _of(principal, server)
    if after is not None:
        found = found.filter(pk__lt=after)
    return list(found.order_by("-pk")[:most])


def _of(principal: Principal, server: MCPServer) -> "QuerySet[Task]":
    return Task.objects.filter(
        server=server.name, principal_kind=principal.kind, principal_id=principal.id, expires__gt=timezone.now()
    )


def make(seconds: float | None = None, **fields: Any) -> Task:
    """A new task. It is there once the transaction is committed, to be given to whatever is to run it.

    Args:
        seconds: how long the client wants it to be kept.
        fields: of the row.
    """
    now = timezone.now()
    kept = settings.TASK_TTL if seconds is None else min(seconds, settings.TASK_TTL)
    expires = now + datetime.timedelta(seconds=kept)
    return Task.objects.create(
        task_id=secrets.token_urlsafe(24), created=now, updated=now, expires=expires, lease=lease_end(), **fields
    )


# Who runs it: nobody yet where there is a lease and no worker, for the time it takes to give it to somebody;
# nobody, and that is fine, where there is no lease.


def lease_end() -> datetime.datetime:
    """When a lease that is taken now runs out."""
    return timezone.now() + datetime.timedelta(seconds=settings.TASK_LEASE_TTL)


def claim(task_id: str, worker: str) -> Task | None:
    """The task, to be run by *worker* and nobody else; None where there is nothing to run, or somebody runs it."""
    # Not one whose lease ran out: whether it may be run again is not for whoever comes first to say. The second is for
    # a claim whose answer was lost with the connection.
    is_free = Q(worker="") | Q(worker=worker)
    found = Task.objects.filter(is_free, task_id=task_id, status=Task.Status.WORKING, expires__gt=timezone.now())
    if not found.update(worker=worker, lease=lease_end(), attempts=F("attempts") + 1):
        return None
    return Task.objects.select_related("user").filter(task_id=task_id, worker=worker).first()


def _held(task: Task) -> "QuerySet[Task]":
    """The row, as long as it is the one that was claimed: nobody cancelled it, and no other worker took it over."""
    return Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker=task.worker, attempts=task.attempts)


def _those(held: Mapping[str, str]) -> "QuerySet[Task]":
    """Those that nobody stopped or took over.

    Args:
        held: task id -> worker; "" for one that waits for its turn.
    """
    waiting = Q(worker="", task_id__in=[task_id for task_id, worker in held.items() if not worker])
    running = Q(worker__in=[worker for worker in held.values() if worker])  # no two runs have the same
    return Task.objects.filter(waiting | running, task_id__in=list(held), status=Task.Status.WORKING)


def renew(held: Mapping[str, str]) -> None:
    """Give workers more time. See ``_those``."""
    _those(held).update(lease=lease_end())


def still_working(held: Mapping[str, str]) -> set[str]:
    """The ids of those that are to go on. See ``_those``."""
    return set(_those(held).filter(expires__gt=timezone.now()).values_list("task_id", flat=True))


def queued(task: Task) -> None:
    """A task waits in a queue that keeps it, for as long as it takes."""
    Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker="").update(lease=None)


def release(held: Mapping[str, str]) -> None:
    """Whatever held these goes. See ``_those``."""
    _those(held).update(lease=timezone.now())


def abandoned() -> list[Task]:
    """Tasks whose worker has shown no sign of life for too long."""
    return list(Task.objects.filter(status=Task.Status.WORKING, lease__lt=timezone.now()).order_by("lease")[:100])


def free(task: Task) -> bool:
    """Take an abandoned task away from its worker, to be given to another; False where somebody else did so."""
    found = Task.objects.filter(pk=task.pk, status=Task.Status.WORKING, worker=task.worker, lease=task.lease)
    return bool(found.update(worker="", lease=lease_end()))


# What happens to it


def note(task: Task, progress: float, total: float | None, message: str | None) -> bool:
    """Save how far a task is; False where it is not held any more."""
    fields: dict[str, Any] = {"progress": progress, "total": total, "updated": timezone.now()}
    if message is not None:
        fields["message"] = clean(message)
    if not _held(task).update(**fields):
        return False
    tell(task.task_id, progress=[progress, total, message])
    return True


def clean(message: str) -> str:
    """Without what cannot be stored, or sent: NUL in PostgreSQL, half of a surrogate pair anywhere."""
    return message.replace("\0", "").encode(errors="replace").decode()


def finish(task: Task, **outcome: Any) -> bool:
    """End a task that is held: ``result`` or ``error``. False where it is not held any more."""
    status = Task.Status.COMPLETED if "result" in outcome else Task.Status.FAILED
    if "message" in outcome:
        outcome["message"] = clean(outcome["message"])
    with database.atomic():
        if not _held(task).update(status=status, updated=timezone.now(), lease=None, **outcome):
            return False
        tell(task.task_id, status=status)
    return True


def fail(task: Task, error: Mapping[str, Any]) -> bool:
    """End a task that nobody runs. False where it has ended already, or somebody runs it."""
    found = Task.objects.filter(pk=task.pk, status__in=UNFINISHED, worker=task.worker, attempts=task.attempts)
    with database.atomic():
        if not found.update(
            status=Task.Status.FAILED, error=error, message=error["message"], updated=timezone.now(), lease=None
        ):
            return False
        tell(task.task_id, status=Task.Status.FAILED)
    return True


def cancel(task: Task) -> bool:
    """Cancel a task, whoever runs it; they find out. False where it was over already."""
    with database.atomic():
        found = Task.objects.filter(pk=task.pk, status__in=UNFINISHED)
        if not found.update(
            status=Task.Status.CANCELLED, message="The task was cancelled.", updated=timezone.now(), lease=None
        ):
            return False
        tell(task.task_id, status=Task.Status.CANCELLED)
    return True


# What it asks


def ask(task: Task, requests: Mapping[str, Any], dialogue: Dialogue) -> bool:
    """Save questions, and wait for their answers. False where the task is not held any more."""
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
        tell(task.task_id, status=Task.Status.INPUT_REQUIRED)
    return True


def _unused(name: str, used: set[str]) -> str:
    """A key that was never used in this task (Tasks extension, Task Update Requests)."""
    name = name[:240]
    number = 1
    key = name
    while key in used:
        number += 1
        key = f"{name}~{number}"
    used.add(key)
    return key


def questions(task: Task) -> list[TaskInput]:
    """Those that wait for an answer."""
    return list(task.inputs.filter(answer__isnull=True).order_by("pk"))


def answer(task: Task, responses: Mapping[str, Any]) -> bool:
    """Save answers; what was not asked, or was answered, is ignored. True where the task is to be run again.

    Of several who bring the last answers at once, one gets True.
    """
    with database.atomic():
        asking = Task.objects.filter(pk=task.pk, status=Task.Status.INPUT_REQUIRED)
        # First of all, for it locks the row: two who answer at once do not see each other's answers, and each would
        # leave it to the other to let the task go on.
        if not asking.update(status=Task.Status.INPUT_REQUIRED):
            return False
        waiting = questions(task)
        given = [each for each in waiting if each.key in responses]
        for each in given:
            each.answer = {"result": responses[each.key]}
            each.save(update_fields=["answer"])
        if not given:
            return False
        if len(given) < len(waiting):
            tell(task.task_id, status=Task.Status.INPUT_REQUIRED)
            return False
        asking.update(status=Task.Status.WORKING, updated=timezone.now(), worker="", lease=lease_end())
        tell(task.task_id, status=Task.Status.WORKING)
    return True


def dialogue_of(task: Task) -> Dialogue:
    """What was asked and answered so far, for the next run."""
    dialogue = Dialogue(**task.dialogue)
    # In the order in which they were asked: where one was asked again, the last answer counts.
    answered = task.inputs.filter(answer__isnull=False).order_by("pk")
    dialogue.answer({each.name: each.answer["result"] for each in answered})
    return dialogue
