"""JSON Schema 2020-12 of annotations, and validation of arguments, through pydantic."""

import datetime
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Annotated, Any, NamedTuple, NotRequired, Required, cast, get_args, get_origin

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from pydantic import AfterValidator, ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, SchemaValidator, ValidationError, to_json
from typing_extensions import TypedDict  # pydantic wants this one below Python 3.12

from django_mcp.primitives.base import is_text
from django_mcp.primitives.compatibility import Schema, portable
from django_mcp.primitives.function import EMPTY, Parameter, is_rows, leaves, replaced
from django_mcp.primitives.markers import with_uploads
from django_mcp.primitives.text_values import TextValues, read_members, readers
from django_mcp.primitives.validation_errors import MAX_REPORTED, sentences
from django_mcp.protocol.json_schema import describing, resolve

TIME: Schema = {
    "type": "string",
    "pattern": r"^\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$",
}
"""A time of day. RFC 3339's ``"format": "time"`` requires an offset."""
LOCAL_TIME: Schema = {"type": "string", "pattern": r"^\d\d:\d\d(:\d\d(\.\d+)?)?$"}
"""A time of day without an offset."""
DURATION: Schema = {"type": "string", "pattern": "^-?P"}
"""An ISO 8601 duration. ``"format": "duration"`` allows neither a sign nor fractions of a second."""
MOMENT: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT"}
"""A date and time with or without the offset that ``"format": "date-time"`` requires."""
DECIMAL: Schema = {"type": "string", "pattern": r"^-?\d+(\.\d+)?$"}
"""A decimal as a string; no format exists for it."""


class CheckedArguments(NamedTuple):
    """Arguments validated by pydantic-core.

    Attributes:
        validate: returns the values or raises pydantic's ``ValidationError`` with the first error of each list.
        make_thorough: returns a function like *validate* that reports all errors of a list.
    """

    schema: dict[str, Any]
    validate: Callable[[Any], dict[str, Any]]
    make_thorough: Callable[[], Callable[[Any], dict[str, Any]]]


class CheckedResult(NamedTuple):
    """A result validated and serialized by pydantic-core.

    Attributes:
        is_wrapped: the value is the member ``result`` of an object, as in ``schema``.
        validate: returns the value or raises pydantic's ``ValidationError``.
        dump: converts the value to JSON; None if it is JSON already.
    """

    schema: dict[str, Any]
    is_wrapped: bool
    validate: Callable[[Any], Any]
    dump: Callable[..., Any] | None


class SchemaGenerator(GenerateJsonSchema):
    """A schema without generated titles, which only cost tokens."""

    # A default without a JSON form is left out of the schema but still applies.
    ignored_warning_kinds: set[JsonSchemaWarningKind] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002
        return False

    def time_schema(self, schema: Any) -> dict[str, Any]:
        return _in_place_of("time", super().time_schema(schema), TIME)

    def timedelta_schema(self, schema: Any) -> dict[str, Any]:
        found = super().timedelta_schema(schema)
        return found if self.mode == "validation" else _in_place_of("duration", found, DURATION)

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        found = super().datetime_schema(schema)
        is_aware = self.mode == "validation" or schema.get("tz_constraint") not in (None, "naive")
        return found if is_aware else _in_place_of("date-time", found, MOMENT)

    def encode_default(self, dft: Any) -> Any:
        try:
            return super().encode_default(dft)
        except UnicodeDecodeError as error:  # pydantic 2.12 for a default of bytes; later ones raise the other
            raise PydanticSerializationError(str(error)) from None


