"""Task backends, this process or Django's Tasks framework, and recovery of abandoned tasks.

Without workers, the serving process runs tasks. Those lost in a restart are found by their lease, and run again if
their tool is repeatable, else fail.
"""

import datetime
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import cache, partial
from typing import Any, ClassVar, Protocol

import django
from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core.channel import no_waiting
from django_mcp.core.concurrency import Pool
from django_mcp.core.execution import Slots, slots_of
from django_mcp.core.failures import crash_listener
from django_mcp.core.server import server_named
from django_mcp.models import Task
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InternalError
from django_mcp.tasks import store
from django_mcp.tasks.worker import give_up, heartbeat, run, run_here

logger = logging.getLogger("django_mcp")

PROCESS, DEFAULT = "process", "default"
WITHOUT_WORKERS = ("ImmediateBackend", "DummyBackend")
"""Backends of Django's Tasks framework without workers."""
RETRY_SECONDS = 1
"""Seconds after which a worker looks again whether a tool has a free slot."""
MAX_DEATHS = 3
"""Maximum number of lost workers per task."""


class TaskBackend(Protocol):
    """Runs tasks.

    Attributes:
        name: the value of ``Task.backend``.
    """

    name: str

    def start(self, task: Task) -> None:
        """Start a task whose row is committed."""


class InProcessBackend:
    """Runs tasks in threads of this process."""

    name = PROCESS

    def start(self, task: Task) -> None:
        """Queue the task for a thread.

        Raises:
            NoThread: see ``Pool.post``.
        """
        try:
            # Before it is queued: the job may begin at once, and moves the task from queued to running.
            heartbeat.add_queued(task.task_id)
            _pool().post(partial(_run_in_turn, task.task_id, _slots_of(task), crash_listener.get()))
        except BaseException:
            heartbeat.remove_queued(
                task.task_id
            )  # or its lease would be renewed for ever, and no process would recover it
            raise


CrashListener = Callable[[BaseException], object]


def _slots_of(task: Task) -> Slots | None:
    tool = _tool_of(task)
    return None if tool is None else slots_of(tool)


def _run_in_turn(task_id: str, slots: Slots | None, listen: CrashListener | None) -> None:
    turn: Future[None] = Future()
    try:
        has_slot = slots is not None and slots.acquire(turn)
    except BaseException:
        give_up(task_id, "")
        raise
    if slots is None:
        # Jobs of a pool have their own context, so the caller's listener must be set again.
        crash_listener.set(listen)
        run(task_id)
    elif has_slot:
        _run_and_release(task_id, slots, listen)
    else:
        # A waiting task occupies no thread.
        turn.add_done_callback(lambda _: _queue(task_id, slots, listen))


def _queue(task_id: str, slots: Slots, listen: CrashListener | None) -> None:
    try:
        _pool().post(partial(_run_and_release, task_id, slots, listen))
    except BaseException:
        heartbeat.remove_queued(task_id)  # its lease ends, and it is recovered
        slots.release()
        raise


def _run_and_release(task_id: str, slots: Slots, listen: CrashListener | None) -> None:
    crash_listener.set(listen)
    try:
        run(task_id, has_slot=True)  # unless it was cancelled while it waited
    finally:
        slots.release()


class InlineBackend:
    """Runs a task in the thread that creates it.

    Used if that thread cannot wait for another, or another cannot see its transaction.
    """

    name = PROCESS

    def start(self, task: Task) -> None:
        run_here(task.task_id)


