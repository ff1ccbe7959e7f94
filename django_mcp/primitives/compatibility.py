"""What clients and providers of models accept of a tool: one table, and the schemas that all of them accept.

A provider that rejects one tool often rejects the whole list, so that a client shows none. ``LIMITS`` is the table; the
system check W027, ``mcp_inspect`` and ``mcp_listing`` read it. ``portable``, ``for_arguments`` and ``for_results`` keep
generated schemas within it. Hand-written schemas are published as they are, and checked.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.utils.functional import keep_lazy_text
from django.utils.translation import gettext as _
from django.utils.translation.trans_null import gettext_noop  # the usual one asks for settings, which may import this

from django_mcp.primitives.markers import KEY
from django_mcp.protocol.json_schema import as_word

Schema = dict[str, Any]

FORMATS = frozenset(
    {
        *("date", "date-time", "duration", "time"),
        *("email", "hostname", "ipv4", "ipv6", "uri", "uri-reference", "uri-template", "uuid"),
        *("json-pointer", "relative-json-pointer", "regex", "password", "binary"),
    }
)
"""Formats that validators know; they warn about others."""
DATA = frozenset({"const", "default", "enum", "examples"})
"""Keywords whose values are not schemas."""
NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose values map names to schemas."""
NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Property names that model providers accept."""
MAX_DESCRIPTION_CHARS = 1024
"""Maximum characters of a tool's description for OpenAI."""
MAX_EXACT_INTEGER = 2**53
"""Largest integer that JavaScript represents exactly."""
STRICT = frozenset({"time", "duration"})
"""Formats that reject values Python produces."""
COMPOSED = ("anyOf", "oneOf", "allOf", "not")
AROUND = re.compile(r"\(\?[=!<]|\\[1-9]")
"""Lookaround and backreferences, which few providers support."""


def property_name(name: str) -> str:
    """Return *name* if model providers accept it, else a similar one: ``page_size`` for ``page[size]``."""
    if NAME.fullmatch(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_.-]+", "_", name).strip("_")[:64] or "value"


