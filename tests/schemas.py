"""What Claude, OpenAI, Gemini and VS Code refuse in the schemas of a tool."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
REFERENCES = {"$ref", "$defs", "definitions", "$anchor", "$dynamicRef", "$id"}
COMPOSITIONS = {"oneOf", "allOf", "not", "if", "then", "else", "dependentSchemas", "patternProperties"}
DATA = {"const", "default", "enum", "examples"}


def refused(definition: Mapping[str, Any]) -> Iterator[str]:
    """Where a definition has something that one of them refuses, and what."""
    taken, given = definition["inputSchema"], definition.get("outputSchema")
    if taken.get("type") != "object" or "properties" not in taken:
        yield "inputSchema: no object with properties"
    yield from _refused(taken, "inputSchema")
    if given is not None:
        if not isinstance(given.get("type"), str):
            yield "outputSchema: no type"
        yield from _refused(given, "outputSchema")
    for name, schema in (("inputSchema", taken), ("outputSchema", given or {})):
        if "anyOf" in schema:
            yield f"{name}: anyOf at the root"


def _refused(schema: Any, where: str) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    yield from (f"{where}: {each}" for each in _refused_here(schema, is_input=where.startswith("inputSchema")))
    for name, each in schema.get("properties", {}).items():
        yield from _refused(each, f"{where}.{name}")
    for key in schema.keys() - DATA - {"properties"}:
        for each in schema[key] if isinstance(schema[key], list) else [schema[key]]:
            yield from _refused(each, f"{where}.{key}")


def _refused_here(schema: Mapping[str, Any], *, is_input: bool) -> Iterator[str]:
    yield from (REFERENCES | COMPOSITIONS) & schema.keys()
    if isinstance(schema.get("type"), list):
        yield "a list of types"
    if schema.get("type") == "array" and not isinstance(schema.get("items"), Mapping):
        yield "an array without one schema of its items"
    if "enum" in schema and not schema["enum"]:
        yield "an enum without values"
    properties = schema.get("properties", {})
    yield from (f"a property named {each!r}" for each in properties if is_input and not NAME.fullmatch(each))
    yield from (f"{each!r} is required and no property" for each in set(schema.get("required", ())) - properties.keys())
