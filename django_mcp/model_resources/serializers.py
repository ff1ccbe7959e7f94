"""Rows as JSON and Markdown, and the contents of their files."""

import mimetypes
import operator
from collections import deque
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.http import Http404
from pydantic import TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from django_mcp.model_resources.access import RowAccess
from django_mcp.model_resources.bound_resource import LINK_SCHEMA, TITLE_CHARACTERS, BoundResource, OutputField
from django_mcp.model_resources.paths import Path
from django_mcp.model_resources.schema import column_value, is_foreign_json, json_type, labels_in_words, to_json_value
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.field_schema import nullable, plain_text
from django_mcp.primitives.schema import json_schema

FILE_SCHEMA = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "URI of the resource that holds the file's content."},
        "mimeType": {"type": "string"},
        "name": {"type": "string"},
        "size": {"type": "integer", "description": "Size in bytes."},
    },
    "required": ["uri", "mimeType"],
    "additionalProperties": False,
}
ANY_TYPE = "application/octet-stream"


def media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or ANY_TYPE


MAX_BYTES = 8 * 1024 * 1024
"""Maximum size of a file in an answer, before Base64."""


def read_file(file: Any, mime_type: str) -> str | bytes:
    """Return the content of a file, as text if its media type is text and it is valid UTF-8.

    Raises:
        Http404: the file is missing in the storage.
        ToolError: the file exceeds ``MAX_BYTES``.
    """
    try:
        with file.open("rb") as opened:
            data: bytes = opened.read(MAX_BYTES + 1)
    except OSError:
        raise Http404 from None
    if len(data) > MAX_BYTES:
        raise ToolError(f"The file is too large to read: the limit is {MAX_BYTES // 1024**2} MiB.")
    if mime_type.startswith("text/") or mime_type == "application/json":
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return data


def rows_attribute(name: str) -> str:
    # Not the name of the set, which the site may prefetch itself.
    return f"mcp_rows_{name}"


class SerializerContext(NamedTuple):
    """How rows are serialized.

    Attributes:
        most_characters: maximum length of one text.
        in_full: True for a single row, for which file sizes are read from the storage.
        links_rows: False if rows that functions return are shown by key. A link has a title, which may be such a
            function of another row, and so on for ever.
    """

    access: RowAccess
    bound: BoundResource
    most_characters: int
    in_full: bool = False
    links_rows: bool = True


def follow_relations(obj: Any, hops: tuple[Any, ...], context: SerializerContext) -> Any:
    """Return the object at the end of single-valued relations, or None if the caller may not see a row on the way."""
    for hop in hops:
        name = hop.get_accessor_name() if hop.auto_created and not hop.concrete else hop.name
        try:
            obj = getattr(obj, name)
        except ObjectDoesNotExist:  # a non-null relation to a row that the caller may not see
            return None
        if obj is None or not context.access.can_view_related(hop, obj, context.bound):
            return None
    return obj


class ValueField(OutputField):
    """A column of the model, or of one reached by single-valued relations. A relation shows its key."""

    def value(self, obj: Any, context: SerializerContext) -> Any:
        found, end = follow_relations(obj, self.path.hops, context), self.path.field
        if found is None or (context.bound.guards_key(end) and follow_relations(found, (end,), context) is None):
            return None
        value = text = column_value(end, getattr(found, end.attname))
        if is_foreign_json(self.path.value_field) and value is not None and not context.in_full:
            text = to_json(value).decode()  # such as a whole page of Wagtail's, which is too long for a list
        if isinstance(text, str) and len(text) > context.most_characters:
            return _shortened(text, self, obj, context)
        return value


def _shortened(text: str, column: OutputField, obj: Any, context: SerializerContext) -> str:
    most = context.most_characters
    uri = context.bound.uri_of(obj)
    is_apart = column.name in context.bound.contents
    where = f": {uri}/{column.name}" if is_apart else "" if context.in_full else f": {uri}"
    return f"{text[:most].rstrip()}… ({len(text) - most} more characters{where})"


class FileLinkField(OutputField):
    """A file: its name, media type and resource.

    Its storage path and its URL are not shown, since they would bypass permissions.
    """

    def value(self, obj: Any, context: SerializerContext) -> Any:
        file = getattr(obj, self.path.field.attname)
        if not file:
            return None
        name = to_json_value(file)
        mime_type = context.bound.contents[self.name].mime_type or media_type(name)
        described = {"uri": f"{context.bound.uri_of(obj)}/{self.name}", "mimeType": mime_type, "name": name}
        if context.in_full:
            with suppress(Exception):  # storages raise various errors if the file is missing or its size unknown
                described["size"] = int(file.size)
        return described


class BytesLinkField(OutputField):
    """A binary column, as a link to its resource."""

    def value(self, obj: Any, context: SerializerContext) -> Any:
        found = getattr(obj, self.path.field.attname)
        if found is None or len(found) == 0:
            return None
        mime_type = context.bound.contents[self.name].mime_type
        return {"uri": f"{context.bound.uri_of(obj)}/{self.name}", "mimeType": mime_type, "size": len(found)}


