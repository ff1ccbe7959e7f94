"""The way back to the client while a call runs.

A ``Context`` speaks through a ``Channel``; what becomes of the words is the revision's business. This module's channel
leads nowhere, which is what a call has that nobody can be told about: one in a batch, say.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django_mcp.core.elicitation import Dialogue
from django_mcp.protocol.errors import MissingClientCapability

if TYPE_CHECKING:
    from django_mcp.core.concurrency import Runner
    from django_mcp.core.elicitation import Question
    from django_mcp.primitives.markers import Mirror
    from django_mcp.protocol.jsonrpc import Result

T = TypeVar("T")

LEVELS: Sequence[str] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Least severe first (RFC 5424, section 6.2.1)."""

no_waiting: ContextVar[bool] = ContextVar("no_waiting", default=False)
"""Whether whoever calls is the only one who could do what is waited for, as in a test: then nothing is waited for, and
tasks are run where they are made."""


class Cancelled(BaseException):
    """Nobody waits for the result any more; raised in the tool where it next uses its context.

    No ``Exception``, so that an ``except Exception`` in a tool lets it through and the transaction is rolled back.
    """


class IdempotencyRecord(Protocol):
    """One try of a call that has a key. All of it blocks.

    Attributes:
        acts: under what ``ctx.once`` notes its acts besides the call, the same for all tries.
        is_shared: callers who cannot be told apart use the same keys, so no other try reads what this one made.
    """

    acts: str
    is_shared: bool

    def begin(self) -> dict[str, Any] | None:
        """The result of an earlier try; None where this one is to run.

        Raises:
            ToolError: another try is under way, or had other arguments, or its result may be another caller's.
        """

    def kept(self) -> dict[str, Any] | None:
        """The result of an earlier try, where there is one; nothing is begun.

        Raises:
            ToolError: another try had other arguments, or its result may be another caller's.
        """

    def keep(self, fields: dict[str, Any]) -> None:
        """This is the result."""

    def forget(self) -> None:
        """It has none, and may be tried again."""

    def task(self) -> str | None:
        """The task that an earlier try has made; None where none has.

        Raises:
            ToolError: it had other arguments.
        """

    def note_task(self, task_id: str, before: str | None) -> bool:
        """This try has made a task. False where another one was faster, and this one is to be undone.

        Args:
            task_id: of the task.
            before: what ``task`` gave.
        """


class Channel:
    """Takes what a call has to say to its client, and says nothing.

    Attributes:
        cancelled: the client went away, or withdrew its request.
        protocol: the version it speaks, where that is known.
        record: writes down the call with its result, in the transaction in which that is saved.
        task_id: the task that does the work, where the client waits for it without knowing of tasks.
        is_recorded: that transaction is committed.
        log_level: the least severe level the client wants to read; None for no log at all.
        acts: under what acts that are done once are noted besides, where several calls are tries of one; else None.
        shares_acts: other callers may use that too, so they do not read what the acts of this one gave.
        is_task: the call is the work of a task, and nobody holds a connection open for it.
        needs_approval: the call waited for somebody to approve it, and does not run without.
        takes_ttl: a client may say how long its task is to be kept.
        waits: the client can be kept waiting until somebody decides about the call, and be shown where that is.
    """

    is_task = False
    needs_approval = False
    takes_ttl = True
    waits = True
    log_level: str | None = None
    protocol = ""
    record: Callable[[dict[str, Any]], None] | None = None
    is_recorded = False
    task_id = ""
    cancelled = False
    acts: str | None = None
    shares_acts = False
    _dialogue: Dialogue | None = None

    @property
    def dialogue(self) -> Dialogue:
        """What was asked and answered; made when first needed, for most calls ask nothing."""
        if self._dialogue is None:
            self._dialogue = Dialogue()
        return self._dialogue

    @dialogue.setter
    def dialogue(self, dialogue: Dialogue) -> None:
        """Of earlier rounds."""
        self._dialogue = dialogue

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification that belongs to this call. May be called from any thread."""

    def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep how far the call is, where somebody may ask for it. May be called from any thread."""

    def settle(self, fields: dict[str, Any]) -> None:
        """The tool has a result. Where it has a transaction, this is in it."""

    def wants_task(self, support: str) -> bool:  # noqa: ARG002 - for those that know tasks
        """Whether the client is to get a task in place of the result.

        Args:
            support: of the tool: ``"optional"`` or ``"required"``.

        Raises:
            ProtocolError: the tool is nothing for this client.
        """
        return False

    def task_made(self, task: Any) -> "Result":
        """What answers a call that became a task."""
        raise NotImplementedError

    def let_go(self) -> None:
        """Close the connection, where the client knows how to come back for the result."""

    def once(self, key: str, function: Callable[[], T]) -> T:
        """The function's result, now or as kept from an earlier round. Blocks."""
        raise NotImplementedError

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]], runner: "Runner") -> T:
        """``once`` for a coroutine function."""
        raise NotImplementedError

    def idempotency(self, call: str, arguments: str, *, is_shared: bool = False) -> IdempotencyRecord:
        """This try of a call that may be repeated.

        Args:
            call: stands for the call, whoever repeats it: 64 characters.
            arguments: their digest.
            is_shared: see ``IdempotencyRecord``.
        """
        raise NotImplementedError

    def lacks(self, question: "Question[Any]") -> Exception:
        """What to raise where the client did not declare what a question needs."""
        return MissingClientCapability(question.refusal, question.required)

    def check_mirrors(self, mirrors: "Sequence[Mirror]", arguments: Mapping[str, Any]) -> None:
        """Compare the arguments with headers that repeat them, where the protocol has such headers.

        Raises:
            HeaderMismatch: they differ.
        """


def is_wanted(level: str, least: str | None) -> bool:
    """Whether a client that wants *least* and above wants *level*."""
    return least is not None and LEVELS.index(level) >= LEVELS.index(least)
