"""Values that each need an endpoint of their own, in one test."""

from collections.abc import Iterator
from contextlib import contextmanager

from django_mcp.core import server


@contextmanager
def afresh() -> Iterator[None]:
    """Undo what is registered within."""
    before = server.snapshots()
    try:
        yield
    finally:
        server.restore_all(before)
