"""An endpoint with something of every kind, for what must be seen at every way in."""

import asyncio
import threading
from collections.abc import Callable

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, ToolError, prompt, resource, tool
from django_mcp.core.channel import LEVELS
from tests.exchange import WITHIN

BASE_URL = "https://travel.example.com"
MAX_BYTES = 10_000
NOON = 1_699_999_230.0  # past: positions of events begin at the time, and tests compare theirs with the real one
LIMITED_TO = 31
"""Seconds until the window of the limit ends that NOON is in."""
SETTINGS = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    "BASE_URL": BASE_URL,
    "MAX_BODY_BYTES": MAX_BYTES,
    "POLL_INTERVAL": 0.02,
}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class ByHeader(BaseAuthentication):
    """Lets everybody in but ``nobody``."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal | None:
        name = head.headers.get("x-user", "somebody")
        return None if name == "nobody" else Principal("test", name, None)


class Furniture:
    """What is on the endpoint.

    Attributes:
        running: a call of ``wait`` has begun.
        ended: how calls of ``wait`` ended, which wait until they are cancelled.
    """

    def __init__(self, make_server: Callable[..., MCPServer]) -> None:
        self.running = threading.Event()
        self.ended: list[str] = []
        self.server = make_server(authentication=[ByHeader()], instructions="Ask for the date first.")
        self._answers()
        self._asks()
        self._speaks()
        self._others()

    def _answers(self) -> None:
        server = self.server

        @tool(server=server, title="Greet")
        def greet(name: str) -> str:
            return f"Hello, {name}!"

        @tool(server=server)
        def count() -> dict[str, int]:
            return {"total": 3}

        @tool(server=server)
        def refuse() -> str:
            raise ToolError("Not on Sundays.")

        @tool(server=server)
        def fail() -> str:
            raise LookupError("secret")

        tool(server=server, name="often", rate_limit="1/m")(lambda: "x")
        tool(server=server, name="take_long", task="optional")(lambda: "done")

    def _asks(self) -> None:
        server = self.server

        @tool(server=server)
        def ask_name(ctx: Context) -> str:
            answer = ctx.elicit("Who are you?", NAME)
            return f"Hello, {answer.data['name'] if answer.accepted else 'you'}!"

        @tool(server=server)
        async def ask_twice(ctx: Context) -> str:
            return ", ".join("yes" if ctx.confirm(words) else "no" for words in ("Sure?", "Really?"))

        @tool(server=server)
        def think(ctx: Context) -> str:
            return ctx.sample("Does it?").text

        @tool(server=server)
        def look_around(ctx: Context) -> str:
            return ", ".join(root.uri for root in ctx.roots())

    def _speaks(self) -> None:
        server = self.server

        @tool(server=server)
        def report(ctx: Context) -> str:
            ctx.report_progress(1, 2)
            ctx.report_progress(2, 2)
            return "reported"

        @tool(server=server)
        async def speak(ctx: Context) -> str:
            for level in LEVELS:
                ctx.log(level, level)
            return "spoke"

        @tool(server=server, read_only=True)
        async def wait(ctx: Context) -> str:
            ctx.log("emergency", "waiting")
            self.running.set()
            try:
                await asyncio.sleep(WITHIN)
            except asyncio.CancelledError:
                self.ended.append("cancelled")
                raise
            return "not cancelled"

    def _others(self) -> None:
        server = self.server
        resource("test://here", server=server, name="here")(lambda: "It is here.")

        @resource("test://page/{number}", server=server, name="page", completions={"number": numbers})
        def page(number: str) -> str:
            return f"page {number}"

        @prompt(server=server, completions={"city": cities})
        def plan(ctx: Context, city: str) -> str:
            if city == "Atlantis":
                ctx.report_progress(1)
                raise LookupError("secret")
            return f"Plan a day in {city}."


def numbers(value: str) -> list[str]:
    return [each for each in ("1", "2", "10") if each.startswith(value)]


def cities(value: str) -> list[str]:
    return [city for city in ("Paris", "Porto", "Potsdam") if city.startswith(value)]
