"""What a form may ask: the restricted JSON Schema of elicitation (2026-07-28, Elicitation, Requested Schema)."""

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired

from django.core.exceptions import ImproperlyConfigured
from django.core.exceptions import ValidationError as DjangoValidationError
from django.core.validators import validate_email
from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from django_mcp.primitives import words
from django_mcp.primitives.typed import typed_dict
from django_mcp.protocol.content import check_uri

FORMATS = ("email", "uri", "date", "date-time")

ALLOWED = (
    "A form asks for text, whole and other numbers, yes or no, dates, e-mail addresses, URIs, and one or several "
    "choices among strings; not for objects, nor for lists of anything but such choices."
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
    """Made when the first form asks for it: few sites have forms, and each of these takes a millisecond."""
    return TypeAdapter(typed_dict(shape, {**_WORDS, **_FIELDS[shape]}))


def _keys(shape: str) -> Sequence[str]:
    return tuple(_FIELDS[shape] | _WORDS)


_SECRET = re.compile(
    r"(^|_)(password|passwd|passphrase|passcode|secret|api_?key|private_?key|(access|auth|bearer|refresh|api)_?token"
    r"|credit_?card|card_?number|cvc|cvv)$"
)


def keys_of(schema: Mapping[str, Any]) -> Sequence[str]:
    """The keys its kind of question may have; none where no form can ask it."""
    shape = _shape(schema)
    return () if shape is None else _keys(shape)


def options_of(schema: Mapping[str, Any]) -> list[str] | None:
    """The strings to choose among; None where it is no choice."""
    within = schema.get("items", schema)
    titled = within.get("oneOf", within.get("anyOf"))
    return within.get("enum") if titled is None else [each["const"] for each in titled]


def check_property(name: str, schema: Any, label: str) -> None:
    """Raises ImproperlyConfigured unless a form may ask for *schema* under *name*; the message says what is allowed."""
    shape = _shape(schema)
    if isinstance(schema, Mapping):
        refuse_secret(name, schema, label)
    if shape is None:
        msg = f"{label}: {name!r} is nothing a form can ask for. {ALLOWED}"
        raise ImproperlyConfigured(msg)
    adapter, keys = _adapter(shape), _keys(shape)
    try:
        adapter.validate_python(schema, strict=True)
    except ValidationError as error:
        msg = f"{label}: {name!r}: {' '.join(sentences(error))} A {shape} field has {', '.join(keys)}."
        raise ImproperlyConfigured(msg) from None
    if (options := options_of(schema)) is not None:
        _check_options(f"{label}: {name!r}", schema, options)


def refuse_secret(name: str, schema: Mapping[str, Any], label: str) -> None:
    """Raises ImproperlyConfigured for a field that asks for a password, a key or a card (MUST NOT of Elicitation)."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_").replace(" ", "_")
    free = schema.get("type") in ("string", "number", "integer") and not {"const", "enum", "oneOf"} & schema.keys()
    if schema.get("format") == "password" or (free and _SECRET.search(words)):
        msg = (
            f"{label}: {name!r} looks like a secret. What is filled into a form passes through the client and its "
            "model; send the user to a page of your own with ctx.elicit_url."
        )
        raise ImproperlyConfigured(msg)


def answer_type(schema: Mapping[str, Any]) -> Any:
    """The annotation with which pydantic checks an answer to *schema*."""
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


MAX_ERRORS = 1000
"""Mistakes of which any are told."""


def sentences(error: ValidationError) -> list[str]:
    """What pydantic found wrong, a sentence each, for a person."""
    if error.error_count() > MAX_ERRORS:  # each costs as much as a call, to tell twenty of them
        return [f"There are {error.error_count():,} mistakes."]
    found = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False)[:20]:
        where = ".".join(str(part) for part in detail["loc"])
        found.append(sentence(where, detail["msg"].removeprefix("Value error, ")))
    return found


def sentence(name: str, said: str) -> str:
    """``seats: Input should be less than or equal to 9.``; without a *name*, what is *said* alone."""
    return f"{name}: {words.sentence(said)}" if name else words.sentence(said)


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
        msg = f"{where} offers one choice twice."
        raise ImproperlyConfigured(msg)
    if len(schema.get("enumNames", options)) != len(options):
        msg = f"{where} needs a name in enumNames for each choice in enum."
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