@dataclass(frozen=True, slots=True)
class RelatedLinkField(OutputField):
    """A single-valued relation to a registered model."""

    target: Any = None

    def value(self, obj: Any, context: SerializerContext) -> Any:
        found = follow_relations(obj, (*self.path.hops, self.path.field), context)
        return None if found is None else serialize_link(self.target, found, context.access)


@dataclass(frozen=True, slots=True)
class RelatedListField(OutputField):
    """A set of related rows, as links or as one value of each."""

    target: Any = None

    def value(self, obj: Any, context: SerializerContext) -> Any:
        most = context.bound.resource.max_related
        return [value for value in self._values(obj, context) if value is not None][:most]

    def _values(self, obj: Any, context: SerializerContext) -> Iterator[Any]:
        steps: list[Any] = [*self.path.hops, self.path.field]
        first, others = steps[0], steps[1:]
        for row in getattr(obj, rows_attribute(first.name), ()):
            if not context.access.can_view_related(first, row, context.bound):
                continue
            if not others:
                yield None if self.target is None else serialize_link(self.target, row, context.access)
                continue
            end = follow_relations(row, tuple(others[:-1]), context)
            value = None if end is None else column_value(others[-1], getattr(end, others[-1].attname))
            if isinstance(value, str) and len(value) > context.most_characters:
                value = _shortened(value, self, obj, context)
            yield value


@dataclass(frozen=True, slots=True)
class FunctionField(OutputField):
    """The result of a function. *dump* converts it to JSON."""

    call: Callable[[Any], Any] = field(kw_only=True)
    dump: Callable[[Any], Any] = field(kw_only=True, default=to_json_value)

    def value(self, obj: Any, context: SerializerContext) -> Any:
        try:
            value = self.dump(_without_hidden_rows(self.call(obj), context))
        except ObjectDoesNotExist:  # its related row does not exist
            return None
        if isinstance(value, str) and len(value) > context.most_characters:
            return _shortened(value, self, obj, context)
        return value


_ITERABLES = (list, tuple, set, frozenset, deque, Iterator, KeysView, ValuesView, ItemsView)


def _without_hidden_rows(value: Any, context: SerializerContext) -> Any:
    """Return what a function of the site returned, with links in place of rows of models registered at the endpoint.

    Rows that the caller may not see are left out; one alone or in a mapping is None.
    """
    if isinstance(value, models.Manager):
        value = value.all()
    if isinstance(value, models.Model):
        return next(_link_rows([value], context), None)
    if isinstance(value, Mapping):
        shown = {key: _without_hidden_rows(entry, context) for key, entry in value.items()}
        return value if all(entry is value[key] for key, entry in shown.items()) else shown
    if not isinstance(value, _ITERABLES) and not _is_queryset(value):
        return value
    found = list(value)
    if found and all(isinstance(entry, models.Model) for entry in found):
        return list(_link_rows(found, context))
    entries = [
        entry
        for before in found
        if (entry := _without_hidden_rows(before, context)) is not None or not isinstance(before, models.Model)
    ]
    is_same = len(entries) == len(found) and all(map(operator.is_, entries, found))
    # A value without rows keeps its type, which the annotation of the function may ask for.
    return value if is_same and isinstance(value, list | tuple | set | frozenset) else entries


def _is_queryset(value: Any) -> bool:
    # Also one of raw SQL, and modelcluster's, which is no QuerySet.
    model = getattr(value, "model", None)
    return isinstance(model, type) and issubclass(model, models.Model) and hasattr(type(value), "__iter__")


def _link_rows(rows: list[Any], context: SerializerContext) -> Iterator[Any]:
    """Yield a link for each row of a list that the caller may see. Rows of unregistered models have only their key."""
    access, shown = context.access, {}
    for model in {type(row) for row in rows}:
        rules, same = context.bound.rules_of(model), [row for row in rows if type(row) is model]
        if rules.exist:
            visible = access.visible_rows(rules)
            keys = None if visible is None else set(_keys_in(visible, same))
            same = [row for row in same if (keys is None or row.pk in keys) and access.can_view_row(rules, row)]
        declared = access.as_declared(rules, same) if rules.exist and context.links_rows else {}
        for row in same:
            bound, read = declared.get(row.pk, (None, None))
            link = None if bound is None or not bound.is_sound else serialize_link(bound, read, access)
            shown[model, row.pk] = to_json_value(row) if link is None else link
    for row in rows:
        if (type(row), row.pk) in shown:
            yield shown[type(row), row.pk]


def _keys_in(visible: models.QuerySet[Any], rows: list[Any]) -> Iterator[Any]:
    for alias in {row._state.db for row in rows}:  # noqa: SLF001 - Django's documented API
        keys = [row.pk for row in rows if row._state.db == alias and row.pk is not None]  # noqa: SLF001 - likewise
        yield from visible.using(alias).filter(pk__in=keys).order_by().values_list("pk", flat=True)


