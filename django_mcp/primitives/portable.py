"""JSON Schema as every client takes it: what providers and validators drop a tool for is written in another way."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

Schema = dict[str, Any]

TIME: Schema = {
    "type": "string",
    "pattern": r"^\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$",
}
"""A time of day. Not ``"format": "time"``, which RFC 3339 gives an offset that Python's times need not have."""
LOCAL_TIME: Schema = {"type": "string", "pattern": r"^\d\d:\d\d(:\d\d(\.\d+)?)?$"}
"""A time of day without an offset, as columns have it."""
DURATION: Schema = {"type": "string", "pattern": "^-?P"}
"""An ISO 8601 duration. ``"format": "duration"`` takes neither a sign nor parts of a second."""
MOMENT: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT"}
"""A date and time of which it is not known whether it has the offset that ``"format": "date-time"`` demands."""
DECIMAL: Schema = {"type": "string", "pattern": r"^-?\d+(\.\d+)?$"}
"""A decimal number as text. There is no format "decimal"."""

FORMATS = frozenset(
    {
        *("date", "date-time", "duration", "time"),
        *("email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uri-template", "uuid"),
        *("json-pointer", "relative-json-pointer", "regex", "password", "binary"),
    }
)
"""What validators know; they complain of all others."""
DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are no schemas."""
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values are schemas by name."""
NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What providers of models take as the name of a property."""
MOST_WORDS = 1024
"""The longest description of a tool, in characters: OpenAI refuses a longer one."""
LARGEST = 2**53
"""Integers beyond it are other ones in JavaScript."""
STRICT = frozenset({"time", "duration"})
"""Formats that refuse what Python writes."""
COMPOSED = ("anyOf", "oneOf", "allOf", "not")
AROUND = re.compile(r"\(\?[=!<]|\\[1-9]")
"""What some regular expressions have that those of most providers do not: looking around, and references back."""


def property_name(name: str) -> str:
    """Return *name*, or a name like it that providers of models take: ``page_size`` for ``page[size]``."""
    if NAME.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_.-]+", "_", name).strip("_")[:64] or "value"


def portable(schema: Any) -> Any:
    """Return a schema that means the same and that more clients take.

    ``$ref`` gives way to what it refers to, unless that contains itself. Tuples get ``items`` too, which are for
    clients that do not know ``prefixItems``. Formats that validators do not know are left out, and patterns that not
    every reader of regular expressions has.
    """
    if not isinstance(schema, dict):
        return schema
    definitions = schema.get("$defs", {})
    found = _portable({key: value for key, value in schema.items() if key != "$defs"}, definitions)
    kept: Schema = {}
    while names := (_references(found) | _references(kept)) & definitions.keys() - kept.keys():
        kept |= {name: _portable(definitions[name], definitions) for name in sorted(names)}
    return {**found, "$defs": kept} if kept else found


def _portable(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_portable(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and not _contains_itself(name, definitions):
        beside = {key: each for key, each in schema.items() if key != "$ref"}
        # The title is the name of a class, and tells a model nothing.
        named = {key: each for key, each in definitions[name].items() if (key, each) != ("title", name)}
        return {**_portable(named, definitions), **_portable(beside, definitions)}
    found: Schema = {}
    for key, value in schema.items():
        if key in DATA:
            found[key] = value
        elif key in NAMED and isinstance(value, dict):
            found[key] = {each: _portable(part, definitions) for each, part in value.items()}
        elif not _is_special(key, value):
            found[key] = _portable(value, definitions)
    if found.get("type") == "array" and "items" not in found:
        found["items"] = _any_of(found.get("prefixItems", []))
    return found


def _is_special(key: str, value: Any) -> bool:
    return (key == "format" and value not in FORMATS) or (key == "pattern" and bool(AROUND.search(str(value))))


def _any_of(schemas: Sequence[Schema]) -> Schema:
    parts: list[Schema] = []
    for each in schemas:
        if each not in parts:
            parts.append(each)
    return parts[0] if len(parts) == 1 else {"anyOf": parts} if parts else {}


def _contains_itself(name: str, definitions: Mapping[str, Any]) -> bool:
    """Return True if a definition leads to itself again."""
    seen: set[str] = set()
    waiting = _references(definitions[name])
    while waiting:
        each = waiting.pop()
        if each == name:
            return True
        if each not in seen and each in definitions:
            seen.add(each)
            waiting |= _references(definitions[each])
    return False


def _references(schema: Any) -> set[str]:
    if isinstance(schema, dict):
        own = {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
        return own.union(*(_references(each) for each in schema.values()))
    return set().union(*(_references(each) for each in schema)) if isinstance(schema, list) else set()


# What keeps a client or a provider from taking a tool


def problems(definition: Mapping[str, Any]) -> Iterator[str]:
    """Give a sentence for everything in a tool's definition for which clients or providers leave the tool out.

    Args:
        definition: as ``tools/list`` has it.
    """
    if len(str(definition.get("description", ""))) > MOST_WORDS:
        yield _("Its description has more than %(most)s characters.") % {"most": MOST_WORDS}
    for key in ("inputSchema", "outputSchema"):
        schema = definition.get(key)
        if schema is None:
            continue
        found = [*_problems_at_top(schema), *_problems(schema, (), is_input=key == "inputSchema")]
        yield from (f"{key}: {each}" for each in dict.fromkeys(found))


def _problems_at_top(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("type") != "object":
        yield _('it must be of "type": "object".')
    if composed := [key for key in COMPOSED if key in schema]:
        yield _("%(keyword)s at its top; move it into a property, or write one tool for each case.") % {
            "keyword": composed[0]
        }


def _problems(schema: Any, where: tuple[str, ...], *, is_input: bool) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    place = ".".join(where) or _("the top")
    yield from (f"{place}: {each}" for each in _problems_here(schema, is_input=is_input))
    for key, value in schema.items():
        if key in DATA:
            continue
        if key in NAMED and isinstance(value, Mapping):
            for name, each in value.items():
                if key == "properties" and is_input and not NAME.fullmatch(str(name)):
                    yield _("%(name)r is no name of a property: letters, digits, '_', '.' and '-', at most 64.") % {
                        "name": name
                    }
                yield from _problems(each, (*where, str(name)), is_input=is_input)
        for each in value if isinstance(value, list) else [value] * (key not in NAMED):
            yield from _problems(each, where if key != "items" else (*where, "items"), is_input=is_input)


def _problems_here(schema: Mapping[str, Any], *, is_input: bool) -> Iterator[str]:
    kinds = schema.get("type")
    kinds = [kinds] if isinstance(kinds, str) else kinds or []
    if "array" in kinds and "items" not in schema:
        yield _("an array without items; say what is in it.")
    if "$ref" in schema:
        yield _("a $ref, which many clients do not follow; write out what it refers to.")
    if (name := schema.get("format")) and isinstance(name, str):
        if name not in FORMATS:
            yield _("the format %(name)r is none; use a pattern.") % {"name": name}
        elif name in STRICT and not (is_input and name == "duration"):
            yield _("the format %(name)r refuses what Python writes; use a pattern.") % {"name": name}
    if AROUND.search(str(schema.get("pattern", ""))):
        yield _("a pattern that looks around or refers back, which many readers do not know.")
    values = [*schema.get("enum", ()), *(schema[key] for key in ("const", "minimum", "maximum") if key in schema)]
    if any(isinstance(each, int) and abs(each) > LARGEST for each in values):
        yield _("an integer beyond 2**53, which JavaScript takes for another one; use text.")
