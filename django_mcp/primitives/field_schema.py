"""Registry of JSON Schemas for model, form and serializer fields, which sites can extend.

Limits, patterns, choices and texts of single fields are also computed here, so that a model field and its form and
serializer fields have the same schema.
"""

import html
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from django import forms
from django.core import validators
from django.db import models
from django.utils.functional import Promise, keep_lazy_text
from django.utils.html import strip_tags

from django_mcp.primitives.compatibility import Schema
from django_mcp.primitives.schema import DECIMAL, DURATION, LOCAL_TIME
from django_mcp.protocol.json_schema import as_word

MAX_LISTED = 10**9
"""Larger numeric limits are left out: they come from column types."""
MAX_LABELS = 50
"""Maximum number of choices whose labels are listed."""
_MAX_PATTERN = 200

SchemaOf = Schema | Callable[[Any], Schema]
"""A schema, or a function that returns the schema of a field."""


class FieldType(NamedTuple):
    """The JSON form of the values of a field class.

    Attributes:
        schema, output_schema: JSON Schemas of input and output values.
        from_json: converts a JSON value for the field; None for the default conversion.
        to_json: converts a value to JSON; None for the default conversion.
        example: a valid value, quoted in errors.
        is_custom: registered by the site, not by this package.
    """

    schema: SchemaOf
    output_schema: SchemaOf
    from_json: Callable[[Any], Any] | None = None
    to_json: Callable[[Any], Any] | None = None
    example: str | None = None
    is_custom: bool = False


def register_field(
    field_class: type,
    *,
    schema: SchemaOf,
    output_schema: SchemaOf | None = None,
    from_json: Callable[[Any], Any] | None = None,
    to_json: Callable[[Any], Any] | None = None,
    example: str | None = None,
) -> None:
    """Register the JSON form of a field class and its subclasses.

    Call it in ``ready()`` of an app, before tools and resources are declared.

    Args:
        field_class: class of a model field, form field or REST framework serializer field.
        schema: JSON Schema of input values, or a function that returns the schema of a field.
        output_schema: schema of output values; defaults to *schema*.
        from_json: converts a JSON value for the field; raises ``ValueError`` or Django's ``ValidationError`` for an
            invalid one. Not used for serializers.
        to_json: converts a value other than None to JSON. Not used for forms and serializers.
        example: a valid value, quoted in errors.
    """
    shown = schema if output_schema is None else output_schema
    _TYPES[field_class] = FieldType(schema, shown, from_json, to_json, example, is_custom=True)


def field_type(field: Any) -> FieldType | None:
    return next((_TYPES[kind] for kind in type(field).__mro__ if kind in _TYPES), None)


def custom_type(field: Any) -> FieldType | None:
    found = field_type(field)
    return found if found is not None and found.is_custom else None


def schema_of(field: Any) -> Schema | None:
    """Return the schema of the field's input, without its own limits, or None."""
    found = field_type(field)
    return None if found is None else _made(found.schema, field)


def output_schema_of(field: Any) -> Schema | None:
    found = field_type(field)
    return None if found is None else _made(found.output_schema, field)


def nullable(schema: Schema) -> Schema:
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    found = dict(schema)
    if "type" in schema:
        kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        found["type"] = [*dict.fromkeys([*kinds, "null"])]
    if "enum" in schema:
        found["enum"] = [*schema["enum"], *([] if None in schema["enum"] else [None])]
    return found


def _made(schema: SchemaOf, field: Any) -> Schema:
    return dict(schema(field) if callable(schema) else schema)


