"""What the tests with real processes have in common."""

from tests.faults.conftest import closed_connections, label

__all__ = ["closed_connections", "label"]
