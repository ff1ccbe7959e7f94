"""Tools that disturb standard streams, and tools that take their time."""

import asyncio
import os
import subprocess
import sys
import time

from django_mcp import AllowAny, Context, MCPServer, server, tool

print("printed while the site starts")  # noqa: T201 - that it does no harm is the test

back_office = MCPServer("back-office", authentication=[AllowAny()])


@tool(server=back_office)
def file_a_form() -> str:
    """Says where it is."""
    return "in the back office"


@tool
def shout() -> str:
    """Writes to standard output in every way there is."""
    print("printed")  # noqa: T201
    sys.stdout.write("written")
    os.write(1, b"from a C library\n")
    subprocess.run(["echo", "from a subprocess"], check=True)
    return "all was said"


@tool
def listen() -> str:
    """Reads standard input."""
    return f"heard {sys.stdin.read()!r} and {os.read(0, 10)!r}"


@tool
def who_am_i(ctx: Context) -> str:
    """Says who calls, and where."""
    return f"{ctx.principal.kind} {ctx.principal.id} {ctx.user} {ctx.request.build_absolute_uri('/page')}"


@tool
async def wait(ctx: Context, seconds: float = 60) -> str:
    """Waits, on the event loop."""
    print("waiting")  # noqa: T201
    ctx.report_progress(1)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        print("stopped waiting")  # noqa: T201
        raise
    return "waited"


@tool(atomic=False)  # SQLite has one write lock, and others have to do something meanwhile
def work(ctx: Context, steps: int = 6000) -> str:
    """Works, in a thread."""
    print("working")  # noqa: T201
    try:
        for step in range(steps):
            ctx.report_progress(step)
            time.sleep(0.01)
    except BaseException:
        print("stopped working")  # noqa: T201
        raise
    return "worked"


@tool
def dawdle() -> str:
    """Takes its time, and cannot be told to stop."""
    print("dawdling")  # noqa: T201
    time.sleep(0.5)
    print("dawdled")  # noqa: T201
    return "done at last"


@tool
def hurry() -> str:
    """Is done at once."""
    return "done"


@tool
def count() -> int:
    """Says a number."""
    return 3


@tool
def change(what: str) -> str:
    """Announces a change: of the list of tools, or of a resource.

    Args:
        what: "tools", or a URI.
    """
    if what == "tools":
        server.notify_list_changed("tools")
    else:
        server.notify_resource_updated(what)
    return "announced"


@tool(concurrency_limit=1)
def pay(ctx: Context, to: str) -> str:
    """Pays, if the user agrees, one at a time."""
    return f"paid {to}" if ctx.confirm(f"Pay {to}?") else "not paid"
