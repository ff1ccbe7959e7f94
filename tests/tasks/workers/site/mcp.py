"""Tools that go on until they are let go, and leave traces outside the database."""

import asyncio
import os
import time
from pathlib import Path

from pydantic import BaseModel

from django_mcp import Context, tool
from tests.tasks.workers.site.models import Note

LONG = 20.0
"""Seconds after which a tool gives up waiting for what a test should have done."""
STEP = 0.02


def journal(words: str) -> None:
    """Write a line that no rollback takes back, and that survives the process."""
    file = os.open(os.environ["FAULTS_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{words}\n".encode())
    finally:
        os.close(file)


def may_go(label: str) -> bool:
    """Whether the test has let it go; at the end it lets all go."""
    lines = Path(os.environ["FAULTS_JOURNAL"]).read_text().splitlines()
    return f"go {label}" in lines or "go all" in lines


def hold(ctx: Context, label: str) -> None:
    """Report progress until it is let go."""
    journal(f"pid {label} {os.getpid()}")
    journal(f"began {label}")
    end, step = time.monotonic() + LONG, 0
    try:
        while not may_go(label) and time.monotonic() < end:
            step += 1
            ctx.report_progress(step, message=f"holding {label}")
            time.sleep(STEP)
    except BaseException as stopped:
        journal(f"{type(stopped).__name__} {label}")
        raise
    journal(f"ended {label}")


def write(ctx: Context, label: str) -> str:
    """Write a note, and go on in the same transaction."""
    Note.objects.create(text=label)
    hold(ctx, label)
    return f"wrote {label}"


tool(task="optional")(write)
tool(name="write_again", idempotent=True, task="optional")(write)


@tool(atomic=False, task="optional")
def write_late(ctx: Context, label: str) -> str:
    """Hold no transaction, and write a note at the end."""
    hold(ctx, label)
    Note.objects.create(text=label)
    return f"wrote {label}"


@tool(atomic=False, task="optional")
def act_elsewhere(ctx: Context, label: str) -> str:
    """Use no database."""
    hold(ctx, label)
    return f"act_elsewhere {label}"


@tool(read_only=True, task="optional")
def read(ctx: Context, label: str, gate: str = "") -> str:
    """Go on until it is let go, or what *gate* names is."""
    journal(f"in {gate}")
    hold(ctx, gate or label)
    journal(f"out {gate}")
    return f"read {label}"


@tool(task="optional")
async def sleep(label: str) -> str:
    """Sleep, and use no context."""
    journal(f"pid {label} {os.getpid()}")
    journal(f"began {label}")
    try:
        await asyncio.sleep(LONG)
    except BaseException as stopped:
        journal(f"{type(stopped).__name__} {label}")
        raise
    return "nobody woke it"


@tool(task="optional")
def crash(label: str) -> str:
    """Fail."""
    raise KeyError(label)


class Reply(BaseModel):
    """What a person says."""

    value: str


def act(label: str) -> int:
    Note.objects.create(text=label)
    journal(f"acted {label}")
    return Note.objects.filter(text=label).count()


@tool(atomic=False, task="optional")
def ask(ctx: Context, label: str) -> str:
    """Act once, ask, and go on."""
    number = ctx.once("act", lambda: act(label))
    ctx.log("info", f"acted {number} times")
    answer = ctx.elicit(f"What of {label}?", Reply, key="reply")
    hold(ctx, label)
    return f"{number} {answer.data.value}"


@tool(read_only=True)
def notes(label: str) -> int:
    """How many notes there are."""
    return Note.objects.filter(text=label).count()


@tool(read_only=True)
async def plain(word: str) -> str:
    """Needs nothing."""
    return word
