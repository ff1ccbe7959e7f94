"""The Tasks extension: its name, and task objects as clients read them."""

import datetime
from typing import Any

from django_mcp.conf import settings
from django_mcp.models import Task
from django_mcp.protocol.errors import MissingClientCapability
from django_mcp.tasks import store

NAME = "io.modelcontextprotocol/tasks"


def is_declared(capabilities: Any) -> bool:
    """Whether a client says of itself that it knows tasks."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(NAME), dict)


def not_declared(what: str) -> MissingClientCapability:
    """For a client that asks for tasks without it.

    Args:
        what: needs the extension, as the beginning of a sentence.
    """
    message = f"{what} requires the extension {NAME}. Declare it in the client capabilities of the request."
    return MissingClientCapability(message, {"extensions": {NAME: {}}})


def shown(task: Task) -> dict[str, Any]:
    """What is said of a task whatever its state."""
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
    """The same with what there is in its state: the result, the error, or the questions. May be a query."""
    fields = shown(task)
    match task.status:
        case Task.Status.COMPLETED:
            # What the call would have given, with all that such a result has: clients read it as strictly.
            fields["result"] = {"resultType": "complete", **task.result}
        case Task.Status.FAILED:
            fields["error"] = task.error
        case Task.Status.INPUT_REQUIRED:
            questions = store.questions(task)
            if not questions:  # they were answered at this very moment
                task.refresh_from_db()
                return detailed(task)
            fields["inputRequests"] = {each.key: each.request for each in questions}
    return fields


def status_message(task: Task) -> str:
    """What it says of itself, with how far it is while it is under way."""
    if task.is_over or task.progress is None:
        return task.message
    far = f"{task.progress:g}" if task.total is None else f"{task.progress:g} of {task.total:g}"
    return f"{task.message} ({far})" if task.message else far


def timestamp(moment: datetime.datetime) -> str:
    """As ISO 8601 has it, in UTC."""
    return moment.astimezone(datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ttl_ms(task: Task) -> int:
    """How long it is kept, from its creation."""
    return round((task.expires - task.created).total_seconds() * 1000)


def poll_interval_ms() -> int:
    """How often clients are to ask."""
    return max(1, round(settings.TASK_POLL_INTERVAL * 1000))
