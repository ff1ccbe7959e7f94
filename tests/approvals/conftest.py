"""Fixtures for calls that somebody has to approve."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import override_settings

from django_mcp import MCPServer
from django_mcp.models import Task
from tests.approvals.asking import WantsTask, serve
from tests.behaviour.users import ByName
from tests.conftest import end_tasks
from tests.exchange import Room

NAMES = ("ann", "ben", "cleo", "dora")


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody waits long for a decision that does not come."""
    monkeypatch.setattr("django_mcp.pubsub.waiting.MIN_POLL_SECONDS", 0.001)
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 0.001}):
        yield


@pytest.fixture
def people(policies: None) -> Iterator[dict[str, Any]]:
    """Users. Cleo and Dora may approve calls."""
    model = get_user_model()
    made = {name: model.objects.create_user(username=f"{name}-of-approvals") for name in NAMES}
    approve = Permission.objects.get(codename="approve_tool_call")
    for name in ("cleo", "dora"):
        made[name].user_permissions.add(approve)
    yield {name: model.objects.get(pk=each.pk) for name, each in made.items()}
    model.objects.filter(pk__in=[each.pk for each in made.values()]).delete()


@pytest.fixture
def server(make_server: Callable[..., MCPServer], people: dict[str, Any]) -> MCPServer:
    """An endpoint at which everybody says who they are."""
    return make_server(authentication=[ByName()], scopes=[])


@pytest.fixture
def pay(server: MCPServer) -> list[dict[str, Any]]:
    """A tool of which calls have to be approved; what it was called with."""
    calls: list[dict[str, Any]] = []

    from django_mcp import tool

    @tool(server=server, policy="ask")
    def pay(amount: int, to: str = "the-landlord", note: str | None = None) -> str:
        """Pay money to somebody."""
        calls.append({"amount": amount, "to": to, "note": note})
        return f"Paid {amount} to {to}."

    return calls


@pytest.fixture
def parked(server: MCPServer, people: dict[str, Any], pay: list[dict[str, Any]]) -> Iterator[Callable[[], Task]]:
    """Makes the call as somebody whose client knows tasks: the task that waits. At the end none is left running."""

    def make() -> Task:
        serve(server, people["ann"], "pay", {"amount": 5}, channel=WantsTask())
        return Task.objects.order_by("pk").last()

    yield make
    end_tasks()


@pytest.fixture
def room(server: MCPServer, edge: str) -> Iterator[Room]:
    """Where the endpoint is reached by several at a time, over each edge."""
    with Room(server, edge) as room:
        yield room
    end_tasks()
