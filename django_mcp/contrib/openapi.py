"""OpenAPI operations as tools: argument schemas, their location in the request, and output schemas."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.integrations.requests import JSON
from django_mcp.model_resources.form_schema import FILE_SCHEMA, file_argument, file_note
from django_mcp.primitives.compatibility import property_name
from django_mcp.primitives.field_schema import joined, nullable, plain_text
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.schema import ArgumentError, Arguments
from django_mcp.primitives.validation_errors import missing_argument

Schema = dict[str, Any]

_OPENAPI_ONLY = frozenset(
    {"deprecated", "discriminator", "example", "externalDocs", "include_in_schema", "nullable", "readOnly", "title"}
    | {"writeOnly", "xml"}
)
_FORMATS = frozenset({"date", "date-time", "email", "ipv4", "ipv6", "uri", "uuid"})
"""Formats kept. Others are OpenAPI's own, or differ in Django, whose times have no UTC offset."""
_EXCLUSIVE = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}


@dataclass(frozen=True)
class Document:
    """The components of an OpenAPI document, for conversion to JSON Schema 2020-12.

    Attributes:
        hidden: keyword of properties to leave out: ``"readOnly"`` in requests, ``"writeOnly"`` in responses.
    """

    components: Mapping[str, Schema] = field(default_factory=dict)
    hidden: str = "readOnly"

    def schema(self, given: Any, name: str = "", within: tuple[str, ...] = ()) -> Any:
        """Return a schema with references resolved and OpenAPI-only keywords removed.

        Args:
            given: a schema of OpenAPI 3.0 or 3.1.
            name: name of its property; a title that repeats it is left out.
            within: components that contain it. A recursive reference is reduced to its type.
        """
        if isinstance(given, list):
            return [self.schema(part, "", within) for part in given]
        if not isinstance(given, dict):
            return given
        if isinstance(reference := given.get("$ref"), str):
            component = reference.rpartition("/")[2]
            known = self.components.get(component, {})
            found = {key: value for key, value in known.items() if key == "type" or component not in within}
            return self.schema({**found, **_but(given, "$ref")}, name, (*within, component))
        if len(single := given.get("allOf", ())) == 1:
            return self.schema({**single[0], **_but(given, "allOf")}, name, within)
        if given.get("format") == "binary":
            found = {**FILE_SCHEMA, "description": plain_text(join_text(given.get("description"), file_note()))}
            return nullable(found) if given.get("nullable") is True else found
        found = {
            key: self._keyword(key, value, within)
            for key, value in given.items()
            if key not in _OPENAPI_ONLY and not key.startswith("x-")
        }
        if words := found.get("description"):
            found["description"] = plain_text(words)
        title = plain_text(given.get("title") or "")
        if title and "properties" not in found and _plain(title) != _plain(name):
            found = {"title": title, **found}
        return nullable(_dialect(found)) if given.get("nullable") is True else _dialect(found)

    def _keyword(self, key: str, value: Any, within: tuple[str, ...]) -> Any:
        if key in {"properties", "patternProperties"}:
            shown = {name: part for name, part in value.items() if not part.get(self.hidden)}
            return {name: self.schema(part, name, within) for name, part in shown.items()}
        return value if key in {"const", "default", "enum", "examples"} else self.schema(value, "", within)


def _but(schema: Mapping[str, Any], key: str) -> Schema:
    return {name: value for name, value in schema.items() if name != key}


def _dialect(schema: Schema) -> Schema:
    """Convert OpenAPI 3.0 keywords in place, and remove those that JSON Schema lacks."""
    if "oneOf" in schema:
        schema["anyOf"] = schema.pop("oneOf")
    for limit, exclusive in _EXCLUSIVE.items():
        if schema.get(exclusive) is True:
            schema[exclusive] = schema.pop(limit)
    if schema.get("format") not in _FORMATS:
        schema.pop("format", None)
    if "required" in schema:
        schema["required"] = [name for name in schema["required"] if name in schema.get("properties", ())]
        if not schema["required"]:
            del schema["required"]
    return schema


def _plain(word: Any) -> str:
    return str(word).casefold().replace("_", " ").replace("-", " ")


def join_text(*notes: Any) -> Any:
    """Join the non-empty *notes* to one text, lazy if one of them is; None if there are none."""
    words = [note for note in notes if note]
    return joined(*words) if len(words) > 1 else next(iter(words), None)


def output_schema(responses: Mapping[Any, Any], document: Document) -> Schema | None:
    """Return the schema of structured content, or None unless there is exactly one success response, of JSON."""
    successes = [response for status, response in responses.items() if str(status).startswith("2")]
    content = [success.get("content", {}).get(JSON, {}).get("schema") for success in successes]
    return None if len(content) != 1 or not content[0] else document.schema(content[0])


