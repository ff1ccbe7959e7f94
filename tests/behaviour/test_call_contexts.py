"""``CALL_CONTEXT_MANAGERS``: the site's own context managers around its code, with a request that has the caller."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.http import HttpRequest
from django.test import override_settings
from django.utils import timezone

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, prompt, resource, tool
from tests.clients import Client

every_way_in = pytest.mark.every_way_in
Manager = Callable[[HttpRequest], AbstractContextManager[object]]

state = threading.local()
"""What packages that write down who changed a row keep, for their signal handlers: nothing but this thread sees it."""
kept: list[HttpRequest] = []
"""Requests that a middleware keeps."""


class ByHeader(BaseAuthentication):
    """Knows callers by a header."""

    blocking = False

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        name = head.headers.get("x-user", "ada")
        return Principal("test", name, User(username=name) if name else AnonymousUser())


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    return make_server(authentication=[ByHeader()])


@contextmanager
def acting_user(request: HttpRequest) -> Iterator[None]:
    """What such a package's middleware does."""
    state.user = request.user
    try:
        yield
    finally:
        del state.user


def zone_of_user(request: HttpRequest) -> AbstractContextManager[object]:
    return timezone.override(ZoneInfo("Asia/Tokyo"))


@pytest.fixture
def around(settings: Any) -> Callable[..., None]:
    """Set the managers, given as they are or by their paths."""

    def set_managers(*managers: Manager | str) -> None:
        settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CALL_CONTEXT_MANAGERS": managers}

    return set_managers


def acting() -> str:
    """Who acts, as a signal handler would write it down."""
    user = getattr(state, "user", None)
    return user.username if user is not None else "nobody"


@every_way_in
def test_packages_that_write_down_who_changed_a_row_see_the_caller(
    server: MCPServer, client: Client, around: Callable[..., None]
) -> None:
    around(f"{__name__}.acting_user")

    @tool(server=server, read_only=True)
    def write() -> str:
        """Save a row."""
        return acting()

    @tool(server=server, read_only=True)
    async def write_async() -> str:
        """Save a row."""
        return await sync_to_async(acting)()

    @prompt(server=server)
    def greet() -> str:
        """Greet."""
        return acting()

    @resource("note://one", server=server, mime_type="text/plain")
    def note() -> str:
        """A note."""
        return acting()

    assert client.call("write").text == "ada"
    assert client.call("write_async").text == "ada"
    message = client.request("prompts/get", {"name": "greet"}).result["messages"][0]
    assert message["content"]["text"] == "ada"
    assert client.request("resources/read", {"uri": "note://one"}).result["contents"][0]["text"] == "ada"
    assert acting() == "nobody"


def test_what_decides_who_sees_a_tool_runs_within_them_too(
    server: MCPServer, client: Client, around: Callable[..., None]
) -> None:
    around(acting_user)
    seen: list[str] = []

    @tool(server=server, read_only=True, visible=lambda ctx: bool(seen.append(acting())) or True)
    def look() -> str:
        """Look."""
        return "looked"

    client.request("tools/list")
    assert client.call("look").text == "looked"
    assert seen == ["ada", "ada"]


@every_way_in
def test_the_time_zone_of_a_user_holds_in_their_calls(
    server: MCPServer, client: Client, around: Callable[..., None]
) -> None:
    around(zone_of_user)

    @tool(server=server, read_only=True)
    def noon() -> str:
        """When it is noon in UTC."""
        return f"{timezone.localtime(datetime(2030, 1, 1, 12, tzinfo=UTC)):%H:%M}"

    @tool(server=server, read_only=True)
    async def noon_async() -> str:
        """When it is noon in UTC."""
        return f"{timezone.localtime(datetime(2030, 1, 1, 12, tzinfo=UTC)):%H:%M}"

    assert client.call("noon").text == "21:00"
    assert client.call("noon_async").text == "21:00"


