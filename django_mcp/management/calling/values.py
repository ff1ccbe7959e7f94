"""From what is typed in a shell to the values of a JSON Schema."""

import json
from collections.abc import Mapping
from typing import Any

YES, NO = frozenset({"yes", "y", "true", "on", "1"}), frozenset({"no", "n", "false", "off", "0"})
_KINDS = {"boolean": "yes|no"}
Schema = Mapping[str, Any]


class BadValue(Exception):
    """What was typed does not fit; the text says what would."""


def resolved(schema: Any, root: Schema) -> Schema:
    """A schema with what it refers to within *root* in its place."""
    seen = 0
    while isinstance(schema, Mapping) and isinstance(reference := schema.get("$ref"), str) and seen < 10:  # noqa: PLR2004
        found: Any = root
        for part in reference.removeprefix("#/").split("/"):
            found = found.get(part, {}) if isinstance(found, Mapping) else {}
        schema, seen = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}, seen + 1
    return schema if isinstance(schema, Mapping) else {}


def alternatives(schema: Any, root: Schema) -> list[Schema]:
    """What a value may be, each with one type."""
    schema = resolved(schema, root)
    for key in ("anyOf", "oneOf"):
        if key in schema and not all("const" in each for each in schema[key]):
            return [each for part in schema[key] for each in alternatives(part, root)]
    kinds = schema.get("type")
    return [{**schema, "type": each} for each in kinds] if isinstance(kinds, list) else [schema]


def choices(schema: Schema) -> list[tuple[Any, str]]:
    """Values that are allowed, with their titles; empty where many are."""
    for key in ("oneOf", "anyOf"):
        if schema.get(key) and all("const" in each for each in schema[key]):
            return [(each["const"], str(each.get("title", each["const"]))) for each in schema[key]]
    if "const" in schema:
        return [(schema["const"], str(schema["const"]))]
    values = schema.get("enum", [])
    names = schema.get("enumNames", values)
    return [(value, str(name)) for value, name in zip(values, names, strict=False)]


def typed(schema: Any, text: str, root: Schema) -> Any:
    """The value that a text stands for.

    Raises:
        BadValue: it fits nowhere.
    """
    found = alternatives(schema, root)
    problems = []
    # Text fits everywhere, so it comes last: 3 is a number where it may be one.
    for each in sorted(found, key=lambda each: each.get("type") == "string"):
        try:
            return _typed(each, text, root)
        except BadValue as error:
            problems.append(str(error))
    raise BadValue(" or ".join(dict.fromkeys(problems)) or "it cannot have a value")


def _typed(schema: Schema, text: str, root: Schema) -> Any:  # noqa: C901, PLR0911 - a table
    if allowed := choices(schema):
        return _chosen(allowed, text)
    match schema.get("type"):
        case "string":
            return _checked_text(schema, text)
        case "integer" | "number" as kind:
            return _number(schema, text, kind)
        case "boolean":
            if text.lower() in YES | NO:
                return text.lower() in YES
            raise BadValue("yes or no")
        case "null":
            if text in {"", "null"}:
                return None
            raise BadValue("null")
        case "array":
            items = schema.get("items", {})
            if text.startswith("["):
                return _json(text, list, "a JSON array")
            return [typed(items, part.strip(), root) for part in text.split(",") if part.strip()]
        case "object":
            return _json(text, dict, 'a JSON object, like {"key": "value"}')
    return text


def _chosen(allowed: list[tuple[Any, str]], text: str) -> Any:
    for value, title in allowed:
        if text in {str(value), title}:
            return value
    raise BadValue(f"one of {', '.join(str(value) for value, _ in allowed)}")


def _checked_text(schema: Schema, text: str) -> str:
    least, most = schema.get("minLength"), schema.get("maxLength")
    if least is not None and len(text) < least:
        raise BadValue(f"a text of at least {least} characters")
    if most is not None and len(text) > most:
        raise BadValue(f"a text of at most {most} characters")
    return text


def _number(schema: Schema, text: str, kind: str) -> int | float:
    try:
        value = int(text) if kind == "integer" or text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        raise BadValue("a whole number" if kind == "integer" else "a number") from None
    if value < schema.get("minimum", value):
        raise BadValue(f"a number of at least {schema['minimum']}")
    if value > schema.get("maximum", value):
        raise BadValue(f"a number of at most {schema['maximum']}")
    return value


def _json(text: str, kind: type, words: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        raise BadValue(words) from None
    if not isinstance(value, kind):
        raise BadValue(words)
    return value


def kind_of(schema: Any, root: Schema) -> str:
    """What a value has to be, in a word or two."""
    found = []
    for each in alternatives(schema, root):
        allowed, kind = choices(each), str(each.get("type", "any"))
        found.append("|".join(str(value) for value, _ in allowed) if allowed else _KINDS.get(kind, kind))
    return " or ".join(dict.fromkeys(each for each in found if each != "null")) or "null"
