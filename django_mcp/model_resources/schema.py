"""Model fields as JSON Schema and type annotations, and their values to and from JSON."""

import datetime
import json
import logging
import math
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal, localcontext
from types import SimpleNamespace
from typing import Annotated, Any, Literal

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import connection, models
from django.db.models.expressions import DatabaseDefault
from django.db.models.fields.files import FieldFile
from django.utils import timezone
from django.utils.choices import BaseChoiceIterator, BlankChoiceIterator, flatten_choices
from django.utils.duration import duration_iso_string
from django.utils.text import capfirst
from pydantic import AfterValidator, Field, ValidatorFunctionWrapHandler, WithJsonSchema, WrapValidator
from pydantic import ValidationError as PydanticError
from pydantic_core import to_json

from django_mcp.primitives.field_schema import (
    custom_type,
    limits,
    output_schema_of,
    schema_of,
)
from django_mcp.primitives.validation_errors import close_matches, shortened, with_article
from django_mcp.protocol.json_schema import as_word

logger = logging.getLogger("django_mcp")


MAX_CHARACTERS = 200
"""Maximum characters of a text filter, unless the column is longer."""
MAX_CHOICES = 200
"""Models with more choices list them only in their description."""
MAX_DIGITS = 1000
"""Maximum absolute decimal exponent, since a number is stored with all its zeros."""


def json_type(field: Any) -> dict[str, Any]:
    """Return the JSON Schema of a column's values without null. A relation has that of the key it stores."""
    field = target_field(field)
    if (own := own_type(field)) is not None:
        return own
    if (known := output_schema_of(field)) is not None:
        return known
    return {} if is_array(field) or is_json(field) else {"type": "string"}


def column_value(field: Any, value: Any) -> Any:
    """Return a value of the column *field* as JSON that matches ``json_type``."""
    field = target_field(field)
    custom = custom_type(field)
    if value is not None and custom is not None and custom.to_json is not None:
        return custom.to_json(value)
    if value is not None and is_foreign_json(field):
        value = _stored_json(field, value)
    value = as_decimal(field, value)
    if not (value is None or isinstance(value, _KNOWN)):
        value = _fixture_value(field, value)
    return to_json_value(with_places(value, field.shown_places) if isinstance(field, AnyDecimalField) else value)


def written_value(field: Any, value: Any) -> Any:
    """Return a value of a package's own class as the text that is written to the column *field*, others unchanged."""
    if value is None or isinstance(value, (*_KNOWN, DatabaseDefault)) or field.is_relation:
        return value
    written = None if isinstance(field, models.FileField) else _fixture_value(field, value)
    return written if isinstance(written, str) else value


def _fixture_value(field: Any, value: Any) -> Any:
    # str() may be something else, such as the HTML of a text with markup.
    try:
        return field.value_to_string(SimpleNamespace(**{field.attname: value, field.name: value}))
    except Exception:  # noqa: BLE001 - it needs a row of the model
        return value


def _stored_json(field: Any, value: Any) -> Any:
    stored = field.get_prep_value(value)
    try:
        return json.loads(stored) if isinstance(stored, str) else stored
    except ValueError:  # a text from before the column held JSON
        return stored


def as_decimal(field: Any, value: Any) -> Any:
    """Return *value* as a decimal if *field* holds decimals, which packages may represent as amounts of money."""
    if isinstance(value, Decimal | None) or not isinstance(field := target_field(field), models.DecimalField):
        return value
    return field.to_python(value)


class AnyDecimalField(models.DecimalField):  # type: ignore[type-arg]
    """The type of an annotation: a decimal with as many digits as sums and averages need.

    Attributes:
        shown_places: decimal places of its values in JSON; None if its expression declares none.
    """

    shown_places: int | None = None

    def cast_db_type(self, connection: Any) -> str | None:
        # PostgreSQL would round to the number of places.
        return "numeric" if connection.vendor == "postgresql" else super().cast_db_type(connection)


def with_places(value: Any, places: int | None) -> Any:
    if not isinstance(value, Decimal) or not value.is_finite():
        return value
    # Databases disagree about the number of places and about zeros at the end.
    with localcontext(prec=MAX_DIGITS):
        return value.normalize() if places is None else value.quantize(Decimal(1).scaleb(-places))


