"""A tool's transaction, committed in between where it acts once, and what is to be undone if it is rolled back."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType

from django.db import transaction
from django.db.transaction import Atomic

logger = logging.getLogger("django_mcp")


class Transaction:
    """A block that can be committed in between and begun anew.

    Args:
        atomic: the block, which can be entered again once it was left.
    """

    def __init__(self, atomic: Atomic) -> None:
        self._atomic = atomic
        self._on_rollback: list[Callable[[], object]] = []

    def __enter__(self) -> None:
        """Begin."""
        self._atomic.__enter__()
        self._depth = self._savepoints()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back where there was an error."""
        is_kept = error is None and not transaction.get_connection(self._atomic.using).needs_rollback
        undoing, self._on_rollback = self._on_rollback, []
        try:
            self._atomic.__exit__(kind, error, traceback)
        except BaseException:
            is_kept = False
            raise
        finally:
            if not is_kept:
                _run_all(undoing)

    def on_rollback(self, function: Callable[[], object]) -> None:
        """Call *function* if what was written since the last commit is rolled back, once it is."""
        self._on_rollback.append(function)

    def _savepoints(self) -> int:
        return len(transaction.get_connection(self._atomic.using).savepoint_ids)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Commit what was done so far, and begin a new transaction afterwards.

        Raises:
            RuntimeError: a transaction that is not ours is open inside.
        """
        if self._savepoints() != self._depth:
            msg = "ctx.once commits, so it cannot be called inside transaction.atomic(); call it before or after"
            raise RuntimeError(msg)
        self.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()


def _run_all(functions: Iterable[Callable[[], object]]) -> None:
    """Call all of them, the last one first. What one raises is logged, so that it hides no error of the call."""
    for each in reversed([*functions]):
        try:
            each()
        except Exception:
            logger.exception("a function for ctx.on_rollback failed")
