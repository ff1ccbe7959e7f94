"""What a site has already becomes a tool with one line, and stays what it was."""

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import markcoroutinefunction, sync_to_async
from django.core.exceptions import ImproperlyConfigured

from django_mcp import MCPServer, tool
from django_mcp.core import server as registry
from django_mcp.core.server import server as default_server
from tests.behaviour.afresh import afresh
from tests.clients import Client


@pytest.fixture
def desk(server: MCPServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module, imported before the start; as its ``offer``, what puts one of its tools on the endpoint."""
    before = set(default_server.tools)
    with monkeypatch.context() as patch:
        patch.setattr(registry, "is_started", False)
        sys.modules.pop("tests.behaviour.desk", None)
        module = importlib.import_module("tests.behaviour.desk")
    tools = {name: each for name, each in default_server.tools.items() if name not in before}
    default_server.tools = {name: each for name, each in default_server.tools.items() if name in before}
    module.offer = lambda name: server.add(tools[name])
    module.names = set(tools)
    return module


def test_a_method_decorated_in_its_class_is_a_tool(desk: Any, client: Client, subtests: pytest.Subtests) -> None:
    cases = [
        ("desk_book", {"room": "7", "nights": 2}, "Porto: 7 for 2"),
        ("desk_abook", {"room": "7"}, "Porto: 7"),
        ("desk_above", {"room": "7"}, "Desk: 7"),
        ("desk_below", {"room": "7"}, "Desk, test: 7"),
        ("desk_static_above", {"room": "7"}, "static: 7"),
        ("desk_static_below", {"room": "7"}, "static: 7"),
        ("desk_loud", {"room": "a"}, "PORTO: A"),
        ("desk_in_transaction", {"room": "7"}, "True: 7"),
        ("desk_quiet", {"room": "a"}, "a"),
    ]
    for name, arguments, text in cases:
        with subtests.test(name=name, arguments=arguments, text=text), afresh():
            desk.offer(name)
            (listed,) = client.list("tools/list")
            assert set(listed["inputSchema"]["properties"]) == set(arguments)
            assert listed["inputSchema"]["required"] == ["room"]
            assert client.call(name, **arguments).text == text


def test_each_call_has_an_object_of_its_own(desk: Any, client: Client) -> None:
    desk.offer("desk_book")
    for _ in range(2):
        client.call("desk_book", room="7")
    assert len(desk.made) == 2
    assert client.list("tools/list")[0]["description"] == "Book a room."


def test_a_decorated_class_is_what_it_was(desk: Any) -> None:
    made = desk.Desk()
    assert made.book("7", 3) == "Porto: 7 for 3"
    assert desk.Desk.above("7") == "Desk: 7"
    assert made.loudly("a") == "PORTO: A"
    assert made.quietly("a") == "A"
    assert desk.Desk.static_above("7") == desk.Desk.static_below("7") == "static: 7"
    kinds = {
        name: type(desk.Desk.__dict__[name]) for name in ("book", "above", "below", "static_above", "static_below")
    }
    function, of_class, static = type(plain), classmethod, staticmethod
    assert list(kinds.values()) == [function, of_class, of_class, static, static]


def test_a_class_that_cannot_be_made_stops_the_start_and_says_what_to_write(desk: Any) -> None:
    with pytest.raises(ImproperlyConfigured) as caught:
        desk.offer("clerk_greet")
    assert str(caught.value) == (
        "Clerk.greet is a tool, but Clerk requires arguments (missing a required argument: 'name'). "
        "Decorate the method of an object instead: tool(Clerk(…).greet)."
    )


def test_a_class_that_cannot_be_found_stops_the_start_and_says_what_to_write(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"or decorate a bound method: tool\(Local\(…\)\.greet\)"):

        class Local:
            """Inside a function."""

            @tool(server=server)
            def greet(self, guest: str) -> str:
                """Greet."""
                return guest


def plain(word: str, times: int = 1) -> str:
    """Say a word.

    Args:
        word: What to say.
        times: How often.
    """
    return word * times


async def coroutine(word: str, times: int = 1) -> str:
    """Say a word."""
    return word * times


class Echo:
    """Says words."""

    def say(self, word: str, times: int = 1) -> str:
        """Say a word."""
        return word * times

    async def asay(self, word: str, times: int = 1) -> str:
        """Say a word."""
        return word * times

    @classmethod
    def of_class(cls, word: str, times: int = 1) -> str:
        """Say a word."""
        return word * times

    @staticmethod
    def static(word: str, times: int = 1) -> str:
        """Say a word."""
        return word * times

    def __call__(self, word: str, times: int = 1) -> str:
        """Say a word."""
        return word * times


@functools.wraps(plain)
def wrapped(*positional: Any, **keywords: Any) -> str:
    return plain(*positional, **keywords)


@functools.wraps(coroutine)
def sync_around_async(*positional: Any, **keywords: Any) -> Any:
    return coroutine(*positional, **keywords)


CALLABLES: dict[str, Callable[..., Any]] = {
    "function": plain,
    "coroutine function": coroutine,
    "method": Echo().say,
    "async method": Echo().asay,
    "class method": Echo.of_class,
    "static method": Echo.static,
    "callable object": Echo(),
    "partial": functools.partial(plain, times=1),
    "partial of a method": functools.partial(Echo().say, times=1),
    "async partial": functools.partial(coroutine, times=1),
    "decorated": wrapped,
    "cached": functools.lru_cache(plain),
    "made async": sync_to_async(plain),
    "marked": markcoroutinefunction(sync_around_async),
}


def test_whatever_can_be_called_is_a_tool_and_stays_what_it_was(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    for kind, call in CALLABLES.items():
        with subtests.test(kind=kind), afresh():
            before = dict(vars(call)) if hasattr(call, "__dict__") else {}
            assert tool(server=server, name="say")(call) is call
            assert (dict(vars(call)) if hasattr(call, "__dict__") else {}) == before
            (listed,) = client.list("tools/list")
            assert listed["description"].startswith("Say")
            properties = listed["inputSchema"]["properties"]
            assert (properties["word"]["type"], properties["times"]["default"]) == ("string", 1)
            assert client.call("say", word="ha", times=3).text == "hahaha"
            assert client.call("say", word=5).result["isError"] is True


def test_a_decorator_that_hides_that_a_function_is_async_is_told_of_in_the_log(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @functools.wraps(coroutine)
    def hidden(*positional: Any, **keywords: Any) -> Any:
        return coroutine(*positional, **keywords)

    hidden.__annotations__ = {"word": str, "times": int}
    tool(server=server, name="say")(hidden)
    assert "Internal server error" in client.call("say", word="ha").text
    assert "hides that the function is async" in caplog.text


def test_a_method_of_an_object_keeps_the_object(server: MCPServer, desk: Any, client: Client) -> None:
    tool(server=server)(desk.Clerk("Ann").greet)
    assert client.call("greet", guest="Bob").text == "Bob, I am Ann"
