"""What every channel shares whose call may write: acts that are done once."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import Runner
from django_mcp.live import steps
from django_mcp.live.repeats import StepRepeat

T = TypeVar("T")


class StepChannel(Channel):
    """Keeps what is done once in the database."""

    def once(self, key: str, function: Callable[[], T]) -> T:
        """See ``live.steps``."""
        return steps.once(self._acts_of(), key, function, self._readable())

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]], runner: Runner) -> T:
        """See ``live.steps``."""
        return await steps.aonce(self._acts_of(), key, function, runner, self._readable())

    def repeat(self, call: str, arguments: str, *, is_shared: bool = False) -> StepRepeat:
        """See ``live.repeats``."""
        return StepRepeat(call, arguments, is_shared=is_shared)

    def _acts_of(self) -> list[str]:
        """To the call, whose rounds may come with different idempotency keys, and to the key of this round."""
        return [self.dialogue.id] if self.acts is None else [self.acts, self.dialogue.id]

    def _readable(self) -> list[str]:
        """Return those of them whose results this caller may have."""
        return [self.dialogue.id] if self.shares_acts else self._acts_of()
