"""Parameters that clients repeat in a header, for whoever routes requests without reading bodies.

2026-07-28, Streamable HTTP, Custom Headers from Tool Parameters.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ImproperlyConfigured

KEY = "x-mcp-header"

# RFC 9110, section 5.6.2, without the underscore: WSGI and many proxies cannot tell it from a hyphen, or drop it.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]+")
_TYPES = ("string", "integer", "boolean")
_NAMED = {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
_DATA = {"default", "const", "enum", "examples"}


@dataclass(frozen=True, slots=True)
class Header:
    """Has clients repeat a tool's parameter in a request header: ``Annotated[str, Header("Region")]``.

    The parameter is a str, int or bool, an enum or ``Literal`` of these, or one of them or None. What proxies on the
    way should not see, passwords or personal data, is not for headers.

    Args:
        name: the header is ``Mcp-Param-`` and this; letters, digits and hyphens.
    """

    name: str

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        """The parameter's schema with the mark: its type stands in it, as clients want it, and not behind a ``$ref``.

        Clients take no tool whose mirrored parameter has two types, so null goes; the function may still be called
        with None, for which no header is sent.
        """
        schema = _inlined(handler(core_schema), handler)
        match schema:
            case {"anyOf": [inner, {"type": "null"}], **others}:
                schema = {**_inlined(inner, handler), **others}
        return {**schema, KEY: self.name}


@dataclass(frozen=True, slots=True)
class Mirror:
    """A parameter that a header repeats.

    Attributes:
        header: like ``"Mcp-Param-Region"``.
        path: where in the arguments, a name for each level.
        type: ``"string"``, ``"integer"`` or ``"boolean"``.
    """

    header: str
    path: tuple[str, ...]
    type: str


def _inlined(schema: dict[str, Any], handler: Any) -> dict[str, Any]:
    """What stands behind a ``$ref``, without the title, which is the name of its class."""
    if "$ref" not in schema:
        return schema
    return {key: value for key, value in handler.resolve_ref_schema(schema).items() if key != "title"}


def without_null_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A generated ``inputSchema`` in which nothing has null for a default that is not of its type; mirrored or not."""
    properties = {
        name: {key: value for key, value in each.items() if (key, value) != ("default", None)}
        if KEY in each or "null" not in each.get("type", "null")
        else each
        for name, each in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def mirrored(schema: Mapping[str, Any], label: str) -> tuple[Mirror, ...]:
    """The mirrors of an ``inputSchema``, generated or written by hand.

    Raises:
        ImproperlyConfigured: an ``x-mcp-header`` for which clients must leave the tool out; the message says where.
    """
    found: dict[str, Mirror] = {}
    for where, position in _positions(schema, ()):
        if KEY in position:
            mirror = _mirror(where, position, label)
            first = found.setdefault(mirror.header.lower(), mirror)
            if first is not mirror:
                both = f"{'.'.join(first.path)!r} and {'.'.join(mirror.path)!r}"
                msg = f"{label}: {both} have the same {KEY}, {position[KEY]!r}; each needs a name of its own."
                raise ImproperlyConfigured(msg)
    return tuple(found.values())


def _positions(schema: Any, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every schema within *schema*, itself included, with the keys that lead there."""
    if not isinstance(schema, Mapping):
        return
    yield where, schema
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            for name, each in value.items():
                yield from _positions(each, (*where, key, name))
        elif isinstance(value, list) and key not in _DATA:
            for index, each in enumerate(value):
                yield from _positions(each, (*where, key, str(index)))
        elif key not in _DATA:
            yield from _positions(value, (*where, key))


def _mirror(where: tuple[str, ...], position: Mapping[str, Any], label: str) -> Mirror:
    if set(where[::2]) != {"properties"}:
        msg = (
            f"{label}: {KEY} at {'/'.join(where) or 'the top'} of the input schema. A header can only repeat what is "
            "reached by 'properties' alone: mark a parameter of the function itself, no field of its model."
        )
        raise ImproperlyConfigured(msg)
    path, name, kind = where[1::2], position[KEY], position.get("type")
    parameter = f"{label}: parameter {'.'.join(path)!r}"
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        msg = f"{parameter}: {KEY} {name!r} must be letters, digits and hyphens, such as 'Region'."
        raise ImproperlyConfigured(msg)
    if kind not in _TYPES:
        shape = f"of type {kind!r}" if isinstance(kind, str) else "of no single type"
        msg = f"{parameter} is {shape}, so no header can repeat it; {KEY} is for string, integer and boolean."
        raise ImproperlyConfigured(msg)
    if position.get("format") == "password":
        msg = f"{parameter} is a secret, and headers are seen by everybody on the way; take {KEY} off."
        raise ImproperlyConfigured(msg)
    return Mirror(f"Mcp-Param-{name}", path, kind)
