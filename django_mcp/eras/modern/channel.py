"""How a call speaks to a client of the stateless protocol: on the stream that answers its request."""

import asyncio
from collections.abc import Coroutine, Generator, Mapping, Sequence
from types import coroutine
from typing import Any, TypeVar

from django_mcp.core.channel import LEVELS
from django_mcp.eras.base import Event, Inbound, notification
from django_mcp.models import Task
from django_mcp.primitives.markers import Mirror
from django_mcp.protocol import headers
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import Envelope
from django_mcp.pubsub.once import StepChannel
from django_mcp.tasks.extension import is_declared, not_declared

T = TypeVar("T")


class ModernChannel(StepChannel):
    """Notifications go out before the answer; a closed connection stops the call."""

    takes_ttl = False
    _task: asyncio.Task[Any] | None = None

    def __init__(self, inbound: Inbound, asked: Envelope) -> None:
        self.inbound = inbound
        self.protocol = asked.version
        self.capabilities = asked.capabilities
        if asked.log_level is not None:
            if asked.log_level not in LEVELS:
                raise InvalidParams(f"Unknown log level; use one of {', '.join(LEVELS)}.")
            self.log_level = asked.log_level

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send it, where the client takes streams."""
        if self.inbound.wire.takes_events:
            self.inbound.wire.send(Event(notification(method, params)))

    @coroutine
    def followed(self, serving: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Serve a call, which stops when the client closes its connection (Streamable HTTP, Cancellation).

        One that comes to its end without having waited for anything is not looked after at all.
        """
        try:
            awaited = serving.send(None)
            self._follow_client()
            while True:
                try:
                    given = yield awaited
                except BaseException as error:  # noqa: BLE001 - it is for the call
                    awaited = serving.throw(error)
                else:
                    awaited = serving.send(given)
        except StopIteration as done:
            result: T = done.value
            return result

    def _follow_client(self) -> None:
        if self.inbound.wire.is_live:
            self._task = asyncio.current_task()
            self.inbound.wire.watch(self.cancel)

    def cancel(self) -> None:
        """Stop: a coroutine where it waits, a function where it next uses its context."""
        self.cancelled = True
        if self._task is not None:
            self._task.cancel()

    def wants_task(self, support: str) -> bool:
        """Whether the client declared the extension in this request; then it is the server who decides."""
        if is_declared(self.capabilities):
            return True
        if support == "required":
            raise not_declared("This tool takes longer than a call may. It")
        return False

    def task_made(self, task: Task) -> Result:
        """``CreateTaskResult`` (Tasks extension, Task Creation)."""
        from django_mcp.tasks.extension import shown  # noqa: PLC0415 - most sites have no tasks

        return Result({"resultType": "task", **shown(task)})

    def check_mirrors(self, mirrors: Sequence[Mirror], arguments: Mapping[str, Any]) -> None:
        """The arguments, against ``Mcp-Param-*``."""
        if self.inbound.over_http:
            headers.check_parameters(self.inbound.headers, [(each.header, each.path) for each in mirrors], arguments)
