"""Values of JSON for the fields of a form: which there are, and what a field takes in their place.

A form checks what somebody typed, so it would make text of an object, or True of the word "maybe". What no page could
have sent is found here; all else is the form's to judge.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime, parse_time

from django_mcp.adapters.files import read_file
from django_mcp.model_resources.schema import MOST_DIGITS, MOST_TEXT, MOST_VALUES, moment, storable, without_nul
from django_mcp.primitives.markers import MOST_BYTES
from django_mcp.primitives.validation_errors import kind_name


def read(field: forms.Field, value: Any, most_bytes: int = MOST_BYTES) -> Any:
    """What *field* cleans in place of a value of JSON; None stands for an empty input.

    Args:
        field: of a form.
        value: of JSON.
        most_bytes: how large a file may be.

    Raises:
        ValidationError: it is of another kind than the field asks for.
    """
    if value is None:
        return None
    return read_file(value, most_bytes) if isinstance(field, forms.FileField) else kind_of(field).read(field, value)


@dataclass(frozen=True, slots=True)
class Kind:
    """What fields of one kind are in JSON.

    Attributes:
        type: the JSON type of its values, or several; None where it is not one of these.
        read: takes the field and a value that is not None.
        format: of text.
        example: of what is right, for a caller who gave something else.
    """

    type: str | list[str] | None
    read: Callable[[Any, Any], Any]
    format: str | None = None
    example: str | None = None


def kind_of(field: forms.Field) -> Kind:
    """The kind of a field; of one that nobody knows, what one can type."""
    if hasattr(field, "base_field"):  # an array of PostgreSQL's
        return _ARRAY
    return next((kind for classes, kind in _KINDS if isinstance(field, classes)), TYPED)


def _require(value: Any, types: tuple[type, ...], wanted: str) -> None:
    if type(value) not in types:
        raise ValidationError(f"must be {wanted}, not {kind_name(value)}.", code="kind")


def _text(_: Any, value: Any) -> str:
    _require(value, (str,), "a string")
    _require_storable(value)
    text: str = value
    return text


def _require_storable(text: str) -> None:
    if len(text) > MOST_TEXT:
        raise ValidationError(f"must have at most {MOST_TEXT} characters, not {len(text)}.", code="kind")
    try:
        without_nul(text)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None


def _number(field: Any, value: Any) -> Any:
    _require(value, (int, float, str), "a number")
    try:
        number = Decimal(str(value).strip()) if len(str(value)) <= MOST_TEXT else None
    except DecimalException:
        return _text(field, value)  # perhaps with the separators of a language; the form knows
    if number is None or (number.is_finite() and abs(number.adjusted()) > MOST_DIGITS):
        raise ValidationError("must not be that large or small.", code="kind")
    return number if field.localize else value


def _yes_or_no(_: Any, value: Any) -> bool:
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    _require(value, (bool,), "true or false")
    return bool(value)


def _choice(_: Any, value: Any) -> Any:
    _require(value, (str, int, float, bool), "one of the choices")
    if isinstance(value, str):
        _require_storable(value)
    return value


def _key(field: Any, value: Any) -> Any:
    _require(value, (str, int), "the key of one")
    return _choice(field, value)


def _several(one: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def read_each(field: Any, value: Any) -> list[Any]:
        _require(value, (list,), "an array")
        if len(value) > MOST_VALUES:
            raise ValidationError(f"must have at most {MOST_VALUES} entries, not {len(value)}.", code="kind")
        return [one(field, each) for each in value]

    return read_each


def _items(field: Any, value: Any) -> list[Any]:
    return [read(field.base_field, each) for each in _several(lambda _, each: each)(field, value)]


def _parts(field: Any, value: Any) -> list[Any]:
    _require(value, (list,), "an array")
    if len(value) > len(field.fields):
        raise ValidationError(f"must have at most {len(field.fields)} entries, not {len(value)}.", code="kind")
    return [read(part, each) for part, each in zip(field.fields, value, strict=False)]


def _parsed(parse: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
    """In ISO 8601, whatever ways of writing the form knows besides."""

    def read_text(field: Any, value: Any) -> Any:
        text = _text(field, value)
        try:
            return parse(text.strip()) or text
        except ValueError:
            return text

    return read_text


def _moment(text: str) -> datetime.datetime | None:
    found = parse_datetime(text)
    if found is None:
        return None
    try:
        known = moment(found)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None
    return found if timezone.is_naive(found) else known  # without an offset, the form knows in which time zone it is


def _split_moment(field: Any, value: Any) -> Any:
    found = _parsed(_moment)(field, value)
    if isinstance(found, str):
        raise ValidationError("Enter a valid date and time.", code="invalid")
    return forms.SplitDateTimeWidget().decompress(found)


def _json(field: Any, value: Any) -> Any:
    try:
        storable(value)
    except ValueError as error:
        raise ValidationError(f"{error}.", code="kind") from None
    return field.prepare_value(value)  # in forms JSON is text


TYPED = Kind(["string", "number", "boolean"], _choice)
"""The kind of a field whose class is not known: its value is typed as text."""
_ARRAY = Kind("array", _items)
_KEYS = Kind("array", _several(_key))
_DATE = Kind("string", _parsed(parse_date), "date", "2026-05-31")
_DATETIME = Kind("string", _parsed(_moment), "date-time", "2026-05-31T18:30:00+02:00")
_NUMBER = Kind("number", _number)

_KINDS: tuple[tuple[Any, Kind], ...] = (
    (forms.FileField, Kind("object", lambda _, value: read_file(value))),
    (forms.SplitDateTimeField, Kind("string", _split_moment, _DATETIME.format, _DATETIME.example)),
    (forms.MultiValueField, Kind("array", _parts)),
    (forms.JSONField, Kind(None, _json)),
    (forms.ModelMultipleChoiceField, _KEYS),
    (forms.ModelChoiceField, Kind(None, _key)),
    (forms.MultipleChoiceField, Kind("array", _several(_choice))),
    (forms.BooleanField, Kind("boolean", _yes_or_no)),
    (forms.ChoiceField, Kind(None, _choice)),
    (forms.DecimalField, Kind(["number", "string"], _number)),
    (forms.FloatField, _NUMBER),
    (forms.IntegerField, Kind("integer", _number)),
    (forms.DateTimeField, _DATETIME),
    (forms.DateField, _DATE),
    (forms.TimeField, Kind("string", _parsed(parse_time), None, "18:30:00")),
    (forms.DurationField, Kind("string", _text, "duration", "P3DT2H30M, or 2:30:00")),
    (forms.UUIDField, Kind("string", _text, "uuid", "b7c6e1a4-4f0e-4c5b-9a53-3c1d7f1f9e10")),
    (forms.EmailField, Kind("string", _text, "email")),
    (forms.URLField, Kind("string", _text, "uri")),
    ((forms.CharField, forms.ComboField), Kind("string", _text)),
)
"""The first that fits counts: most of these are text or choices too."""
