"""Whether there are tasks for a client. The rest is imported when it asks for one."""

from django_mcp.core import database
from django_mcp.core.server import MCPServer
from django_mcp.tasks.extension import NAME

VERSION = "2025-11-25"
"""The one version that has them."""
RESULT = "tasks/result"


def has_tasks(server: MCPServer, version: str) -> bool:
    """Whether a client of *version* finds tasks here: where tools have them, and there is a database for the rows."""
    return version == VERSION and NAME in server.extensions and database.has_database()
