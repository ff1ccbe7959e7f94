"""What tools wait for, and what their clients do."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Signal
from typing import Any

from django.contrib.contenttypes.models import ContentType

from django_mcp import Context
from django_mcp.models import TaskInput
from tests.conversation import Call, Conversation
from tests.exchange import WITHIN, eventually

NAMES = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
RELATED = "io.modelcontextprotocol/related-task"
UNKNOWN = "01234567890123456789012345678901"


class Work:
    """Of the tools: each goes on when it may."""

    def __init__(self) -> None:
        self.may_go_on, self.may_end = Signal(), Signal()
        self.holds_ask = False
        self.runs = self.ended = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        self.runs += 1
        try:
            yield
        finally:
            self.ended += 1

    def until(self, signal: Signal, ctx: Context) -> None:
        deadline = time.monotonic() + WITHIN
        while not signal.wait(0.01):
            ctx.check_cancelled()
            assert time.monotonic() < deadline, "it was never allowed to go on"

    def end(self) -> None:
        self.may_go_on.set()
        self.may_end.set()

    def wait_until_idle(self) -> None:
        eventually(lambda: self.ended == self.runs, "a tool still runs")


def begun(talk: Conversation, name: str = "wait", task: Any = None, /, **arguments: Any) -> str:
    """The id of a new task."""
    outcome = talk.request("tools/call", {"name": name, "arguments": arguments, "task": {} if task is None else task})
    return outcome.result["task"]["taskId"]


def state(talk: Conversation, task_id: str) -> dict[str, Any]:
    """What ``tasks/get`` says."""
    return talk.request("tasks/get", {"taskId": task_id}).result


def until(talk: Conversation, task_id: str, status: str) -> dict[str, Any]:
    """What it says once the task has a status."""

    def reached() -> dict[str, Any] | None:
        said = state(talk, task_id)
        return said if said["status"] == status else None

    return eventually(reached, f"the task is not {status}") or {}


def wait_for(talk: Conversation, task_id: str, **options: Any) -> Call:
    """Begin to wait for the result."""
    return talk.begin("tasks/result", {"taskId": task_id}, **options)


def rows() -> int:
    """How many rows tools left."""
    return ContentType.objects.filter(app_label="made_by_a_task").count()


def answers(task_id: str) -> list[Any]:
    """What a task was answered."""
    return list(TaskInput.objects.filter(task__task_id=task_id).order_by("pk").values_list("answer", flat=True))
