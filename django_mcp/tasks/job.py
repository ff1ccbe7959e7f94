"""What workers of Django's Tasks framework run. Imported where there is a backend for it, and by its workers."""

from django_mcp.conf import settings
from django_mcp.tasks.backends import DEFAULT, DjangoTasksBackend, framework, task_backend
from django_mcp.tasks.worker import run

_backend = task_backend()


# Of the backend's own class: Celery's workers know no other. And in its own queue, or a backend without "default"
# refuses it.
@framework().task(  # type: ignore[untyped-decorator]
    backend=_backend.name if isinstance(_backend, DjangoTasksBackend) else DEFAULT, queue_name=settings.TASK_QUEUE
)
def run_task(task_id: str) -> None:
    """Run a task of MCP. Its outcome is in its own row, so there is nothing to return."""
    run(task_id)


DjangoTasksBackend.task = run_task
