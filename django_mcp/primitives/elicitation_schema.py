"""Elicitation forms from pydantic models or JSON Schema (2026-07-28, Elicitation).

Those from Django forms are in ``model_resources/elicited_forms.py``, because their rows depend on the caller.
"""

import datetime
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NotRequired, Protocol, Required

from django.core.exceptions import ImproperlyConfigured
from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.validators import validate_email
from django.db.models import Choices
from pydantic import AfterValidator, BaseModel, Field, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError, to_json

from django_mcp.primitives import validation_errors
from django_mcp.primitives.base import FormError, translated
from django_mcp.primitives.schema import SchemaGenerator, typed_dict
from django_mcp.primitives.text_values import read_members, readers
from django_mcp.protocol.content import check_uri
from django_mcp.protocol.json_schema import resolve
from django_mcp.secret_names import QUESTIONS, ends_in

FORMATS = ("email", "uri", "date", "date-time")

ALLOWED = (
    "A form supports text, integers, numbers, booleans, dates, e-mail addresses, URIs, and one or several choices of "
    "strings; no objects, and no other lists."
)

# Annotations made at run time are values to a type checker.
_annotated: Any = Annotated
_literal: Any = Literal
_list: Any = list

_Count = Annotated[int, Field(ge=0)]
_Number = int | float
_Options = Annotated[list[str], Field(min_length=1)]
_Titled = _annotated[_list[typed_dict("option", {"const": str, "title": str})], Field(min_length=1)]
_PLAIN_ITEMS = typed_dict("items", {"type": Literal["string"], "enum": _Options})
_TITLED_ITEMS = typed_dict("items", {"anyOf": _Titled})

_LIMITS = {"minimum": NotRequired[_Number], "maximum": NotRequired[_Number]}
_LENGTHS = {"minLength": NotRequired[_Count], "maxLength": NotRequired[_Count]}
_SIZES = {"minItems": NotRequired[_Count], "maxItems": NotRequired[_Count], "default": NotRequired[list[str]]}
_TEXT = {"type": Literal["string"], "default": NotRequired[str]}
_ARRAY = {"type": Literal["array"]}

_FIELDS: dict[str, dict[str, Any]] = {
    "text": {**_TEXT, **_LENGTHS, "format": NotRequired[_literal[FORMATS]]},
    "number": {"type": Literal["number"], **_LIMITS, "default": NotRequired[_Number]},
    "integer": {"type": Literal["integer"], **_LIMITS, "default": NotRequired[int]},
    "boolean": {"type": Literal["boolean"], "default": NotRequired[bool]},
    "choice": {**_TEXT, "enum": _Options, "enumNames": NotRequired[list[str]]},
    "titled choice": {**_TEXT, "oneOf": _Titled},
    "choices": {**_ARRAY, **_SIZES, "items": _PLAIN_ITEMS},
    "titled choices": {**_ARRAY, **_SIZES, "items": _TITLED_ITEMS},
}
_WORDS = {"title": NotRequired[str], "description": NotRequired[str]}


@cache
def _adapter(shape: str) -> TypeAdapter[Any]:
    # Built on first use: few sites have forms, and each adapter takes a millisecond.
    return TypeAdapter(typed_dict(shape, {**_WORDS, **_FIELDS[shape]}))


def _keys(shape: str) -> Sequence[str]:
    return tuple(_FIELDS[shape] | _WORDS)


def keys_of(schema: Mapping[str, Any]) -> Sequence[str]:
    """Return the keys allowed in this kind of field; none if a form cannot contain it."""
    shape = _shape(schema)
    return () if shape is None else _keys(shape)


def options_of(schema: Mapping[str, Any]) -> list[str] | None:
    within = schema.get("items", schema)
    titled = within.get("oneOf", within.get("anyOf"))
    return within.get("enum") if titled is None else [option["const"] for option in titled]


def check_property(name: str, schema: Any, label: str) -> None:
    """Check that a form may have the field *name*.

    Raises:
        ImproperlyConfigured: it may not; the message says what is allowed.
    """
    shape = _shape(schema)
    if isinstance(schema, Mapping):
        refuse_secret(name, schema, label)
    if shape is None:
        msg = f"{label}: {name!r} is not supported in a form. {ALLOWED}"
        raise ImproperlyConfigured(msg)
    adapter, keys = _adapter(shape), _keys(shape)
    try:
        adapter.validate_python(schema, strict=True)
    except ValidationError as error:
        field = validation_errors.with_article(f"{shape} field")
        msg = f"{label}: {name!r}: {' '.join(sentences(error))} Keys of {field}: {', '.join(keys)}."
        raise ImproperlyConfigured(msg) from None
    if (options := options_of(schema)) is not None:
        _check_options(f"{label}: {name!r}", schema, options)


