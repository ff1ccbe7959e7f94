"""Tools that write a row with the id they are given, so that every run of one can be counted afterwards."""

import asyncio
import time

from django.contrib.auth.models import User
from pydantic import BaseModel

from benchmarks.soak.site.models import Mark
from django_mcp import APIKeyAuthentication, Context, MCPServer, ToolError, prompt, resource, tool
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval

STEP = 0.05
"""Seconds between two looks at whether a call was given up."""

soak = MCPServer("soak", authentication=[APIKeyAuthentication()], scopes=[], log_requests=True)


class Reply(BaseModel):
    """What a person says."""

    value: str


@tool(server=soak, destructive=False)
def write(uid: str) -> str:
    """Write a row."""
    Mark.objects.create(uid=uid)
    return f"wrote {uid}"


@tool(server=soak, destructive=False)
async def awrite(uid: str) -> str:
    """Write a row, without a transaction."""
    await Mark.objects.acreate(uid=uid)
    return f"wrote {uid}"


@tool(server=soak, destructive=False, idempotency_key="uid")
def write_keyed(ctx: Context, uid: str) -> str:
    """Write a row, once for each id. Not at once: so some are under way whenever something dies."""
    Mark.objects.create(uid=uid)
    time.sleep(2 * STEP)
    ctx.check_cancelled()
    return f"wrote {uid}"


@tool(server=soak, destructive=False)
def write_and_fail(uid: str) -> str:
    """Write a row that is rolled back."""
    Mark.objects.create(uid=uid)
    raise ToolError(f"failed {uid}")


@tool(server=soak, destructive=False)
def write_slowly(ctx: Context, uid: str, seconds: float) -> str:
    """Write a row and think about it, which can be given up."""
    Mark.objects.create(uid=uid)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ctx.check_cancelled()
        time.sleep(STEP)
    return f"wrote {uid}"


@tool(server=soak, destructive=False)
def ask_and_write(ctx: Context, uid: str) -> str:
    """Write a row if somebody says so."""
    answer = ctx.elicit(f"Shall {uid} be written?", Reply, key="shall")
    Mark.objects.create(uid=uid)
    return f"wrote {uid} for {answer.data.value}"


@tool(server=soak, destructive=False, policy="ask")
def write_approved(uid: str) -> str:
    """Write a row once a person has approved it."""
    Mark.objects.create(uid=uid)
    return f"wrote {uid}"


@tool(server=soak, destructive=False)
def decide(uid: str) -> str:
    """Approve the call with an id, as another person does in the admin."""
    pending = Approval.objects.filter(tool="write_approved", state=Approval.State.PENDING, arguments__contains=uid)
    for approval in pending:
        approve(approval, User.objects.get(username="approver"))
    decided = Approval.objects.filter(tool="write_approved", arguments__contains=uid).exclude(
        state=Approval.State.PENDING
    )
    return "decided" if decided.exists() else "nothing waits"


@tool(server=soak, destructive=False, task="required")
def work(ctx: Context, uid: str) -> str:
    """Write a row in the background, not at once."""
    for number in range(1, 5):
        ctx.report_progress(number, 4)
        time.sleep(STEP)
    Mark.objects.create(uid=uid)
    return f"worked {uid}"


@tool(server=soak, read_only=True)
def read(uid: str) -> int:
    """How many rows an id has."""
    return Mark.objects.filter(uid=uid).count()


@tool(server=soak, read_only=True)
async def echo(uid: str) -> str:
    """Needs no database."""
    return f"heard {uid}"


@tool(server=soak, read_only=True)
async def count(ctx: Context, uid: str, to: int) -> str:
    """Count, and say so at each step."""
    for number in range(1, to + 1):
        ctx.report_progress(number, to)
        if number % 5 == 0:
            ctx.log("info", {"uid": uid, "number": number})
        await asyncio.sleep(STEP)
    return f"counted {uid} to {to}"


@tool(server=soak, read_only=True)
def announce(uid: str) -> str:
    """Say that a piece of news changed."""
    soak.notify_resource_updated(f"soak://news/{uid}")
    return f"announced {uid}"


@resource("soak://news/{name}", server=soak, mime_type="text/plain")
async def news(name: str) -> str:
    """What is new."""
    return f"news of {name}"


@prompt(server=soak)
def greeting(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}!"
