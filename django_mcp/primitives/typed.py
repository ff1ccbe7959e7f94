"""From annotations to JSON Schema 2020-12, and from JSON to checked values: pydantic does both."""

import datetime
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, NotRequired, Required, cast, get_args, get_origin

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from pydantic import AfterValidator, ConfigDict, Field, PydanticUserError, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind
from pydantic_core import PydanticSerializationError, SchemaValidator
from typing_extensions import TypedDict  # pydantic wants this one below Python 3.12

from django_mcp.primitives.annotations import is_rows, leaves, replaced
from django_mcp.primitives.functions import EMPTY, Parameter
from django_mcp.primitives.portable import DURATION, MOMENT, TIME, portable
from django_mcp.primitives.uploads import with_uploads


class CheckedArguments(NamedTuple):
    """Named arguments that pydantic-core checks.

    Attributes:
        schema: JSON Schema.
        core: what pydantic-core runs, with all mistakes of a list.
        validate: gives their values, or raises pydantic's ``ValidationError``, with the first mistake of each list.
    """

    schema: dict[str, Any]
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

    schema: dict[str, Any]
    is_wrapped: bool
    validate: Callable[[Any], Any]
    dump: Callable[..., Any] | None


class _Schema(GenerateJsonSchema):
    """Without titles repeated from names: they tell a model nothing and cost tokens in every list."""

    # A default that JSON cannot show is left out of the schema; it works all the same.
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
        except UnicodeDecodeError as error:  # of pydantic 2.12, where a default is bytes; later ones raise the other
            raise PydanticSerializationError(str(error)) from None


def _in_place_of(name: str, schema: dict[str, Any], shape: dict[str, Any]) -> dict[str, Any]:
    """Return *shape* where *schema* has the format *name*; a site may have set its class to give numbers."""
    return dict(shape) if schema.get("format") == name else schema


def typed_dict(name: str, fields: dict[str, Any], **config: Any) -> Any:
    """A ``TypedDict`` made at run time, that allows no other keys."""
    made = cast("Any", TypedDict)(name, fields)
    made.__pydantic_config__ = {"extra": "forbid", **config}
    return made


def json_schema(adapter: TypeAdapter[Any], mode: str, *, by_alias: bool = True) -> dict[str, Any]:
    """The schema of *adapter*, in ``validation`` or ``serialization`` *mode*."""
    schema = adapter.json_schema(mode=mode, by_alias=by_alias, schema_generator=_Schema)  # type: ignore[arg-type]
    schema.pop("title", None)
    return cast("dict[str, Any]", portable(schema))


def arguments(parameters: Sequence[Parameter], label: str) -> CheckedArguments:
    """The arguments of a function. They become a ``TypedDict``, so that a parameter may have any name.

    Args:
        parameters: of the function.
        label: names the primitive in errors.

    Raises:
        ImproperlyConfigured: a parameter's type has no JSON Schema.
    """
    fields = {parameter.name: _field(parameter) for parameter in parameters}
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(typed_dict("arguments", fields, allow_inf_nan=False))
        schema = json_schema(adapter, "validation")
    except PydanticUserError as error:
        rows = any(is_rows(leaf) for each in parameters for leaf in leaves(each.annotation))
        hint = " Only tools take rows of models; take what addresses one, like its primary key." if rows else ""
        msg = f"{label}: the type of a parameter has no JSON Schema.{hint} {error}"
        raise ImproperlyConfigured(msg) from error
    core = adapter.core_schema
    return CheckedArguments(schema, core, SchemaValidator(hasty(core)).validate_python)


_SCALARS = (bool, float, int, str)
"""Types whose values are JSON as they are."""
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


def result(returns: Any, label: str) -> CheckedResult:
    """The result of a function.

    Args:
        returns: its annotation.
        label: names the primitive in errors.

    Raises:
        ImproperlyConfigured: it has no JSON Schema.
    """
    try:
        adapter = _result_adapter(returns)
        schema = json_schema(adapter, "serialization")
        if "$ref" in schema:  # a class that contains itself: clients want its type at the top
            schema = {**schema["$defs"][schema["$ref"].rpartition("/")[2]], "$defs": schema["$defs"]}
        is_wrapped = schema.get("type") != "object"
        if is_wrapped:
            schema = json_schema(TypeAdapter(typed_dict("wrapped", {"result": returns})), "serialization")
    except PydanticUserError as error:
        msg = f"{label}: its return annotation has no JSON Schema. {error}"
        raise ImproperlyConfigured(msg) from error
    dump = None if returns in _SCALARS else adapter.serializer.to_python
    return CheckedResult(schema, is_wrapped, adapter.validator.validate_python, dump)


def in_zone(value: datetime.datetime) -> datetime.datetime:
    """Return a moment as the site's own are: in a time zone, that of the site unless it says another; or, without
    ``USE_TZ``, in that of the site and without saying so.
    """
    if timezone.is_naive(value):
        return timezone.make_aware(value) if settings.USE_TZ else value
    return value if settings.USE_TZ else timezone.make_naive(value)


def _in_zone(annotation: Any) -> Any:
    if annotation is datetime.datetime:
        return Annotated[datetime.datetime, AfterValidator(in_zone)]
    # What says more of a moment, such as that it has to be naive, says it all.
    is_moment = get_origin(annotation) is Annotated and get_args(annotation)[0] is datetime.datetime
    is_plain = is_moment and all(isinstance(each, str | FieldInfo) for each in get_args(annotation)[1:])
    return annotation if is_moment and not is_plain else None


def _result_adapter(returns: Any) -> TypeAdapter[Any]:
    """NaN stays NaN, and is then refused, unless a class has a configuration of its own."""
    try:
        return TypeAdapter(returns, config=ConfigDict(ser_json_inf_nan="constants"))
    except PydanticUserError as error:
        if error.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(returns)


def _field(parameter: Parameter) -> Any:
    annotation = replaced(with_uploads(parameter.annotation), _in_zone)
    if parameter.description and not any(field.description for field in parameter.fields):
        annotation = Annotated[annotation, Field(description=parameter.description)]
    elif datetime.datetime in leaves(parameter.annotation) and not parameter.fields:
        words = f"Without an offset, in the time zone {timezone.get_default_timezone_name()}."
        annotation = Annotated[annotation, Field(description=words)]
    if parameter.default is not EMPTY:
        # pydantic puts the default in place, so that what was left out is part of the checked arguments too.
        annotation = Annotated[annotation, Field(default=parameter.default)]
    return Required[annotation] if parameter.required else NotRequired[annotation]