def refuse_secret(name: str, schema: Mapping[str, Any], label: str) -> None:
    """Refuse a field for a password, a key or a card number, which forms MUST NOT request (Elicitation).

    Raises:
        ImproperlyConfigured: the field looks like a secret.
    """
    free = schema.get("type") in ("string", "number", "integer") and not {"const", "enum", "oneOf"} & schema.keys()
    if schema.get("format") == "password" or (free and ends_in(name, QUESTIONS)):
        msg = (
            f"{label}: {name!r} looks like a secret. Form answers pass through the client and its model; send "
            "the user to a page of your site with ctx.elicit_url."
        )
        raise ImproperlyConfigured(msg)


def answer_type(schema: Mapping[str, Any]) -> Any:
    """Return the annotation with which pydantic validates an answer to *schema*."""
    options = options_of(schema)
    match schema["type"]:
        case "array":
            size = Field(min_length=schema.get("minItems"), max_length=schema.get("maxItems"))
            return _annotated[_list[_literal[tuple(options or ())]], size]
        case "boolean":
            return bool
        case "string" if options is not None:
            return _literal[tuple(options)]
        case "string":
            length = Field(min_length=schema.get("minLength"), max_length=schema.get("maxLength"))
            checks = [AfterValidator(_CHECKS[schema["format"]])] if "format" in schema else []
            return _annotated[(str, length, *checks)]
    kind = int if schema["type"] == "integer" else _Number
    return _annotated[kind, Field(ge=schema.get("minimum"), le=schema.get("maximum"))]


def default_problem(schema: Mapping[str, Any]) -> str | None:
    """Return why the default of a form's field is no answer to it, which a user who leaves it would read; else None."""
    if "default" not in schema:
        return None
    try:
        TypeAdapter(answer_type(schema)).validate_python(schema["default"])
    except ValidationError as error:
        return " ".join(sentences(error))
    return None


MAX_ERRORS = 1000
"""Number of errors above which only their count is reported."""


def sentences(error: ValidationError) -> list[str]:
    if error.error_count() > MAX_ERRORS:  # formatting each costs as much as a call
        return [f"There are {error.error_count():,} errors."]
    found = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False)[
        : validation_errors.MAX_REPORTED
    ]:
        where = ".".join(str(part) for part in detail["loc"])
        found.append(sentence(where, detail["msg"].removeprefix("Value error, ")))
    return found


def sentence(name: str, said: str) -> str:
    return f"{name}: {validation_errors.sentence(said)}" if name else validation_errors.sentence(said)


def _shape(schema: Any) -> str | None:
    match schema:
        case {"type": "string"}:
            return "choice" if "enum" in schema else "titled choice" if "oneOf" in schema else "text"
        case {"type": "number" | "integer" | "boolean" as kind}:
            return str(kind)
        case {"type": "array", "items": {"type": "string", "enum": _}}:
            return "choices"
        case {"type": "array", "items": {"anyOf": _}}:
            return "titled choices"
    return None


def _check_options(where: str, schema: Mapping[str, Any], options: Sequence[str]) -> None:
    if len(set(options)) != len(options):
        msg = f"{where} lists the same choice twice."
        raise ImproperlyConfigured(msg)
    if len(schema.get("enumNames", options)) != len(options):
        msg = f"{where} must have one name in enumNames for each choice in enum."
        raise ImproperlyConfigured(msg)
    default = schema.get("default", [])
    if wrong := set(default if isinstance(default, list) else [default]) - set(options):
        msg = f"{where} has a default that is not among its choices: {', '.join(sorted(wrong))}."
        raise ImproperlyConfigured(msg)


def _format(check: Callable[[str], Any], wanted: str) -> Callable[[str], str]:
    def checked(value: str) -> str:
        try:
            check(value)
        except (ValueError, DjangoValidationError):
            raise PydanticCustomError("format", "Input should be {wanted}", {"wanted": wanted}) from None
        return value

    return checked


