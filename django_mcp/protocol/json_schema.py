"""JSON Schema as forms read it: the type of a value and its choices."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

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
        return alternatives({**resolve(reference, root), **_but(schema, "$ref")}, root, steps - 1)
    if choices_of(schema) is None:
        for keyword in ("anyOf", "oneOf"):
            if isinstance(parts := schema.get(keyword), list):
                return [found for part in parts for found in alternatives(part, root, steps - 1)]
    types = schema.get("type")
    return [{**schema, "type": kind} for kind in types] if isinstance(types, list) else [schema]


def describing(value: Mapping[str, Any], forms: Sequence[Any], root: Schema) -> Sequence[Any]:
    """Return those of *forms* that describe an object: all its names, with none missing, and its constants.

    Return all of them if none does: an object may have other names than its schema says, such as those of aliases.
    """
    found = [form for form in forms if _describes(form, value, root)] if len(forms) > 1 else ()
    return found or forms


def _describes(form: Any, value: Mapping[str, Any], root: Schema) -> bool:
    if not isinstance(form, Mapping):
        return False
    if isinstance(reference := form.get("$ref"), str):
        form = resolve(reference, root)
    properties = form.get("properties", {})
    if form.get("type", "object") != "object" or not value.keys() >= set(form.get("required", ())):
        return False
    if not (form.get("additionalProperties") or value.keys() <= properties.keys()):
        return False
    return all(_may_be(value[name], part) for name, part in properties.items() if name in value)


def _may_be(value: Any, schema: Any) -> bool:
    # Text is compared with the choices only if all choices are text.
    choices = (choices_of(schema) if isinstance(schema, Mapping) else None) or ()
    texts = [value for value, _ in choices if isinstance(value, str)]
    return not isinstance(value, str) or not texts or len(texts) < len(choices) or value in texts


def takes_null(schema: Any, root: Schema) -> bool:
    # A schema without a type also allows null.
    return any(form.get("type", "null") == "null" for form in alternatives(schema, root))


def _inner(schema: Schema, root: Schema) -> Schema | None:
    if isinstance(reference := schema.get("$ref"), str):
        return {**resolve(reference, root), **_but(schema, "$ref")}
    for keyword in ("anyOf", "oneOf", "allOf"):
        parts = _parts(schema, keyword)
        if parts is not None and len(parts) == 1:
            return {**parts[0], **_but(schema, keyword)}
    return None


def _parts(schema: Schema, keyword: str) -> Sequence[Schema] | None:
    parts = schema.get(keyword)
    if not isinstance(parts, list) or not all(isinstance(part, Mapping) for part in parts):
        return None
    return [part for part in parts if part.get("type") != "null"]


def _but(schema: Schema, keyword: str) -> Schema:
    return {key: value for key, value in schema.items() if key != keyword}


def resolve(reference: Any, root: Schema) -> Schema:
    """Return what a ``$ref`` points to in the document *root* (RFC 6901); {} for nothing, or another document."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    place: Any = root
    for part in reference.removeprefix("#").split("/")[1:]:
        place = place.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(place, Mapping) else None
    return place if isinstance(place, Mapping) else {}


def _without_null(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    others = [kind for kind in kinds if kind != "null"]
    return {**schema, "type": others[0]} if len(others) == 1 else schema


def as_word(value: Any) -> str:
    # Null and booleans are spelled as in JSON.
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def choices_of(schema: Schema) -> Choices | None:
    if isinstance(values := schema.get("enum"), list):
        names = schema.get("enumNames")
        names = names if isinstance(names, list) and len(names) == len(values) else values
        return [(value, _called(name)) for value, name in zip(values, names, strict=True) if value is not None]
    if "const" in schema:
        return [(schema["const"], _called(schema.get("title", schema["const"])))]
    for keyword in ("oneOf", "anyOf"):
        parts = _parts(schema, keyword)
        if parts and all("const" in part for part in parts):
            return [(part["const"], _called(part.get("title", part["const"]))) for part in parts]
    return None


def _called(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def is_string_list(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
