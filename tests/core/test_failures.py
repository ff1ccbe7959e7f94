"""What an exception means, and what its owner finds of it."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from django_mcp import MCPServer, ToolError, prompt, resource, tool
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.failures import Crash, Escaped, as_call_error, crash_of, must_propagate, survive, traceback_of
from django_mcp.protocol.errors import InvalidParams
from tests.behaviour.users import ByName
from tests.clients import MODERN, Client


class ShopError(Exception):
    """An exception of a site's services."""


def of_the_shop(error: Exception, ctx: Any) -> ToolError | None:
    if isinstance(error, ZeroDivisionError):
        raise KeyError("a fault of the handler")
    if isinstance(error, LookupError):
        return "no ToolError"  # type: ignore[return-value]
    return ToolError(f"{ctx.method}: {error}") if isinstance(error, ShopError | ToolError | PermissionDenied) else None


HANDLED = [
    (ShopError("Sold out."), "tools/call: Sold out."),
    (ToolError("Sold out."), "tools/call: Sold out."),
    (ExceptionGroup("several", [ShopError("Sold out."), ShopError("Sold out.")]), "tools/call: Sold out."),
    (ExceptionGroup("several", [ShopError("Sold out."), ValueError("secret")]), "Internal server error."),
    (ValueError("secret"), "Internal server error."),
    (ZeroDivisionError("secret"), "Internal server error."),
    (IndexError("secret"), "Internal server error."),
]


def test_a_site_says_in_one_place_what_callers_read_of_its_exceptions(
    server: MCPServer, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "EXCEPTION_HANDLER": f"{__name__}.of_the_shop"}
    errors = [error for error, _ in HANDLED]

    @tool(server=server, read_only=True)
    def fail(number: int) -> str:
        raise errors[number]

    for number, (error, words) in enumerate(HANDLED):
        caplog.clear()
        told = Client(server, MODERN, "asgi").call("fail", number=number).result
        assert told["isError"]
        text = told["content"][0]["text"]
        assert text.startswith(words), error
        assert "secret" not in text
        assert bool(caplog.records) is (words.startswith("Internal")), "what the site knows is no crash"


def test_it_is_not_asked_about_what_must_not_exist(server: MCPServer, settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "EXCEPTION_HANDLER": f"{__name__}.of_the_shop"}

    @tool(server=server, read_only=True)
    def denied() -> str:
        raise PermissionDenied("You may not.")

    assert Client(server, MODERN, "asgi").call("denied").error["message"] == "Unknown tool: 'denied'."


shop: ContextVar[str] = ContextVar("shop", default="no shop")


@contextmanager
def in_the_shop(request: Any) -> Iterator[None]:
    token = shop.set(request.headers.get("X-Shop", ""))
    try:
        if not shop.get():
            raise ShopError("Which shop?")
        yield
    finally:
        shop.reset(token)


def with_the_shop(error: Exception, ctx: Any) -> ToolError | None:
    name = ctx.user.__class__.objects.count() if shop.get() == "the users" else shop.get()  # a query
    return ToolError(_("%(name)s: not found.") % {"name": f"{name} of {get_language()}"})


@pytest.fixture
def customer(open_database: None) -> Iterator[User]:
    user = User.objects.create_user("of-the-shop")
    yield user
    user.delete()


@pytest.mark.parametrize("edge", ["asgi", "view"])
def test_it_runs_as_the_code_that_failed_did(
    make_server: Callable[..., MCPServer], settings: Any, customer: User, edge: str
) -> None:
    """In a thread, where it may query; inside the context managers; in the caller's language."""
    added = {"EXCEPTION_HANDLER": f"{__name__}.with_the_shop", "CALL_CONTEXT_MANAGERS": [in_the_shop]}
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, **added}
    server = make_server(authentication=[ByName()], scopes=[])

    @tool(server=server, read_only=True)
    async def fail() -> str:
        raise ShopError

    @resource("shop://shelf", server=server)
    def shelf() -> str:
        raise ShopError

    client = Client(server, MODERN, edge)
    headers = {"x-user": customer.username, "accept-language": "de"}

    def text(shop: str) -> str:
        return str(
            client.request("tools/call", {"name": "fail", "arguments": {}}, headers={**headers, "x-shop": shop}).text
        )

    assert text("books").startswith("books of de: ")
    assert text("the users").startswith(f"{User.objects.count()} of de: ")
    assert text("").startswith("no shop of de: "), "a context manager fails, and what it says is told without it"
    read = client.request("resources/read", {"uri": "shop://shelf"}, headers={**headers, "x-shop": "books"})
    assert read.error["message"].startswith("books of de: ")