def portable(schema: Any) -> Any:
    """Return an equivalent schema that more clients accept.

    Non-recursive ``$ref`` are resolved. Tuples get ``items``, for clients without ``prefixItems``. Unknown formats, and
    patterns with lookaround or backreferences, are left out.
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
        return [_portable(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name in definitions and not _contains_itself(name, definitions):
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        # The title is a class name.
        named = {
            key: definition for key, definition in definitions[name].items() if (key, definition) != ("title", name)
        }
        return {**_portable(named, definitions), **_portable(beside, definitions)}
    found: Schema = {}
    for key, value in schema.items():
        if key in DATA:
            found[key] = value
        elif key in NAMED and isinstance(value, dict):
            found[key] = {name: _portable(part, definitions) for name, part in value.items()}
        elif not _is_special(key, value):
            found[key] = _portable(value, definitions)
    if found.get("type") == "array" and "items" not in found:
        found["items"] = _any_of(found.get("prefixItems", []))
    return found


def _is_special(key: str, value: Any) -> bool:
    return (key == "format" and value not in FORMATS) or (key == "pattern" and bool(AROUND.search(str(value))))


def _any_of(schemas: Sequence[Schema]) -> Schema:
    parts: list[Schema] = []
    for part in schemas:
        if part not in parts:
            parts.append(part)
    return parts[0] if len(parts) == 1 else {"anyOf": parts} if parts else {}


def _contains_itself(name: str, definitions: Mapping[str, Any]) -> bool:
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
        return own.union(*(_references(part) for part in schema.values()))
    return set().union(*(_references(part) for part in schema)) if isinstance(schema, list) else set()


_OF_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_OF_TYPE: Mapping[str, Sequence[str]] = {
    "string": ("format", "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"),
    "integer": _OF_NUMBERS,
    "number": _OF_NUMBERS,
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
}
"""Keywords of one type, which the schema of this type gets."""
_OF_ANY_TYPE = frozenset(keyword for keywords in _OF_TYPE.values() for keyword in keywords)
"""Keywords that are about values of one type."""
_TYPED = frozenset({"type", "$ref", "enum", "const", *COMPOSED})
"""Keywords one of which names the types of a value."""
_SCALARS: tuple[Schema, ...] = (
    {"type": "string"},
    {"type": "number"},
    {"type": "boolean"},
    {"type": "object", "additionalProperties": True},
    {"type": "null"},
)


def _any_value() -> list[Schema]:
    # Lists are described two levels deep.
    inner = {"type": "array", "items": {"anyOf": [*_SCALARS[:3]]}}
    return [*_SCALARS, {"type": "array", "items": {"anyOf": [*_SCALARS, inner]}}]


def for_results(schema: Any) -> Any:
    """Return an equivalent schema with ``anyOf`` for lists of types. Clients validate results with it."""
    return _rebuilt(schema, _split_types)


def for_arguments(schema: Mapping[str, Any]) -> Schema:
    """Return the schema of a tool's arguments in a form that all providers accept.

    It may allow more than *schema*, by which the arguments are validated: values that it cannot list are named in the
    description. A value of any type gets the types of JSON.
    """
    made: Schema = _rebuilt(dict(schema), _accepted)
    return made


def _rebuilt(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    # Inner schemas are changed first.
    if isinstance(schema, list):
        return [_rebuilt(part, change) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for key, value in schema.items():
        if key in NAMED and isinstance(value, dict):
            found[key] = {name: _rebuilt(part, change) for name, part in value.items()}
        elif key in DATA or (key in {"additionalProperties", "not"} and not value):
            found[key] = True if value == {} and key == "additionalProperties" else value
        else:
            found[key] = _rebuilt(value, change)
    return change(found)


def _split_types(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if not isinstance(kinds, list) or "anyOf" in schema:
        return schema
    own = {kind: {key: schema[key] for key in _OF_TYPE.get(kind, ()) if key in schema} for kind in kinds}
    shared = {
        key: value for key, value in schema.items() if key != "type" and all(key not in part for part in own.values())
    }
    return {"anyOf": [{"type": kind, **keywords} for kind, keywords in own.items()], **shared}


def _accepted(schema: Schema) -> Schema:
    found = dict(schema)
    if "oneOf" in found and "anyOf" not in found:
        found["anyOf"] = found.pop("oneOf")
    if "enum" in found or "const" in found:
        return _without_enumeration(found)
    if not _TYPED & found.keys():
        others = {key: value for key, value in found.items() if key not in _OF_ANY_TYPE}
        parts = [
            {**part, **{key: found[key] for key in _OF_TYPE.get(part["type"], ()) if key in found}}
            for part in _any_value()
        ]
        found = {"anyOf": parts, **others}
    if found.get("type") == "array" and "items" not in found:
        found["items"] = {"anyOf": _any_value()}
    for exclusive, limit, step in (("exclusiveMinimum", "minimum", 1), ("exclusiveMaximum", "maximum", -1)):
        if found.get("type") == "integer" and type(found.get(exclusive)) is int:
            found.setdefault(limit, found.pop(exclusive) + step)
    return _split_types(found)


# Enumerations


def _without_enumeration(schema: Schema) -> Schema:
    # Gemini takes enumerations of non-empty strings only. Numbers get their limits, and are named in the description.
    values = schema["enum"] if "enum" in schema else [schema["const"]]
    groups: dict[str, list[Any]] = defaultdict(list)
    for value in values:
        groups[_kind_of(value)].append(value)
    if {"integer", "number"} <= groups.keys():
        groups["number"] += groups.pop("integer")
    if KEY in schema and len(groups) > 1:  # a header repeats it, which takes one type
        return schema
    if not groups:  # such as choices that the database does not have yet; an empty enum is refused, too
        return _split_types({"type": "string", **{key: value for key, value in schema.items() if key != "enum"}})
    others = {key: value for key, value in schema.items() if key not in {"enum", "const", "type", *_OF_ANY_TYPE}}
    parts = [_part(kind, group) for kind, group in groups.items()]
    named = [value for kind, group in groups.items() if not _tells_all(kind, group) for value in group]
    if named:
        others["description"] = _with_values(others.get("description", ""), named, is_only=len(groups) == 1)
    return {**parts[0], **others} if len(parts) == 1 else {"anyOf": parts, **others}


def _kind_of(value: Any) -> str:
    if value == "" and isinstance(value, str):
        return "empty"
    for kind, known in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return known
    return "null" if value is None else "object"


def _part(kind: str, values: Sequence[Any]) -> Schema:
    match kind:
        case "string":
            return {"type": "string", "enum": [*values]}
        case "empty":
            return {"type": "string", "maxLength": 0}
        case "integer" | "number":
            limits = {"minimum": min(values), "maximum": max(values)}
            return {"type": kind, **{key: limit for key, limit in limits.items() if abs(limit) <= MAX_EXACT_INTEGER}}
        case "array":
            return {"type": "array", "items": {"anyOf": _any_value()}}
    return {"type": kind}


def _tells_all(kind: str, values: Sequence[Any]) -> bool:
    if kind == "integer":
        is_limited = max(map(abs, values)) <= MAX_EXACT_INTEGER
        return bool(is_limited and max(values) - min(values) == len(set(values)) - 1)
    if kind == "number":
        return len(set(values)) == 1
    return kind in {"string", "empty", "null"} or (kind == "boolean" and len(set(values)) == 2)  # noqa: PLR2004


def _with_values(description: Any, values: Sequence[Any], *, is_only: bool) -> Any:
    shown = [as_word(value) for value in values]
    words = f"Must be {shown[0]}." if is_only and len(shown) == 1 else f"One of: {', '.join(shown)}."
    return _naming(description, "\n".join(shown), words)


@keep_lazy_text
def _naming(description: str, shown: str, words: str) -> str:
    # Labels may have all values already: "1: Low; 2: High".
    description = str(description)
    if all(re.search(rf"(?<![\w.]){re.escape(word)}(?![\w]|\.\d)", description) for word in shown.split("\n")):
        return description
    return f"{description} {words}".strip()


# The table


class Limit(NamedTuple):
    """What some clients or providers do not accept.

    Attributes:
        id: names the row.
        by: client or provider -> page or report that says so; none was tried against the provider.
        what: what they do not accept, and what to write instead.
        find: yields the details of what breaks it in one schema; None if no schema can.
        kept: how the package keeps within it.
        is_input: it is about arguments only; results do not reach providers.
        is_checked: W027 reports it.
    """

    id: str
    by: Mapping[str, str]
    what: str
    kept: str
    find: Callable[[Mapping[str, Any]], Iterable[str | None]] | None = None
    is_input: bool = True
    is_checked: bool = True


ANTHROPIC = "platform.claude.com/docs/en/agents-and-tools/tool-use/overview"
OPENAI = "platform.openai.com/docs/guides/function-calling"
GEMINI = "ai.google.dev/api/caching#Schema"
COPILOT_STUDIO = "learn.microsoft.com/microsoft-copilot-studio/mcp-troubleshooting"


def _when(test: Callable[[Mapping[str, Any]], bool]) -> Callable[[Mapping[str, Any]], Iterator[None]]:
    def find(schema: Mapping[str, Any]) -> Iterator[None]:
        if test(schema):
            yield None

    return find


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("type")
    return [kinds] if isinstance(kinds, str) else list(kinds or ())


def _unknown_formats(schema: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(name := schema.get("format"), str) and name not in FORMATS:
        yield repr(name)


def _strict_formats(schema: Mapping[str, Any]) -> Iterator[str]:
    if schema.get("format") in STRICT:
        yield repr(schema["format"])


def _large_integers(schema: Mapping[str, Any]) -> bool:
    values = [*schema.get("enum", ()), *(schema[key] for key in ("const", "minimum", "maximum") if key in schema)]
    return any(isinstance(member, int) and abs(member) > MAX_EXACT_INTEGER for member in values)


def _other_values(schema: Mapping[str, Any]) -> Iterator[str]:
    values = [member for member in schema.get("enum", ()) if not isinstance(member, str) or not member]
    if values:
        yield ", ".join("null" if member is None else repr(member) for member in values[:3])


def _invalid_names(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties")
    yield from (repr(name) for name in properties or () if not NAME.fullmatch(str(name)))


LIMITS: tuple[Limit, ...] = (
    Limit(
        "description",
        {"OpenAI": OPENAI},
        gettext_noop("The description exceeds %(detail)s characters."),
        "",
    ),
    Limit(
        "object",
        {"all": "modelcontextprotocol.io/specification/draft/server/tools"},
        gettext_noop('must have "type": "object".'),
        "Arguments are always an object.",
    ),
    Limit(
        "top-level",
        {"Anthropic": ANTHROPIC, "OpenAI": OPENAI},
        gettext_noop("%(detail)s at the top level. Move it into a property, or write one tool per case."),
        "Unions are in properties only; results that are unions are wrapped in an object.",
        is_input=False,
    ),
    Limit(
        "names",
        {"Anthropic": ANTHROPIC},
        gettext_noop("invalid property name %(detail)s. Use at most 64 letters, digits, '_', '.' or '-'."),
        "Parameters of APIs are renamed; their descriptions have the original name.",
        _invalid_names,
    ),
    Limit(
        "untyped",
        {"Claude Code": "github.com/anthropics/claude-code/issues/82652", "Gemini": GEMINI},
        gettext_noop("a value without a type: clients send it as text, or drop the tool. Name its types."),
        "A value of any type lists the types of JSON.",
        _when(lambda schema: not _TYPED & schema.keys()),
    ),
    Limit(
        "type-list",
        {"Gemini": GEMINI, "Copilot Studio": COPILOT_STUDIO},
        gettext_noop("a list of types. Use anyOf."),
        "Written as anyOf.",
        _when(lambda schema: isinstance(schema.get("type"), list)),
    ),
    Limit(
        "enumeration",
        {
            "Gemini": "github.com/sbroenne/mcp-server-excel/issues/607",
            "clients with Gemini, such as Cursor and opencode": "github.com/chrisdoc/hevy-mcp/issues/1161",
        },
        gettext_noop("an enum with %(detail)s. Only non-empty strings are accepted."),
        'Numbers have minimum and maximum, and are named in the description; null and "" are members of anyOf.',
        _other_values,
    ),
    Limit(
        "const",
        {"Gemini": GEMINI},
        gettext_noop("a const. Use an enum with one string, or the same minimum and maximum."),
        "Written as an enum of one string, or as minimum and maximum.",
        _when(lambda schema: "const" in schema),
    ),
    Limit(
        "oneOf",
        {"Gemini": GEMINI, "OpenAI": OPENAI},
        gettext_noop("oneOf. Use anyOf."),
        "Written as anyOf.",
        _when(lambda schema: "oneOf" in schema),
    ),
    Limit(
        "items",
        {"OpenAI": OPENAI, "VS Code": "github.com/microsoft/vscode/issues/246119", "Gemini": GEMINI},
        gettext_noop("an array without items. Add the schema of its items."),
        "Every array has items.",
        _when(lambda schema: "array" in _kinds(schema) and "items" not in schema),
        is_input=False,
    ),
    Limit(
        "reference",
        {"Anthropic": ANTHROPIC, "Copilot Studio": COPILOT_STUDIO},
        gettext_noop("a $ref, which many clients do not resolve. Inline its target."),
        "Inlined, unless a type contains itself.",
        _when(lambda schema: "$ref" in schema),
        is_input=False,
    ),
    Limit(
        "extra-keys",
        {"Claude Code": "github.com/anthropics/claude-code/issues/78673"},
        gettext_noop("additionalProperties {}, which is read as false. Write true."),
        "Written as true.",
        _when(lambda schema: schema.get("additionalProperties") == {}),
    ),
    Limit(
        "exclusive",
        {"Copilot Studio": COPILOT_STUDIO},
        gettext_noop("a number as exclusiveMinimum. Use a minimum."),
        "Integers have minimum and maximum in place of exclusive limits.",
        _when(lambda schema: not isinstance(schema.get("exclusiveMinimum", True), bool)),
        is_checked=False,
    ),
    Limit(
        "format",
        {"clients that validate": "ajv.js.org/strict-mode.html#unknown-formats"},
        gettext_noop("unknown format %(detail)s. Use a pattern."),
        "Left out.",
        _unknown_formats,
        is_input=False,
    ),
    Limit(
        "format-of-time",
        {"clients that validate": "datatracker.ietf.org/doc/html/rfc3339#section-5.6"},
        gettext_noop("format %(detail)s rejects values that Python produces. Use a pattern."),
        "Times of day and durations have patterns.",
        _strict_formats,
        is_input=False,
    ),
    Limit(
        "pattern",
        {"Anthropic, OpenAI, Gemini": OPENAI},
        gettext_noop("a pattern with lookaround or backreferences, which many validators do not support."),
        "Left out.",
        _when(lambda schema: bool(AROUND.search(str(schema.get("pattern", ""))))),
        is_input=False,
    ),
    Limit(
        "integer",
        {"clients in JavaScript": "tc39.es/ecma262/#sec-number.max_safe_integer"},
        gettext_noop("an integer beyond 2**53, which JavaScript cannot represent exactly. Use a string."),
        "Such limits are left out. Integers are read from text too, digit by digit.",
        _when(_large_integers),
        is_input=False,
    ),
    Limit(
        "hints",
        {"Microsoft 365": "github.com/Azure/data-api-builder/issues/3798"},
        "tools without readOnlyHint.",
        "Generated tools have it; mcp_listing copilot names others.",
    ),
    Limit(
        "text",
        {
            "Claude Code": "github.com/anthropics/claude-code/issues/80666",
            "opencode": "github.com/anomalyco/opencode/issues/45211",
        },
        "arguments by type: numbers, truth values, null, lists and objects arrive as text.",
        "Text is read where the argument takes no text and nothing is lost (decision 65).",
    ),
    Limit(
        "empty",
        {"clients in PHP and Emacs Lisp": "github.com/elgorro/aiquila/issues/442"},
        "an empty object: params and arguments arrive as [], cursors as empty text.",
        'Null, [] and "" are read as if they were omitted.',
    ),
    Limit(
        "lines",
        {
            "Claude Desktop, ChatGPT": "github.com/modelcontextprotocol/typescript-sdk/pull/1925",
            "the Java SDK": "github.com/modelcontextprotocol/java-sdk/issues/1136",
        },
        "U+0085, U+2028 and U+2029 in event streams and over stdio, where they end a line.",
        "Escaped in JSON.",
    ),
)
"""What some clients or providers do not accept, in the order in which problems are reported."""
_BY_ID: Mapping[str, Limit] = {limit.id: limit for limit in LIMITS}


def breaks(limit_id: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that returns True for a schema that breaks a limit, without looking at schemas inside it."""
    find = _BY_ID[limit_id].find
    assert find is not None  # noqa: S101 - called with the ids of schemas' limits
    return lambda schema: any(True for _ in find(schema))


