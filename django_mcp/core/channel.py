"""``Channel``: what a running call sends to its client.

This one sends nothing, for calls that cannot reach their client, such as those in a batch. Revisions subclass it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django_mcp.core.elicitation import Dialogue
from django_mcp.protocol.errors import MissingClientCapability

if TYPE_CHECKING:
    from django_mcp.core.elicitation import Question
    from django_mcp.primitives.markers import Mirror
    from django_mcp.protocol.jsonrpc import Result

T = TypeVar("T")

LEVELS: Sequence[str] = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Least severe first (RFC 5424, section 6.2.1)."""

no_waiting: ContextVar[bool] = ContextVar("no_waiting", default=False)
"""True if only the caller could do what it would wait for, as in a test: then nothing waits, and tasks run
synchronously."""


class Cancelled(BaseException):
    """The client no longer waits for the result. Raised in a tool when it next uses its context.

    Derives from ``BaseException``, so that ``except Exception`` in a tool does not catch it and the transaction is
    rolled back.
    """


class IdempotencyRecord(Protocol):
    """One attempt of a call with an idempotency key. All methods block.

    Attributes:
        step_key: key under which ``ctx.once`` stores results, shared by all attempts.
        is_shared: anonymous callers share the key, so no attempt gets the result of another.
    """

    step_key: str
    is_shared: bool

    def claim(self) -> dict[str, Any] | None:
        """Return the result of an earlier attempt, or None if this one is to run.

        Raises:
            ToolError: another attempt is running, had other arguments, or may belong to another caller.
        """

    def stored(self) -> dict[str, Any] | None:
        """Return the result of an earlier attempt, if any, without starting one.

        Raises:
            ToolError: it had other arguments, or may belong to another caller.
        """

    def store(self, fields: dict[str, Any]) -> None:
        """Store the result."""

    def release(self) -> None:
        """Delete the record, so that the call may be repeated."""

    def task(self) -> str | None:
        """Return the id of an earlier attempt's task, or None. Raise ``ToolError`` if it had other arguments."""

    def store_task(self, task_id: str, before: str | None) -> bool:
        """Store the task of this attempt. Return False if another attempt was first, so that the task must be undone.

        *before* is the return value of ``task``.
        """


class Channel:
    """A channel that sends nothing, and the attributes of all channels.

    Attributes:
        cancelled: the client disconnected or cancelled the request.
        protocol: protocol version, if known.
        record: writes the call to the request log, in the transaction that stores its result.
        is_recorded: that transaction is committed.
        task_id: the task that works while a client without task support waits.
        log_level: the least severe level that the client wants, or None.
        step_key: key under which several attempts of a call share results of ``once``, or None.
        shares_steps: other callers may use that key too, so they do not get each other's results.
        is_task: the call runs in a task, without an open connection.
        has_slot: it has its slot of the tool's ``concurrency_limit`` already.
        needs_approval: the call was pending approval, and must not run without it.
        takes_ttl: clients may set the TTL of their task.
        stream_kind: the caller's open responses of this kind are counted separately.
        waits: the client can wait for an approver's decision, and open the page of the request.
    """

    is_task = False
    has_slot = False
    needs_approval = False
    takes_ttl = True
    waits = True
    log_level: str | None = None
    protocol = ""
    stream_kind = ""
    record: Callable[[dict[str, Any]], None] | None = None
    is_recorded = False
    task_id = ""
    cancelled = False
    step_key: str | None = None
    shares_steps = False
    _dialogue: Dialogue | None = None

    @property
    def dialogue(self) -> Dialogue:
        # Created on first use, because most calls ask nothing.
        if self._dialogue is None:
            self._dialogue = Dialogue()
        return self._dialogue

    @dialogue.setter
    def dialogue(self, dialogue: Dialogue) -> None:
        self._dialogue = dialogue

    @property
    def stream_key(self) -> str | None:
        """The key of the call's response, however often it is resumed; None if it cannot be."""
        return None

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification about this call. Thread-safe."""

    def note_progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Store the progress, if clients can poll it. Thread-safe."""

    def store_result(self, fields: dict[str, Any]) -> None:
        """Store the tool's result, in the tool's transaction if it has one."""

    def wants_task(self, support: str) -> bool:  # noqa: ARG002 - for subclasses
        """Return True if the client is to get a task instead of the result.

        Args:
            support: the tool's task support, ``"optional"`` or ``"required"``.

        Raises:
            ProtocolError: this client cannot use the tool.
        """
        return False

    def announce_task(self, task: Any) -> "Result":
        """Return the result that announces a task."""
        raise NotImplementedError

    def close_connection(self) -> None:
        """Close the connection, if the client knows how to fetch the result later."""

    def once(self, key: str, function: Callable[[], T]) -> T:
        """Return the function's result, now or from an earlier round. Blocks."""
        raise NotImplementedError

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]], runner: Any) -> T:
        raise NotImplementedError

    def idempotency(self, call: str, arguments: str, *, is_shared: bool = False) -> IdempotencyRecord:
        """Return the record of this attempt of a call.

        *call* is a digest of 64 characters that identifies the call, *arguments* a digest of them.
        """
        raise NotImplementedError

    def missing_capability(self, question: "Question[Any]") -> Exception:
        """Return the exception for a question that needs a capability the client did not declare."""
        return MissingClientCapability(question.refusal, question.required)

    def check_mirrors(self, mirrors: "Sequence[Mirror]", arguments: Mapping[str, Any]) -> None:
        """Raise ``HeaderMismatch`` if arguments differ from the headers that mirror them in some protocol versions."""


def is_wanted(level: str, least: str | None) -> bool:
    return least is not None and LEVELS.index(level) >= LEVELS.index(least)