def test_arguments_are_read_within_them(server: MCPServer, client: Client, around: Callable[..., None]) -> None:
    around(zone_of_user)

    @tool(server=server, read_only=True)
    def meet(at: datetime) -> str:
        """Meet."""
        return str((at if timezone.is_aware(at) else timezone.make_aware(at)).utcoffset())

    assert client.call("meet", at="2030-01-01T12:00:00").text == "9:00:00"


@every_way_in
def test_they_are_entered_in_order_and_the_request_is_that_of_the_tool(
    server: MCPServer, client: Client, around: Callable[..., None]
) -> None:
    steps: list[Any] = []

    def named(name: str) -> Manager:
        @contextmanager
        def manager(request: HttpRequest) -> Iterator[None]:
            steps.append((name, request))
            yield
            steps.append(name)

        return manager

    around(named("outer"), named("inner"))

    @tool(server=server, read_only=True)
    def look(ctx: Context) -> str:
        """Look."""
        steps.append(ctx.request)
        return "looked"

    assert client.call("look").text == "looked"
    request = steps[-3]
    assert steps[-5:] == [("outer", request), ("inner", request), request, "inner", "outer"]
    assert (request.user.username, request.COOKIES) == ("ada", {})


def test_they_see_the_error_of_a_tool(server: MCPServer, client: Client, around: Callable[..., None]) -> None:
    seen: list[BaseException] = []

    @contextmanager
    def watching(request: HttpRequest) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            seen.append(error)
            raise

    around(watching)

    @tool(server=server, read_only=True)
    def fail() -> str:
        """Fail."""
        raise LookupError("of the tool")

    @tool(server=server, read_only=True)
    async def fail_async() -> str:
        """Fail."""
        raise LookupError("of the tool")

    assert client.call("fail").result["isError"]
    assert client.call("fail_async").result["isError"]
    assert [str(each) for each in seen] == ["of the tool"] * 2


def test_one_that_hides_an_error_is_an_error_itself(
    server: MCPServer, client: Client, around: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    @contextmanager
    def hiding(request: HttpRequest) -> Iterator[None]:
        with suppress(LookupError):
            yield

    around(hiding)

    @tool(server=server, read_only=True)
    def fail() -> str:
        """Fail."""
        raise LookupError

    assert client.call("fail").result["isError"]
    assert "suppressed" in caplog.text


def test_no_tool_runs_where_one_of_them_fails(server: MCPServer, client: Client, around: Callable[..., None]) -> None:
    ran: list[str] = []

    @contextmanager
    def failing(request: HttpRequest) -> Iterator[None]:
        raise LookupError("SECRET")
        yield

    around(failing)

    @tool(server=server, read_only=True)
    def look() -> str:
        """Look."""
        ran.append("look")
        return "looked"

    answer = client.call("look")
    assert "Internal server error" in answer.text
    assert "SECRET" not in answer.body.decode()
    assert ran == []


@every_way_in
def test_an_async_tool_within_them_ends_with_its_time(
    server: MCPServer, client: Client, around: Callable[..., None]
) -> None:
    around(acting_user)

    @tool(server=server, read_only=True, timeout=0.05)
    async def endless() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    assert "took longer" in client.call("endless").text
    assert acting() == "nobody"


class Keeping:
    """A middleware that keeps the request, as those of django-simple-history and NetBox do."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        kept[:] = [request]
        return self.get_response(request)


@pytest.mark.parametrize("edge", ["view", "view under asgi"])
def test_a_request_that_a_middleware_keeps_has_the_caller(server: MCPServer, client: Client, edge: str) -> None:
    @tool(server=server, read_only=True)
    def write() -> str:
        """Save a row."""
        return str(kept[0].user.username)

    with override_settings(MIDDLEWARE=[f"{__name__}.Keeping"]):
        assert client.call("write").text == "ada"


def test_a_manager_that_cannot_be_imported_is_found_by_the_checks(around: Callable[..., None]) -> None:
    around(f"{__name__}.acting_user", "no.such.module", f"{__name__}.kept")
    found = [each for each in run_checks(tags=["django_mcp"]) if each.id == "django_mcp.E040"]
    assert [str(each.msg).split()[0] for each in found] == ["'no.such.module'", f"'{__name__}.kept'"]
