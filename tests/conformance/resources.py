"""Resources and a template."""

import json

from django_mcp import resource
from tests.conformance.authentication import required
from tests.conformance.samples import PNG
from tests.conformance.scopes import EXPANDED, RESOURCE


@resource("test://static-text", mime_type="text/plain", scopes=required(RESOURCE))
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@resource("test://static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """An image."""
    return PNG


@resource("test://watched-resource", mime_type="text/plain")
def watched_resource() -> str:
    """What clients subscribe to."""
    return "This is watched."


@resource("test://template/{id}/data", mime_type="application/json")
def template_data(id: str) -> str:  # noqa: A002 - the variable is the suite's
    """The data of one number."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"}, separators=(",", ":"))


@resource("test://template/123/data", mime_type="application/json", scopes=required(EXPANDED))
def template_data_123() -> str:
    """The data of the number that has scopes of its own; they belong to a URI, never to a template's values."""
    return template_data("123")
