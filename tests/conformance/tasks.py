"""Tools whose calls become tasks."""

import asyncio
import time

from pydantic import BaseModel

from django_mcp import Context, Elicitation, ToolError, tool
from django_mcp.protocol.errors import InternalError


class Confirmation(BaseModel):
    confirm: bool


class Name(BaseModel):
    name: str


@tool(read_only=True)
def greet(name: str) -> str:
    """Greets, at once."""
    return f"Hello, {name}!"


@tool(read_only=True, task="optional")
async def slow_compute(seconds: float, label: str = "") -> str:
    """Waits, and can be cancelled meanwhile."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds:g} s."


@tool(read_only=True, task="required")
def failing_job() -> str:
    """Fails after a second, in words for the model."""
    time.sleep(1)
    raise ToolError("This job always fails.")


@tool(read_only=True, task="optional")
def protocol_error_job() -> str:
    """Fails with a JSON-RPC error."""
    raise InternalError("This job breaks the protocol.")


@tool(read_only=True, task="optional")
def confirm_delete(ctx: Context, filename: str) -> str:
    """Asks before it does anything."""
    answer = ctx.elicit(f"Delete {filename}?", Confirmation)
    return f"Deleted {filename}." if answer.data and answer.data.confirm else f"Kept {filename}."


@tool(read_only=True, task="optional")
def multi_input(ctx: Context) -> str:
    """Asks two things at once."""
    first, second = ctx.ask(
        Elicitation("Your name?", Name, key="name"), Elicitation("Go on?", Confirmation, key="confirm")
    )
    return f"{first.action}, {second.action}."


def ask_for_name(ctx: Context) -> None:
    ctx.elicit("What is your name?", Name, key="user_name")


@tool(read_only=True, task="required", before_task=ask_for_name)
def test_tool_with_task(ctx: Context) -> str:
    """Asks before there is a task."""
    answer = ctx.elicit("What is your name?", Name, key="user_name")
    return f"Hello, {answer.data.name if answer.data else 'nobody'}!"
