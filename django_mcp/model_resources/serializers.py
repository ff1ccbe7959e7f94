"""Rows as JSON or Markdown, and files of rows."""

import mimetypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.http import Http404
from pydantic import TypeAdapter
from pydantic_core import to_json, to_jsonable_python

from django_mcp.model_resources.access import RowAccess
from django_mcp.model_resources.bound_resource import LINK_SCHEMA, BoundResource, OutputField, Path
from django_mcp.model_resources.schema import column_value, is_foreign_json, json_type, to_json_value
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.field_schema import nullable
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
    """The media type that a file's name tells."""
    return mimetypes.guess_type(name)[0] or ANY_TYPE


MAX_BYTES = 8 * 1024 * 1024
"""The largest file that is read into an answer; in Base64 it is a third longer."""


def read_file(file: Any, mime_type: str) -> str | bytes:
    """What a file holds; of a text type and in UTF-8 as text.

    Raises:
        Http404: the storage has lost it.
        ToolError: it is too large to be read in one answer.
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
    """Where the prefetched rows of a set are put on an object, apart from what the site may prefetch itself."""
    return f"mcp_rows_{name}"


@dataclass(frozen=True, slots=True)
class SerializerContext:
    """How a row is to be shown.

    Attributes:
        access: for whom.
        bound: the row's model.
        most_characters: of one text.
        in_full: whether it is the only row, so that looking into a storage for the size of its files is right.
    """

    access: RowAccess
    bound: BoundResource
    most_characters: int
    in_full: bool = False


def value_at(obj: Any, hops: tuple[Any, ...], showing: SerializerContext) -> Any:
    """The object at the end of single relations, or None where one on the way does not exist for the caller."""
    for hop in hops:
        name = hop.get_accessor_name() if hop.auto_created and not hop.concrete else hop.name
        try:
            obj = getattr(obj, name)
        except ObjectDoesNotExist:  # a relation that must not be empty, to a row that does not exist for the caller
            return None
        if obj is None or not showing.access.sees_behind(hop, obj, showing.bound):
            return None
    return obj


class ValueColumn(OutputField):
    """A column of the model, or of one that single relations lead to. A relation shows the key it holds."""

    def value(self, obj: Any, showing: SerializerContext) -> Any:
        """The value; of one that is too long the beginning as text, and where the rest is."""
        found = value_at(obj, self.path.hops, showing)
        if found is None:
            return None
        value = column_value(self.path.field, getattr(found, self.path.field.attname))
        text = value
        if is_foreign_json(self.path.value_field) and value is not None and not showing.in_full:
            text = to_json(value).decode()  # a whole page, such as Wagtail's, in each of many rows
        if isinstance(text, str) and len(text) > showing.most_characters:
            return _shortened(text, self, obj, showing)
        return value


def _shortened(text: str, column: OutputField, obj: Any, showing: SerializerContext) -> str:
    most = showing.most_characters
    uri = showing.bound.uri_of(obj)
    is_apart = column.name in showing.bound.contents
    where = f": {uri}/{column.name}" if is_apart else "" if showing.in_full else f": {uri}"
    return f"{text[:most].rstrip()}… ({len(text) - most} more characters{where})"


class FileColumn(OutputField):
    """A file: its name, media type, and the resource to read it from.

    Never its place in the storage, nor its URL, which would pass by our permissions.
    """

    def value(self, obj: Any, showing: SerializerContext) -> Any:
        """The file's description, or None where there is none."""
        file = getattr(obj, self.path.field.attname)
        if not file:
            return None
        name = to_json_value(file)
        described = {"uri": f"{showing.bound.uri_of(obj)}/{self.name}", "mimeType": media_type(name), "name": name}
        if showing.in_full:
            with suppress(Exception):  # storages raise what they like where they cannot say, or have lost the file
                described["size"] = int(file.size)
        return described


class BytesColumn(OutputField):
    """Bytes: where to read them."""

    def value(self, obj: Any, showing: SerializerContext) -> Any:
        """The link, or None where it is empty."""
        found = getattr(obj, self.path.field.attname)
        if found is None or len(found) == 0:
            return None
        mime_type = showing.bound.contents[self.name].mime_type
        return {"uri": f"{showing.bound.uri_of(obj)}/{self.name}", "mimeType": mime_type, "size": len(found)}


@dataclass(frozen=True, slots=True)
class LinkColumn(OutputField):
    """A single relation to a model that is exposed at the same endpoint."""

    target: Any = None

    def value(self, obj: Any, showing: SerializerContext) -> Any:
        """The link, or None where there is nothing the caller may see."""
        found = value_at(obj, (*self.path.hops, self.path.field), showing)
        return None if found is None else serialize_link(self.target, found, showing.access)


