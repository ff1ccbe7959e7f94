"""Tools that ask, report, wait and act, and leave traces of it outside the database."""

import asyncio
import os
import signal
import time

from django.db import transaction
from pydantic import BaseModel

from django_mcp import Context, MCPServer, ToolError, resource, server, tool
from tests.faults.site import counters
from tests.faults.site.models import Note

LONG = 20.0
"""Seconds after which a tool gives up waiting for what a test should have done."""
STEP = 0.01

other = MCPServer("other")


def journal(words: str) -> None:
    """Write a line that no rollback takes back, and that survives the process."""
    file = os.open(os.environ["FAULTS_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{words}\n".encode())
    finally:
        os.close(file)


class Reply(BaseModel):
    """What a person says."""

    value: str


def ask(ctx: Context, label: str) -> str:
    """Ask, and act upon the answer."""
    answer = ctx.elicit(f"What of {label}?", Reply, key="reply")
    value = answer.data.value if answer.accepted else answer.action
    journal(f"acted {label}")
    return f"{label}: {value}"


tool(ask)
tool(name="ask_idempotent", idempotent=True)(ask)
tool(name="ask_read_only", read_only=True)(ask)
tool(name="ask_too")(ask)
tool(server=other)(ask)


@tool
def ask_twice(ctx: Context, label: str) -> str:
    """Ask two questions, one after the other."""
    first = ctx.elicit("First?", Reply, key="first")
    journal(f"heard first {label}")
    second = ctx.elicit("Second?", Reply, key="second")
    journal(f"acted {label}")
    return f"{label}: {first.data.value} {second.data.value}"


@tool(read_only=True)
async def count(ctx: Context, label: str, to: int) -> str:
    """Count, and say so at each step."""
    for number in range(1, to + 1):
        ctx.report_progress(number, to)
        await asyncio.sleep(STEP)
    journal(f"counted {label}")
    return f"counted to {to}"


@tool(read_only=True)
async def tell_and_wait(ctx: Context, label: str, seconds: float) -> str:
    """Say something once, and then nothing for long."""
    ctx.log("info", "it begins")
    await asyncio.sleep(seconds)
    return f"waited {label}"


@tool(read_only=True)
async def ask_and_wait(ctx: Context, label: str, seconds: float) -> str:
    """Ask, and say nothing for long after that."""
    ctx.elicit(f"What of {label}?", Reply, key="reply")
    await asyncio.sleep(seconds)
    return f"waited {label}"


@tool
def wait_sync(ctx: Context, label: str) -> str:
    """Write a note, and wait for the client to go away."""
    Note.objects.create(text=label)
    return wait(ctx, label)


@tool(read_only=True)
def wait_and_read(ctx: Context, label: str) -> str:
    """Read notes, and wait for the client to go away. Several may do so at once, on every database."""
    Note.objects.filter(text=label).count()
    return wait(ctx, label)


def wait(ctx: Context, label: str) -> str:
    journal(f"began {label}")
    end = time.monotonic() + LONG
    try:
        while time.monotonic() < end:
            ctx.check_cancelled()
            time.sleep(STEP)
    except BaseException as stopped:
        journal(f"{type(stopped).__name__} {label}, cancelled is {ctx.cancelled}")
        raise
    return "nobody went away"


@tool
async def wait_async(ctx: Context, label: str) -> str:
    """Wait for the client to go away."""
    journal(f"began {label}")
    try:
        await asyncio.sleep(LONG)
    except BaseException as stopped:
        journal(f"{type(stopped).__name__} {label}, cancelled is {ctx.cancelled}")
        raise
    return "nobody went away"


WORK = 1.0
"""Seconds that a tool works that nothing interrupts."""


@tool(read_only=True)
def work_sync(label: str) -> str:
    """Work for a moment, without looking whether anybody waits."""
    journal(f"began {label}")
    time.sleep(WORK)
    journal(f"worked {label}")
    return f"worked {label}"


@tool(read_only=True)
async def work_async(label: str) -> str:
    """The same, on the event loop."""
    journal(f"began {label}")
    await asyncio.sleep(WORK)
    journal(f"worked {label}")
    return f"worked {label}"


@tool(read_only=True)
def work_and_tell(ctx: Context, label: str) -> str:
    """The same, with word of it before: the answer is a stream for those who want to know."""
    ctx.report_progress(1, 2)
    return work_sync(label)


def act(label: str, *, deadly: bool = False) -> int:
    Note.objects.create(text=label)
    journal(f"acted {label}")
    if deadly:
        os.kill(os.getpid(), signal.SIGKILL)
    return Note.objects.filter(text=label).count()


@tool
def act_and_ask(ctx: Context, label: str) -> str:
    """Act once, then ask."""
    number = ctx.once("act", lambda: act(label))
    answer = ctx.elicit("And now?", Reply, key="now")
    return f"{number} {answer.data.value}"


@tool(idempotent=True)
def ask_and_die(ctx: Context, label: str, deadly: bool) -> str:
    """Ask, then act once, in which the whole process may die."""
    ctx.elicit("Shall I?", Reply, key="shall")
    return f"acted {ctx.once('act', lambda: act(label, deadly=deadly))} times"


@tool
def act_in_atomic(ctx: Context, label: str) -> str:
    """Act once, where that cannot be."""
    with transaction.atomic():
        return str(ctx.once("act", lambda: act(label)))


@tool(read_only=True)
def notes(label: str) -> int:
    """How many notes there are."""
    return Note.objects.filter(text=label).count()


@tool
def write_note(label: str) -> str:
    """Write a note."""
    Note.objects.create(text=label)
    return f"wrote {label}"


@tool
def fail(label: str) -> str:
    """Fail."""
    raise ToolError(f"It fails because of {label}.")


@resource("note://{name}", mime_type="text/plain")
async def note(name: str) -> str:
    """What is called like that."""
    return name


@tool(read_only=True)
async def plain_async(word: str) -> str:
    """Needs no database."""
    return word


@tool(read_only=True)
def plain_sync(word: str) -> str:
    """Needs no database either."""
    return word


@tool(read_only=True)
async def announce() -> str:
    """Say that the list of tools changed."""
    server.notify_list_changed("tools")
    return "announced"


class Counters(BaseModel):
    """See ``counters``."""

    queries: list[str]
    tasks: list[str]


@tool(read_only=True, max_output_chars=0)
async def watch_process() -> Counters:
    """The queries since the last time, and the names of the tasks there are now beside this call's own."""
    queries = list(counters.queries)
    counters.queries.clear()
    return Counters(queries=queries, tasks=[each.get_name() for each in asyncio.all_tasks() - {asyncio.current_task()}])


@tool(policy="ask")
def wait_for_approval(label: str) -> str:
    """Do what a person has to approve first."""
    return f"approved {label}"


@tool(task="optional", read_only=True)
def wait_as_task(ctx: Context, label: str) -> str:
    """Wait in the background."""
    return wait(ctx, label)