def to_json_value(value: Any) -> Any:
    """Return a column's value as JSON.

    Decimals become exact strings, datetimes carry an offset, durations are ISO 8601, NaN and infinity become null.
    """
    kind = type(value)
    if value is None or kind in {str, int, bool}:
        return value
    for converted, convert in _CONVERSIONS:
        if isinstance(value, converted):
            return convert(value)
    return str(value)


def _moment_text(value: datetime.datetime) -> str:
    # RFC 3339 requires an offset, which values lack without USE_TZ.
    return timezone.localtime(timezone.make_aware(value) if timezone.is_naive(value) else value).isoformat()


def _plain(value: Any) -> Any:
    # Without its subclass, such as TextChoices.
    return str.__str__(value) if isinstance(value, str) else int(value)


_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    ((str, int), _plain),
    # Values that functions may return. ``str()`` of a row and paths of files are not exposed.
    (models.Model, lambda value: column_value(value._meta.pk, value.pk)),  # noqa: SLF001
    (models.QuerySet, lambda value: [to_json_value(row) for row in value]),
    (FieldFile, lambda value: value.name.replace("\\", "/").rpartition("/")[2] if value else None),
    (float, lambda value: float(value) if math.isfinite(value) else None),
    (datetime.datetime, _moment_text),
    ((datetime.date, datetime.time), lambda value: value.isoformat()),
    (datetime.timedelta, duration_iso_string),
    (Decimal, lambda value: format(value, "f") if value.is_finite() else None),
    (Mapping, lambda value: {str(key): to_json_value(entry) for key, entry in value.items()}),
    ((list, tuple, set, frozenset), lambda value: [to_json_value(entry) for entry in value]),
)


