"""Fixtures for conversations."""

import itertools
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.contrib.contenttypes.models import ContentType

from django_mcp import MCPServer
from tests.behaviour import users
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

    def forget() -> None:
        ContentType.objects.filter(app_label="made_by_a_tool").delete()

    write.written, write.forget = written, forget  # type: ignore[attr-defined]
    yield write
    ContentType.objects.filter(app_label="made_by_a_tool").delete()


@pytest.fixture
def make_user(open_database: None) -> Iterator[Callable[..., Any]]:
    """Makes users that are gone after the test, and so are the groups and permissions they were given."""
    made: list[Any] = []

    def make(*, groups: tuple[str, ...] = (), permissions: tuple[str, ...] = (), **fields: Any) -> Any:
        user = get_user_model().objects.create(username=f"user-{secrets.token_hex(4)}", **fields)
        made.append(user)
        user.groups.set(map(users.group, groups))
        user.user_permissions.set(map(users.permission, permissions))
        return user

    yield make
    for user in made:
        get_user_model().objects.filter(pk=user.pk).delete()
    Group.objects.all().delete()
    Permission.objects.filter(codename__in=["refund_booking", "void_booking"]).delete()
