"""Whether there are tasks for a client, and what it may ask of them. The rest is imported when one of them is asked."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from django_mcp.core import database
from django_mcp.core.context import Context
from django_mcp.core.later import later
from django_mcp.core.registry import MCPServer
from django_mcp.models import Session
from django_mcp.tasks.extension import NAME

VERSION = "2025-11-25"
"""The one version that has them."""
RESULT = "tasks/result"

HANDLERS: Mapping[str, Callable[[Context, Session | None], Awaitable[dict[str, Any]]]] = {
    "tasks/get": later("django_mcp.eras.legacy.tasks.get_task"),
    "tasks/list": later("django_mcp.eras.legacy.tasks.list_tasks"),
    "tasks/cancel": later("django_mcp.eras.legacy.tasks.cancel_task"),
}


def has_tasks(server: MCPServer, version: str) -> bool:
    """Whether a client of *version* finds tasks here: where tools have them, and there is a database for the rows."""
    return version == VERSION and NAME in server.extensions and database.has_database()
