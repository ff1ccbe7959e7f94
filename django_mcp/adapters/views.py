"""``view_tool``: a view of the site as a tool. It is asked as a browser would ask it, and stays as it is."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.text import camel_case_to_spaces
from pydantic import TypeAdapter

from django_mcp.adapters.methods import SAFE
from django_mcp.adapters.published import Published
from django_mcp.adapters.requests import FORM
from django_mcp.adapters.responses import MOST_RESPONSE_BYTES
from django_mcp.adapters.view_tools import ViewTool
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import Where
from django_mcp.primitives.base import Primitive, check_options
from django_mcp.primitives.schema import json_schema
from django_mcp.primitives.tool import Tool


def view_tool(
    view: Any,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    method: str = "GET",
    path: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    query: Collection[str] = (),
    content_type: str = FORM,
    output_schema: Any = None,
    follow: bool = True,
    max_response_bytes: int = MOST_RESPONSE_BYTES,
    server: Where = None,
    **options: Any,
) -> None:
    """Offer a view as a tool: ``view_tool("bookings:detail")``. The view, and its URL, are left as they are.

    Each call makes a request in this process, as the calling user, and goes through the decorators that the URLconf has
    around the view. No middleware runs but what ``LoginRequiredMiddleware`` asks.

    Args:
        view: the name of its URL; or the view, a function or a ``View`` class, where one URL leads to it.
        name: by default that of the URL or the view, in snake case.
        description: for the model; by default the docstring, whose parameter section describes the arguments.
        method: of the request. GET and HEAD make the tool ``read_only``.
        path: like ``"bookings/<int:pk>/"``, for a view that is not in the URLconf.
        arguments: those beside the variables of the path: from a name to an annotation, or to a pair of an annotation
            and a default. GET, HEAD and DELETE send them in the query, other methods in the body. One with the name of
            a variable says more of it. ``bytes`` are sent as a file.
        query: names of arguments that go into the query whatever the method is.
        content_type: of the body: a form's, or ``"application/json"``.
        output_schema: of what the view answers, where that is JSON: a JSON Schema, or a type that has one. Answers are
            not checked.
        follow: follow redirects within the site.
        max_response_bytes: how large an answer may be.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
        **options: those of ``tool``: ``title``, ``permission``, ``visible``, ``read_only``, ``atomic``, ….

    Raises:
        ImproperlyConfigured: it is no view, or nothing could ever call it like this.
    """
    named = name or _name(view)
    label = f"view_tool({named})"
    check_options(label, options, view_tool, Tool.__init__, Primitive.__init__, also=["arguments"])
    if arguments is not None and not isinstance(arguments, Mapping):
        msg = f"{label}: arguments must be a dict from names to annotations, like {{'day': str}}, not {arguments!r}."
        raise ImproperlyConfigured(msg)
    published = Published(
        view, path, method.upper(), dict(arguments or {}), frozenset(query), content_type, follow, max_response_bytes
    )
    output = None if output_schema is None else _wrapped(output_schema)
    options.setdefault("read_only", True if published.method in SAFE else None)
    for each in servers_of(server):
        each.add(ViewTool(published, output, name=named, description=description, **options))


def _name(view: Any) -> str:
    """A tool's name: that of the URL, the function or the class."""
    if isinstance(view, str):
        return re.sub(r"\W", "_", view, flags=re.ASCII)
    named = getattr(view, "view_class", view)
    if not isinstance(named, type):
        return str(getattr(named, "__name__", type(named).__name__))
    return camel_case_to_spaces(named.__name__).replace(" ", "_").removesuffix("_view")


def _wrapped(given: Any) -> dict[str, Any]:
    """The schema of what is told: clients want an object."""
    schema = dict(given) if isinstance(given, Mapping) else json_schema(TypeAdapter(given), "serialization")
    if schema.get("type") == "object":
        return schema
    shared = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return {"type": "object", "properties": {"result": schema}, "required": ["result"], **shared}
