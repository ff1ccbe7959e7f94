"""Rows in clients with MCP Apps: a search and aggregates as a table, one row as a card.

All values come from the structured content of the result, and titles of filters from rows that the caller may see, so a
page shows nothing that its caller may not read.
"""

import datetime
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from html.parser import HTMLParser
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from django.db import models
from django.db.models.constants import LOOKUP_SEP
from django.template.defaultfilters import filesizeformat, yesno
from django.utils.dateparse import parse_date, parse_datetime, parse_duration, parse_time
from django.utils.dates import MONTHS
from django.utils.formats import localize
from django.utils.text import Truncator, capfirst
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.utils.translation.trans_null import gettext_noop  # the usual one reads settings

from django_mcp.core.apps import App, app_of
from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, right
from django_mcp.model_resources.access import RowAccess
from django_mcp.model_resources.bound_resource import BoundResource, Dimension, Measure, OutputField, rules_at
from django_mcp.model_resources.filters import MAX_VALUES, Filter, MethodFilter
from django_mcp.model_resources.queryset import COUNT
from django_mcp.model_resources.schema import choices_of, column_value, json_type, labels_of, target_field
from django_mcp.model_resources.serializers import (
    BytesLinkField,
    FileLinkField,
    RelatedLinkField,
    RelatedListField,
    output_field,
    title_of,
)
from django_mcp.primitives.schema import DECIMAL, DURATION

TABLE: Final = "django_mcp/apps/table.html"
TEMPLATES = {"search": TABLE, "get": "django_mcp/apps/card.html", "aggregate": TABLE}
"""Our templates by read tool. Tools that write show their row like ``get``."""

MAX_CELL_CHARACTERS = 120
MAX_CELL_ITEMS = 5
MAX_FIELD_CHARACTERS = 100
"""A longer text has a section of its own on a card."""
MAX_SELECT_CHOICES = 50
COMPARED = frozenset({"exact", "in", "gt", "gte", "lt", "lte"})
"""Lookups whose values are those of the column."""


def is_app_option(declared: Any) -> bool:
    if not isinstance(declared, Mapping):
        return isinstance(declared, bool)
    return declared.keys() <= TEMPLATES.keys() and all(
        isinstance(template, App | str | bool) for template in declared.values()
    )


def app_for(bound: BoundResource, tool: str) -> App | None:
    declared = bound.resource.app
    chosen = declared.get(tool) if isinstance(declared, Mapping) else declared
    return app_of(TEMPLATES[tool] if chosen is True else chosen or None, repr(bound.resource))


def view_context(bound: BoundResource, tool: str) -> Callable[[Context, Any], dict[str, Any]]:
    """Return what adds ``table`` or ``card`` to the context of a read tool's template."""
    return partial(_view_context, bound, {"search": _table, "get": _card, "aggregate": _groups}[tool])


def _view_context(
    bound: BoundResource, make: Callable[["_TableRenderer", Any], dict[str, Any]], ctx: Context, result: Any
) -> dict[str, Any]:
    return make(_TableRenderer(bound, ctx), result)


# Values


class DisplayValue(NamedTuple):
    """A value as templates show it.

    Attributes:
        kind: ``"text"``, ``"number"``, ``"time"``, ``"link"``, ``"row"``, ``"image"``, ``"file"``, ``"list"``,
            ``"json"``, or ``""`` if there is none.
        text: the value in the caller's language.
        address: URL of a link, URI of an image or file, ISO 8601 of a time.
        tool, arguments: the call, with arguments as JSON, that shows a row.
        items: values of a list.
    """

    kind: str
    text: str = ""
    address: str = ""
    tool: str = ""
    arguments: str = ""
    items: "Sequence[DisplayValue]" = ()

    @property
    def is_long(self) -> bool:
        is_long_text = len(self.text) > MAX_FIELD_CHARACTERS or "\n" in self.text
        return self.kind == "json" or (self.kind == "text" and is_long_text)


NOTHING = DisplayValue("")


class DisplayColumn(NamedTuple):
    """A column of a table or a field of a card.

    Attributes:
        name: its name in the result.
        read: converts the JSON value.
        order: ``"ascending"`` or ``"descending"`` if the rows are sorted by it.
        arguments: those of the call, as JSON, that sorts by it; "" if callers may not.
    """

    name: str
    label: str
    read: Callable[[Any], DisplayValue]
    is_number: bool = False
    order: str = ""
    arguments: str = ""


