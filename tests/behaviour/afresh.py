"""Values that each need an endpoint of their own, in one test."""

from collections.abc import Iterator
from contextlib import contextmanager

from django_mcp.core import registry


@contextmanager
def afresh() -> Iterator[None]:
    """Undo what is registered within."""
    before = registry.snapshots()
    try:
        yield
    finally:
        registry.restore_all(before)
