"""Arguments and results of the types that most tools have, without pydantic.

pydantic reads annotations, and makes of them a schema that pydantic-core runs and one for clients. To import it takes
a third of the time that all of this package takes, so for numbers, words, truth values, and lists and dicts of those,
the two schemas are made here: the same ones, which a test compares. Whatever is said in any other way is for pydantic.
"""

import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from pydantic_core import SchemaSerializer, SchemaValidator

from django_mcp.primitives.functions import EMPTY, Parameter

SCALARS: Mapping[Any, tuple[str, str]] = {
    bool: ("bool", "boolean"),
    float: ("float", "number"),
    int: ("int", "integer"),
    str: ("str", "string"),
}
"""Types, what pydantic-core calls them, and JSON Schema."""

Schema = dict[str, Any]


class Simple(NamedTuple):
    """A type.

    Attributes:
        core: what pydantic-core runs.
        shown: its JSON Schema.
    """

    core: Schema
    shown: Schema


class CheckedArguments(NamedTuple):
    """Named arguments that pydantic-core checks.

    Attributes:
        schema: JSON Schema.
        core: what pydantic-core runs, with all mistakes of a list.
        validate: gives their values, or raises pydantic's ``ValidationError``, with the first mistake of each list.
    """

    schema: Schema
    core: Any
    validate: Callable[[Any], dict[str, Any]]


class CheckedResult(NamedTuple):
    """A result that pydantic-core checks and makes JSON of.

    Attributes:
        schema: JSON Schema, of an object.
        is_wrapped: the result is inside of that object.
        validate: gives the value, or raises pydantic's ``ValidationError``.
        dump: gives what is JSON of the value; None where the value itself is.
    """

    schema: Schema
    is_wrapped: bool
    validate: Callable[[Any], Any]
    dump: Callable[..., Any] | None


def simple(annotation: Any) -> Simple | None:
    """What an annotation means; None where pydantic has to say that."""
    if annotation is Any:
        return Simple({"type": "any"}, {})
    if type(annotation) is type and annotation in SCALARS:
        core, shown = SCALARS[annotation]
        return Simple({"type": core}, {"type": shown})
    if annotation in (list, dict):
        annotation = list[Any] if annotation is list else dict[Any, Any]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return _literal(inner)
    if origin in (typing.Union, types.UnionType):
        return _optional(inner)
    if origin is list and inner:
        return _list(*inner)
    return _dict(*inner) if origin is dict and inner else None


def _literal(values: Sequence[Any]) -> Simple | None:
    (kind, *others) = {type(each) for each in values}
    if others or kind not in (int, str):
        return None
    allowed = {"const": values[0]} if len(values) == 1 else {"enum": list(values)}
    return Simple({"type": "literal", "expected": list(values)}, {**allowed, "type": SCALARS[kind][1]})


def _optional(kinds: Sequence[Any]) -> Simple | None:
    rest = [each for each in kinds if each is not type(None)]
    if len(rest) != 1 or (found := simple(rest[0])) is None:
        return None
    return Simple({"type": "nullable", "schema": found.core}, {"anyOf": [found.shown, {"type": "null"}]})


def _list(item: Any) -> Simple | None:
    if (found := simple(item)) is None:
        return None
    return Simple({"type": "list", "items_schema": found.core}, {"items": found.shown, "type": "array"})


def _dict(key: Any, value: Any) -> Simple | None:
    if key not in (str, Any) or (found := simple(value)) is None:
        return None
    keys = {"type": "str" if key is str else "any"}
    core = {"type": "dict", "keys_schema": keys, "values_schema": found.core}
    return Simple(core, {"additionalProperties": found.shown or True, "type": "object"})


def arguments(parameters: Iterable[Parameter]) -> CheckedArguments | None:
    """The arguments of a function; None where pydantic has to say what one of them is."""
    fields: dict[str, Schema] = {}
    shown: dict[str, Schema] = {}
    for each in parameters:
        found = simple(each.annotation)
        if found is None or not _is_simple(each.default):
            return None
        core = found.core if each.required else {"type": "default", "schema": found.core, "default": each.default}
        fields[each.name] = {"type": "typed-dict-field", "schema": core, "required": each.required}
        said = {} if each.required else {"default": each.default}
        if each.description:
            said["description"] = each.description
        shown[each.name] = dict(sorted({**found.shown, **said}.items()))
    required = [name for name, field in fields.items() if field["required"]]
    config = {"extra_fields_behavior": "forbid", "allow_inf_nan": False}
    core = {"type": "typed-dict", "fields": fields, "extra_behavior": "forbid", "config": config}
    return CheckedArguments(_object(shown, required), core, SchemaValidator(hasty(core)).validate_python)


_LISTS = frozenset({"list", "set", "frozenset", "tuple"})
_VALUES = frozenset({"default", "expected", "members", "metadata"})
"""Parts of a schema that are no schemas."""


def hasty(core: Any) -> Any:
    """Return a schema of pydantic-core that stops at the first mistake of a list.

    A list may have a million of them, and each costs as much as a call.
    """
    if type(core) is dict:
        made = {key: part if key in _VALUES else hasty(part) for key, part in core.items()}
        kind = core.get("type")
        return {**made, "fail_fast": True} if isinstance(kind, str) and kind in _LISTS else made
    return type(core)(map(hasty, core)) if type(core) in {list, tuple} else core


def result(returns: Any) -> CheckedResult | None:
    """The result of a function; None where pydantic has to say what it is."""
    if (found := simple(returns)) is None:
        return None
    validator = SchemaValidator(found.core)
    dump = None if returns in SCALARS else SchemaSerializer(found.core, {"ser_json_inf_nan": "constants"}).to_python
    is_wrapped = found.shown.get("type") != "object"
    schema = _object({"result": found.shown}, ["result"]) if is_wrapped else found.shown
    return CheckedResult(schema, is_wrapped, validator.validate_python, dump)


def _is_simple(default: Any) -> bool:
    return (
        default is EMPTY
        or default is None
        or (type(default) in SCALARS and not (isinstance(default, float) and not math.isfinite(default)))
    )


def _object(properties: Schema, required: Sequence[str]) -> Schema:
    schema = {"additionalProperties": False, "properties": properties}
    return {**schema, **({"required": list(required)} if required else {}), "type": "object"}
