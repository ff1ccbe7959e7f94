"""Rows as results: shown as their model's ``ModelResource`` says, and only to whom they exist."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from django.db.models import Model, QuerySet
from pydantic_core import to_json

from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.exposure.columns import Showing, serialize_row
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.fetching import load_sets
from django_mcp.exposure.instances import search_tool
from django_mcp.exposure.pages import TEXT_IN_LISTS, show_row, whole_row, with_columns
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.write_rows import on_writer
from django_mcp.primitives.output import ToolResult
from django_mcp.protocol.content import TextContent

LOOKED_AT = 500
"""How many of the objects of a result are looked at, to find those that exist for the caller."""


def is_shown(value: Any) -> bool:
    """Whether a returned value is of rows."""
    if isinstance(value, list | tuple):
        return any(map(is_shown, value))
    if isinstance(value, Mapping):
        return any(is_shown(each) for each in value.values())
    if isinstance(value, ToolResult):
        return is_shown(value.structured)
    return isinstance(value, Model) or gives_rows(value)


def gives_rows(value: Any) -> bool:
    """Whether it is a queryset of objects, and not of what ``values()`` chose."""
    return isinstance(value, QuerySet) and value._fields is None  # type: ignore[attr-defined]


class Results:
    """Shows the rows of one result.

    Args:
        server: the endpoint.
        ctx: the call.
        label: of the tool, for errors.
    """

    def __init__(self, server: MCPServer, ctx: Context, label: str) -> None:
        self._server = server
        self._viewer = Viewer(ctx)
        self._label = label
        self._notes: list[TextContent] = []

    def shown(self, value: Any) -> Any:
        """*value* with JSON in the place of rows; a ``ToolResult`` where there is a word to be said on what is missing.

        Raises:
            ToolError: the one row that was returned does not exist for the caller.
            TypeError: nothing says what may be shown of the rows.
        """
        if isinstance(value, ToolResult):
            result: ToolResult[Any] = ToolResult(
                self._value(value.structured), text=value.text, content=value.content, meta=value.meta
            )
        else:
            result = ToolResult(self._value(value))
            if not self._notes:
                return result.structured
        result.content = [*result.content, *self._notes]
        return result

    def _value(self, value: Any) -> Any:
        if isinstance(value, Model):
            return self._one(value)
        if gives_rows(value):
            return self._many(value.model, value)
        if isinstance(value, list | tuple) and is_shown(value):
            return self._many(type(value[0]), value) if isinstance(value[0], Model) else [*map(self._value, value)]
        if isinstance(value, Mapping):
            return {key: self._value(each) for key, each in value.items()}
        return value

    def _exposed(self, model: Any) -> Exposed:
        options, known = model._meta, self._server.exposed  # noqa: SLF001 - Django's documented API
        exposed: Exposed | None = known.get(model) or known.get(options.concrete_model)
        if exposed is None or not exposed.is_sound:
            msg = (
                f"{self._label} returned rows of {options.label}, which is not registered at {self._server!r}, so "
                "nothing says what may be shown of them. Register it, or return what is to be shown."
            )
            raise TypeError(msg)
        return exposed

    def _one(self, obj: Model) -> dict[str, Any]:
        exposed = self._exposed(type(obj))
        rows = self._viewer.door(exposed).filter(pk=obj.pk)
        row = show_row(exposed, self._viewer, on_writer(rows))
        if row is None:
            raise exposed.missing(getattr(obj, exposed.lookup.attname))
        return row

    def _many(self, model: Any, objects: Any) -> list[dict[str, Any]]:
        """Rows in their order: those that exist for the caller, as many as one answer has room for."""
        exposed = self._exposed(model)
        most = exposed.resource.max_rows
        keys = _keys(model, objects, max(most + 1, LOOKED_AT))
        rows = self._viewer.door(exposed).filter(pk__in=keys)
        found = on_writer(with_columns(exposed, self._viewer, rows, exposed.list_columns)).order_by()
        seen = {row.pk: row for row in found if self._viewer.sees(exposed, row)}
        load_sets([*seen.values()], exposed.list_columns, exposed, self._viewer)
        shown = list(islice(self._rows(exposed, [seen[key] for key in keys if key in seen]), most))
        if len(shown) < len(seen):
            search = search_tool(exposed, self._viewer)
            hint = f" Use {search} for others." if search else ""
            self._notes.append(TextContent(f"These are the first {len(shown)}; there are more.{hint}"))
        return shown

    def _rows(self, exposed: Exposed, objects: list[Any]) -> Iterator[dict[str, Any]]:
        showing = Showing(self._viewer, exposed, TEXT_IN_LISTS)
        room = exposed.resource.max_characters
        for at, obj in enumerate(objects):
            make = serialize_row if at else whole_row
            row = make(exposed, obj, exposed.list_columns, showing)
            room -= len(to_json(row)) + 2
            if room < 0 and at:
                return
            yield row


def _keys(model: Any, objects: Any, most: int) -> list[Any]:
    """Primary keys of the first objects, each once, in their order; what was not saved has none."""
    kind = model._meta.concrete_model  # noqa: SLF001 - Django's documented API
    is_read = not isinstance(objects, QuerySet) or objects._result_cache is not None  # noqa: SLF001
    if not is_read and not objects.query.combinator:
        return list(dict.fromkeys(objects[:most].values_list("pk", flat=True)))
    if any(obj._meta.concrete_model is not kind for obj in objects[:most]):  # noqa: SLF001
        msg = "rows of several models were returned in one list; return a dict with a list of each"
        raise TypeError(msg)
    return list(dict.fromkeys(obj.pk for obj in objects[:most] if obj.pk is not None))
