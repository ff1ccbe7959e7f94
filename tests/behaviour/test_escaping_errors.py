"""Errors that end a thread, a loop or a process elsewhere are a failed call here, and the next call is served."""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, prompt, resource, tool
from tests.clients import MODERN, Client, MCPApplication, exchange, no_django

every_way_in = pytest.mark.every_way_in
ENDING = {
    "SystemExit": lambda: sys.exit(3),
    "GeneratorExit": lambda: _raise(GeneratorExit()),
    "CancelledError": lambda: _raise(asyncio.CancelledError()),
    "StopIteration": lambda: next(iter(())),
}


def _raise(error: BaseException) -> None:
    raise error


@every_way_in
def test_a_tool_that_ends_the_process_fails_and_the_next_call_is_served(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    @tool(server=server, read_only=True)
    def end(how: str) -> str:
        """End."""
        ENDING[how]()
        return "never"

    @tool(server=server, read_only=True)
    async def end_async(ctx: Context) -> str:
        """End."""
        sys.exit(3)

    for how in ENDING:
        with subtests.test(how):
            assert "Internal server error" in client.call("end", how=how).text
    assert "Internal server error" in client.call("end_async").text


@every_way_in
def test_so_do_prompts_resources_and_predicates(server: MCPServer, client: Client) -> None:
    @prompt(server=server)
    def greet() -> str:
        """Greet."""
        sys.exit("bye")

    @resource("note://one", server=server, mime_type="text/plain")
    async def note() -> str:
        """A note."""
        sys.exit("bye")

    @tool(server=server, visible=lambda ctx: sys.exit("bye"))
    def hidden() -> str:
        """Hide."""
        return "never"

    assert "Internal server error" in client.request("prompts/get", {"name": "greet"}).error["message"]
    assert "Internal server error" in client.request("resources/read", {"uri": "note://one"}).error["message"]
    assert client.request("tools/list").result["tools"] == []


def look() -> str:
    """Look."""
    return "looked"


class ByKey(BaseAuthentication):
    """Knows a caller by their key."""

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        return Principal("test", "ada", User(username="ada"))

    def shown(self, head: RequestHead) -> str:
        return "key"


@pytest.mark.parametrize("how", ENDING)
def test_a_credential_is_looked_up_again_after_an_odd_error(
    make_server: Callable[..., MCPServer], edge: str, open_database: None, how: str
) -> None:
    """Its next request, and every later one, waited for ever."""
    is_right: list[bool] = []

    def passes(user: Any) -> bool:
        if not is_right:
            ENDING[how]()
        return True

    server = make_server(authentication=[ByKey()], user_passes_test=passes)
    tool(server=server, read_only=True)(look)

    async def asked() -> int:
        client = Client(server, MODERN, edge)
        message, headers = client.compose("tools/list", {})
        given = {"content-type": "application/json", "host": "testserver", **headers}
        try:
            async with asyncio.timeout(5):
                application = MCPApplication(no_django)
                return (await exchange(application, "POST", "/test/mcp", given, json.dumps(message).encode())).status
        except TimeoutError:
            return 0
        except RuntimeError:  # which a server answers
            return 500

    async def requests() -> tuple[int, int]:
        first = await asked()
        is_right.append(True)
        return first, await asked()

    assert asyncio.run(requests()) == (500, 200)
