"""Where the arguments of a tool go: into the path, query, form, files or body of a request."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from ninja.operation import Operation
from ninja.params.models import BodyModel, CookieModel, FileModel, FormModel, HeaderModel, PathModel, QueryModel
from pydantic import TypeAdapter

from django_mcp.adapters.files import FILE_SCHEMA, file_note
from django_mcp.primitives.schema import json_schema, property_name, typed_dict

Schema = dict[str, Any]

_FILE: Schema = {**FILE_SCHEMA, "description": file_note()}


@dataclass(frozen=True)
class Place:
    """Where an argument goes.

    Attributes:
        source: ``"path"``, ``"query"``, ``"form"``, ``"file"``, ``"part"`` (JSON in a form), ``"body"`` (a member of
            the body) or ``"whole"`` (the body).
        name: what it is called there.
        location: where ninja says it is, when it is wrong.
        schema: of its values.
        required: it must be given.
    """

    source: str
    name: str
    location: tuple[str, ...]
    schema: Schema
    required: bool


class Places:
    """The arguments of an operation, by name.

    Args:
        operation: whose they are.
        headers: what every request has, by lower-case name with hyphens; no others are sent.
        label: names the operation in errors.

    Attributes:
        found: by the name of the argument.
        shared: schemas that others refer to, by name.

    Raises:
        ImproperlyConfigured: it needs a header or a cookie that nobody sends, or two arguments have one name.
    """

    def __init__(self, operation: Operation, headers: Mapping[str, str], label: str) -> None:
        self._label = label
        self.found: dict[str, Place] = {}
        models = {f"m{number}": model for number, model in enumerate(operation.models)}
        whole = json_schema(TypeAdapter(typed_dict("operation", models)), "validation")
        self.shared: Schema = whole.get("$defs", {})
        # The body comes last, for what is in it can make way for the others.
        for key, model in sorted(models.items(), key=lambda item: issubclass(item[1], BodyModel)):
            schema = self._resolved(whole["properties"][key])
            if issubclass(model, HeaderModel | CookieModel):
                self._require_sent(model, schema, headers)
            elif issubclass(model, BodyModel):
                self._add(self._of_body(model, schema))
            else:
                self._add({place.name: place for place in self._flat(model, schema)})

    def _resolved(self, schema: Schema) -> Schema:
        """What a schema refers to; of an optional object the object, without what it requires."""
        for each in schema.get("anyOf", ()):
            if "properties" in (found := self._resolved(each)):
                return {**found, "required": []}
        return self.shared[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema

    def _flat(self, model: Any, schema: Schema) -> Iterator[Place]:
        """Those in path, query, form and files, where the members of objects are flat."""
        sources = {PathModel: "path", QueryModel: "query", FormModel: "form", FileModel: "file"}
        source = next(name for kind, name in sources.items() if issubclass(model, kind))
        paths = getattr(model, "__ninja_flatten_map__", None) or {name: (name,) for name in schema["properties"]}
        for name, path in paths.items():
            found, required = schema, True
            for step in path:
                found = self._resolved(found)
                required = required and step in found.get("required", ())
                found = found["properties"][step]
            if found.get("include_in_schema", True):
                shown = _with_files(found) if source == "file" else found
                yield Place(source, name, path, shown, required or source == "path")

    def _of_body(self, model: Any, schema: Schema) -> dict[str, Place]:
        """The members of the body where it is one object whose names are free; else what makes it up, one by one."""
        needed = schema.get("required", ())
        source = "body" if getattr(model, "__read_from_single_attr__", None) is None else "whole"
        if getattr(model, "__ninja_body_params__", None):
            source = "part"
        given = {
            name: Place(source, name, (name,), each, name in needed) for name, each in schema["properties"].items()
        }
        if source != "whole":
            return given
        ((name, place),) = given.items()
        inner = self._resolved(place.schema)
        members = inner.get("properties", {})
        is_open = not members or "additionalProperties" in inner
        if is_open or not place.required or not members.keys().isdisjoint(self.found):
            return given
        needed = inner.get("required", ())
        return {each: Place("body", each, (name, each), members[each], each in needed) for each in members}

    def _add(self, places: Mapping[str, Place]) -> None:
        for name, place in places.items():
            argument = property_name(name)
            if argument in self.found:
                msg = f"{self._label}: it takes {argument!r} twice; give one of them an alias."
                raise ImproperlyConfigured(msg)
            self.found[argument] = _sent_as(place)

    def _require_sent(self, model: Any, schema: Schema, headers: Mapping[str, str]) -> None:
        kind = "header" if issubclass(model, HeaderModel) else "cookie"
        names = [name.lower().replace("_", "-") for name in schema.get("required", ())]
        if needed := [name for name in names if kind == "cookie" or name not in headers]:
            msg = (
                f"{self._label}: it needs the {kind} {needed[0]!r}, which an MCP client does not send. Give it a "
                "default, exclude the operation, or say what headers every request has: headers={…}."
            )
            raise ImproperlyConfigured(msg)


def _sent_as(place: Place) -> Place:
    """*place*, with the name that the API has for it where no argument can have that name."""
    if property_name(place.name) == place.name:
        return place
    words = f"{place.schema.get('description', '')} Sent as {place.name!r}.".strip()
    return replace(place, schema={**place.schema, "description": words})


def _with_files(schema: Schema) -> Schema:
    """What stands for a file in a call, or for several, in place of what a form has."""
    described: Schema = {key: schema[key] for key in ("title", "description") if key in schema}
    several = schema.get("type") == "array" or any(each.get("type") == "array" for each in schema.get("anyOf", ()))
    return {"type": "array", "items": _FILE, **described} if several else {**_FILE, **described}