_TEXT: Schema = {"type": "string"}
_DATE: Schema = {"type": "string", "format": "date"}
_DATETIME: Schema = {"type": "string", "format": "date-time"}
_DURATION: Schema = {"type": "string", "format": "duration"}
_UUID: Schema = {"type": "string", "format": "uuid"}
_EMAIL: Schema = {"type": "string", "format": "email"}
_URL: Schema = {"type": "string", "format": "uri"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_YES_OR_NO: Schema = {"type": "boolean"}
DECIMAL_INPUT: Schema = {"anyOf": [{"type": "number"}, {"type": "string"}]}
"""A decimal as input: a string, which is exact, or a number. Copilot Studio cuts schemas with a list of types."""


def _alike(schema: SchemaOf, example: str | None = None) -> FieldType:
    return FieldType(schema, schema, example=example)


_MOMENT_TYPE = _alike(_DATETIME, "2026-05-31T18:30:00+02:00")

_TYPES: dict[type, FieldType] = {
    models.BooleanField: _alike(_YES_OR_NO),
    models.IntegerField: _alike(_WHOLE),
    models.FloatField: _alike(_NUMBER),
    models.DecimalField: FieldType(DECIMAL_INPUT, DECIMAL),
    models.DateTimeField: _alike(_DATETIME),
    models.DateField: _alike(_DATE),
    models.TimeField: _alike(LOCAL_TIME),
    models.DurationField: FieldType(_DURATION, DURATION),
    models.UUIDField: _alike(_UUID),
    models.JSONField: _alike({}),
    # Stored values may be older than the validators.
    models.EmailField: FieldType(_EMAIL, _TEXT),
    models.URLField: FieldType(_URL, _TEXT),
    forms.BooleanField: _alike(lambda field: {**_YES_OR_NO, **({"const": True} if field.required else {})}),
    forms.NullBooleanField: _alike({"type": ["boolean", "null"]}),
    forms.IntegerField: _alike(_WHOLE),
    forms.FloatField: _alike(_NUMBER),
    forms.DecimalField: FieldType(DECIMAL_INPUT, DECIMAL),
    forms.DateTimeField: _MOMENT_TYPE,
    forms.SplitDateTimeField: _MOMENT_TYPE,
    forms.DateField: _alike(_DATE, "2026-05-31"),
    forms.TimeField: _alike(LOCAL_TIME, "18:30:00"),
    forms.DurationField: FieldType(_DURATION, DURATION, example="P3DT2H30M, or 2:30:00"),
    forms.UUIDField: _alike(_UUID, "b7c6e1a4-4f0e-4c5b-9a53-3c1d7f1f9e10"),
    forms.JSONField: _alike({}),
    forms.EmailField: _alike(_EMAIL),
    forms.URLField: _alike(_URL),
    forms.CharField: _alike(_TEXT),
}


# What one field adds

_OF_TEXT = ((validators.MinLengthValidator, "minLength", max), (validators.MaxLengthValidator, "maxLength", min))
_OF_NUMBERS = ((validators.MinValueValidator, "minimum", max), (validators.MaxValueValidator, "maximum", min))


def limits(schema: Mapping[str, Any], checks: Iterable[Any], *, is_required: bool, call: bool = False) -> Schema:
    """Return the limits that validators set and JSON Schema can express.

    Args:
        schema: schema of the values.
        checks: the validators.
        is_required: forbid the empty string.
        call: evaluate callable limits; else leave them out, for cached schemas.
    """
    found: Schema = {}
    is_text = schema.get("type") == "string"
    for check in checks:
        limit = getattr(check, "limit_value", None)
        if callable(limit):
            limit = limit() if call else None
        if is_text and (kind := _address(check)):
            found["format"] = kind
        elif type(check) is validators.RegexValidator and is_text and (pattern := _pattern(check)):
            found["pattern"] = pattern
        elif limit is None or _is_no_limit(limit):
            continue
        elif isinstance(check, validators.StepValueValidator):
            found |= {"multipleOf": _number(limit)} if _is_multiple(check) else {}
        for validator, key, narrower in _OF_TEXT if is_text else _OF_NUMBERS:
            if isinstance(check, validator):
                found[key] = narrower(_number(limit), found.get(key, _number(limit)))
    has_format = "pattern" in schema or {**schema, **found}.get("format", "password") != "password"
    if is_text and is_required and not has_format:  # no format matches an empty string
        found["minLength"] = max(found.get("minLength", 1), 1)
    return found


def _address(check: Any) -> str | None:
    if check is validators.validate_ipv4_address:
        return "ipv4"
    return "ipv6" if check is validators.validate_ipv6_address else None


def _is_no_limit(limit: Any) -> bool:
    return isinstance(limit, int | float | Decimal) and abs(float(limit)) >= MAX_LISTED


def _number(limit: Any) -> int | float:
    return limit if isinstance(limit, int) else int(limit) if limit == int(limit) else float(limit)


def _is_multiple(check: Any) -> bool:
    # Validators round fractional steps differently, and count them from an offset.
    return check.limit_value == int(check.limit_value) and not (check.offset or 0) % check.limit_value


def _pattern(check: Any) -> str | None:
    # Dialects of regular expressions must read the pattern alike.
    found: str = check.regex.pattern
    found = found.replace(r"\Z", "$").replace(r"\A", "^")
    is_special = check.inverse_match or check.regex.flags & ~re.UNICODE or re.search(r"\(\?(?!:)|\\[aefG-KX-Z]", found)
    return None if is_special or len(found) > _MAX_PATTERN else found


_PLAIN_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def choice_schema(values: Iterable[Any]) -> Schema:
    """Return the schema of *values*, with their types if all are JSON types."""
    listed = list(values)
    kinds = [*dict.fromkeys(_PLAIN_TYPES.get(type(value), "") for value in listed)]
    if not kinds or "" in kinds:
        return {"enum": listed} if listed else {}
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": listed}


def choice_words(choices: Iterable[tuple[Any, Any]]) -> Any:
    """Return the labels that differ from their values as one text; None if there are none or too many."""
    told = [(value, label) for value, label in choices if value != "" and _tells_more(value, label)]
    if not 0 < len(told) <= MAX_LABELS:
        return None
    values, labels = zip(*told, strict=True)

    @keep_lazy_text
    def joined(*words: str) -> str:
        return f"{'; '.join(f'{as_word(value)}: {word}' for value, word in zip(values, words, strict=True))}."

    return joined(*labels)


def _tells_more(value: Any, label: Any) -> bool:
    return isinstance(label, Promise) or _spoken(label) != _spoken(value)


def _spoken(word: Any) -> str:
    return str(word).casefold().replace("_", " ").replace("-", " ")


def digit_words(field: Any) -> Iterator[str]:
    # multipleOf would not do: many validators do not accept 19.99 as a multiple of 0.01.
    for attribute, words in {"max_digits": "digits", "decimal_places": "decimal places"}.items():
        if (most := getattr(field, attribute, None)) is not None:
            yield f"At most {most} {words}."


@keep_lazy_text
def plain_text(*notes: Any) -> str:
    """Return labels and help texts without HTML, except in spans of code (`` `<user>@<host>` ``)."""
    return str(joined(*("".join(map(_without_tags, _CODE.split(str(note)))).strip() for note in notes)))


_CODE = re.compile(r"(`[^`]+`)")


def _without_tags(part: str) -> str:
    return part if _CODE.fullmatch(part) else html.unescape(strip_tags(part))


@keep_lazy_text
def joined(*notes: Any) -> str:
    """Return texts as one, each but the last with a full stop if it ends without one."""
    *first, last = (str(note).strip() for note in notes)
    return " ".join([*(f"{note}." if note and _ENDS_OPEN.search(note) else note for note in first), last])


_ENDS_OPEN = re.compile(r"[\w)\]}\"'»”’%°`](?:</\w+>)*\Z")
"""The end of a text that no sign of punctuation ends."""
