"""Tools that speak to the client while they run: progress, logs, and questions on either wire."""

import asyncio
import time
from typing import Literal

from pydantic import BaseModel

from django_mcp import Context, tool

PAUSE = 0.05
"""Seconds between two messages; the suite's own server waits as long."""


@tool(read_only=True)
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports its progress."""
    for done in (0, 50, 100):
        ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(PAUSE)
    return "The progress was reported."


@tool(read_only=True)
def test_tool_with_logging(ctx: Context) -> str:
    """Logs what it does."""
    ctx.log("info", "Tool execution started")
    time.sleep(PAUSE)
    ctx.log("info", "Tool processing data")
    time.sleep(PAUSE)
    ctx.log("info", "Tool execution completed")
    return "Three messages were logged."


@tool(read_only=True)
def test_logging_tool(ctx: Context) -> str:
    """Logs one message, where the client wants to know."""
    ctx.log("info", "This is logged where the request says so")
    return "Where the request asked for it, a message was logged."


@tool
async def test_reconnection(ctx: Context) -> str:
    """Lets go of the connection before it answers."""
    ctx.close_stream()
    await asyncio.sleep(2 * PAUSE)
    return "This is the answer after the connection was closed."


@tool
async def test_event_replay(ctx: Context) -> str:
    """Says one thing before it lets go of the connection, and two after."""
    ctx.log("info", "notification1")
    ctx.close_stream()
    await asyncio.sleep(2 * PAUSE)
    ctx.log("info", "notification2")
    ctx.log("info", "notification3")
    return "Three notifications were sent."


@tool
async def test_multiple_reconnections(ctx: Context, checkpoints: int = 3) -> str:  # noqa: PT028 - no test of ours
    """Lets go of the connection after each of several notifications."""
    for checkpoint in range(checkpoints):
        ctx.log("info", f"checkpoint_{checkpoint}")
        ctx.close_stream()
        await asyncio.sleep(4 * PAUSE)
    return f"The connection was closed {checkpoints} times."


@tool(read_only=True)
async def test_tool_slow(ctx: Context, durationMs: int) -> str:  # noqa: N803 - the name is the suite's
    """Reports that it has begun, and takes its time; the suite cancels it."""
    ctx.report_progress(0, durationMs)
    await asyncio.sleep(durationMs / 1000)
    return f"This took {durationMs} ms."


@tool(read_only=True)
async def test_tool_fast() -> str:
    """Answers immediately, after another call was cancelled."""
    return "This is a fast response."


@tool
def test_sampling(ctx: Context, prompt: str) -> str:
    """Asks the client's model.

    Args:
        prompt: What to ask it.
    """
    return f"LLM response: {ctx.sample(prompt, max_tokens=100).text}"


@tool
async def test_missing_capability(ctx: Context) -> str:
    """Asks the client's model, which a client without one cannot be asked for."""
    return ctx.sample("Say something.", max_tokens=100).text


class Account(BaseModel):
    """Whom we speak to."""

    username: str
    email: str


@tool
async def test_elicitation(ctx: Context, message: str) -> str:
    """Asks the user for a name and an address.

    Args:
        message: What to say to the user.
    """
    answer = ctx.elicit(message, Account)
    return f"User response: action={answer.action}, content={answer.data and answer.data.model_dump_json()}"


class Profile(BaseModel):
    """A form in which everything is filled in already."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


@tool
def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user to correct a form that is filled in already."""
    answer = ctx.elicit("Please check these.", Profile)
    return f"Elicitation completed: action={answer.action}, content={answer.data and answer.data.model_dump_json()}"


def titled(*values: str) -> list[dict[str, str]]:
    """Choices with a title each."""
    return [{"const": value, "title": value.capitalize()} for value in values]


OPTIONS = ["option1", "option2", "option3"]
VALUES = titled("value1", "value2", "value3")
CHOICES = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": VALUES},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": VALUES}},
    },
}


@tool
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user to choose, in each way there is."""
    answer = ctx.elicit("Please choose.", CHOICES)
    return f"Elicitation completed: action={answer.action}, content={answer.data}"
