"""A site whose database was not migrated, or not since an upgrade: an answer at once that says what to do."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

from django_mcp import APIKeyAuthentication, Context, MCPServer, tool
from django_mcp.auth.api_keys import make_key
from tests.clients import LEGACY, MODERN, Client

pytestmark = [pytest.mark.postgresql, pytest.mark.every_way_in, pytest.mark.mariadb]


@pytest.fixture
def soon() -> Iterator[None]:
    """Nobody waits for a database that is there."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < 10


@contextmanager
def without(table: str) -> Iterator[None]:
    _execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    try:
        yield
    finally:
        _execute(f"ALTER TABLE elsewhere RENAME TO {table}")


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_session_cannot_begin(server: MCPServer, edge: str, open_database: None, soon: None) -> None:
    @tool(server=server)
    def ask(ctx: Context) -> str:
        """Ask."""
        return str(ctx.confirm("Really?"))

    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    with without("django_mcp_session"):
        answer = Client(server, LEGACY, edge).request("initialize", hello)
    assert answer.status == 503
    assert "manage.py migrate" in answer.error["message"]


def test_nobody_is_recognised(
    make_server: Callable[..., MCPServer], edge: str, open_database: None, soon: None
) -> None:
    server = make_server(authentication=[APIKeyAuthentication()])
    client = Client(server, MODERN, edge)
    with without("django_mcp_apikey"):
        body, headers = client.compose("tools/list", {})
        answer = client.post(json.dumps(body).encode(), {**headers, "x-api-key": make_key()})
    assert answer.status == 503
    assert b"manage.py migrate" in answer.body


def test_what_was_decided_about_tools_is_unknown(
    server: MCPServer, edge: str, version: str, policies: None, soon: None
) -> None:
    @tool(server=server)
    def look() -> str:
        """Look."""
        return "looked"

    with without("django_mcp_toolpolicy"):
        answer = Client(server, version, edge).call("look")
    assert "manage.py migrate" in answer.error["message"]


def test_calls_cannot_be_recorded(server: MCPServer, edge: str, version: str, call_log: object, soon: None) -> None:
    @tool(server=server)
    def look() -> str:
        """Look."""
        return "looked"

    client = Client(server, version, edge)
    with without("django_mcp_requestlog"):
        messages = [client.call("look").error["message"] for _ in range(2)]
    assert all("manage.py migrate" in each for each in messages), messages
    assert "looked" in client.call("look").text


def test_acts_cannot_be_noted(server: MCPServer, edge: str, open_database: None, soon: None) -> None:
    @tool(server=server)
    def act(ctx: Context) -> str:
        """Act."""
        return ctx.once("act", lambda: "done")

    with without("django_mcp_step"):
        assert "Internal server error" in Client(server, MODERN, edge).call("act").text
