"""What the packages' middleware does, around each call, as ``docs/settings.md`` has it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from auditlog.context import set_actor
from simple_history.models import HistoricalRecords


@contextmanager
def history_of(request: Any) -> Iterator[None]:
    """Tell simple-history who acts."""
    HistoricalRecords.context.request = request
    try:
        yield
    finally:
        del HistoricalRecords.context.request


def actor_of(request: Any) -> AbstractContextManager[Any]:
    """Tell auditlog who acts."""
    return set_actor(request.user, remote_addr=request.META.get("REMOTE_ADDR"))  # type: ignore[no-any-return]