_CHECKS = {
    "email": _format(validate_email, "an e-mail address, such as jo@example.com"),
    "uri": _format(check_uri, "a URI, such as https://example.com/"),
    "date": _format(datetime.date.fromisoformat, "a date, such as 1999-12-31"),
    "date-time": _format(datetime.datetime.fromisoformat, "a date and time, such as 1999-12-31T18:30:00Z"),
}


_NULLABLE = "x-nullable"


class _FormSchema(SchemaGenerator):
    """A model's schema with titles of choices, and ``x-nullable`` in place of a null alternative."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return {**self.generate_inner(schema["schema"]), _NULLABLE: True}

    def decimal_schema(self, schema: Any) -> dict[str, Any]:
        found = {"type": "number"}
        self.update_with_validations(found, schema, self.ValidationsMapping.numeric)
        return found

    def encode_default(self, dft: Any) -> Any:
        return float(dft) if isinstance(dft, Decimal) else super().encode_default(dft)

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:  # noqa: ARG002
        return {}  # refused later, with the field's name

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        found = super().enum_schema(schema)
        if issubclass(schema["cls"], Choices) and found.get("type") == "string":
            titled = [{"const": member.value, "title": str(member.label)} for member in schema["members"]]
            return {"type": "string", "oneOf": titled}
        return found


class ModelForm:
    """A form made from a pydantic model. Fields that may be None or have a default are optional.

    Constraints that a form schema cannot express, such as a pattern, are checked by the model only.

    Raises:
        ImproperlyConfigured: a field is not supported in a form.
    """

    def __init__(self, model: type[BaseModel], label: str) -> None:
        self._model = model
        label = f"{label} {model.__name__}"
        try:
            whole = model.model_json_schema(schema_generator=_FormSchema)
        except PydanticUserError as error:
            msg = f"{label}: a field has no JSON Schema. {ALLOWED} {error}"
            raise ImproperlyConfigured(msg) from error
        root, whole = whole, _resolved(whole, whole)
        self.schema: dict[str, Any] = {"type": "object", "properties": {}}
        nullable = set()
        for name, schema in whole.get("properties", {}).items():
            found = _resolved(schema, root)
            refuse_secret(name, found, label)
            if found.pop(_NULLABLE, False):
                nullable.add(name)
            self.schema["properties"][name] = found = restricted(found)
            check_property(name, found, label)
            if default_problem(found):  # such as an empty one, which means that there is no answer
                del found["default"]
        required = whole.get("required", [])
        self._blank = [name for name in required if name in nullable]
        if required := [name for name in required if name not in nullable]:
            self.schema["required"] = required

    @property
    def names(self) -> set[str]:
        return set(self.schema["properties"])

    def read(self, content: Mapping[str, Any]) -> tuple[BaseModel | None, list[str]]:
        filled = {**dict.fromkeys(self._blank), **content}
        try:
            return self._model.model_validate_json(to_json(filled)), []
        except ValidationError as error:
            return None, sentences(error)


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any], *, with_items: bool = True) -> dict[str, Any]:
    # Only the field and its items are resolved, because forms nest no deeper.
    found = dict(schema)
    if "$ref" in found:
        defined = resolve(found.pop("$ref"), root)
        found = {**defined, **found}
        if found.get("title") == defined.get("title"):  # a class name
            found.pop("title", None)
    if with_items and isinstance(found.get("items"), dict):
        found["items"] = _resolved(found["items"], root, with_items=False)
    return found


def restricted(schema: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* without what a form schema cannot express; a schema that no form may have stays as it is."""
    found = _limited(_single(schema))
    if found.get("format") not in FORMATS:
        found.pop("format", None)
    if isinstance(items := found.get("items"), dict):
        items = _single(items)
        # Several choices use anyOf, a single one oneOf (schema.ts, EnumSchema).
        found["items"] = {"anyOf": items["oneOf"]} if "oneOf" in items else _only(items, ("type", "enum"))
    keys = keys_of(found)
    if found.get("default") is None:
        found.pop("default", None)
    elif keys and isinstance(found["default"], list):  # a set has no order
        order = {option: index for index, option in enumerate(options_of(found) or ())}
        found["default"].sort(key=lambda chosen: order.get(chosen, len(order)))
    return _only(found, keys) if keys else found


