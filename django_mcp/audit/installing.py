"""Watching begins with the process."""

from django_mcp.audit import queries
from django_mcp.audit.recorder import Recorder
from django_mcp.core.dispatch import watching


def install() -> None:
    """Watch calls from now on."""
    watching.observer = Recorder()
    queries.install()