def problems(definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each part of a definition for which clients or providers reject the tool."""
    if len(str(definition.get("description", ""))) > MAX_DESCRIPTION_CHARS:
        yield _sentence("description", str(MAX_DESCRIPTION_CHARS))
    for key in ("inputSchema", "outputSchema"):
        schema = definition.get(key)
        if schema is None:
            continue
        is_input = key == "inputSchema"
        found = [*_problems_at_top(schema, is_input=is_input), *_problems(schema, (), is_input=is_input)]
        yield from (f"{key}: {text}" for text in dict.fromkeys(found))


def _sentence(limit_id: str, detail: str | None = None) -> str:
    return _(_BY_ID[limit_id].what) % {"detail": detail}


def _problems_at_top(schema: Mapping[str, Any], *, is_input: bool) -> Iterator[str]:
    if is_input and schema.get("type") != "object":
        yield _sentence("object")
    if composed := [key for key in COMPOSED if key in schema]:
        yield _sentence("top-level", composed[0])


def _problems(schema: Any, where: tuple[str, ...], *, is_input: bool) -> Iterator[str]:
    if not isinstance(schema, Mapping):
        return
    place = ".".join(where) or _("the top level")
    yield from (f"{place}: {problem}" for problem in _problems_here(schema, is_root=not where, is_input=is_input))
    for key, value in schema.items():
        if key in DATA:
            continue
        if key in NAMED and isinstance(value, Mapping):
            for name, part in value.items():
                yield from _problems({} if part is True else part, (*where, str(name)), is_input=is_input)
        for part in (
            value
            if isinstance(value, list)
            else [value] * (key not in NAMED and (key, value) != ("additionalProperties", {}))
        ):
            if key == "items":
                yield from _problems({} if part is True else part, (*where, "items"), is_input=is_input)
            else:
                yield from _problems(part, where, is_input=is_input)


def _problems_here(schema: Mapping[str, Any], *, is_root: bool, is_input: bool) -> Iterator[str]:
    for limit in LIMITS:
        if limit.find is None or not limit.is_checked or (limit.is_input and not is_input):
            continue
        if limit.id == "untyped" and is_root:  # reported as no object
            continue
        for detail in limit.find(schema):
            if limit.id != "format-of-time" or not (is_input and detail == "'duration'"):
                yield _sentence(limit.id, detail)