def _single(schema: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(schema)
    if "const" in found:
        found["enum"] = [found.pop("const")]
    if "enum" in found and found.get("type") != "string":
        found.pop("type", None)
    return found


def _limited(schema: dict[str, Any]) -> dict[str, Any]:
    whole = schema.get("type") == "integer"
    if (above := schema.get("exclusiveMinimum")) is not None:
        schema["minimum"] = max(math.floor(above) + 1 if whole else above, schema.get("minimum", -math.inf))
    if (below := schema.get("exclusiveMaximum")) is not None:
        schema["maximum"] = min(math.ceil(below) - 1 if whole else below, schema.get("maximum", math.inf))
    return schema


def _only(schema: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key in keys}


class _Form(Protocol):
    @property
    def schema(self) -> dict[str, Any]: ...

    @property
    def names(self) -> set[str]: ...

    def read(self, content: Mapping[str, Any]) -> tuple[Any, list[str]]: ...


class FormSchema:
    """An elicitation form and the validation of its answers.

    Args:
        given: a pydantic model class, or a JSON Schema as the specification allows.
        label: name for errors.

    Raises:
        ImproperlyConfigured: a field is not supported in a form, or requests a secret.
    """

    def __init__(self, given: Any, label: str = "elicitation") -> None:
        self._form = _form(given, label)

    @property
    def schema(self) -> dict[str, Any]:
        return self._form.schema

    def validate(self, content: Mapping[str, Any]) -> Any:
        """Return the validated answer: the model's instance, or a dict.

        Unknown fields are ignored; null counts as missing.

        Raises:
            FormError: the answer is invalid.
        """
        names = self._form.names
        given = {name: value for name, value in content.items() if name in names and value is not None}
        value, problems = self._form.read(read_members(given, readers(self.schema)))
        if problems:
            raise FormError(problems)
        return value


def form_schema(given: Any, label: str = "elicitation") -> FormSchema:
    # Cached, because a tool that asks runs several times.
    if isinstance(given, Mapping):
        return _of_text(_text(given, label), label)
    return _of_class(given, label) if isinstance(given, type) else FormSchema(given, label)


class _WrittenForm:
    def __init__(self, schema: dict[str, Any], label: str) -> None:
        _check_top(schema, label)
        self.schema, required = schema, schema.get("required", [])
        self.names = set(schema["properties"])
        fields: dict[str, Any] = {}
        for name, field in schema["properties"].items():
            check_property(name, field, label)
            if problem := default_problem(field):
                msg = f"{label}: {name!r} has a default that is not a valid answer. {problem}"
                raise ImproperlyConfigured(msg)
            kind = answer_type(field)
            fields[name] = Required[kind] if name in required else NotRequired[kind]
        self._adapter: TypeAdapter[dict[str, Any]] = TypeAdapter(typed_dict("content", fields))

    def read(self, content: Mapping[str, Any]) -> tuple[dict[str, Any] | None, list[str]]:
        try:
            return self._adapter.validate_python(content), []
        except ValidationError as error:
            return None, sentences(error)


def _check_top(schema: Mapping[str, Any], label: str) -> None:
    properties, required = schema.get("properties"), schema.get("required", [])
    if schema.get("type") != "object" or not isinstance(properties, dict):
        msg = f'{label}: the schema of a form must have "type": "object" and "properties", an object.'
        raise ImproperlyConfigured(msg)
    if unknown := schema.keys() - {"$schema", "type", "properties", "required"}:
        msg = f"{label}: a form schema must not have {', '.join(sorted(unknown))}; only type, properties and required."
        raise ImproperlyConfigured(msg)
    if not isinstance(required, list) or not all(isinstance(name, str) and name in properties for name in required):
        msg = f"{label}: required must be a list of names in properties, not {required!r}."
        raise ImproperlyConfigured(msg)


def _form(given: Any, label: str) -> _Form:
    if isinstance(given, Mapping):
        return _WrittenForm(json.loads(_text(given, label)), label)
    if isinstance(given, type) and issubclass(given, BaseModel):
        return ModelForm(given, label)
    msg = f"{label}: a form must be a pydantic model class, a Django Form class or a JSON Schema, not {given!r}."
    raise ImproperlyConfigured(msg)


def _text(given: Mapping[str, Any], label: str) -> str:
    try:
        return json.dumps(translated(given), allow_nan=False)
    except (TypeError, ValueError) as error:
        msg = f"{label}: the schema of a form must be JSON: {error}."
        raise ImproperlyConfigured(msg) from error


@lru_cache(maxsize=512)
def _of_class(given: type, label: str) -> FormSchema:
    return FormSchema(given, label)


@lru_cache(maxsize=512)
def _of_text(given: str, label: str) -> FormSchema:
    return FormSchema(json.loads(given), label)
