"""What workers of Django's Tasks framework run. Imported where there is a backend for it, and by its workers."""

from django_mcp.tasks.engines import framework
from django_mcp.tasks.running import run


@framework().task()  # type: ignore[untyped-decorator]
def run_task(task_id: str) -> None:
    """Run a task of MCP. Its outcome is in its own row, so there is nothing to return."""
    run(task_id)
