"""Tools with apps, as the extension describes them (``_meta.ui``)."""

import os
from pathlib import Path
from typing import Any

from django_mcp import ResourceContents, ToolResult, resource, tool

MIME_TYPE = "text/html;profile=mcp-app"
PAGE_SIZE = 3
NAMES = [*(f"Person {number}" for number in range(1, 8)), "<img src=x onerror=alert(1)>"]


def page(name: str) -> str:
    return (Path(__file__).parent / f"{name}.html").read_text()


@resource("ui://apps/people", mime_type=MIME_TYPE)
def people_app() -> list[ResourceContents]:
    meta = {"ui": {"csp": {"connectDomains": [], "resourceDomains": []}, "prefersBorder": True}}
    return [ResourceContents(page("people"), meta=meta)]


@tool(meta={"ui": {"resourceUri": "ui://apps/people"}}, read_only=True)
def list_people(start: int = 0) -> ToolResult:
    """List people."""
    shown = NAMES[start : start + PAGE_SIZE]
    return ToolResult({"people": shown, "start": start, "total": len(NAMES)}, text=", ".join(shown))


@tool(meta={"ui": {"visibility": ["app"]}})
def greet(name: str) -> str:
    """Greet somebody; for apps."""
    return f"Hello {name}"


@tool(meta={"ui": {"visibility": ["model"]}})
def delete_people() -> str:
    """Delete all people; not for apps."""
    return "All gone"


@resource("ui://apps/broken", mime_type=MIME_TYPE, meta={"ui": {"csp": {"connectDomains": ["api.example.com"]}}})
def broken_app() -> str:
    return page("broken")


@tool(meta={"ui": {"resourceUri": "ui://apps/broken", "visibility": ["model", "human"], "colour": "red"}})
def show_broken() -> ToolResult:
    """Show an app that breaks the rules."""
    return ToolResult({"shown": True}, text=" ")


@tool(meta={"ui/resourceUri": "ui://apps/absent"})
def show_absent() -> str:
    """Show an app that is not there."""
    return "Nothing"


@resource("ui://apps/attacks", mime_type=MIME_TYPE)
def attacks_app() -> str:
    return page("attacks")


@tool(meta={"ui": {"resourceUri": "ui://apps/attacks"}}, read_only=True)
def show_attacks() -> str:
    """Show an app from which the tests try to break out."""
    return "Nothing"


@resource("ui://apps/friends", mime_type=MIME_TYPE)
def friends_app() -> list[ResourceContents]:
    friend = [os.environ["FOREIGN_ORIGIN"]]
    return [ResourceContents(page("attacks"), meta={"ui": {"csp": {"connectDomains": friend}}})]


@tool(meta={"ui": {"resourceUri": "ui://apps/friends"}}, read_only=True)
def show_friends() -> dict[str, Any]:
    """Show an app that may fetch from another origin."""
    return {}