def reader_of(schema: Mapping[str, Any], field: Any = None) -> Callable[[Any], DisplayValue]:
    return partial(value_of, schema=schema, field=field, labels=labels_of(field))


def value_of(
    value: Any, schema: Mapping[str, Any], field: Any = None, labels: Mapping[Any, str] = MappingProxyType({})
) -> DisplayValue:
    """Return a JSON value in the caller's language.

    Args:
        value: the value.
        schema: its JSON Schema.
        field: the column that it comes from, if any.
        labels: the labels of the column's choices, by value.
    """
    if value is None or value in ("", [], {}):
        return NOTHING
    if isinstance(value, dict | list):
        if isinstance(value, dict) or any(isinstance(entry, dict | list) for entry in value):
            return DisplayValue("json", json.dumps(value, ensure_ascii=False, indent=2))
        return DisplayValue("list", items=[value_of(entry, schema.get("items", {}), field, labels) for entry in value])
    if value in labels:
        return DisplayValue("text", labels[value])
    if isinstance(value, bool):
        return DisplayValue("text", _yes_or_no(is_yes=value))
    return (
        _text(value, _plain(schema), field) if isinstance(value, str) else DisplayValue("number", str(localize(value)))
    )


def _text(value: str, schema: Mapping[str, Any], field: Any) -> DisplayValue:
    kind, pattern = schema.get("format"), schema.get("pattern")
    try:
        if pattern == DECIMAL["pattern"]:
            return DisplayValue("number", str(localize(Decimal(value))))
        if kind == "duration" or pattern == DURATION["pattern"]:
            return DisplayValue("text", _duration(parse_duration(value) or value))
        for name, parse in (("date-time", parse_datetime), ("date", parse_date), ("time", parse_time)):
            if kind == name and (parsed := parse(value)) is not None:
                return DisplayValue("time", str(localize(parsed)), value)
    except (ArithmeticError, ValueError):  # a function returned something else than it declares
        return DisplayValue("text", value)
    is_url = kind == "uri" or isinstance(field, models.URLField)
    if is_url and value.startswith(("https://", "http://")):
        return DisplayValue("link", value.partition("://")[2].rstrip("/"), value)
    return DisplayValue("text", value)


