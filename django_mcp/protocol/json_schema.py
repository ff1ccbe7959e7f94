"""JSON Schema as forms read it: the type of a value and its choices."""

from collections.abc import Mapping, Sequence
from typing import Any

MAX_STEPS = 20
"""References and unions followed for one value."""
Schema = Mapping[str, Any]
Choices = Sequence[tuple[Any, str]]
"""Values and their labels."""


def plain(schema: Any, root: Schema) -> Schema:
    """Return a schema with references resolved and null removed: forms omit a value instead of sending null."""
    for _ in range(MAX_STEPS):
        if not isinstance(schema, Mapping):
            break
        inner = _inner(schema, root)
        if inner is None:
            return _without_null(schema)
        schema = inner
    return {}


def alternatives(schema: Any, root: Schema, steps: int = MAX_STEPS) -> Sequence[Schema]:
    """Return the possible schemas of a value, null included: without references, each with at most one type."""
    if not isinstance(schema, Mapping) or not steps:
        return [{}]
    if isinstance(reference := schema.get("$ref"), str):
        return alternatives({**_target(reference, root), **_but(schema, "$ref")}, root, steps - 1)
    if choices_of(schema) is None:
        for keyword in ("anyOf", "oneOf"):
            if isinstance(parts := schema.get(keyword), list):
                return [found for part in parts for found in alternatives(part, root, steps - 1)]
    types = schema.get("type")
    return [{**schema, "type": each} for each in types] if isinstance(types, list) else [schema]


def takes_null(schema: Any, root: Schema) -> bool:
    """Return True unless each possible schema of a value has a type other than null."""
    return any(each.get("type", "null") == "null" for each in alternatives(schema, root))


def _inner(schema: Schema, root: Schema) -> Schema | None:
    """Return what a reference or one-member union stands for, merged with its siblings; else None."""
    if isinstance(reference := schema.get("$ref"), str):
        return {**_target(reference, root), **_but(schema, "$ref")}
    for keyword in ("anyOf", "oneOf", "allOf"):
        parts = _parts(schema, keyword)
        if parts is not None and len(parts) == 1:
            return {**parts[0], **_but(schema, keyword)}
    return None


def _parts(schema: Schema, keyword: str) -> Sequence[Schema] | None:
    parts = schema.get(keyword)
    if not isinstance(parts, list) or not all(isinstance(each, Mapping) for each in parts):
        return None
    return [each for each in parts if each.get("type") != "null"]


def _but(schema: Schema, keyword: str) -> Schema:
    return {key: value for key, value in schema.items() if key != keyword}


def _target(reference: str, root: Schema) -> Schema:
    place: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        place = place.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def _without_null(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    others = [each for each in kinds if each != "null"]
    return {**schema, "type": others[0]} if len(others) == 1 else schema


def choices_of(schema: Schema) -> Choices | None:
    """Return the choices of a schema, or None if it has none."""
    if isinstance(values := schema.get("enum"), list):
        names = schema.get("enumNames")
        names = names if isinstance(names, list) and len(names) == len(values) else values
        return [(value, _called(name)) for value, name in zip(values, names, strict=True) if value is not None]
    if "const" in schema:
        return [(schema["const"], _called(schema.get("title", schema["const"])))]
    for keyword in ("oneOf", "anyOf"):
        parts = _parts(schema, keyword)
        if parts and all("const" in each for each in parts):
            return [(each["const"], _called(each.get("title", each["const"]))) for each in parts]
    return None


def _called(value: Any) -> str:
    return value if isinstance(value, str) else str(value)
