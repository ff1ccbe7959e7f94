"""Fixtures for conversations."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType

from django_mcp import MCPServer
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation
from tests.exchange import Room


@pytest.fixture
def room(server: MCPServer, edge: str, open_database: None) -> Iterator[Room]:
    """Where the server is reached over each edge."""
    with Room(server, edge) as room:
        yield room


@pytest.fixture
def talk(room: Room, version: str) -> Conversation:
    """A conversation of each era at each edge."""
    return Conversation(room, version)


@pytest.fixture
def modern_talk(room: Room) -> Conversation:
    return Conversation(room, MODERN)


@pytest.fixture
def legacy_talk(room: Room) -> Conversation:
    return Conversation(room, LEGACY)


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    """Of a tool's function."""
    return request.param


@pytest.fixture
def rows(open_database: None) -> Iterator[Callable[..., Any]]:
    """Writes a row; and what was written, by name."""

    numbers = itertools.count()

    def write(name: str) -> None:
        ContentType.objects.create(app_label="made_by_a_tool", model=f"{next(numbers)} {name}")

    def written() -> list[str]:
        found = ContentType.objects.filter(app_label="made_by_a_tool").order_by("pk")
        return [model.partition(" ")[2] for model in found.values_list("model", flat=True)]

    write.written = written  # type: ignore[attr-defined]
    yield write
    ContentType.objects.filter(app_label="made_by_a_tool").delete()