def test_it_says_it_of_resources_and_prompts_too(server: MCPServer, settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "EXCEPTION_HANDLER": f"{__name__}.of_the_shop"}

    @resource("shop://shelf", server=server)
    def shelf() -> str:
        raise ShopError("Empty.")

    @prompt(server=server)
    def offer() -> str:
        raise ShopError("Empty.")

    client = Client(server, MODERN, "asgi")
    assert client.request("resources/read", {"uri": "shop://shelf"}).error["message"] == "resources/read: Empty."
    assert client.request("prompts/get", {"name": "offer"}).error["message"] == "prompts/get: Empty."


def caught(function: Callable[[], object]) -> BaseException:
    try:
        function()
    except BaseException as error:  # noqa: BLE001
        return error
    raise AssertionError("nothing was raised")


def group(*errors: BaseException) -> BaseException:
    return BaseExceptionGroup("several", errors)


def test_an_error_means_itself() -> None:
    for error in (KeyError("x"), ToolError("x"), InputRequired({}), group(KeyError("x"))):
        assert as_call_error(error) is error


def test_what_would_end_more_than_the_call_is_an_error_with_its_cause() -> None:
    for error in (SystemExit(3), GeneratorExit(), StopIteration(), asyncio.CancelledError(), group(SystemExit(3))):
        ended = as_call_error(error)
        assert isinstance(ended, Escaped)
        assert ended.__cause__ is error


def test_a_group_means_the_first_kind_in_the_order_of_the_table() -> None:
    denied, wrong, spoken, asked = PermissionDenied(), InvalidParams("x"), ToolError("x"), InputRequired({"a": {}})
    order: list[BaseException] = [denied, wrong, spoken, asked]
    for place, error in enumerate(order):
        assert as_call_error(group(group(*reversed(order[place:])))) is error or place == len(order) - 1
    together = as_call_error(group(asked, group(InputRequired({"b": {}}))))
    assert isinstance(together, InputRequired)
    assert together.requests == {"a": {}, "b": {}}


def test_errors_for_the_model_are_joined_with_what_they_say_to_programs() -> None:
    first, second = ToolError("Not today."), ToolError("Too late.")
    first.meta, second.meta = {"a": 1, "django-mcp/secret": 1}, {"b": 2}
    joined = as_call_error(group(first, second, ValidationError("Not today."), Http404()))
    assert str(joined) == "Not today.\nToo late.\nNot found: no object matches the given values."
    assert joined.meta == {"a": 1, "b": 2}


def test_a_cancellation_is_told_from_one_that_was_raised() -> None:
    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        assert not must_propagate(asyncio.CancelledError())
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as found:
            await asyncio.sleep(0)
        assert as_call_error(found.value) is found.value
        task.uncancel()
        assert not must_propagate(found.value)

    asyncio.run(main())
    assert not must_propagate(asyncio.CancelledError())


def test_the_place_is_the_sites_own_although_a_library_raised() -> None:
    line = sys._getframe().f_lineno + 1
    error = caught(lambda: json.loads("{"))
    assert crash_of(error) == Crash("json.decoder.JSONDecodeError", f"tests/core/test_failures.py:{line}")


def test_the_crash_of_a_group_is_its_first_unexpected_exception() -> None:
    error = caught(lambda: json.loads("{"))
    found = as_call_error(group(ToolError("x"), group(SystemExit(3), error)))
    assert crash_of(found).type == "SystemExit"
    assert crash_of(as_call_error(group(ToolError("x"), error))) == crash_of(error)


def test_an_exception_that_was_never_raised_has_no_place() -> None:
    assert crash_of(KeyError("x")) == Crash("KeyError", "")


def test_a_traceback_shows_code_and_no_values() -> None:
    def check(password: str) -> None:
        raise LookupError("wrong")

    text = traceback_of(as_call_error(caught(lambda: check("hunter2 of ann"[:7]))))
    assert 'raise LookupError("wrong")' in text
    assert text.endswith("LookupError: wrong\n")
    assert "password =" not in text


def test_what_an_observer_raises_is_logged_and_gone(caplog: pytest.LogCaptureFixture) -> None:
    assert survive(lambda: 5, "an observer") == 5
    for error in (KeyError("x"), SystemExit(3), asyncio.CancelledError()):

        def fail(error: BaseException = error) -> None:
            raise error

        assert survive(fail, "an observer") is None
    assert [record.exc_info[0] for record in caplog.records if record.exc_info] == [
        KeyError,
        SystemExit,
        asyncio.CancelledError,
    ]


def test_a_handler_that_is_no_function_is_found_by_the_system_check(settings: Any) -> None:
    for path, is_wrong in (("nowhere.handler", True), ("", True), (5, True), (f"{__name__}.of_the_shop", False)):
        settings.DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"], "EXCEPTION_HANDLER": path}
        found = [str(problem.msg) for problem in run_checks(tags=["django_mcp"]) if problem.id == "django_mcp.E003"]
        assert ["EXCEPTION_HANDLER" in message for message in found] == [True] * is_wrong, path