class DjangoTasksBackend:
    """Enqueues tasks in a backend of ``TASKS``.

    Attributes:
        task: the Django task, set by ``job``, which needs a configured backend.
    """

    task: ClassVar[Any] = None

    def __init__(self, alias: str) -> None:
        self.name = alias

    def start(self, task: Task) -> None:
        """Enqueue the task.

        Raises:
            ImproperlyConfigured: ``job`` could not be imported at startup.
        """
        if self.task is None:
            msg = f"TASKS[{self.name!r}] could not be loaded when the process started; run manage.py check."
            raise ImproperlyConfigured(msg)
        self._enqueue(task)

    def _enqueue(self, task: Task, **options: Any) -> None:
        self.task.using(backend=self.name, queue_name=settings.TASK_QUEUE, **options).enqueue(task.task_id)
        # Only after enqueueing: if this process stops before, the lease expires and another one recovers the task.
        store.end_lease(task)

    def run(self, task_id: str) -> None:
        """Run a task in a worker, or put it back into the queue if its tool has no free slot."""
        task = Task.objects.filter(task_id=task_id).first()
        slots = None if task is None else _slots_of(task)
        if task is None or slots is None:
            run(task_id)
        elif slots.acquire():
            _run_and_release(task_id, slots, None)
        elif store.renew_queued(task_id):  # leased until it is in the queue: this worker may stop
            if backend(self.name).supports_defer:
                self._enqueue(task, run_after=timezone.now() + datetime.timedelta(seconds=RETRY_SECONDS))
            else:
                time.sleep(RETRY_SECONDS)
                self._enqueue(task)


@cache
def _pool() -> Pool:
    return Pool(settings.TASK_THREADS, "task")


def framework() -> Any:
    """Return ``django_tasks`` if installed as an app, else Django's own Tasks framework, or None."""
    if apps.is_installed("django_tasks"):
        import django_tasks  # noqa: PLC0415 - optional

        return django_tasks
    if django.VERSION >= (6, 0):
        from django import tasks  # noqa: PLC0415 - new in Django 6.0

        return tasks
    return None


def backend(alias: str) -> Any:
    api = framework()
    if api is None or alias not in getattr(django_settings, "TASKS", {}):
        return None
    return api.task_backends[alias]


def task_backend() -> TaskBackend:
    """Return the site's backend.

    Raises:
        ImproperlyConfigured: ``TASK_BACKEND`` is not an alias in ``TASKS``.
    """
    if no_waiting.get():
        return InlineBackend()
    alias = settings.TASK_BACKEND
    if alias == PROCESS:
        return InProcessBackend()
    found = backend(alias or DEFAULT)
    if alias is not None and found is None:
        msg = f'DJANGO_MCP["TASK_BACKEND"] is {alias!r}, which is not an alias in TASKS.'
        raise ImproperlyConfigured(msg)
    if found is None or (alias is None and not has_workers(found)):
        return InProcessBackend()
    return DjangoTasksBackend(alias or DEFAULT)


def has_default() -> bool:
    given = getattr(django_settings, "TASKS", {}).get(DEFAULT, {}).get("BACKEND", "")
    return given != "" and given.rpartition(".")[2] not in WITHOUT_WORKERS


def has_workers(found: Any) -> bool:
    return type(found).__name__ not in WITHOUT_WORKERS


def start(task: Task) -> None:
    """Start a task. If that fails, a new task fails too; others are recovered later."""
    try:
        task_backend().start(task)
    except Exception:
        logger.exception("%s could not be enqueued", task)
        if task.attempts == 0:
            store.fail(task, InternalError("The task could not be started. Retry later.").to_wire())


def recover(task: Task) -> None:
    """Run a task with an expired lease again if that is safe, else let it fail."""
    if heartbeat.holds(task.task_id):  # alive, but the lease could not be renewed
        return
    if task.worker == "" or (_is_repeatable(task) and _deaths(task) < MAX_DEATHS):
        if store.take_over(task):
            start(task)
        return
    error = InternalError(
        "The worker running this task stopped before it finished. The task may have taken effect in part; "
        "check before retrying."
    )
    if store.fail(task, error.to_wire()):
        logger.warning("%s failed: its worker %s sent no heartbeat", task, task.worker)


def _is_repeatable(task: Task) -> bool:
    tool = _tool_of(task)
    return tool is not None and tool.is_repeatable


def _tool_of(task: Task) -> Tool | None:
    server = server_named(task.server)
    return None if server is None else server.tools.get(task.tool)


def _deaths(task: Task) -> int:
    return task.attempts - int(task.dialogue.get("round", 1)) + 1


def recover_all() -> None:
    for task in store.abandoned():
        recover(task)


heartbeat.recover_lost = recover_all
