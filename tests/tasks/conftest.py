"""Fixtures for tasks."""

from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp.tasks import store, worker
from tests.behaviour.conftest import kind, make_user, room, rows  # noqa: F401 - fixtures
from tests.conversation import Conversation
from tests.exchange import Room
from tests.tasks.clients import TaskClient, knows_tasks, unaware
from tests.tasks.gates import Gate


@pytest.fixture(autouse=True)
def _looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a task says is saved soon, and it hears soon that it was cancelled elsewhere."""
    monkeypatch.setattr(worker, "HEARTBEAT_SECONDS", 0.05)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows with each look of this process at what runs in it, at which it saves what was said."""
    look, looks = store.still_working, list[object]()

    def looked(held: Any) -> Any:
        found = look(held)
        looks.append(held)
        return found

    monkeypatch.setattr(store, "still_working", looked)
    return looks


@pytest.fixture
def gate() -> Iterator[Gate]:
    """Opens at the end, for tools that wait for it."""
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def _no_tasks_left(open_database: None, gate: Gate) -> Iterator[None]:
    """What waits goes on before whatever runs is waited for."""
    yield
    gate.open()


@pytest.fixture
def client(room: Room, _no_tasks_left: None) -> TaskClient:  # noqa: F811 - the fixture
    """A client of the newest version that knows tasks, at each edge."""
    return TaskClient(Conversation(room, "2026-07-28", knows_tasks()))


@pytest.fixture
def waiting(room: Room, _no_tasks_left: None) -> Conversation:  # noqa: F811 - the fixture
    """One that does not, and waits."""
    return Conversation(room, "2026-07-28", unaware())