def _in_place_of(name: str, schema: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    # A site's class may use numbers instead.
    return dict(shape) if schema.get("format") == name else schema


def typed_dict(name: str, fields: dict[str, Any], **config: Any) -> Any:
    made = cast("Any", TypedDict)(name, fields)
    made.__pydantic_config__ = {"extra": "forbid", **config}
    return made


def json_schema(adapter: TypeAdapter[Any], mode: str, *, by_alias: bool = True) -> dict[str, Any]:
    schema = adapter.json_schema(mode=mode, by_alias=by_alias, schema_generator=SchemaGenerator)  # type: ignore[arg-type]
    schema.pop("title", None)
    return cast("dict[str, Any]", portable(schema))


def arguments(parameters: Sequence[Parameter], label: str) -> CheckedArguments:
    """Return the validation of a function's arguments.

    Raises:
        ImproperlyConfigured: a parameter's type has no JSON Schema.
    """
    fields = {parameter.name: _field(parameter) for parameter in parameters}
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(typed_dict("arguments", fields, allow_inf_nan=False))
        schema = json_schema(adapter, "validation")
    except PydanticUserError as error:
        rows = any(is_rows(leaf) for argument in parameters for leaf in leaves(argument.annotation))
        hint = " Only tools accept model instances; accept an identifier such as the primary key." if rows else ""
        msg = f"{label}: the type of a parameter has no JSON Schema.{hint} {error}"
        raise ImproperlyConfigured(msg) from error
    core = adapter.core_schema
    return CheckedArguments(schema, _validation(fail_fast(core)), partial(_validation, core))


def _validation(core: Any) -> Callable[[Any], dict[str, Any]]:
    try:
        # Otherwise models and dataclasses validate with their own validators, whose lists report every error.
        made = SchemaValidator(core, _use_prebuilt=False)
    except TypeError:  # pydantic 2.12 has no such argument
        made = SchemaValidator(core)
    if not _is_strict(core):
        return made.validate_python
    # In strict mode, pydantic reads dates, sets and enums from JSON, but not from the values that JSON is parsed to.
    return lambda values: made.validate_json(to_json(values))


def _is_strict(core: Any) -> bool:
    if type(core) is dict:
        return core.get("strict") is True or any(_is_strict(part) for key, part in core.items() if key not in _VALUES)
    return type(core) in {list, tuple} and any(map(_is_strict, core))


_SCALARS = (bool, float, int, str)
_LISTS = frozenset({"list", "set", "frozenset", "tuple"})
_VALUES = frozenset({"default", "expected", "members", "metadata"})


def fail_fast(core: Any) -> Any:
    # A list may have a million items, each with an error.
    if type(core) is dict:
        made = {key: part if key in _VALUES else fail_fast(part) for key, part in core.items()}
        kind = core.get("type")
        return {**made, "fail_fast": True} if isinstance(kind, str) and kind in _LISTS else made
    return type(core)(map(fail_fast, core)) if type(core) in {list, tuple} else core


def result(returns: Any, label: str) -> CheckedResult:
    """Return the validation of a function's result by its annotation.

    Raises:
        ImproperlyConfigured: the annotation has no JSON Schema.
    """
    try:
        adapter = _result_adapter(returns)
        schema = json_schema(adapter, "serialization")
        if "$ref" in schema:  # a recursive class: clients need the type at the top level
            schema = {**resolve(schema["$ref"], schema), "$defs": schema["$defs"]}
        schema, is_wrapped = with_one_type(schema)
    except PydanticUserError as error:
        msg = f"{label}: the return annotation has no JSON Schema. {error}"
        raise ImproperlyConfigured(msg) from error
    dump = None if returns in _SCALARS else adapter.serializer.to_python
    return CheckedResult(schema, is_wrapped, adapter.validator.validate_python, dump)


def with_one_type(schema: Schema) -> tuple[Schema, bool]:
    """Return an output schema with one type other than null, and whether it was wrapped for that.

    Unions are wrapped for all clients: older versions of the official clients reject null, and a value shows whether
    its schema has to be wrapped for a client that takes only objects.
    """
    is_wrapped = schema.get("type", "null") == "null" or not isinstance(schema["type"], str)
    return (wrapped(schema) if is_wrapped else schema), is_wrapped


def wrapped(schema: Schema) -> Schema:
    inner = {key: part for key, part in schema.items() if key != "$defs"}
    made: Schema = {"type": "object", "properties": {"result": inner}, "required": ["result"]}
    return {**made, "$defs": schema["$defs"]} if "$defs" in schema else made


def in_zone(value: datetime.datetime) -> datetime.datetime:
    """Return a datetime as Django stores it: aware with ``USE_TZ``, else naive in the site's time zone.

    A naive one is in the site's time zone.
    """
    if timezone.is_naive(value):
        return timezone.make_aware(value) if settings.USE_TZ else value
    return value if settings.USE_TZ else timezone.make_naive(value)


def _in_zone(annotation: Any) -> Any:
    if annotation is datetime.datetime:
        return Annotated[datetime.datetime, AfterValidator(in_zone)]
    # Other metadata, such as a constraint to naive datetimes, replaces the default.
    is_moment = get_origin(annotation) is Annotated and get_args(annotation)[0] is datetime.datetime
    is_plain = is_moment and all(isinstance(mark, str | FieldInfo) for mark in get_args(annotation)[1:])
    return annotation if is_moment and not is_plain else None


def _result_adapter(returns: Any) -> TypeAdapter[Any]:
    # NaN is kept here, and rejected later, unless the class has its own configuration.
    try:
        return TypeAdapter(returns, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(returns)


def _field(parameter: Parameter) -> Any:
    annotation = replaced(with_uploads(parameter.annotation), _in_zone)
    if is_text(parameter.description) and not any(is_text(field.description) for field in parameter.fields):
        annotation = Annotated[annotation, Field(description=parameter.description)]
    elif datetime.datetime in leaves(parameter.annotation) and not parameter.fields:
        words = f"Time zone if no offset is given: {timezone.get_default_timezone_name()}."
        annotation = Annotated[annotation, Field(description=words)]
    if parameter.default is not EMPTY:
        # With pydantic's default, omitted arguments are part of the validated ones.
        annotation = Annotated[annotation, Field(default=parameter.default)]
    return Required[annotation] if parameter.required else NotRequired[annotation]


MAX_VALUES = 1000
"""Number of leading values whose errors are all reported."""


class ArgumentError(Exception):
    """Invalid arguments. ``problems`` are sentences from which a caller can correct the call."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Arguments:
    """The named arguments of a tool, prompt or resource template.

    Args:
        parameters: the function's parameters.
        label: name of the primitive for errors.
        is_json: require JSON types: ``"5"`` and ``true`` are not integers. False for URI variables and prompt
            arguments, which are strings that pydantic converts.

    Raises:
        ImproperlyConfigured: a parameter's type has no JSON Schema.
    """

    def __init__(self, parameters: Sequence[Parameter], label: str, *, is_json: bool = False) -> None:
        self._is_json = is_json
        self.names = tuple(parameter.name for parameter in parameters)
        checked = arguments(parameters, label)
        self.schema = {"type": "object", "properties": {}, **checked.schema}
        self._validate, self._make_thorough = checked.validate, checked.make_thorough
        # Names missing in the schema are aliases.
        self._plain_types = defaultdict(
            frozenset, {name: _plain_types(part) for name, part in self.schema["properties"].items()}
        )

    @cached_property
    def _readers(self) -> Mapping[str, TextValues]:
        return readers(self.schema)

    def read_text(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call with the values that were sent as text (``primitives.text_values``).

        It is the same dict if there are none.
        """
        return read_members(values, self._readers)

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the function's arguments.

        Raises:
            ArgumentError: an argument is missing, unknown or invalid.
        """
        try:
            checked = self._validate(values)
        except ValidationError as error:
            raise ArgumentError(self._sentences(error, values)) from None
        if self._is_json:
            for name, value in values.items():
                if type(value) not in self._plain_types[name]:
                    self._check_types(name, value, checked.get(name))
        return checked

    def _sentences(self, error: ValidationError, values: Mapping[str, Any]) -> list[str]:
        # All errors of the first values are reported, and at least one of each other value.
        part = _Truncated()
        first = part.of(values)
        details: list[Any] = []
        try:
            self._make_thorough()(first)
        except ValidationError as found:
            # Errors of truncated values may come from the truncation.
            details = [detail for detail in found.errors(include_url=False) if detail["input"] not in part.cut]
        if not details and error.error_count() <= MAX_VALUES:
            details = error.errors(include_url=False)
        if not details:
            return [f"The arguments have {error.error_count():,} errors."]
        return sentences(details, values, self.schema)

    def _check_types(self, name: str, value: Any, checked: Any) -> None:
        parts = checked if isinstance(checked, list | tuple | set | frozenset) else [checked]
        if any(isinstance(part, InvalidValue) for part in parts):
            return
        details = type_errors(value, self.schema["properties"].get(name), self.schema, (name,))
        if details:
            raise ArgumentError(sentences(details, {name: value}, self.schema))


class _Truncated:
    """The first ``MAX_VALUES`` values of arguments. ``cut`` holds truncated lists and objects."""

    def __init__(self) -> None:
        self.cut: list[Any] = []
        self._left = MAX_VALUES

    def of(self, value: Any) -> Any:
        if not isinstance(value, list | Mapping):
            return value
        length = min(len(value), self._left)
        self._left -= length
        made: Any
        if isinstance(value, list):
            made = [self.of(entry) for entry in value[:length]]
        else:
            made = {key: self.of(entry) for key, entry in islice(value.items(), length)}
        if length < len(value):
            self.cut.append(made)
        return made


class InvalidValue:
    """A validated value whose errors are reported elsewhere."""


# Numbers, booleans and datetimes that pydantic would convert from other types

_ERROR_TYPES = {"integer": "int_type", "number": "float_type", "boolean": "bool_type", "null": "none_required"}
_FORMATS = {
    "date-time": "datetime_parsing",
    "date": "date_parsing",
    TIME["pattern"]: "time_parsing",
    LOCAL_TIME["pattern"]: "time_parsing",
    "duration": "time_delta_parsing",
}
_KINDS: Mapping[str, type] = {"null": type(None), "string": str, "array": list, "object": dict}
_TYPES = {"string": "string_type", "array": "list_type", "object": "dict_type"}
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?\s*")
"""Text that pydantic reads as seconds since 1970."""
_PLAIN_TYPES: Mapping[str, frozenset[type]] = {
    "integer": frozenset({int, type(None)}),
    "number": frozenset({int, float, type(None)}),
    "boolean": frozenset({bool, type(None)}),
    "string": frozenset({str, type(None)}),
}


def _plain_types(schema: Mapping[str, Any]) -> frozenset[type]:
    kind = schema.get("type")
    is_plain = isinstance(kind, str) and "format" not in schema and "pattern" not in schema
    return _PLAIN_TYPES.get(cast("str", kind), frozenset()) if is_plain else frozenset()


def type_errors(value: Any, schema: Any, root: Mapping[str, Any], path: tuple[Any, ...] = ()) -> list[Any]:
    """Return values of a wrong JSON type that pydantic would convert, as entries of ``ValidationError.errors()``.

    Only numbers, booleans, dates and times are checked; pydantic rejects the rest, and null. ``$ref`` points into
    *root*.
    """
    if value is None or not isinstance(schema, Mapping):
        return []
    if "$ref" in schema:
        return type_errors(value, resolve(schema["$ref"], root), root, path)
    if forms := schema.get("anyOf") or schema.get("oneOf"):
        return _type_errors_of_forms(value, forms, root, path)
    if complaints := _error_types(value, schema):
        return [{"type": complaint, "loc": path, "input": value, "msg": ""} for complaint in complaints]
    found: list[Any] = []
    for key, part in _members(value, schema):
        found += type_errors(value[key], part, root, (*path, key))
        if len(found) > MAX_REPORTED:
            break
    return found


def _error_types(value: Any, schema: Mapping[str, Any]) -> list[str]:
    if complaint := _FORMATS.get(schema.get("format") or schema.get("pattern") or ""):
        is_wrong = isinstance(value, int | float) or (isinstance(value, str) and _NUMBER.fullmatch(value))
        return [complaint] if is_wrong else []
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else [kind for kind in kinds if kind != "null"]
    if not kinds or not all(kind in _ERROR_TYPES for kind in kinds):
        return []
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return []
    return (
        []
        if any(type(value) in _PLAIN_TYPES.get(kind, ()) for kind in kinds)
        else [_ERROR_TYPES[kind] for kind in kinds]
    )


def _members(value: Any, schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        named, others = schema.get("properties", {}), schema.get("additionalProperties")
        yield from ((key, named.get(key, others)) for key in value)
    elif isinstance(value, list):
        first, others = schema.get("prefixItems", ()), schema.get("items")
        yield from enumerate([*first[: len(value)], *[others] * (len(value) - len(first))])


def _type_errors_of_forms(
    value: Any, forms: Sequence[Any], root: Mapping[str, Any], path: tuple[Any, ...]
) -> list[Any]:
    # Errors are those of the closest schema, unless one fits.
    possible: Sequence[Any] = [form for form in forms if isinstance(value, _KINDS.get(str(form.get("type")), object))]
    if not possible:  # pydantic reads a number as a date or a duration, also where text or null are other forms
        others = [form for form in forms if form.get("type") != "null"]
        wrong = [_error_types(value, other) or [_TYPES.get(str(other.get("type")), "")] for other in others]
        is_converted = any(complaint in _FORMATS.values() for several in wrong for complaint in several)
        told = [
            {"type": complaint, "loc": (*path, f"form {place}"), "input": value, "msg": ""}
            for place, several in enumerate(wrong)
            for complaint in several
            if complaint
        ]
        return told if is_converted else []
    if isinstance(value, Mapping):
        possible = describing(value, possible, root)
    found = [type_errors(value, form, root, path) for form in possible]
    if not all(found):
        return []
    inside = [several for several in found if all(wrong["loc"] != path for wrong in several)]
    if inside:
        return min(inside, key=len)
    return [{**wrong, "loc": (*path, f"form {place}")} for place, several in enumerate(found) for wrong in several]
