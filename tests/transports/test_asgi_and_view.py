"""The two edges beside Django: what they leave alone, what they are exempt from, and where code runs."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.db import IntegrityError, connection, transaction
from django.http import HttpResponse
from django.test import override_settings
from django.urls import include, path

from django_mcp import AllowAny, BaseAuthentication, Context, MCPServer, Principal, RequestHead, ToolError, tool
from django_mcp.auth.base import required_authenticators
from django_mcp.auth.protected_resource import path_of
from django_mcp.transports.asgi import MCPApplication
from django_mcp.transports.view import mcp_view
from tests.clients import MODERN, Client, exchange, no_django, urls


def test_what_is_no_endpoint_goes_to_django(server: MCPServer) -> None:
    answer = asyncio.run(exchange(MCPApplication(no_django), "GET", "/elsewhere", {}, b""))
    assert answer.body == b"this is Django"


def test_connections_other_than_http_go_to_django(server: MCPServer) -> None:
    seen: list[str] = []

    async def django(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    asyncio.run(MCPApplication(django)({"type": "websocket", "path": "/test/mcp"}, None, None))  # type: ignore[arg-type]
    assert seen == ["websocket"]


def test_an_endpoint_below_a_root_path_is_found(server: MCPServer) -> None:
    tool(server=server, name="one")(lambda: "x")
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"testserver"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/app/test/mcp", "root_path": "/app", "headers": headers}
    asyncio.run(MCPApplication(no_django)(scope, receive, send))
    assert sent[0]["status"] == 200


def test_the_urlconf_decides_where_an_endpoint_is(server: MCPServer) -> None:
    assert path_of(server) == "/test/mcp"
    assert path_of(MCPServerStub("default", "mcp")) == "/mcp"


def test_an_endpoint_is_where_the_urlconf_includes_it(
    make_server: Callable[..., MCPServer], subtests: pytest.Subtests
) -> None:
    endpoint = make_server("moved", path="prêt à/mcp")
    page = path("prêt à/mcp", lambda _request: HttpResponse("a page"))
    included = include(([path("prêt à/mcp", mcp_view(endpoint), name="moved")], "django_mcp"))
    for case, patterns, where in [
        ("at the root", [path("", included)], "/pr%C3%AAt%20%C3%A0/mcp"),
        ("below a path", [path("api/", included)], "/api/pr%C3%AAt%20%C3%A0/mcp"),
        ("below a path, where a page has its own", [page, path("api/", included)], "/api/pr%C3%AAt%20%C3%A0/mcp"),
    ]:
        module = ModuleType("some_urls")
        vars(module)["urlpatterns"] = patterns
        with subtests.test(case), override_settings(ROOT_URLCONF=module):
            assert path_of(endpoint) == where


class MCPServerStub:
    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path


def test_the_view_is_exempt_from_what_is_meant_for_pages(
    server: MCPServer, open_database: None, subtests: pytest.Subtests
) -> None:
    tool(server=server, name="one")(lambda: "fine")
    cases = [
        {"MIDDLEWARE": ["django.middleware.csrf.CsrfViewMiddleware"]},
        {
            "MIDDLEWARE": [
                "django.contrib.sessions.middleware.SessionMiddleware",
                "django.contrib.auth.middleware.AuthenticationMiddleware",
                "django.contrib.auth.middleware.LoginRequiredMiddleware",
            ]
        },
        {"MIDDLEWARE": []},
    ]
    for setting in cases:
        with subtests.test(setting=setting), override_settings(**setting):
            assert Client(server, MODERN, "view").call("one").text == "fine"


@pytest.mark.postgresql
def test_the_view_is_exempt_from_atomic_requests(server: MCPServer, open_database: None) -> None:
    @tool(server=server, atomic=False)
    def depth() -> bool:
        return connection.in_atomic_block

    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        assert Client(server, MODERN, "view").call("depth").text == "false"
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False


@pytest.fixture
def rows(transactional_db: None) -> Callable[[], int]:
    return lambda: ContentType.objects.filter(app_label="made_by_a_tool").count()


def make(server: MCPServer, **options: Any) -> None:
    @tool(server=server, **options)
    def write(fail: bool) -> str:
        ContentType.objects.create(app_label="made_by_a_tool", model="x")
        if fail:
            raise ToolError("No.")
        return "written"


@pytest.mark.postgresql
def test_what_a_failed_tool_wrote_is_rolled_back(
    server: MCPServer, version: str, edge: str, rows: Callable[[], int]
) -> None:
    make(server)
    client = Client(server, version, edge)
    assert client.call("write", fail=True).text == "No."
    assert rows() == 0
    assert client.call("write", fail=False).text == "written"
    assert rows() == 1


@pytest.mark.postgresql
def test_a_tool_may_say_no_to_the_transaction(server: MCPServer, edge: str, rows: Callable[[], int]) -> None:
    make(server, atomic=False)
    assert Client(server, MODERN, edge).call("write", fail=True).text == "No."
    assert rows() == 1


def test_only_what_may_write_takes_a_transaction(server: MCPServer, edge: str, open_database: None) -> None:
    def inside() -> bool:
        return connection.in_atomic_block

    expected = {"plain": True, "reads": False, "refuses": False, "insists": True}
    tool(server=server, name="plain")(inside)
    tool(server=server, name="reads", read_only=True)(inside)
    tool(server=server, name="refuses", atomic=False)(inside)
    tool(server=server, name="insists", read_only=True, atomic=True)(inside)
    client = Client(server, MODERN, edge)
    assert {name: client.call(name).result["structuredContent"] for name in expected} == expected


@pytest.mark.postgresql
def test_what_cannot_be_shown_is_rolled_back_too(server: MCPServer, edge: str, rows: Callable[[], int]) -> None:
    @tool(server=server)
    def write() -> int:
        ContentType.objects.create(app_label="made_by_a_tool", model="x")
        return "no number"  # type: ignore[return-value]

    assert Client(server, MODERN, edge).call("write").result["isError"] is True
    assert rows() == 0


@pytest.mark.postgresql
def test_the_log_warns_of_a_database_error_that_a_tool_caught_itself(
    server: MCPServer, edge: str, rows: Callable[[], int], caplog: pytest.LogCaptureFixture
) -> None:
    """For what it wrote is gone, although it answers as if it were not."""

    @tool(server=server)
    def write_twice(inside: bool) -> str:
        ContentType.objects.create(app_label="made_by_a_tool", model="x")
        try:
            with transaction.atomic() if inside else nullcontext():
                ContentType.objects.create(app_label="made_by_a_tool", model="x")
        except IntegrityError:
            return "There is one already."
        return "written"

    client = Client(server, MODERN, edge)
    assert client.call("write_twice", inside=True).text == "There is one already."
    assert (rows(), caplog.records) == (1, [])
    ContentType.objects.filter(app_label="made_by_a_tool").delete()
    client.call("write_twice", inside=False)
    assert rows() == 0
    assert ["A database error was caught inside" in record.message for record in caplog.records] == [True]


def test_synchronous_code_never_runs_on_the_event_loop(server: MCPServer, open_database: None) -> None:
    places: dict[str, tuple[int, bool]] = {}

    def here(name: str) -> str:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            loop = False
        else:
            loop = True
        places[name] = (threading.get_ident(), loop)
        return "x"

    @tool(server=server)
    def sync_tool() -> str:
        return here("sync")

    @tool(server=server)
    async def async_tool() -> str:
        return here("async")

    client = Client(server, MODERN, "asgi")
    client.call("sync_tool")
    client.call("async_tool")
    main = threading.get_ident()
    assert places["sync"] != (main, True)
    assert places["sync"][0] != main
    assert not places["sync"][1]
    assert places["async"] == (main, True)


def test_an_authenticator_that_blocks_is_asked_in_a_thread(
    make_server: Callable[..., MCPServer], open_database: None
) -> None:
    threads: list[int] = []

    class Slow(AllowAny):
        blocking = True

        def authenticate(self, head: RequestHead, server: MCPServer) -> Any:
            threads.append(threading.get_ident())
            return super().authenticate(head, server)

    server = make_server("slow", authentication=[Slow()])
    tool(server=server, name="one")(lambda: "x")
    assert Client(server, MODERN, "asgi").call("one").text == "x"
    assert threads != [threading.get_ident()]


def test_authenticators_are_asked_in_order(make_server: Callable[..., MCPServer], edge: str) -> None:
    class Key(BaseAuthentication):
        blocking = False

        def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
            return Principal("key", head.headers["x-api-key"], None) if "x-api-key" in head.headers else None

    server = make_server("keyed", authentication=[Key(), AllowAny()])

    @tool(server=server)
    async def who(ctx: Context) -> str:
        return f"{ctx.principal.kind}:{ctx.principal.id}"

    client = Client(server, MODERN, edge)
    params = {"name": "who", "arguments": {}}
    assert client.request("tools/call", params).text == "public:public"
    assert client.request("tools/call", params, headers={"x-api-key": "k1"}).text == "key:k1"


def test_settings_may_name_an_authenticator_by_its_path(make_server: Callable[..., MCPServer]) -> None:
    server = make_server("from_settings", authentication=None)
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"]}):
        assert [type(each).__name__ for each in required_authenticators(server)] == ["AllowAny"]
    with override_settings(DJANGO_MCP={}), pytest.raises(ImproperlyConfigured):
        required_authenticators(server)


def test_the_view_answers_without_an_event_loop_of_its_own(server: MCPServer, open_database: None) -> None:
    """Under WSGI a loop per request would cost more than the request."""

    @tool(server=server)
    def loop() -> str:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return threading.current_thread().name

    with urls(server):
        assert Client(server, MODERN, "view").call("loop").text == threading.current_thread().name
