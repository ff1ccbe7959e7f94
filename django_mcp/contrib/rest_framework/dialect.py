"""JSON Schema as clients take it: without ``$ref``, and with null as a type."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from django_mcp.primitives.schema import json_schema

Schema = dict[str, Any]

CHECKED = frozenset(
    {
        "additionalProperties",
        "anyOf",
        "const",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "title",
        "type",
    }
)
"""What ``structural`` leaves of a schema."""
OPENAPI_ONLY = frozenset({"discriminator", "example", "externalDocs", "nullable", "readOnly", "writeOnly", "xml"})
PLAIN_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def nullable(schema: Schema) -> Schema:
    """*schema*, or null."""
    kind = schema.get("type")
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if kind is None and "enum" not in schema:
        return schema
    allowed = dict(schema)
    if kind is not None:
        allowed["type"] = [*dict.fromkeys([*([kind] if isinstance(kind, str) else kind), "null"])]
    if "enum" in schema and None not in schema["enum"]:
        allowed["enum"] = [*schema["enum"], None]
    return allowed


def one_of(values: Iterable[Any]) -> Schema:
    """Any of *values*, with their types where all of them have one of JSON."""
    listed = list(values)
    kinds = [*dict.fromkeys(PLAIN_TYPES.get(type(value), "") for value in listed)]
    if not kinds or "" in kinds:
        return {"enum": listed} if listed else {}
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": listed}


def from_annotation(annotation: Any) -> Schema | None:
    """The schema of a Python type as pydantic sees it; None where it has none."""
    try:
        schema = json_schema(TypeAdapter(annotation), "serialization")
    except PydanticUserError:
        return None
    return inlined(schema)  # type: ignore[no-any-return]


def inlined(schema: Any) -> Any:
    """*schema* with its ``$defs`` in the places that refer to them, and in JSON Schema where it was in OpenAPI.

    What cannot be shown so, a type that contains itself or a component of another document, may be anything.
    """
    return _inlined(schema, schema.get("$defs", {}), ())


def _inlined(schema: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, definitions, inside) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        name = reference.rpartition("/")[2]
        beside = _inlined({key: value for key, value in schema.items() if key != "$ref"}, definitions, inside)
        if name in inside or name not in definitions:
            return beside
        return {**_inlined(definitions[name], definitions, (*inside, name)), **beside}
    kept = {key: value for key, value in schema.items() if key not in OPENAPI_ONLY and key != "$defs"}
    if "properties" in kept and isinstance(kept.get("title"), str):
        del kept["title"]
    found = {
        key: {name: _inlined(each, definitions, inside) for name, each in value.items()}
        if key in {"properties", "patternProperties"}
        else value
        if key in {"default", "enum", "const", "examples"}
        else _inlined(value, definitions, inside)
        for key, value in kept.items()
    }
    return nullable(found) if schema.get("nullable") is True else found


def structural(schema: Schema) -> Schema:
    """Only what ``fitted`` can hold a value to; all else a value might break."""
    found: Schema = {}
    for key in CHECKED & schema.keys():
        value = schema[key]
        if key == "properties":
            value = {name: structural(each) for name, each in value.items()}
        elif key == "anyOf":
            value = [structural(each) for each in value]
        elif isinstance(value, dict):
            value = structural(value)
        elif key == "additionalProperties":
            continue
        found[key] = value
    return {key: found[key] for key in schema if key in found}
