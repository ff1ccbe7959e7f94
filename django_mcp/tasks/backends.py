"""Backends of tasks: in this process or Django Tasks, and recovery of abandoned tasks.

Where a site has no such workers, the serving process does the work, a few tasks at a time. A restart costs what it was
doing: such tasks are found by their lease, and run again if their tool says that this does no harm, or else fail with a
word that says so.
"""

import logging
from functools import cache, partial
from typing import Any, ClassVar, Protocol

import django
from django.apps import apps
from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured

from django_mcp.conf import settings
from django_mcp.core.channel import no_waiting
from django_mcp.core.concurrency import Pool
from django_mcp.core.server import every_server
from django_mcp.models import Task
from django_mcp.protocol.errors import InternalError
from django_mcp.tasks import store
from django_mcp.tasks.worker import keeper, run, run_here

logger = logging.getLogger("django_mcp")

PROCESS, DEFAULT = "process", "default"
WITHOUT_WORKERS = ("ImmediateBackend", "DummyBackend")
"""Backends that come with Django's Tasks framework, and hand nothing to anybody."""
MAX_DEATHS = 3
"""How many workers a task may cost."""


class TaskBackend(Protocol):
    """Something that runs tasks.

    Attributes:
        name: as rows have it.
    """

    name: str

    def start(self, task: Task) -> None:
        """Have a task run, whose row is committed."""


class InProcessBackend:
    """Threads of this process."""

    name = PROCESS

    def start(self, task: Task) -> None:
        """Have it run when one of them is free."""
        keeper.expect(task.task_id)
        _pool().begin(partial(run, task.task_id))


class InlineBackend:
    """The thread that makes the task, where nobody could wait for another one or sees into its transaction."""

    name = PROCESS

    def start(self, task: Task) -> None:
        """Run it."""
        run_here(task.task_id)


class DjangoTasksBackend:
    """A backend of Django's Tasks framework.

    Args:
        alias: in ``TASKS``.

    Attributes:
        task: the Django task that workers run. ``job`` sets it, which can be imported only if a backend is configured.
    """

    task: ClassVar[Any] = None

    def __init__(self, alias: str) -> None:
        self.name = alias

    def start(self, task: Task) -> None:
        """Put it into the queue.

        Raises:
            ImproperlyConfigured: ``job`` could not be imported when the process started.
        """
        if self.task is None:
            msg = f"TASKS[{self.name!r}] could not be loaded when the process started; run manage.py check."
            raise ImproperlyConfigured(msg)
        self.task.using(backend=self.name, queue_name=settings.TASK_QUEUE).enqueue(task.task_id)
        store.queued(task)


@cache
def _pool() -> Pool:
    return Pool(settings.TASK_THREADS)


def framework() -> Any:
    """Django's Tasks framework: the backport where that is installed as an app, else Django's own; None without."""
    if apps.is_installed("django_tasks"):
        import django_tasks  # noqa: PLC0415 - not every site has it

        return django_tasks
    if django.VERSION >= (6, 0):
        from django import tasks  # noqa: PLC0415 - nor every Django

        return tasks
    return None


def backend(alias: str) -> Any:
    """What ``TASKS`` has under an alias; None where it has nothing."""
    api = framework()
    if api is None or alias not in getattr(django_settings, "TASKS", {}):
        return None
    return api.task_backends[alias]


def task_backend() -> TaskBackend:
    """What runs tasks on this site.

    Raises:
        ImproperlyConfigured: the setting names a backend that there is not.
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
    """Return True if Django's default backend for tasks is one that may have workers."""
    given = getattr(django_settings, "TASKS", {}).get(DEFAULT, {}).get("BACKEND", "")
    return given != "" and given.rpartition(".")[2] not in WITHOUT_WORKERS


def has_workers(found: Any) -> bool:
    """Whether a backend hands work to somebody else."""
    return type(found).__name__ not in WITHOUT_WORKERS


def start(task: Task) -> None:
    """Have a task run. Where that cannot be arranged a new one has failed; one that ran before is tried again later."""
    try:
        task_backend().start(task)
    except Exception:
        logger.exception("%s could not be enqueued", task)
        if task.attempts == 0:
            store.fail(task, InternalError("The task could not be started. Retry later.").to_wire())


def recover(task: Task) -> None:
    """See to a task whose worker gives no sign of life: run it again where that does no harm, or say that it failed."""
    if keeper.holds(task.task_id):  # it lives, and only could not say so
        return
    if task.worker == "" or (_is_repeatable(task) and _deaths(task) < MAX_DEATHS):
        if store.free(task):
            start(task)
        return
    error = InternalError(
        "The worker running this task stopped before it finished. The task may have taken effect in part; "
        "check before retrying."
    )
    if store.fail(task, error.to_wire()):
        logger.warning("%s failed: its worker %s sent no heartbeat", task, task.worker)


def _is_repeatable(task: Task) -> bool:
    tools = (each.tools.get(task.tool) for each in every_server() if each.name == task.server)
    return any(tool is not None and tool.is_repeatable for tool in tools)


def _deaths(task: Task) -> int:
    """How many runs ended neither with an outcome nor with a question."""
    return task.attempts - int(task.dialogue.get("round", 1)) + 1


def recover_all() -> None:
    """See to all tasks whose workers give no sign of life."""
    for task in store.abandoned():
        recover(task)


keeper.look_after = recover_all
