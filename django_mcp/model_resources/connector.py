"""The connector of an endpoint: ``search`` and ``fetch`` over several models, in the shapes that ChatGPT calls.

ChatGPT's deep research and company knowledge use no other tools (OpenAI, "Building MCP servers for ChatGPT Apps and API
integrations", search tool and fetch tool).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, zip_longest
from typing import Annotated, Any
from urllib.parse import urljoin

from django.core.exceptions import ImproperlyConfigured
from pydantic import Field

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.core.signatures import function, shaped
from django_mcp.model_resources.access import RowAccess, find_row
from django_mcp.model_resources.bound_resource import BoundResource
from django_mcp.model_resources.pagination import Sorting, fetch_objects, read_row, with_output_fields
from django_mcp.model_resources.queryset import add_titles, apply_search
from django_mcp.model_resources.serializers import title_of, to_markdown
from django_mcp.model_resources.tools import readable_errors
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool

NAMES = frozenset({"search", "fetch"})
MAX_RESULTS = 20
"""Maximum number of results of a search, of all models together."""

_TEXT = {"type": "string"}
_RESULT = {"id": {**_TEXT, "description": "Pass it to fetch."}, "title": _TEXT, "url": _TEXT}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_RESULTS = _object({"results": {"type": "array", "items": _object(_RESULT)}})
_DOCUMENT = _object(
    {"id": _TEXT, "title": _TEXT, "text": _TEXT, "url": _TEXT}
    | {"metadata": {"type": "object", "additionalProperties": _TEXT}}
)


def require_models(server: MCPServer) -> None:
    """Check that the models of ``MCPServer(connector=…)`` are registered.

    Raises:
        ImproperlyConfigured: one is not.
    """
    for model in server.connector or ():
        if model not in server.model_resources:
            places = repr(server) if server.source is None else f"{server!r} or {server.source!r}"
            name = getattr(getattr(model, "_meta", None), "label", repr(model))
            msg = f"{server!r}: connector names {name}, which is not registered at {places}. Register it there."
            raise ImproperlyConfigured(msg)


def connector_tools(server: MCPServer) -> list[Tool]:
    """Return ``search`` and ``fetch`` for the models in the endpoint's connector, or nothing without such models.

    Raises:
        ImproperlyConfigured: another tool has one of the names.
    """
    models = [bound for bound in server.model_resources.values() if bound.is_sound and bound.is_in_connector]
    if not models:
        return []
    for name in sorted(NAMES & server.tools.keys()):
        msg = (
            f"{server!r}: its connector needs the name {name!r}, which {server.tools[name].label} has. Rename that "
            f"tool, or offer the models at another endpoint: MCPServer(…, connector=[{models[0].model.__name__}])."
        )
        raise ImproperlyConfigured(msg)
    return list(Connector(models).tools())


class Connector:
    """The models that ``search`` and ``fetch`` of an endpoint cover, in order of registration."""

    def __init__(self, bounds: Sequence[BoundResource]) -> None:
        self._bounds = {bound.options.label_lower: bound for bound in bounds}

    @property
    def models(self) -> list[Any]:
        return [bound.model for bound in self._bounds.values()]

    def __call__(self, ctx: Context) -> bool:
        return any(bound.resource.has_view_permission(ctx) for bound in self._bounds.values())

    @property
    def words(self) -> str:
        labels = ", ".join(bound.options.label for bound in self._bounds.values())
        return f"requires the permission to view any of {labels}"

    def tools(self) -> Iterator[Tool]:
        # Descriptions name no model, since a caller may not know of all of them.
        query = Parameter("query", Annotated[str, Field(max_length=200)], EMPTY, "Search terms, as few as possible.")
        words = (
            "Search all records of this site that you may read. A record matches if every term occurs in it. Returns "
            f"up to {MAX_RESULTS} records; pass the id of one to fetch to read it."
        )
        yield self._tool("search", "Search all records", words, self.search, query, _RESULTS)
        key = Parameter("id", Annotated[str, Field(max_length=500)], EMPTY, "id of a result of search.")
        words = "Read one record as text, with the URL of its page."
        yield self._tool("fetch", "Read a record", words, self.fetch, key, _DOCUMENT)

    def _tool(self, name: str, title: str, words: str, call: Any, parameter: Parameter, schema: dict[str, Any]) -> Tool:
        scopes = [frozenset(bound.resource.scopes) for bound in self._bounds.values()]
        tool = Tool(
            function(call, name, [parameter], self, shaped(schema)),
            context_type=Context,
            name=name,
            title=title,
            description=words,
            read_only=True,
            idempotent=True,
            open_world=False,
            scopes=sorted(frozenset.intersection(*scopes)),  # a model whose further scopes are missing is left out
            visible=self,
            always_listed=True,  # the clients it is for call no other tools
        )
        tool.is_interactive = False
        return tool

    def search(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """Return the first matching rows of each model in turn."""
        access = RowAccess(ctx)
        with readable_errors():
            found = [_found(bound, access, given["query"]) for bound in self._bounds.values()]
        in_turn = [row for row in chain.from_iterable(zip_longest(*found)) if row is not None]
        return ToolResult({"results": in_turn[:MAX_RESULTS]})

    def fetch(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """Return a row as Markdown."""
        access = RowAccess(ctx)
        label, _, value = given["id"].partition(":")
        bound = self._bounds.get(label)
        found = None if bound is None else read_row(bound, access, find_row(bound, access, value))
        if bound is None or found is None:
            raise ToolError(f"There is no record with the id {given['id'][:80]!r}. Use an id that search returned.")
        obj, row = found
        metadata = {"type": bound.one, "uri": bound.uri_of(obj)}
        return ToolResult({**_result(bound, access, obj), "text": to_markdown(bound, row), "metadata": metadata})


def _found(bound: BoundResource, access: RowAccess, query: str) -> list[dict[str, str]]:
    rows = with_output_fields(bound, access, apply_search(access.get_queryset(bound), query, access, bound), [])
    rows = add_titles(rows, bound, access)
    found = fetch_objects(bound, access, rows, Sorting(bound.orderings[""], access, bound), MAX_RESULTS, None)
    return [_result(bound, access, obj) for obj in found.objects]


def _result(bound: BoundResource, access: RowAccess, obj: Any) -> dict[str, str]:
    key = f"{bound.options.label_lower}:{getattr(obj, bound.lookup.attname)}"
    return {"id": key, "title": title_of(bound, obj, access), "url": _url(bound, access.ctx, obj)}


def _url(bound: BoundResource, ctx: Context, obj: Any) -> str:
    # Without a page or a URI, ChatGPT cites nothing.
    page = getattr(obj, "get_absolute_url", lambda: "")()
    if not page:
        return bound.uri_of(obj)
    return urljoin(settings.BASE_URL, page) if settings.BASE_URL else str(ctx.request.build_absolute_uri(page))