def without_required(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_required(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if key != "required" or not isinstance(value, list)}
    return {key: without_required(value) for key, value in kept.items()}


OMITTED = object()


@dataclass(frozen=True)
class ArgumentLocation:
    """The location of an argument in the request.

    Attributes:
        source: ``"path"``, ``"query"``, ``"body"`` (a member of the body) or ``"whole"`` (the body itself).
        is_file: True for a file or a list of files.
        joined: True if the values of a list are joined by commas.
        argument: the name of the argument, if the site has chosen it.
    """

    source: str
    name: str
    schema: Schema
    required: bool = False
    is_file: bool = False
    joined: bool = False
    argument: str = ""


def parameter_locations(
    parameters: Sequence[Mapping[str, Any]], document: Document, sources: Collection[str] = ("path", "query")
) -> Iterator[ArgumentLocation]:
    for parameter in parameters:
        if parameter["in"] in sources:
            schema = document.schema(parameter.get("schema", {"type": "string"}), parameter["name"])
            if words := parameter.get("description"):
                schema = {**schema, "description": plain_text(words)}
            joined = schema.get("type") == "array" and parameter.get("explode") is False
            yield ArgumentLocation(
                parameter["in"], parameter["name"], schema, bool(parameter.get("required")), joined=joined
            )


def body_locations(
    schema: Schema, document: Document, *, required: bool, name: str | None = None
) -> list[ArgumentLocation]:
    """Return the locations of a body's members, or one location if the body is not an object or accepts other members.

    *name* is the argument of a whole body. Default: ``items`` for a list, otherwise ``body``.
    """
    shown = document.schema(schema)
    if "properties" not in shown or "additionalProperties" in shown or "default" in schema:
        shown.pop("title", None)
        name = name or ("items" if shown.get("type") == "array" else "body")
        return [ArgumentLocation("whole", name, shown, required)]
    needed = shown.get("required", ())
    return [
        ArgumentLocation("body", name, inner, name in needed, _is_file(inner))
        for name, inner in shown["properties"].items()
    ]


def _is_file(schema: Schema) -> bool:
    inner = schema.get("items", schema)
    kinds = inner.get("anyOf", [inner]) if isinstance(inner, dict) else []
    return any(kind.get("properties") is FILE_SCHEMA["properties"] for kind in kinds)


@dataclass
class RequestData:
    """The values of one call by location in the request. ``body`` may be ``OMITTED``."""

    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    body: Any = OMITTED
    files: dict[str, Any] = field(default_factory=dict)


class OperationArguments(Arguments):
    """Arguments whose names are validated here, and whose values are validated by the operation.

    A body member with the name of a path or query parameter is renamed to ``new_…``.

    Raises:
        ImproperlyConfigured: two arguments have the same name.
    """

    def __init__(self, locations: Sequence[ArgumentLocation], label: str) -> None:
        self.locations: dict[str, ArgumentLocation] = {}
        for location in locations:
            self.locations[self._free(location, label)] = location
        needed = {"path", "whole"}  # no request can be made without them
        self._needed = [name for name, known in self.locations.items() if known.required and known.source in needed]
        named = [Parameter(name, Any, EMPTY if name in self._needed else OMITTED, None) for name in self.locations]
        super().__init__(named, label)
        self.schema = {
            "type": "object",
            "properties": {name: _named(location, name) for name, location in self.locations.items()},
            "additionalProperties": False,
        }
        if required := [name for name, location in self.locations.items() if location.required]:
            self.schema["required"] = required

    def _free(self, location: ArgumentLocation, label: str) -> str:
        name = location.argument or property_name(location.name)
        while location.source in {"body", "whole"} and name in self.locations and self.locations[name].source != "body":
            name = f"new_{name}"
        if name in self.locations:
            msg = f"{label}: two parameters are named {name!r}; give one of them an alias."
            raise ImproperlyConfigured(msg)
        return name

    @property
    def whole(self) -> str | None:
        return next((name for name, location in self.locations.items() if location.source == "whole"), None)

    @property
    def is_list(self) -> bool:
        return self.whole is not None and self.locations[self.whole].schema.get("type") == "array"

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # Under a single key, because the names are arbitrary.
        given = {name: value for name, value in super().validate(values).items() if value is not OMITTED}
        if missing := [name for name in self._needed if given.get(name) in (None, "")]:
            raise ArgumentError([missing_argument([name]) for name in missing])
        return {"given": given}

    def request_data(self, given: Mapping[str, Any]) -> RequestData:
        data = RequestData()
        if any(location.source == "body" for location in self.locations.values()):
            data.body = {}
        for argument, value in given.items():
            location = self.locations[argument]
            if location.source == "path":
                if value is not None:
                    data.path[location.name] = value
            elif location.source == "query":
                is_joined = location.joined and isinstance(value, list)
                data.query[location.name] = ",".join(map(str, value)) if is_joined else value
            elif location.source == "whole":
                data.body = value
            elif location.is_file and value is not None:
                data.files[location.name] = (
                    [file_argument(argument, entry) for entry in value]
                    if isinstance(value, list)
                    else file_argument(argument, value)
                )
            else:
                data.body[location.name] = value
        return data

    def variable(self, name: str) -> str:
        found = (
            argument
            for argument, location in self.locations.items()
            if (location.source, location.name) == ("path", name)
        )
        return next(found, name)

    def argument(self, loc: Sequence[Any]) -> tuple[Any, ...] | None:
        """Translate a location in the body or query to one in the arguments; None if there is none."""
        whole = () if self.whole is None else (self.whole,)
        if not loc or (self.is_list and isinstance(loc[0], int)):
            return (*whole, *loc) or None
        first, *rest = loc
        named = {location.name: name for name, location in self.locations.items() if location.source != "whole"}
        named |= {location.name: name for name, location in self.locations.items() if location.source == "body"}
        if str(first) in named:
            return (named[str(first)], *rest)
        return (*whole, *loc) if whole and not self.is_list else None


def _named(location: ArgumentLocation, argument: str) -> Schema:
    name, schema = location.name, location.schema
    if argument in {name, location.argument}:
        return schema
    words = schema.get("description", "")
    if argument != property_name(name):
        return {**schema, "description": f"The new {name}. {words}".strip()}
    return {**schema, "description": f"{words} Sent as {name!r}.".strip()}


def as_text(value: Any) -> Any:
    # Unlike browsers, False is sent, as text.
    if isinstance(value, list):
        return [as_text(entry) for entry in value]
    return value if isinstance(value, str) or value is None else json.dumps(value)
