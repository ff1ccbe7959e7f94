"""The benchmarked site, with tools that tell all streams of changes."""

from benchmarks.site.asgi import application
from benchmarks.streams.kinds import LONG
from django_mcp import resource, server, tool

__all__ = ["application"]


@tool(atomic=False)
def announce() -> str:
    """Tell that the list of tools changed."""
    server.notify_list_changed("tools")
    return "announced"


@tool(atomic=False)
def announce_updates(uri: str, times: int) -> str:
    """Tell that a resource changed, many times."""
    for _ in range(times):
        server.notify_resource_updated(uri)
    return "announced"


@resource(LONG)
def long() -> str:
    """A resource with a long name."""
    return "long"