class _Text(HTMLParser):
    """The text of HTML, with a line for each block."""

    BLOCKS = frozenset(
        {*"address article aside blockquote dd div dl dt fieldset figcaption figure footer form header hr".split()}  # noqa: SIM905
        | {*"h1 h2 h3 h4 h5 h6 main nav ol p pre section table tr ul".split()}  # noqa: SIM905
    )
    SILENT = frozenset({"script", "style", "template", "head", "title"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._silent: list[str] = []
        self.feed(html)
        self.close()
        lines = re.sub(r" ?\n ?", "\n", re.sub(r"[ \t\r\f\v]+", " ", "".join(self._parts)))
        self.text = re.sub(r"\n{3,}", "\n\n", lines).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "body" or tag in self.BLOCKS:  # which end a head whose end tag is omitted
            self._silent = [name for name in self._silent if name != "head"]
        if tag in self.SILENT:
            self._silent.append(tag)
        parts = {"br": "\n", "li": "\n• ", "td": " ", "th": " ", "img": dict(attrs).get("alt") or ""}
        self._say("\n\n" if tag in self.BLOCKS else parts.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        self._say("\n\n" if tag in self.BLOCKS else "")

    def handle_data(self, data: str) -> None:
        self._say(re.sub(r"\s+", " ", data))

    def _say(self, text: str) -> None:
        if not self._silent:
            self._parts.append(text)


_RICH = re.compile(r"\s*<(?:p|div|h[1-6]|ul|ol|table|blockquote|section|article|figure)\b[^<>]*>.*>\s*", re.DOTALL)
"""Matches the elements that editors of rich text save."""


def readable_text(value: str, media: str | None = None) -> str:
    """Return the text of HTML, other texts as they are.

    Args:
        media: the declared media type; without one, HTML is what begins with a block and ends with a tag.
    """
    is_html = media == "text/html" or (media is None and _RICH.fullmatch(value) is not None)
    return _Text(value).text if is_html else value


def _yes_or_no(*, is_yes: bool) -> str:
    return capfirst(str(yesno(is_yes)))


def _duration(value: datetime.timedelta | str) -> str:
    # timesince has words for whole minutes, from one minute on.
    if isinstance(value, str) or value < datetime.timedelta(minutes=1) or value.seconds % 60 or value.microseconds:
        return str(value)
    start = datetime.datetime(2001, 1, 1)  # noqa: DTZ001 - only the distance counts
    return timesince(start, start + value, depth=3)


def _plain(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    return options[0] if len(options) == 1 else schema


def is_number_column(schema: Mapping[str, Any], field: Any) -> bool:
    plain = _plain(schema)
    kinds = plain.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    is_numeric = bool(kinds & {"integer", "number"}) or plain.get("pattern") == DECIMAL["pattern"]
    return is_numeric and not getattr(field, "choices", None)


def as_arguments(value: Any) -> str:
    """Return JSON for an attribute of a page."""
    return json.dumps(value, ensure_ascii=False)


# Fields


class _TableRenderer:
    """One call's view of a model: its caller's tools, its arguments and columns."""

    def __init__(self, bound: BoundResource, ctx: Context) -> None:
        self.bound, self.ctx = bound, ctx
        self.arguments: Mapping[str, Any] = ctx.params.get("arguments") or {}
        self._openers: dict[BoundResource, str] = {}

    def opener(self, bound: BoundResource) -> str:
        if bound not in self._openers:
            tool = self.ctx.server.tools.get(f"get_{bound.name}")
            is_usable = tool is not None and tool.app is not None and right(self.ctx, tool) is Right.USE
            self._openers[bound] = tool.name if tool is not None and is_usable else ""
        return self._openers[bound]

    def row(self, bound: BoundResource, text: str, key: Any) -> DisplayValue:
        tool = self.opener(bound)
        return (
            DisplayValue("row", text, tool=tool, arguments=as_arguments({bound.lookup_name: key}))
            if tool
            else DisplayValue("text", text)
        )

    def link(self, target: BoundResource, value: Any) -> DisplayValue:
        if value is None:
            return NOTHING
        key = target.lookup_value(unquote(value["uri"].removeprefix(f"{target.base}/")))
        return self.row(target, value["title"], column_value(target.lookup, key))

    def titles(self, filter_: Filter, keys: Sequence[Any]) -> dict[str, str]:
        path, lookup = filter_.path, filter_.path.field
        if filter_.leads_to_row:
            model = path.hops[-1].related_model
        elif lookup.is_relation:  # to a class that is not registered; a relative of it may be
            model, lookup = lookup.related_model, lookup.target_field
        else:
            return {}
        rules, access = rules_at(self.ctx.server, model), RowAccess(self.ctx)
        every = model._base_manager.all() if rules.own is None else access.get_queryset(rules.own)  # noqa: SLF001
        rows = [
            row for row in every.filter(**{f"{lookup.name}__in": keys})[:MAX_VALUES] if access.can_view_row(rules, row)
        ]
        declared = access.as_declared(rules, rows)
        return {
            str(getattr(row, lookup.attname)): title_of(*declared[row.pk], access) for row in rows if row.pk in declared
        }

    def read(self, column: OutputField) -> Callable[[Any], DisplayValue]:
        if isinstance(column, FileLinkField | BytesLinkField):
            return _file
        field = None if column.path is None else target_field(column.path.field)
        is_of_rows = column.path is not None and column.path.field.is_relation
        target = getattr(column, "target", None)
        if target is not None and is_of_rows and isinstance(column, RelatedLinkField):
            return partial(self.link, target)
        if target is not None and is_of_rows and isinstance(column, RelatedListField):
            return lambda value: (
                DisplayValue("list", items=[self.link(target, row) for row in value]) if value else NOTHING
            )
        read = reader_of(column.schema, field)
        if getattr(field, "choices", None):
            return read
        media = self.bound.resource.content_fields.get(column.name)
        return lambda value: read(readable_text(value, media) if isinstance(value, str) else value)

    def fields(self, columns: Sequence[OutputField], rows: Sequence[Mapping[str, Any]]) -> Iterator[DisplayColumn]:
        # The title of a linked row is not repeated.
        links = [column for column in columns if isinstance(column, RelatedLinkField)]
        titles = {f"{column.name}{LOOKUP_SEP}{column.target.title_field}": column.name for column in links}
        sources = {name: title for title, name in titles.items()}
        lookup = self.bound.lookup_name
        names = {field if isinstance(field, str) else field.__name__ for field in self.bound.resource.fields}
        if lookup in names:
            yield self._shown(output_field(lookup, self.bound.path(lookup), None), ())
        for column in columns:
            if column.name not in titles and (not rows or any(column.name in row for row in rows)):
                yield self._shown(column, (sources.get(column.name, ""),))

    def _shown(self, column: OutputField, sources: Sequence[str]) -> DisplayColumn:
        field = None if column.path is None else target_field(column.path.field)
        by = next((source for source in (column.name, *sources) if source in self.bound.orderings), "")
        order, arguments = self._order(by) if by else ("", "")
        is_number = is_number_column(column.schema, field) and not isinstance(column, RelatedLinkField)
        return DisplayColumn(column.name, self._label(column), self.read(column), is_number, order, arguments)

    def _order(self, by: str) -> tuple[str, str]:
        order_by = self.arguments.get("order_by")
        if not order_by and (keys := self.bound.orderings[""]):
            order_by = f"{'-' * keys[0].is_descending}{keys[0].path.source}"
        order = {by: "ascending", f"-{by}": "descending"}.get(str(order_by), "")
        return order, self.call(order_by=f"-{by}" if order == "ascending" else by)

    def _label(self, column: OutputField) -> str:
        if column.path is not None:
            return path_label(column.path)
        written = inspect.getattr_static(self.bound.resource, column.name, None)
        written = written or inspect.getattr_static(self.bound.model, column.name, None)
        written = getattr(written, "fget", None) or written
        described = getattr(written, "short_description", None) or _words(column.name)
        return capfirst(str(described))

    def call(self, **changes: Any) -> str:
        """Return the arguments of this call from its first page on, with changes, as JSON. None leaves one out."""
        given = {**self.arguments, "cursor": None, **changes}
        return as_arguments({key: value for key, value in given.items() if value is not None})


def _words(name: str) -> str:
    return name.replace(LOOKUP_SEP, " ").replace("_", " ")


def path_label(path: Any) -> str:
    return _label_of((*path.hops, path.field))


def _label_of(fields: Sequence[Any]) -> str:
    return capfirst(" ".join(map(_verbose, fields)))


def _verbose(field: Any) -> str:
    if getattr(field, "verbose_name", None):
        return str(field.verbose_name)
    options = field.related_model._meta  # noqa: SLF001 - a reverse relation is called as its model
    is_many = field.one_to_many or field.many_to_many
    return str(options.verbose_name_plural if is_many else options.verbose_name)


def _file(value: Any) -> DisplayValue:
    if value is None:
        return NOTHING
    size = filesizeformat(value["size"]) if "size" in value else ""
    text = value.get("name") or (f"{value['mimeType']}, {size}" if size else value["mimeType"])
    return DisplayValue("image" if value["mimeType"].startswith("image/") else "file", text, value["uri"])


# Templates


def _table(renderer: _TableRenderer, result: Mapping[str, Any]) -> dict[str, Any]:
    bound, rows = renderer.bound, result["rows"]
    fields = list(renderer.fields(bound.list_output_fields, rows))
    title = bound.title_field
    head = next((field for field in fields if field.name == title), None) or next(
        (field for field in fields if field.name == bound.lookup_name), None
    )
    if head is None:
        lookup = output_field(bound.lookup_name, bound.path(bound.lookup_name), None)
        head = DisplayColumn(lookup.name, path_label(lookup.path), lambda value: DisplayValue("text", str(value)))
    others = [field for field in fields if field.name != head.name]
    opens = [renderer.row(bound, head.read(row[head.name]).text or "–", row[bound.lookup_name]) for row in rows]
    cells = [[short_cell(column.read(row.get(column.name))) for column in others] for row in rows]
    cursor = result["next_cursor"]
    return {
        "table": {
            "title": bound.title,
            "tool": f"search_{bound.plural}",
            "columns": [head, *others],
            "rows": [
                {"head": opens[at], "cells": list(zip(others, cells[at], strict=True))} for at in range(len(rows))
            ],
            "count": len(rows),
            "total": result["total"],
            "counted": counted(bound.one, bound.options.verbose_name_plural, len(rows), result["total"]),
            "search": _search(renderer),
            "filters": list(_active_filters(renderer)),
            "first": renderer.call() if renderer.arguments.get("cursor") else "",
            "next": renderer.call(cursor=cursor) if cursor else "",
        }
    }


def counted(one: Any, many: Any, count: int, total: int | None) -> str:
    """Return how many rows a table has, in words: "20 of 568 hotels"."""
    is_part = total is not None and total != count
    name = str(one if (total if is_part else count) == 1 else many)
    values = {"count": localize(count), "total": localize(total), "name": name}
    return (_("%(count)s of %(total)s %(name)s") if is_part else _("%(count)s %(name)s")) % values


def short_cell(value: DisplayValue) -> DisplayValue:
    """Return a value as short as a cell of a table shows it."""
    if value.kind in {"text", "json"}:
        return DisplayValue("text", Truncator(" ".join(value.text.split())).chars(MAX_CELL_CHARACTERS))
    if value.kind == "list" and len(value.items) > MAX_CELL_ITEMS:
        return DisplayValue("list", items=[*value.items[:MAX_CELL_ITEMS], DisplayValue("text", "…")])
    if value.kind in {"image", "file"}:
        return DisplayValue("text", value.text)
    return value


def _search(renderer: _TableRenderer) -> dict[str, Any] | None:
    bound, given = renderer.bound, renderer.arguments
    selects = [made for filter_ in bound.filters if (made := _select(filter_, given)) is not None]
    if not (bound.search_fields or selects):
        return None
    own = {"query": None, **{select["name"]: None for select in selects}}
    return {
        "has_query": bool(bound.search_fields),
        "query": given.get("query") or "",
        "selects": selects,
        "arguments": renderer.call(**own),
    }


def _select(filter_: Filter | MethodFilter, given: Mapping[str, Any]) -> dict[str, Any] | None:
    if isinstance(filter_, MethodFilter):
        label, choices = capfirst(str(filter_.label)), filter_.choices
        is_boolean = filter_.schema.get("type") == "boolean"
    else:
        field, is_exact = target_field(filter_.path.field), filter_.lookup == "exact"
        label, choices = path_label(filter_.path), choices_of(field) if is_exact else []
        is_boolean = is_exact and isinstance(field, models.BooleanField)
    if is_boolean:
        choices = [(value, _yes_or_no(is_yes=value)) for value in (True, False)]
    if not 0 < len(choices) <= MAX_SELECT_CHOICES:
        return None
    chosen = given.get(filter_.argument)
    return {
        "name": filter_.argument,
        "label": label,
        "choices": [
            {"value": as_arguments(value), "label": label, "chosen": value == chosen} for value, label in choices
        ],
    }


def _active_filters(renderer: _TableRenderer) -> Iterator[dict[str, str]]:
    for filter_ in renderer.bound.filters:
        value = renderer.arguments.get(filter_.argument)
        if value is None or _select(filter_, renderer.arguments) is not None:
            continue
        yield {"text": _filter_text(renderer, filter_, value), "arguments": renderer.call(**{filter_.argument: None})}


FILTER_WORDS: Mapping[str, str] = {
    "exact": "%(field)s: %(value)s",
    "in": "%(field)s: %(value)s",
    "iexact": "%(field)s: %(value)s",
    "gt": "%(field)s > %(value)s",
    "gte": "%(field)s ≥ %(value)s",
    "lt": "%(field)s < %(value)s",
    "lte": "%(field)s ≤ %(value)s",
    "isnull": "%(field)s: %(value)s",
    "contains": gettext_noop("%(field)s contains “%(value)s”"),
    "icontains": gettext_noop("%(field)s contains “%(value)s”"),
    "startswith": gettext_noop("%(field)s begins with “%(value)s”"),
    "istartswith": gettext_noop("%(field)s begins with “%(value)s”"),
    "endswith": gettext_noop("%(field)s ends with “%(value)s”"),
    "iendswith": gettext_noop("%(field)s ends with “%(value)s”"),
    "date": "%(field)s: %(value)s",
    "year": gettext_noop("%(field)s, year: %(value)s"),
    "month": gettext_noop("%(field)s, month: %(value)s"),
    "day": gettext_noop("%(field)s, day: %(value)s"),
}
"""Words of filters for people, by lookup. Those for models are ``filters.LOOKUP_DESCRIPTIONS``."""


def _filter_text(renderer: _TableRenderer, filter_: Filter | MethodFilter, value: Any) -> str:
    if isinstance(filter_, MethodFilter):
        shown = value_of(value, filter_.schema, labels=dict(filter_.choices) if isinstance(value, str | int) else {})
        texts = [item.text for item in shown.items] if shown.kind == "list" else [shown.text]
        return f"{capfirst(str(filter_.label))}: {', '.join(texts)}"
    words = FILTER_WORDS.get(filter_.lookup, f"%(field)s, {_words(filter_.lookup)}: %(value)s")
    path = filter_.path
    field = _label_of(path.hops) if filter_.leads_to_row else path_label(path)
    return _(words) % {"field": field, "value": _filter_value(renderer, filter_, value)}


def _filter_value(renderer: _TableRenderer, filter_: Filter, value: Any) -> str:
    if filter_.lookup == "isnull":
        return _("empty") if value else _("not empty")
    if filter_.lookup == "month":
        return str(MONTHS.get(value, value))
    if filter_.lookup == "date":
        return value_of(value, {"type": "string", "format": "date"}).text
    if filter_.lookup not in COMPARED:
        return str(value)
    read = reader_of(json_type(filter_.path.end), target_field(filter_.path.field))
    values = value if filter_.lookup == "in" else [value]
    titles = renderer.titles(filter_, values)
    return ", ".join(titles.get(str(one)) or read(one).text for one in values)


def _card(renderer: _TableRenderer, row: Mapping[str, Any]) -> dict[str, Any]:
    bound = renderer.bound
    title, lookup = bound.title_field, bound.lookup_name
    fields = [(field, field.read(row.get(field.name))) for field in renderer.fields(bound.output_fields, [row])]
    shown = [(field, value) for field, value in fields if value.kind and field.name != title]
    return {
        "card": {
            "kind": capfirst(bound.one),
            "title": str(row.get(title or "") or row[lookup]),
            "value": {field.name: value for field, value in fields},
            "fields": [pair for pair in shown if pair[1].kind != "image" and not pair[1].is_long],
            "texts": [pair for pair in shown if pair[1].is_long],
            "images": [pair for pair in shown if pair[1].kind == "image"],
        }
    }


def _groups(renderer: _TableRenderer, result: Mapping[str, Any]) -> dict[str, Any]:
    bound, groups = renderer.bound, result["groups"]
    names = list(dict.fromkeys(name for group in groups for name in group))
    first = [name for name in names if name in bound.dimensions]
    columns = [
        *(_dimension(renderer, name, bound.dimensions[name]) for name in first),
        *(_measure(name, bound.measures.get(name)) for name in names if name not in first),
    ]
    rows = [[(column, short_cell(column.read(group.get(column.name)))) for column in columns] for group in groups]
    counted = ngettext("%(count)s group", "%(count)s groups", len(groups)) % {"count": len(groups)}
    return {
        "table": {
            "title": bound.title,
            "tool": f"aggregate_{bound.plural}",
            "columns": columns,
            "rows": [{"cells": cells} for cells in rows],
            "count": len(groups),
            "total": None,
            "counted": counted if first else "",
            "search": None,
            "filters": list(_active_filters(renderer)),
        }
    }


def _dimension(renderer: _TableRenderer, name: str, dimension: Dimension) -> DisplayColumn:
    label = path_label(dimension.path)
    if dimension.part:
        parts = {"year": _("year"), "month": _("month"), "day": _("day")}
        return DisplayColumn(name, f"{label}, {parts[dimension.part]}", _key)
    if dimension.target is not None:
        return DisplayColumn(name, label, partial(renderer.link, dimension.target))
    field = target_field(dimension.path.field)
    return DisplayColumn(name, label, reader_of(dimension.schema, field))


def _key(value: Any) -> DisplayValue:
    # A number that is not counted, such as a year.
    return NOTHING if value is None else DisplayValue("text", str(value))


def _measure(name: str, measure: Measure | None) -> DisplayColumn:
    if measure is None:
        schema: Mapping[str, Any] = {"type": "integer"}
        label = _("Number") if name == COUNT else _words(name)
        return DisplayColumn(name, label, lambda value: value_of(value, schema), is_number=True)
    words = {"min": _("Minimum"), "max": _("Maximum"), "sum": _("Sum"), "avg": _("Average")}
    label = f"{words[measure.function]}: {path_label(measure.path)}"
    is_number, places = (
        is_number_column(measure.schema, None),
        getattr(measure.path.value_field, "decimal_places", None),
    )

    def read(value: Any) -> DisplayValue:
        is_average = measure.function == "avg" and places is not None and value is not None
        return value_of(format(round(Decimal(value), places), "f") if is_average else value, measure.schema)

    return DisplayColumn(name, label, read, is_number=is_number)
