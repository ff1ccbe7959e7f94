"""A tool for each machinery that keeps rows."""

import asyncio

from pydantic import BaseModel

from django_mcp import Context, server, tool


class Reply(BaseModel):
    """What a person says."""

    value: str


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(destructive=False, idempotency_key="key")
def put(key: str) -> str:
    """Do something that is not to be done twice."""
    return f"put {key}"


@tool(destructive=False)
def ask(ctx: Context, what: str) -> str:
    """Ask, and say what the answer was."""
    answer = ctx.elicit(f"What of {what}?", Reply, key="reply")
    ctx.once("note", lambda: 1)
    return str(answer.data and answer.data.value)


@tool(read_only=True)
async def count(ctx: Context, to: int) -> int:
    """Count, and say so at each step."""
    for number in range(1, to + 1):
        ctx.report_progress(number, to)
        await asyncio.sleep(0)
    return to


@tool(read_only=True, task="optional")
def report(ctx: Context, pages: int) -> int:
    """Work in the background."""
    ctx.report_progress(pages, pages)
    return pages


@tool(destructive=True)
def discard(what: str) -> str:
    """Destroy something, which somebody has to approve."""
    return f"{what} is gone"


@tool(read_only=True)
def announce() -> str:
    """Say that the list of tools changed."""
    server.notify_list_changed("tools")
    return "announced"