@dataclass(frozen=True, slots=True)
class SetColumn(OutputField):
    """A set of related rows: links to them, or what a path gives for each."""

    target: Any = None

    def value(self, obj: Any, showing: SerializerContext) -> Any:
        """The first few that the caller may see, in the order of their primary keys."""
        most = showing.bound.resource.max_related
        return [each for each in self._values(obj, showing) if each is not None][:most]

    def _values(self, obj: Any, showing: SerializerContext) -> Iterator[Any]:
        steps: list[Any] = [*self.path.hops, self.path.field]
        first, others = steps[0], steps[1:]
        for row in getattr(obj, rows_attribute(first.name), ()):
            if not showing.access.sees_behind(first, row, showing.bound):
                continue
            if not others:
                yield None if self.target is None else serialize_link(self.target, row, showing.access)
                continue
            end = value_at(row, tuple(others[:-1]), showing)
            value = None if end is None else column_value(others[-1], getattr(end, others[-1].attname))
            if isinstance(value, str) and len(value) > showing.most_characters:
                value = _shortened(value, self, obj, showing)
            yield value


@dataclass(frozen=True, slots=True)
class FunctionColumn(OutputField):
    """What a function gives for the object.

    Attributes:
        call: takes the object.
        dump: from what it gives to JSON.
    """

    call: Callable[[Any], Any] = field(kw_only=True)
    dump: Callable[[Any], Any] = field(kw_only=True, default=to_json_value)

    def value(self, obj: Any, showing: SerializerContext) -> Any:
        """What it gives; of a text that is too long the beginning."""
        try:
            value = self.dump(self.call(obj))
        except ObjectDoesNotExist:  # it looks for a row that does not exist for the caller
            return None
        if isinstance(value, str) and len(value) > showing.most_characters:
            return _shortened(value, self, obj, showing)
        return value


def function_column(name: str, call: Callable[[Any], Any], returns: Any, words: str | None) -> FunctionColumn:
    """The column of a function; its schema is that of its return annotation, where it has one that can be shown."""
    described = {"description": words} if words else {}
    if returns is None or returns is Any:
        return FunctionColumn(name, described, call=call)
    adapter: TypeAdapter[Any] = TypeAdapter(returns)
    schema = json_schema(adapter, "serialization")

    def dump(value: Any) -> Any:
        return to_jsonable_python(adapter.dump_python(value, mode="json", by_alias=True), inf_nan_mode="constants")

    return FunctionColumn(name, {**schema, **described}, call=call, dump=dump)


def column_of(name: str, path: Path, target: BoundResource | None) -> OutputField:
    """The column of a path."""
    described = _words(path.field)
    end, kind = path.field, path.value_field
    if path.is_many:
        items = LINK_SCHEMA if end.is_relation else json_type(end)
        return SetColumn(name, {**described, "type": "array", "items": items}, path, target=target)
    if end.is_relation and target is not None:
        return LinkColumn(name, nullable({**LINK_SCHEMA, **described}), path, target=target)
    if isinstance(kind, models.FileField) and not path.hops:
        return FileColumn(name, {"anyOf": [FILE_SCHEMA, {"type": "null"}], **described}, path)
    if isinstance(kind, models.BinaryField) and not path.hops:
        return BytesColumn(name, {"anyOf": [FILE_SCHEMA, {"type": "null"}], **described}, path)
    schema = {**json_type(end), **described}
    # A float that JSON lacks is null; so is all that stands behind a row which the caller may not see.
    is_nullable = path.hops or path.is_nullable or end.is_relation or isinstance(kind, models.FloatField)
    return ValueColumn(name, nullable(schema) if is_nullable else schema, path)


def _words(end: Any) -> dict[str, Any]:
    """What the model says of a field, for whoever reads its values."""
    name, help_text = str(getattr(end, "verbose_name", "") or ""), str(getattr(end, "help_text", "") or "")
    plain = str(getattr(end, "name", "")).replace("_", " ")
    words = [each for each in (name if name.lower() != plain.lower() else "", help_text) if each]
    return {"description": ". ".join(words)} if words else {}


def serialize_row(
    bound: BoundResource, obj: Any, columns: Iterable[OutputField], showing: SerializerContext
) -> dict[str, Any]:
    """Return the address of a row and the values of *columns*."""
    address = {"uri": bound.uri_of(obj), bound.lookup_name: to_json_value(getattr(obj, bound.lookup.attname))}
    return {**address, **{column.name: column.value(obj, showing) for column in columns}}


def row_schema(bound: BoundResource, columns: Iterable[OutputField]) -> dict[str, Any]:
    """Return the JSON Schema of what ``serialize_row`` returns."""
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
    """Return URI and title of a row of ``RowAccess.get_queryset``; None if it does not exist for the caller."""
    return {"uri": bound.uri_of(obj), "title": bound.title_of(obj)} if access.can_view(bound, obj) else None


def to_markdown(bound: BoundResource, row: dict[str, Any]) -> str:
    """A heading, a line for each value, and a section for each that has several lines."""
    title = row.get(bound.resource.title_field or "") or row[bound.lookup_name]
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
            return "; ".join(f"{key}: {_line(each)}" for key, each in value.items())
    return " ".join(str(value).split())
