"""Its tool."""

import time
from pathlib import Path

from demo_project.travel.endpoints import staff
from django_mcp import Context, tool

PATIENCE = 60.0


@tool(read_only=True, task="optional", server=staff)
def read_when_there(ctx: Context, path: str) -> str:
    """Read a file as soon as somebody has written it."""
    file, until = Path(path), time.monotonic() + PATIENCE
    ctx.report_progress(1, 2, "Waiting")
    while not (file.exists() and file.read_text().endswith("\n")) and time.monotonic() < until:
        ctx.check_cancelled()
        time.sleep(0.02)
    return file.read_text().strip()
