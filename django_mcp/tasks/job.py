"""The task for workers of Django's Tasks framework, which import it. It needs a configured backend."""

from django_mcp.conf import settings
from django_mcp.tasks.backends import DEFAULT, DjangoTasksBackend, framework, task_backend

_backend = task_backend()
_worker = _backend if isinstance(_backend, DjangoTasksBackend) else DjangoTasksBackend(DEFAULT)


# Created by the backend itself, because Celery's workers know no other tasks, and for its own queue, because a backend
# without the queue "default" would reject it.
@framework().task(  # type: ignore[untyped-decorator]
    backend=_worker.name, queue_name=settings.TASK_QUEUE
)
def run_task(task_id: str) -> None:
    _worker.run(task_id)


DjangoTasksBackend.task = run_task