_KNOWN = tuple(kind for kinds, _ in _CONVERSIONS for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def input_type(field: Any) -> Any:
    if (annotation := known_type(field)) is not None:
        return annotation
    longest = max(MAX_CHARACTERS, getattr(target_field(field), "max_length", None) or 0)
    return Annotated[str, Field(max_length=longest), AfterValidator(without_nul)]


def known_type(field: Any) -> Any:
    """Return the annotation for a column with choices or of a known type, or None for one that takes text."""
    field = target_field(field)
    if choices := choices_of(field):
        chosen: Any = Literal[tuple(value for value, _ in choices)]
        is_labelled = any(_is_telling(value, label) for value, label in choices)
        return _labelled(chosen, choices) if is_labelled else chosen
    custom, annotation = custom_type(field), None
    if custom is not None and custom.from_json is not None:
        annotation = Annotated[Any, AfterValidator(_reader(custom.from_json))]
    elif own_type(field) == _TEXT:
        return None
    elif isinstance(field, models.IntegerField):
        annotation = _integers(field)
    elif isinstance(field, models.DecimalField):
        annotation = _decimals(field)
    else:
        annotation = next((type_ for kind, type_ in _INPUT_TYPES.items() if isinstance(field, kind)), None)
    if annotation is None:
        return None
    schema = schema_of(field) or {}
    if isinstance(field, models.IntegerField):
        schema |= limits(schema, field.validators, is_required=False)
    return Annotated[annotation, WithJsonSchema(schema)]


def _reader(from_json: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        try:
            return from_json(value)
        except ValidationError as error:
            # pydantic expects ValueError.
            raise ValueError(" ".join(error.messages)) from None

    return read


def _integers(field: Any) -> Any:
    given = [validator for validator in field.validators if isinstance(getattr(validator, "limit_value", None), int)]
    least = max(
        (validator.limit_value for validator in given if isinstance(validator, MinValueValidator)), default=None
    )
    most = min((validator.limit_value for validator in given if isinstance(validator, MaxValueValidator)), default=None)
    return Annotated[int, Field(ge=least, le=most)]


def _decimals(field: Any) -> Any:
    whole = None if field.max_digits is None else 10 ** (field.max_digits - field.decimal_places)
    bounds = Field(allow_inf_nan=False, lt=whole, gt=None if whole is None else -whole)
    return Annotated[Decimal, bounds, AfterValidator(_written_out)]


def _written_out(value: Decimal) -> Decimal:
    # Written out, numbers such as 1E-999999999 take gigabytes.
    if abs(value.adjusted()) > MAX_DIGITS:
        raise ValueError(f"must have a decimal exponent from -{MAX_DIGITS} to {MAX_DIGITS}")
    return value


def moment(value: datetime.datetime) -> datetime.datetime:
    """Return *value* in the storage time zone. A naive value is in the current one. Years are limited to 2 to 9998."""
    if not 1 < value.year < datetime.MAXYEAR:
        raise ValueError("must be in the years 2 to 9998")
    if timezone.is_naive(value):
        value = timezone.make_aware(value)
    return value.astimezone(datetime.UTC) if settings.USE_TZ else timezone.make_naive(value)


def _clock(value: datetime.time) -> datetime.time:
    if value.tzinfo is not None:
        raise ValueError("must not have a UTC offset")
    return value


_INPUT_TYPES: Mapping[type, Any] = {
    models.BooleanField: bool,
    models.FloatField: Annotated[float, Field(allow_inf_nan=False)],
    models.DateTimeField: Annotated[datetime.datetime, AfterValidator(moment)],
    models.DateField: datetime.date,
    models.TimeField: Annotated[datetime.time, AfterValidator(_clock)],
    models.DurationField: datetime.timedelta,
    models.UUIDField: uuid.UUID,
    models.JSONField: Any,
}
"""Types to parse values as. Their JSON Schema comes from the registry of field types."""


def labels_of(field: Any) -> dict[Any, str]:
    # As the admin reads them: fields of packages that hold several values have choices, and none of these.
    flat = getattr(field, "flatchoices", None) or ()
    return {to_json_value(value): str(label) for value, label in flat if isinstance(value, str | int)}


def choices_of(field: Any) -> list[tuple[Any, str]]:
    """Return the values and labels of a column's choices, or nothing if there are too many."""
    known = labels_of(field)
    return list(known.items()) if len(known) <= MAX_CHOICES else []


LABELLED = 20
"""Maximum number of labels in a description."""


def labels_in_words(field: Any) -> str:
    """Return the labels of a column's values, like ``Values: w (waiting), o (open).``, unless values say the same."""
    choices = choices_of(target_field(field)) if isinstance(field, models.Field) else []
    telling = [(value, label) for value, label in choices if _is_telling(value, label)]
    if not telling or len(choices) > LABELLED:
        return ""
    return f"Values: {', '.join(f'{as_word(value)} ({label})' for value, label in choices)}."


def _is_telling(value: Any, label: str) -> bool:
    return re.sub(r"[\W_]+", "", str(value)).casefold() != re.sub(r"[\W_]+", "", label).casefold()


def named_choices(value: Any, choices: Sequence[tuple[Any, str]], most: int) -> list[str]:
    """Return the choices closest to *value* by their values or labels, or the first ones, each with its label."""
    if len(choices) > most:
        word = str(value).casefold()
        # One after the other: of very many words only the first are compared.
        tables = ({str(choice[part]).casefold(): choice for choice in choices} for part in (0, 1))
        close = [table[found] for table in tables for found in close_matches(word, table, most)]
        choices = list(dict.fromkeys(close))[:most] or choices[:most]
    return [f"{choice} ({label})" if _is_telling(choice, label) else str(choice) for choice, label in choices]


def _labelled(annotation: Any, choices: Sequence[tuple[Any, str]]) -> Any:
    def read(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except PydanticError:
            named = named_choices(value, choices, LABELLED)
            more = "one of" if len(named) == len(choices) else "one of the choices, such as"
            raise ValueError(f"must be {more}: {', '.join(named)}") from None

    return Annotated[annotation, WrapValidator(read)]


def without_nul(text: str) -> str:
    """Return *text*, which PostgreSQL cannot store with NUL characters.

    Raises:
        ValueError: *text* contains one.
    """
    if "\0" in text:
        raise ValueError("must not contain NUL characters")
    return text


def value_field(field: Any) -> Any:
    # A GeneratedField has the type of its output_field.
    while getattr(field, "generated", False):
        field = field.output_field
    return field


def target_field(field: Any) -> Any:
    """Return the column that a relation's key finally refers to; for a generated one its ``output_field``."""
    while field.is_relation and getattr(field, "target_field", None) is not None:
        field = field.target_field
    return value_field(field)


def has_default(field: Any) -> bool:
    return bool(field.has_default()) or getattr(field, "db_default", models.NOT_PROVIDED) is not models.NOT_PROVIDED


def is_array(field: Any) -> bool:
    return hasattr(field, "base_field") and not is_range(field)


def innermost(field: Any) -> Any:
    while is_array(field):
        field = field.base_field
    return field


def is_range(field: Any) -> bool:
    return hasattr(field, "range_type")


def is_json(field: Any) -> bool:
    # Wagtail's StreamField is no JSONField, but has its internal type.
    kind = field.get_internal_type() if isinstance(field, models.Field) else ""
    return isinstance(field, models.JSONField) or kind in {"JSONField", "HStoreField"}


def is_foreign_json(field: Any) -> bool:
    """Return True for a column that stores JSON and has values of a package's own class."""
    return is_json(field) and not isinstance(field, models.JSONField)


MAX_TEXT = 100_000
"""Maximum size of a text in characters, or of JSON in bytes."""
MAX_VALUES = 500
"""Maximum number of items in a list and rows in a set."""
MAX_DEPTH = 50
"""Maximum nesting depth of JSON."""

_MAX_LOGGED = 500
_TEXTS = (models.CharField, models.TextField, models.GenericIPAddressField, models.FilePathField)
_NO_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions of columns of other packages for unexpected values."""


def require_storable(value: Any) -> Any:
    """Return *value*, JSON that every database can store.

    Raises:
        ValueError: it is too long, nested too deep, or contains NUL characters or unpaired surrogates.
    """
    for part, depth in _parts(value):
        if depth > MAX_DEPTH:
            raise ValueError(f"must not be nested deeper than {MAX_DEPTH} levels")
        if isinstance(part, str):
            without_nul(part)
    try:
        length = len(to_json(value))
    except ValueError:
        raise ValueError("must be valid Unicode: it contains an unpaired surrogate") from None
    if length > MAX_TEXT:
        raise ValueError(f"must have at most {MAX_TEXT} bytes as JSON")
    return value


def _parts(value: Any) -> Iterator[tuple[Any, int]]:
    rest: list[tuple[Any, int]] = [(value, 0)]
    while rest:
        entry, depth = rest.pop()
        yield entry, depth
        if isinstance(entry, Mapping):
            rest += ((part, depth + 1) for pair in entry.items() for part in pair)
        elif isinstance(entry, list):
            rest += ((part, depth + 1) for part in entry)


# Columns of other packages

_TEXT: Mapping[str, Any] = {"type": "string"}
_SAMPLES: tuple[tuple[Any, Callable[[], Any]], ...] = (
    (models.BooleanField, lambda: True),
    (models.IntegerField, lambda: 1),
    (models.FloatField, lambda: 1.0),
    (models.DateTimeField, timezone.now),
    (models.DateField, lambda: timezone.now().date()),
    (models.TimeField, lambda: timezone.now().time()),
    (models.DurationField, lambda: datetime.timedelta(1)),
    (models.UUIDField, uuid.uuid4),
    ((models.CharField, models.TextField), lambda: "a"),
)
"""Values of databases, by class."""


def _is_of_django(function: Any) -> bool:
    return str(getattr(function, "__module__", "")).startswith("django.")


def own_type(field: Any) -> dict[str, Any] | None:
    """Return the JSON Schema of a column whose class, of another package, has values of a type of its own, or None.

    A sample is converted to see that: django-hashid-field makes texts of integers, django-multiselectfield lists of
    texts.
    """
    reads = getattr(field, "from_db_value", None)
    if reads is None or _is_of_django(reads) or custom_type(field) is not None:
        return None
    sample = next((value() for kind, value in _SAMPLES if isinstance(field, kind)), None)
    if sample is None:
        return None
    if isinstance(sample, str):
        sample = next((value for value in labels_of(field) if isinstance(value, str)), sample)
    try:
        found = to_json_value(reads(sample, None, connection))
    except Exception:  # noqa: BLE001 - it is no value of that class, such as one that is not encrypted
        return None
    if isinstance(found, list):
        return {"type": "array", "items": dict(_TEXT) if all(isinstance(member, str) for member in found) else {}}
    return dict(_TEXT) if isinstance(found, str) and not isinstance(to_json_value(sample), str) else None


def is_foreign(field: Any) -> bool:
    """Return True for a column whose values only its own class, from another package, can parse."""
    if field.is_relation or isinstance(field, models.JSONField | models.FileField):
        return False
    return is_json(field) or not (isinstance(field, _TEXTS) or is_array(field) or known_type(field) is not None)


def foreign_words(field: Any) -> str:
    kind = f"{capfirst(with_article(type(field).__name__))}, as {'JSON' if is_json(field) else 'text'}."
    blocks = getattr(getattr(field, "stream_block", None), "child_blocks", None)  # of Wagtail's StreamField
    if not isinstance(blocks, Mapping):
        return kind
    return f"{kind} A list of blocks, each with type and value; types are {', '.join(map(str, blocks))}."


def form_value(field: Any, form_field: forms.Field, given: Any) -> Any:
    """Return *given*, a value from JSON, as the form field *form_field* of such a column accepts it.

    Raises:
        ValidationError: it is not a valid value of the column.
    """
    value = _read(field, given)
    if isinstance(form_field, forms.CharField):
        return value if custom_type(field) is not None else _as_text(field, given)
    with _reading(field), suppress(ValidationError):  # the form reports these together with all other errors
        form_field.clean(value)
    return value


def _read(field: Any, given: Any) -> Any:
    custom = custom_type(field)
    with _reading(field):
        if custom is not None and custom.from_json is not None:
            return custom.from_json(given)
        value = field.to_python(_as_text(field, given))
    require_kept(field, given, value)
    return value


def _as_text(field: Any, given: Any) -> Any:
    return json.dumps(given) if is_json(field) else given


@contextmanager
def _reading(field: Any) -> Iterator[None]:
    try:
        yield
    except _NO_VALUE as error:
        logger.warning("A value given for %s could not be read: %s", field, shortened(repr(error), _MAX_LOGGED))
        raise ValidationError("not a valid value of this field.", code="invalid") from None


def require_kept(field: Any, given: Any, value: Any) -> None:
    """Check that a JSON column keeps the whole value: Wagtail's drops blocks of unknown types.

    Raises:
        ValidationError: a part was dropped.
    """
    if is_json(field) and (lost := _lost(given, column_value(field, value))):
        raise ValidationError(lost, code="lost")


def _lost(given: Any, kept: Any, where: str = "") -> str:
    # Scalars may differ.
    if isinstance(given, list) and isinstance(kept, list):
        if len(given) > len(kept):
            return f"only {len(kept)} of {len(given)} items of {where or 'the list'} have an allowed type."
        parts = [(f"{where}[{at}]", part, kept[at]) for at, part in enumerate(given)]
    elif isinstance(given, Mapping) and isinstance(kept, Mapping):
        if unknown := [key for key in given if key not in kept]:
            return f"unknown key {unknown[0]!r} in {where or 'the object'}."
        parts = [(f"{where}.{key}".removeprefix("."), part, kept[key]) for key, part in given.items()]
    else:
        return ""
    return next(filter(None, (_lost(part, other, name) for name, part, other in parts)), "")


# Form fields


def form_choices(field: Any) -> list[tuple[Any, Any]]:
    """Return the values and labels of a form field's choices, or nothing if there are too many or not known yet."""
    choices = field.choices
    if isinstance(choices, BlankChoiceIterator):  # for a model field; the inner choices may be fixed
        choices = choices.choices
    if isinstance(choices, BaseChoiceIterator):
        return []
    every: list[tuple[Any, Any]] = list(flatten_choices(choices))
    flat = [(to_json_value(value), label) for value, label in every if value is not None]
    flat = [(value, label) for value, label in flat if isinstance(value, str | int)]
    return flat if len(flat) <= MAX_CHOICES else []
