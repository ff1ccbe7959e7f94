"""What callers give to be written: the types of values, made of columns of a model and of fields of a form."""

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Annotated, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.choices import BaseChoiceIterator, BlankChoiceIterator, flatten_choices
from django.utils.text import capfirst
from pydantic import AfterValidator, Field
from pydantic_core import to_json

from django_mcp.core.signatures import list_of, one_of
from django_mcp.exposure.field_types import (
    MOST_CHOICES,
    behind,
    choices_of,
    column_value,
    input_type,
    is_array,
    is_json,
    known_type,
    to_json_value,
    without_nul,
)
from django_mcp.primitives.validation_errors import shortened, with_article

logger = logging.getLogger("django_mcp")

MOST_TEXT = 100_000
"""The longest text, in characters; of JSON in bytes."""
MOST_VALUES = 500
"""The most values of a list, and the most rows of a set."""
MOST_DEPTH = 50
"""How deep JSON may be nested."""

_MOST_LOGGED = 500
_TEXTS = (models.CharField, models.TextField, models.GenericIPAddressField, models.FilePathField)
_NO_VALUE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What classes of columns raise for values that they did not expect."""


def write_type(field: Any) -> Any:
    """The annotation of an argument that is written into a column, null left aside."""
    if choices := choices_of(field):
        values = [value for value, _ in choices]
        return one_of(dict.fromkeys([*values, *([""] if field.blank and isinstance(field, _TEXTS) else [])]))
    if is_json(field):
        return Annotated[Any, AfterValidator(storable)]
    if isinstance(field, _TEXTS):
        return text_type(field.max_length)
    if is_array(field):
        return list_of(write_type(field.base_field), most=min(getattr(field, "size", None) or MOST_VALUES, MOST_VALUES))
    known = known_type(field)
    return text_type(getattr(behind(field), "max_length", None)) if known is None else known


def text_type(most: int | None) -> Any:
    """The annotation of a text of *most* characters; None: as many as any text may have."""
    return Annotated[str, Field(max_length=min(most or MOST_TEXT, MOST_TEXT)), AfterValidator(without_nul)]


def storable(value: Any) -> Any:
    """*value* itself, if every database stores it and everybody can read it again.

    Raises:
        ValueError: it is too long, too deep, or has in it what cannot be stored.
    """
    for each, depth in _parts(value):
        if depth > MOST_DEPTH:
            raise ValueError(f"must not be nested deeper than {MOST_DEPTH}")
        if isinstance(each, str):
            without_nul(each)
    try:
        length = len(to_json(value))
    except ValueError:
        raise ValueError("must not contain half of a surrogate pair") from None
    if length > MOST_TEXT:
        raise ValueError(f"must have at most {MOST_TEXT} bytes")
    return value


def _parts(value: Any) -> Iterator[tuple[Any, int]]:
    """All that is in a value of JSON, and how deep; without recursion, for it may be very deep."""
    rest: list[tuple[Any, int]] = [(value, 0)]
    while rest:
        each, depth = rest.pop()
        yield each, depth
        if isinstance(each, Mapping):
            rest += ((part, depth + 1) for pair in each.items() for part in pair)
        elif isinstance(each, list):
            rest += ((part, depth + 1) for part in each)


# Columns of classes of other packages


def is_foreign(field: Any) -> bool:
    """Return True for a column whose class says what its values are, and nothing of Django's does."""
    if field.is_relation or isinstance(field, models.JSONField):
        return False
    return is_json(field) or not (isinstance(field, _TEXTS) or is_array(field) or known_type(field) is not None)


def foreign_words(field: Any) -> str:
    """Return what such a column takes, for the description of its argument."""
    kind = f"{capfirst(with_article(type(field).__name__))}, as {'JSON' if is_json(field) else 'text'}."
    blocks = getattr(getattr(field, "stream_block", None), "child_blocks", None)  # of Wagtail's StreamField
    if not isinstance(blocks, Mapping):
        return kind
    return f"{kind} A list of blocks, each with type and value; types are {', '.join(map(str, blocks))}."


def read_foreign(field: Any, given: Any) -> Any:
    """Return the value of such a column that a caller gave. It is read as from a fixture, and cleaned by the column's
    form field, which is where packages look at the parts of a value.

    Raises:
        ValidationError: it is none of the column's values.
    """
    value, asked = _read(field, given), field.formfield()
    if asked is None or isinstance(asked, forms.CharField):  # of those the values are text
        return value
    with _reading(field):
        value = asked.clean(value)
    require_kept(field, given, value)
    return value


