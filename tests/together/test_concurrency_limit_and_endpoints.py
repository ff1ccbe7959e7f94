"""A tool that several endpoints offer has one ``concurrency_limit``, for what it protects is one."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django import forms

from django_mcp import MCPServer, form_tool, tool
from django_mcp.core import execution
from tests.behaviour.beside import beside
from tests.clients import MODERN, Client
from tests.exchange import WITHIN

BUSY = "The tool is busy: its limit is one call at a time. Retry in a few seconds."


class Door:
    def __init__(self) -> None:
        self.entered, self.open = threading.Event(), threading.Event()

    def pass_through(self) -> str:
        self.entered.set()
        assert self.open.wait(WITHIN)
        return "through"


@pytest.fixture
def door() -> Door:
    return Door()


@contextmanager
def held(client: Client, name: str, door: Door) -> Iterator[None]:
    """A call of the tool is running."""
    thread = beside(lambda: client.call(name))
    assert door.entered.wait(WITHIN)
    yield
    door.open.set()
    thread.join(WITHIN)


@pytest.fixture
def two(make_server: Callable[..., MCPServer], open_database: None, monkeypatch: pytest.MonkeyPatch) -> list[MCPServer]:
    monkeypatch.setattr(execution, "WAIT_SECONDS", 0.01)
    return [make_server("first"), make_server("second")]


def clients(*servers: MCPServer, edge: str) -> list[Client]:
    return [Client(server, MODERN, edge) for server in servers]


@pytest.mark.parametrize("edge", ["asgi", "view"])
def test_a_tool_registered_at_two_endpoints_runs_once_at_a_time(two: list[MCPServer], door: Door, edge: str) -> None:
    @tool(server=two, read_only=True, concurrency_limit=1)
    def work() -> str:
        return door.pass_through()

    first, second = clients(*two, edge=edge)
    with held(first, "work", door):
        assert second.call("work").text == BUSY
    assert second.call("work").text == "through"


def test_a_tool_that_an_endpoint_takes_from_another_runs_once_at_a_time(
    two: list[MCPServer], make_server: Callable[..., MCPServer], door: Door
) -> None:
    @tool(server=two[0], read_only=True, concurrency_limit=1, tags=["early"])
    def work() -> str:
        return door.pass_through()

    taker = make_server("taker", source=two[0], include_tags=["early", "late"])

    @tool(server=two[0].namespace("more"), read_only=True, concurrency_limit=1, tags=["late"])
    def later() -> str:
        return "later"

    source, taken = clients(two[0], taker, edge="view")
    with held(source, "work", door):
        assert taken.call("work").text == BUSY
        assert taken.call("more_later").text == "later"


def test_a_tool_under_two_names_runs_once_at_a_time(two: list[MCPServer], door: Door) -> None:
    @tool(server=[two[0], two[1].namespace("again")], read_only=True, concurrency_limit=1)
    def work() -> str:
        return door.pass_through()

    first, second = clients(*two, edge="view")
    with held(first, "work", door):
        assert second.call("again_work").text == BUSY


def test_a_form_at_two_endpoints_is_handled_once_at_a_time(two: list[MCPServer], door: Door) -> None:
    @form_tool(
        server=two, name="book", description="Book.", concurrency_limit=1, handle=lambda ctx, form: door.pass_through()
    )
    class Booking(forms.Form):
        seats = forms.IntegerField(required=False)

    first, second = clients(*two, edge="view")
    with held(first, "book", door):
        assert second.call("book").text == BUSY


def test_tools_that_only_have_the_same_name_or_function_do_not_wait_for_each_other(
    two: list[MCPServer], door: Door
) -> None:
    def work() -> str:
        return door.pass_through() if not door.entered.is_set() else "at once"

    limited: Any = {"read_only": True, "concurrency_limit": 1, "name": "work"}
    for server in two:
        tool(server=server, **limited)(work)
    first, second = clients(*two, edge="view")
    with held(first, "work", door):
        assert second.call("work").text == "at once"
