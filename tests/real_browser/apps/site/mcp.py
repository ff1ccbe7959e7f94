"""Tools with apps: a template, as sites write them, and pages that break the rules of the extension."""

import os

from django.template.loader import render_to_string

from django_mcp import ResourceContents, ToolError, resource, tool, ui

MIME_TYPE = "text/html;profile=mcp-app"
PAGE_SIZE = 3
NAMES = [*(f"Person {number}" for number in range(1, 8)), "<img src=x onerror=alert(1)>"]


@tool(app="apps/people.html", read_only=True)
def list_people(start: int = 0) -> dict[str, object]:
    """List people."""
    end = start + PAGE_SIZE
    return {"people": NAMES[start:end], "next": end if end < len(NAMES) else None}


@tool(visibility=["app"])
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello {name}"


@tool(visibility=["model"])
def delete_people() -> str:
    """Delete all people."""
    return "All gone"


@tool(app=ui("ui://apps/attacks", template="apps/attacks.html"), read_only=True)
def show_attacks() -> str:
    """Show an app from which the tests try to break out."""
    return "Nothing"


friends = ui("ui://apps/friends", template="apps/attacks.html", connect_domains=[os.environ["FOREIGN_ORIGIN"]])


@tool(app=friends, read_only=True)
def show_friends() -> str:
    """Show an app that may fetch from another origin."""
    return "Nothing"


# The package's own options make no such app.


@resource("ui://apps/broken", mime_type=MIME_TYPE)
def broken_app() -> list[ResourceContents]:
    meta = {"ui": {"csp": {"connectDomains": ["api.example.com"]}}}
    return [ResourceContents(render_to_string("apps/broken.html"), meta=meta)]


@tool(meta={"ui": {"resourceUri": "ui://apps/broken", "visibility": ["model", "human"], "colour": "red"}})
def show_broken() -> str:
    """Show an app that breaks the rules."""
    raise ToolError("There is nothing to show.")


@tool(meta={"ui/resourceUri": "ui://apps/absent"})
def show_absent() -> str:
    """Show an app that is not there."""
    return "Nothing"


@resource("page://apps/misplaced", mime_type=MIME_TYPE)
def misplaced_app() -> str:
    """An app that no host shows, because of its URI."""
    return "<!doctype html>"