def form_value(field: Any, asked: forms.Field, given: Any) -> Any:
    """Return what the form field *asked* of such a column takes for what a caller gave.

    Raises:
        ValidationError: it is none of the column's values.
    """
    value = _read(field, given)
    if isinstance(asked, forms.CharField):
        return _as_text(field, given)
    with _reading(field), suppress(ValidationError):  # which the form tells with all others
        asked.clean(value)
    return value


def _read(field: Any, given: Any) -> Any:
    with _reading(field):
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
        logger.warning("A value given for %s could not be read: %s", field, shortened(repr(error), _MOST_LOGGED))
        raise ValidationError("it is no value of this field.", code="invalid") from None


def require_kept(field: Any, given: Any, value: Any) -> None:
    """See that a column of JSON keeps all that was given: Wagtail's leaves blocks out whose type it does not know.

    Raises:
        ValidationError: it does not.
    """
    if is_json(field) and (lost := _lost(given, column_value(field, value))):
        raise ValidationError(lost, code="lost")


def _lost(given: Any, kept: Any, where: str = "") -> str:
    """Say which part of *given* is not in *kept*; values that are no lists and objects may have become others."""
    if isinstance(given, list) and isinstance(kept, list):
        if len(given) > len(kept):
            return f"only {len(kept)} of {len(given)} parts of {where or 'the list'} are of a kind that it takes."
        parts = [(f"{where}[{at}]", each, kept[at]) for at, each in enumerate(given)]
    elif isinstance(given, Mapping) and isinstance(kept, Mapping):
        if unknown := [key for key in given if key not in kept]:
            return f"{where or 'the object'} has no part {unknown[0]!r}."
        parts = [(f"{where}.{key}".removeprefix("."), each, kept[key]) for key, each in given.items()]
    else:
        return ""
    return next(filter(None, (_lost(each, other, name) for name, each, other in parts)), "")


# Fields of forms


def form_type(field: forms.Field) -> Any:
    """The annotation of an argument for a field that a form declares; None where JSON has no value for it."""
    for kind, annotation in _FORM_TYPES:
        if isinstance(field, kind):
            return annotation(field) if callable(annotation) and not isinstance(annotation, type) else annotation
    return None


def form_choices(field: Any) -> list[tuple[Any, Any]]:
    """Values and labels of a form field's choices; none where they are only known later, or are too many to name."""
    choices = field.choices
    if isinstance(choices, BlankChoiceIterator):  # of a column: those behind it may be fixed all the same
        choices = choices.choices
    if isinstance(choices, BaseChoiceIterator):
        return []
    every: list[tuple[Any, Any]] = list(flatten_choices(choices))
    flat = [(to_json_value(value), label) for value, label in every if value is not None]
    flat = [(value, label) for value, label in flat if isinstance(value, str | int)]
    return flat if len(flat) <= MOST_CHOICES else []


def _choice(field: Any) -> Any:
    values = [value for value, _ in form_choices(field) if value != ""]
    return one_of(dict.fromkeys([*values, *([] if field.required else [""])])) if values else text_type(None)


def _choices(field: Any) -> Any:
    return list_of(_choice(field), most=MOST_VALUES)


def _integer(field: Any) -> Any:
    limits = (None if callable(each) else each for each in (field.min_value, field.max_value))
    least, most = limits
    return Annotated[int, Field(ge=least, le=most)]


def _like(column: Any) -> Callable[[Any], Any]:
    return lambda _: input_type(column)


_FORM_TYPES: tuple[tuple[Any, Any], ...] = (
    ((forms.FileField, forms.MultiValueField, forms.ComboField, forms.ModelChoiceField), lambda _: None),
    (forms.MultipleChoiceField, _choices),
    (forms.ChoiceField, _choice),
    (forms.BooleanField, bool),
    (forms.JSONField, lambda _: Annotated[Any, AfterValidator(storable)]),
    (forms.UUIDField, uuid.UUID),
    (forms.CharField, lambda field: text_type(field.max_length)),
    (forms.DecimalField, _like(models.DecimalField())),
    (forms.FloatField, _like(models.FloatField())),
    (forms.IntegerField, _integer),
    (forms.DateTimeField, _like(models.DateTimeField())),
    (forms.DateField, _like(models.DateField())),
    (forms.TimeField, _like(models.TimeField())),
    (forms.DurationField, _like(models.DurationField())),
)
"""Types, or functions that make one of a field. The first that fits counts: most of these are text or choices too."""
