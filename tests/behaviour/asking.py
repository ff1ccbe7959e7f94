"""A tool that asks, for the tests of what becomes of its questions."""

from collections.abc import Callable
from typing import Any

from django_mcp import Context, MCPServer, tool
from tests.conversation import accept

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
YES = accept(confirm=True)


def asking(server: MCPServer, kind: str, body: Callable[[Context], str], **options: Any) -> None:
    """A tool ``ask`` that does what *body* does, as a function of each kind."""

    def plain(ctx: Context) -> str:
        return body(ctx)

    async def coroutine(ctx: Context) -> str:
        return body(ctx)

    tool(server=server, name="ask", **options)(plain if kind == "sync" else coroutine)
