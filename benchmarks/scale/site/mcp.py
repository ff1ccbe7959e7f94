"""Tools at the endpoint that asks for a key, looks at policies and keeps a log."""

import asyncio

from benchmarks.scale.site.models import Note
from benchmarks.site.mcp import full
from django_mcp import Context, tool

STEP = 0.02
"""Seconds between two numbers."""


@tool(server=full, destructive=False)
def note(text: str) -> str:
    """Write a note."""
    Note.objects.create(text=text)
    return f"wrote {text}"


@tool(server=full, read_only=True)
async def count(ctx: Context, to: int) -> int:
    """Count, and say so at each step."""
    for number in range(1, to + 1):
        ctx.report_progress(number, to)
        await asyncio.sleep(STEP)
    return to


@tool(server=full, read_only=True)
def announce() -> str:
    """Say that the list of tools changed."""
    full.notify_list_changed("tools")
    return "announced"
