"""The Tasks extension: capability and task objects."""

import datetime
from typing import Any

from django_mcp.conf import settings
from django_mcp.models import Task
from django_mcp.protocol.errors import MissingClientCapability
from django_mcp.tasks import store

NAME = "io.modelcontextprotocol/tasks"


def is_declared(capabilities: Any) -> bool:
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(NAME), dict)


def not_declared(what: str) -> MissingClientCapability:
    """Return the error for a client without the extension.

    Args:
        what: what requires it; begins the message.
    """
    message = f"{what} requires the extension {NAME}. Declare it in the client capabilities of the request."
    return MissingClientCapability(message, {"extensions": {NAME: {}}})


def shown(task: Task) -> dict[str, Any]:
    """Return the fields of every task."""
    fields: dict[str, Any] = {"taskId": task.task_id, "status": str(task.status)}
    if message := status_message(task):
        fields["statusMessage"] = message
    return {
        **fields,
        "createdAt": timestamp(task.created),
        "lastUpdatedAt": timestamp(task.updated),
        "ttlMs": ttl_ms(task),
        "pollIntervalMs": poll_interval_ms(),
    }


def detailed(task: Task) -> dict[str, Any]:
    """Return a task with result, error or questions. May run queries."""
    fields = shown(task)
    match task.status:
        case Task.Status.COMPLETED:
            # The complete result of the call: clients validate it as strictly as a direct response.
            fields["result"] = {"resultType": "complete", **task.result}
        case Task.Status.FAILED:
            fields["error"] = task.error
        case Task.Status.INPUT_REQUIRED:
            questions = store.questions(task)
            if not questions:  # answered meanwhile
                task.refresh_from_db()
                return detailed(task)
            fields["inputRequests"] = {question.key: question.request for question in questions}
    return fields


def status_message(task: Task) -> str:
    if task.is_over or task.progress is None:
        return task.message
    far = f"{task.progress:g}" if task.total is None else f"{task.progress:g} of {task.total:g}"
    return f"{task.message} ({far})" if task.message else far


def timestamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ttl_ms(task: Task) -> int:
    return round((task.expires - task.created).total_seconds() * 1000)


def poll_interval_ms() -> int:
    return max(1, round(settings.TASK_POLL_INTERVAL * 1000))
