"""From the parameters of a function to JSON Schema 2020-12, and from JSON to checked arguments."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from pydantic_core import SchemaValidator, ValidationError

from django_mcp.primitives import typed
from django_mcp.primitives.functions import Parameter
from django_mcp.primitives.portable import LOCAL_TIME, TIME
from django_mcp.primitives.sentences import MOST, sentences

MOST_VALUES = 1000
"""Values of which every mistake is looked for."""


class ArgumentError(Exception):
    """Arguments that do not fit. Each of ``problems`` is a sentence from which a caller can repair the call."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Arguments:
    """The named arguments of a tool, prompt or resource template.

    Args:
        parameters: of the function.
        label: names the primitive in errors.
        is_json: numbers, booleans and moments are those of JSON: ``"5"`` and ``true`` are no integers. Variables of
            URIs and arguments of prompts are all strings, which pydantic reads.

    Attributes:
        schema: JSON Schema, an object that allows no further properties.

    Raises:
        ImproperlyConfigured: a parameter's type has no JSON Schema.
    """

    def __init__(self, parameters: Sequence[Parameter], label: str, *, is_json: bool = False) -> None:
        self._is_json = is_json
        self.names = tuple(parameter.name for parameter in parameters)
        checked = typed.arguments(parameters, label)
        self.schema = {"type": "object", "properties": {}, **checked.schema}
        self._core = checked.core
        self._validate = checked.validate
        # Names that pydantic knows and the schema does not are aliases.
        self._fitting = defaultdict(
            frozenset, {name: _fitting(each) for name, each in self.schema["properties"].items()}
        )

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments to call with.

        Raises:
            ArgumentError: something is missing, unknown or of the wrong type.
        """
        try:
            checked = self._validate(values)
        except ValidationError as error:
            raise ArgumentError(self._sentences(error, values)) from None
        if self._is_json:
            for name, value in values.items():
                if type(value) not in self._fitting[name]:
                    self._check_types(name, value, checked.get(name))
        return checked

    def _sentences(self, error: ValidationError, values: Mapping[str, Any]) -> list[str]:
        """Say what is wrong: of the first values all there is, of the others at least one mistake.

        Args:
            error: the first mistake of each list.
            values: the arguments.
        """
        part = _Part()
        first = part.of(values)
        details: list[Any] = []
        try:
            SchemaValidator(self._core).validate_python(first)
        except ValidationError as found:
            # What is wrong with something that was cut may be so because it was cut.
            details = [each for each in found.errors(include_url=False) if id(each["input"]) not in part.cut]
        if not details and error.error_count() <= MOST_VALUES:
            details = error.errors(include_url=False)
        if not details:
            return [f"The arguments have {error.error_count():,} mistakes."]
        return sentences(details, values, self.schema)

    def _check_types(self, name: str, value: Any, checked: Any) -> None:
        parts = checked if isinstance(checked, list | tuple | set | frozenset) else [checked]
        if any(isinstance(each, Unfit) for each in parts):
            return
        details = misfits(value, self.schema["properties"].get(name), self.schema, (name,))
        if details:
            raise ArgumentError(sentences(details, {name: value}, self.schema))


class _Part:
    """The first values of arguments, as far as all that is wrong with them is told.

    Attributes:
        cut: ids of the lists and objects that have more.
    """

    def __init__(self) -> None:
        self.cut: dict[int, Any] = {}  # with what has the id, or another could get it
        self._left = MOST_VALUES

    def of(self, value: Any) -> Any:
        """Return *value*, or a part of it."""
        if not isinstance(value, list | Mapping):
            return value
        length = min(len(value), self._left)
        self._left -= length
        made: Any
        if isinstance(value, list):
            made = [self.of(each) for each in value[:length]]
        else:
            made = {key: self.of(each) for key, each in islice(value.items(), length)}
        if length < len(value):
            self.cut[id(made)] = made
        return made


class Unfit:
    """A checked value of which its reader has to say what is wrong with it."""


# Numbers, booleans and moments that pydantic would make of something else

_COMPLAINTS = {"integer": "int_type", "number": "float_type", "boolean": "bool_type", "null": "none_required"}
_FORMATS = {
    "date-time": "datetime_parsing",
    "date": "date_parsing",
    TIME["pattern"]: "time_parsing",
    LOCAL_TIME["pattern"]: "time_parsing",
    "duration": "time_delta_parsing",
}
_KINDS: Mapping[str, type] = {"null": type(None), "string": str, "array": list, "object": dict}
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*")
"""Text that pydantic takes for seconds since 1970."""
_FITTING: Mapping[str, frozenset[type]] = {
    "integer": frozenset({int, type(None)}),
    "number": frozenset({int, float, type(None)}),
    "boolean": frozenset({bool, type(None)}),
    "string": frozenset({str, type(None)}),
}


def _fitting(schema: Mapping[str, Any]) -> frozenset[type]:
    """Return the types of values that need no closer look."""
    kind = schema.get("type")
    is_plain = isinstance(kind, str) and "format" not in schema and "pattern" not in schema
    return _FITTING.get(cast("str", kind), frozenset()) if is_plain else frozenset()


def misfits(value: Any, schema: Any, root: Mapping[str, Any], path: tuple[Any, ...] = ()) -> list[Any]:
    """Return what is no number, boolean or moment although the schema says so, as ``ValidationError.errors()`` would.

    Whatever else does not fit pydantic refuses itself; whether nothing at all will do is for it to say, too.

    Args:
        value: of JSON.
        schema: what it should be; of all that JSON Schema has, types, formats and what they are nested in are read.
        root: the schema that ``$ref`` leads into.
        path: where the value is.
    """
    if value is None or not isinstance(schema, Mapping):
        return []
    if "$ref" in schema:
        return misfits(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, path)
    if forms := schema.get("anyOf") or schema.get("oneOf"):
        return _misfits_of_forms(value, forms, root, path)
    if complaints := _complaints(value, schema):
        return [{"type": each, "loc": path, "input": value, "msg": ""} for each in complaints]
    found: list[Any] = []
    for key, part in _inside(value, schema):
        found += misfits(value[key], part, root, (*path, key))
        if len(found) > MOST:
            break
    return found


def _complaints(value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Return pydantic's names for what is wrong with the value itself."""
    if complaint := _FORMATS.get(schema.get("format") or schema.get("pattern") or ""):
        is_wrong = isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value))
        return [complaint] if is_wrong else []
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else kinds
    if not kinds or not all(each in _COMPLAINTS for each in kinds):
        return []
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return []
    return [] if any(type(value) in _FITTING.get(each, ()) for each in kinds) else [_COMPLAINTS[each] for each in kinds]


def _inside(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Give the keys or places of what a value is made of, each with its schema."""
    if isinstance(value, Mapping):
        named, others = schema.get("properties", {}), schema.get("additionalProperties")
        yield from ((key, named.get(key, others)) for key in value)
    elif isinstance(value, list):
        first, others = schema.get("prefixItems", ()), schema.get("items")
        yield from enumerate([*first[: len(value)], *[others] * (len(value) - len(first))])


def _misfits_of_forms(value: Any, forms: Sequence[Any], root: Mapping[str, Any], path: tuple[Any, ...]) -> list[Any]:
    """Return [] where the value has one of the forms; else what is wrong inside of the one that it is meant to have."""
    possible = [each for each in forms if isinstance(value, _KINDS.get(str(each.get("type")), object))]
    found = [misfits(value, each, root, path) for each in possible]
    if not all(found):
        return []
    inside = [each for each in found if all(wrong["loc"] != path for wrong in each)]
    if inside:
        return min(inside, key=len)
    return [{**wrong, "loc": (*path, f"form {place}")} for place, each in enumerate(found) for wrong in each]
