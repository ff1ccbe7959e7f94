"""A tool's transaction, committed in between where it acts once."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from django.db import transaction
from django.db.transaction import Atomic


class Transaction:
    """A block that can be committed in between and begun anew.

    Args:
        atomic: the block, which can be entered again once it was left.
    """

    def __init__(self, atomic: Atomic) -> None:
        self._atomic = atomic

    def __enter__(self) -> None:
        """Begin."""
        self._atomic.__enter__()
        self._depth = self._savepoints()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Commit, or roll back where there was an error."""
        self._atomic.__exit__(kind, error, traceback)

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
        self._atomic.__exit__(None, None, None)
        try:
            yield
        finally:
            self.__enter__()
