"""What a stream hears of tasks: each time one changes, all there is to say of it (Tasks extension, Notifications)."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from django_mcp.core.concurrency import on_event_loop, patiently, shared_pool
from django_mcp.core.context import Context
from django_mcp.protocol.errors import InvalidParams
from django_mcp.pubsub.event_store import Entry
from django_mcp.tasks import store
from django_mcp.tasks.api import look_up
from django_mcp.tasks.extension import detailed, is_declared, not_declared

MOST_TASKS = 100
"""Tasks one subscription may name."""


class TaskHearing:
    """Of one stream.

    Args:
        context: of the request that opened it.
        asked: ``taskIds``, as the client sent it.

    Attributes:
        task_ids: those of them that are the caller's own, once ``find`` has looked.
        topics: under which is logged what happens to them.

    Raises:
        MissingClientCapability: the client does not declare the extension.
        InvalidParams: the ids are malformed.
    """

    def __init__(self, context: Context, asked: Any) -> None:
        if not is_declared(context.capabilities):
            raise not_declared("To hear of tasks")
        if not isinstance(asked, list) or len(asked) > MOST_TASKS or not all(isinstance(each, str) for each in asked):
            raise InvalidParams(f'"params.notifications.taskIds" must be at most {MOST_TASKS} ids of tasks.')
        self._context = context
        self._said: dict[str, dict[str, Any]] = {}
        self.task_ids: Sequence[str] = list(dict.fromkeys(asked))
        self.topics: dict[str, str] = {}

    async def find(self) -> Sequence[str]:
        """Look which of them there are."""
        found = await self._look(self.task_ids)
        self.task_ids = [each["taskId"] for each in found]
        self.topics = {store.topic(task_id): task_id for task_id in self.task_ids}
        return self.task_ids

    def wants(self, entry: Entry) -> bool:
        """Whether something that happened to a task is told: what it logs is not (Tasks extension, Notifications)."""
        return entry.topic in self.topics and "message" not in json.loads(entry.data)

    async def now(self) -> list[dict[str, Any]]:
        """All of them as they are, for a client that may have missed something before it listened."""
        return self._new(await self._look(self.task_ids))

    async def told(self, entries: Iterable[Entry]) -> list[dict[str, Any]]:
        """Those that something happened to, each once and as it is now."""
        changed = dict.fromkeys(self.topics[entry.topic] for entry in entries if entry.topic in self.topics)
        return self._new(await self._look(list(changed))) if changed else []

    def _new(self, found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """What was not said in these words before."""
        new = [each for each in found if self._said.get(each["taskId"]) != each]
        self._said.update({each["taskId"]: each for each in new})
        return new

    async def _look(self, task_ids: Sequence[str]) -> list[dict[str, Any]]:
        # Under ASGI the view has no loop of its own while it makes the stream; the stream has one.
        runner = shared_pool() if on_event_loop() else self._context.runner
        return await patiently(runner, partial(_states, self._context, task_ids))


def _states(context: Context, task_ids: Sequence[str]) -> list[dict[str, Any]]:
    found = (look_up(context, task_id) for task_id in task_ids)
    return [detailed(task) for task in found if task is not None]