def function_field(name: str, call: Callable[[Any], Any], returns: Any, words: str | None) -> FunctionField:
    described = {"description": words} if words else {}
    if returns is None or returns is Any:
        return FunctionField(name, described, call=call)
    adapter: TypeAdapter[Any] = TypeAdapter(returns)
    schema = json_schema(adapter, "serialization")

    def dump(value: Any) -> Any:
        return to_jsonable_python(adapter.dump_python(value, mode="json", by_alias=True), inf_nan_mode="constants")

    return FunctionField(name, {**schema, **described}, call=call, dump=dump)


def output_field(name: str, path: Path, target: BoundResource | None) -> OutputField:
    described = _words(path.field)
    end, kind = path.field, path.value_field
    if path.is_many:
        items = LINK_SCHEMA if end.is_relation else json_type(end)
        return RelatedListField(name, {**described, "type": "array", "items": items}, path, target=target)
    if end.is_relation and target is not None:
        return RelatedLinkField(name, nullable({**LINK_SCHEMA, **described}), path, target=target)
    if isinstance(kind, models.FileField) and not path.hops:
        return FileLinkField(name, {"anyOf": [FILE_SCHEMA, {"type": "null"}], **described}, path)
    if isinstance(kind, models.BinaryField) and not path.hops:
        return BytesLinkField(name, {"anyOf": [FILE_SCHEMA, {"type": "null"}], **described}, path)
    schema = {**json_type(end), **described}
    # NaN and infinity become null, and so do values behind rows that the caller may not see.
    is_nullable = path.hops or path.is_nullable or end.is_relation or isinstance(kind, models.FloatField)
    return ValueField(name, nullable(schema) if is_nullable else schema, path)


def _words(end: Any) -> dict[str, Any]:
    name, help_text = str(getattr(end, "verbose_name", "") or ""), str(getattr(end, "help_text", "") or "")
    plain = str(getattr(end, "name", "")).replace("_", " ")
    words = [name if name.lower() != plain.lower() else "", help_text, labels_in_words(end)]
    words = [part.rstrip(".") if at < len(words) - 1 else part for at, part in enumerate(words) if part]
    return {"description": plain_text(". ".join(words))} if words else {}


def serialize_row(
    bound: BoundResource, obj: Any, columns: Iterable[OutputField], context: SerializerContext
) -> dict[str, Any]:
    value = column_value(bound.lookup, getattr(obj, bound.lookup.attname))
    address = {"uri": bound.uri_of(obj), bound.lookup_name: value}
    return {**address, **{column.name: column.value(obj, context) for column in columns}}


def row_schema(bound: BoundResource, columns: Iterable[OutputField]) -> dict[str, Any]:
    properties = {
        "uri": {"type": "string", "description": "URI of the resource with all fields of the row."},
        bound.lookup_name: json_type(bound.lookup),
        **{column.name: column.schema for column in columns},
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def serialize_link(bound: BoundResource, obj: Any, access: RowAccess) -> dict[str, Any] | None:
    return {"uri": bound.uri_of(obj), "title": title_of(bound, obj, access)} if access.can_view(bound, obj) else None


TITLED = "mcp_titled"
"""Annotation of rows that were read with all that their titles need."""


def title_of(bound: BoundResource, obj: Any, access: RowAccess) -> str:
    """Return a row's title, the only rule for it: ``title_field``, the first short text in ``fields``, or the key.

    Not ``str(obj)``, which could reveal undeclared fields.
    """
    column, name = bound.title_output_field, bound.title_field
    if column is not None:
        if column.path is not None and not hasattr(obj, TITLED):
            rows = access.get_queryset(bound).using(obj._state.db).filter(pk=obj.pk)  # noqa: SLF001
            obj = access.add_titles(bound, rows).first() or obj
        is_read = column.path is None or hasattr(obj, TITLED)
        named = (
            column.value(obj, SerializerContext(access, bound, TITLE_CHARACTERS, links_rows=False)) if is_read else None
        )
    else:
        named = column_value(bound.options.get_field(name), getattr(obj, name)) if name else None
    return str(to_json_value(named) or getattr(obj, bound.lookup.attname))[:TITLE_CHARACTERS]


def to_markdown(bound: BoundResource, row: dict[str, Any]) -> str:
    """Return a heading, a list item per value, and a section per multi-line text."""
    title = row.get(bound.title_field or "") or row[bound.lookup_name]
    lines, sections = [f"# {_line(title)}", ""], []
    for name, value in row.items():
        heading = name.replace("__", " ").replace("_", " ")
        if isinstance(value, str) and "\n" in value:
            sections += ["", f"## {heading}", "", value.rstrip()]
        elif value not in (None, "", []):
            lines.append(f"* {heading}: {_line(value)}")
    return "\n".join([*lines, *sections, ""])


def _line(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case {"uri": str(uri), **others}:
            return f"[{others.get('title') or others.get('name') or uri}]({uri})"
        case list():
            return "; ".join(map(_line, value))
        case dict():
            return "; ".join(f"{key}: {_line(entry)}" for key, entry in value.items())
    return " ".join(str(value).split())
