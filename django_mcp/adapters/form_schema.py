"""JSON Schema of forms: labels, help texts, choices, limits and initial values, as far as JSON Schema can say them.

Labels and help texts stay lazy translations; they are told in the language of whoever lists the tools.
"""

import html
import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from django import forms
from django.core import validators
from django.db.models import QuerySet
from django.forms.utils import pretty_name
from django.utils.choices import BaseChoiceIterator, BlankChoiceIterator
from django.utils.functional import Promise, keep_lazy_text
from django.utils.html import strip_tags

from django_mcp.adapters.files import FILE_SCHEMA, file_note
from django_mcp.adapters.form_values import TYPED, kind_of
from django_mcp.model_resources.schema import (
    MOST_TOLD,
    MOST_VALUES,
    foreign_words,
    form_choices,
    is_foreign,
    is_json,
    json_type,
    to_json_value,
)
from django_mcp.primitives.schema import LOCAL_TIME, portable

MOST_LABELS = 50
"""Labels of choices beyond these are not told: the values have to speak for themselves."""
_MOST_PATTERN = 200
NOTHING: Mapping[str, Any] = MappingProxyType({})


def asked(form: forms.BaseForm) -> dict[str, forms.Field]:
    """The fields that somebody fills in."""
    return {name: field for name, field in form.fields.items() if not field.disabled}


def form_schema(
    form: forms.BaseForm, names: Iterable[str], most_bytes: int, by: Mapping[str, Any] = NOTHING
) -> dict[str, Any]:
    """JSON Schema of an object with a value for each of the fields *names*.

    Args:
        form: not bound.
        names: of fields of the form.
        most_bytes: how large a file may be.
        by: name of a field that chooses rows -> the column by which they are given, in place of its own. Its initial
            value is not told: it is a primary key, of a row that not everybody may see.
    """
    properties, required = {}, []
    for name in names:
        field: Any = form.fields[name]
        if name in by:
            field.to_field_name = by[name].name
        properties[name] = described(name, field, _columns(form).get(name), most_bytes)
        initial = form.initial.get(name, field.initial)
        if (
            name not in by
            and foreign_column(form, name) is None
            and not callable(initial)
            and (default := _default(field, initial, properties[name])) is not None
        ):
            properties[name]["default"] = default
        if field.required and not callable(initial) and initial in field.empty_values:
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _columns(form: Any) -> Mapping[str, Any]:
    """Of a form for a model, the columns that its own fields are written into."""
    options: Any = getattr(form, "_meta", None)
    if getattr(options, "model", None) is None:
        return {}
    return {each.name: each for each in options.model._meta.fields if each.name not in form.declared_fields}  # noqa: SLF001


def foreign_column(form: Any, name: str) -> Any:
    """Return the column of another package's class that says what a field of a form for a model takes; None where the
    field's own class does.
    """
    column = _columns(form).get(name)
    return column if _is_read_by(column, form.fields[name]) else None


def _is_read_by(column: Any, field: Any) -> bool:
    return column is not None and kind_of(field) is TYPED and is_foreign(column)


def described(name: str, field: forms.Field, column: Any, most_bytes: int) -> dict[str, Any]:
    """JSON Schema of one field, with its words."""
    schema = field_schema(field, column)
    # What repeats the name tells nothing and costs tokens in every list.
    if field.label and (isinstance(field.label, Promise) or field.label != pretty_name(name)):
        schema["title"] = _plain(field.label)
    notes = [field.help_text, *_notes(field, schema)]
    if _is_read_by(column, field):
        notes.insert(0, foreign_words(column))
    if isinstance(field, forms.FileField):
        notes.append(file_note(most_bytes))
    if any(notes):
        schema["description"] = _plain(*(note for note in notes if note))
    return schema


def field_schema(field: Any, column: Any = None) -> dict[str, Any]:
    """JSON Schema of the values of a field, without words.

    Args:
        field: of a form.
        column: of a model, whose limits the form has to keep as well.
    """
    if _is_read_by(column, field):
        return {} if is_json(column) else {"type": "string"}
    kind = kind_of(field)
    schema = {key: value for key, value in (("type", kind.type), ("format", kind.format)) if value is not None}
    if getattr(field.widget, "input_type", None) == "password":
        schema["format"] = "password"
    if hasattr(field, "base_field"):  # an array of PostgreSQL's
        return {**schema, "items": field_schema(field.base_field), **_sizes(field)}
    for classes, shape in _SHAPES:
        if isinstance(field, classes):
            return {**schema, **shape(field)}
    checks = [*field.validators, *(column.validators if column is not None else ())]
    return {**schema, **_limits(field, checks, schema)}


def _sizes(field: Any) -> dict[str, Any]:
    return {**({"minItems": 1} if field.required else {}), "maxItems": MOST_VALUES}


def _key_type(field: Any) -> dict[str, Any]:
    # Some forms only know for whom they are made which rows there are.
    return {"type": ["integer", "string"]} if field.queryset is None else json_type(key_column(field))


def key_column(field: Any) -> Any:
    """The column by which a field chooses among rows."""
    options = field.queryset.model._meta  # noqa: SLF001 - Django's documented API
    return options.pk if field.to_field_name in {None, "", "pk"} else options.get_field(field.to_field_name)


def _parts(field: Any) -> dict[str, Any]:
    if isinstance(field, forms.SplitDateTimeField):
        return {}
    least = len(field.fields) if field.required and field.require_all_fields else 0
    parts = [field_schema(each) for each in field.fields]
    return portable({"type": "array", "prefixItems": parts, "minItems": least, "maxItems": len(parts)})  # type: ignore[no-any-return]


def _each_of(field: Any) -> dict[str, Any]:
    return {key: value for part in field.fields for key, value in field_schema(part).items()}


def _one_of(field: Any, *, blank: bool) -> dict[str, Any]:
    values = [value for value, _ in form_choices(field) if value != ""]
    if not values:
        return {"type": "string"}
    values = list(dict.fromkeys([*values, *([""] if blank else [])]))
    types = {type(value) for value in values}
    return {"type": "string", "enum": values} if types == {str} else {"enum": values}


_SHAPES: tuple[tuple[Any, Callable[[Any], dict[str, Any]]], ...] = (
    (forms.FileField, lambda _: FILE_SCHEMA),
    (forms.MultiValueField, _parts),
    (forms.TimeField, lambda _: LOCAL_TIME),
    (forms.ComboField, _each_of),
    (forms.ModelMultipleChoiceField, lambda field: {"items": _key_type(field), **_sizes(field)}),
    (forms.ModelChoiceField, _key_type),
    (forms.MultipleChoiceField, lambda field: {"items": _one_of(field, blank=False), **_sizes(field)}),
    (forms.NullBooleanField, lambda _: {"type": ["boolean", "null"]}),
    (forms.BooleanField, lambda field: {"const": True} if field.required else {}),
    (forms.ChoiceField, lambda field: _one_of(field, blank=not field.required)),
)
"""The first that fits counts."""

_OF_TEXT = ((validators.MinLengthValidator, "minLength", max), (validators.MaxLengthValidator, "maxLength", min))
_OF_NUMBERS = ((validators.MinValueValidator, "minimum", max), (validators.MaxValueValidator, "maximum", min))


def _limits(field: Any, checks: Iterable[Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """What validators say that JSON Schema can say too; it compares no dates."""
    found: dict[str, Any] = {}
    is_text = schema.get("type") == "string"
    if is_text and schema.get("format") in {None, "password"} and field.required:
        found["minLength"] = 1
    for check in checks:
        limit = getattr(check, "limit_value", None)
        if type(check) is validators.RegexValidator and is_text and (pattern := _pattern(check)):
            found["pattern"] = pattern
        elif limit is None or callable(limit) or _is_no_limit(limit):
            continue
        elif isinstance(check, validators.StepValueValidator):
            found |= {"multipleOf": _number(limit)} if _is_multiple(check) else {}
        for kind, key, narrower in _OF_TEXT if is_text else _OF_NUMBERS:
            if isinstance(check, kind):
                found[key] = narrower(_number(limit), found.get(key, _number(limit)))
    return found


def _is_no_limit(limit: Any) -> bool:
    """Whether it is so far away that only databases mind."""
    return isinstance(limit, int | float | Decimal) and abs(float(limit)) >= MOST_TOLD


def _number(limit: Any) -> int | float:
    return limit if isinstance(limit, int) else int(limit) if limit == int(limit) else float(limit)


def _is_multiple(check: Any) -> bool:
    """Whether the steps are whole, and counted from zero; with parts of one, readers would round differently."""
    return check.limit_value == int(check.limit_value) and not (check.offset or 0) % check.limit_value


def _pattern(check: Any) -> str | None:
    """A regular expression that every reader of JSON Schema reads alike, or None."""
    found: str = check.regex.pattern
    found = found.replace(r"\Z", "$").replace(r"\A", "^")
    is_special = check.inverse_match or check.regex.flags & ~re.UNICODE or re.search(r"\(\?(?!:)|\\[aefG-KX-Z]", found)
    return None if is_special or len(found) > _MOST_PATTERN else found


# Words


def _notes(field: Any, schema: Mapping[str, Any]) -> Iterable[Any]:
    """What JSON Schema cannot say."""
    if isinstance(field, forms.ModelChoiceField) and field.queryset is not None:
        options = field.queryset.model._meta  # noqa: SLF001 - Django's documented API
        many = isinstance(field, forms.ModelMultipleChoiceField)
        called = options.verbose_name_plural if many else options.verbose_name
        column = key_column(field)
        yield _by_key(called, "primary key" if column.primary_key else column.name)
    elif isinstance(field, forms.ChoiceField) and _is_known_later(field):
        yield "What can be chosen is looked up in each call; an error names it."
    elif isinstance(field, forms.ChoiceField):
        told = [(value, label) for value, label in form_choices(field) if value != "" and _tells_more(value, label)]
        if 0 < len(told) <= MOST_LABELS:
            values, labels = zip(*told, strict=True)
            yield _labelled(values, *labels)
    if isinstance(field, forms.DecimalField):
        parts = {"max_digits": "digits", "decimal_places": "decimal places"}
        for attribute, words in parts.items():
            if (most := getattr(field, attribute)) is not None:
                yield f"At most {most} {words}."
    step = getattr(field, "step_size", None)
    if step is not None and "multipleOf" not in schema:
        start = f" from {field.min_value}" if field.min_value is not None else ""
        yield f"In steps of {step}{start}."
    if isinstance(field, forms.BooleanField) and schema.get("const"):
        yield "It must be true."


def _is_known_later(field: Any) -> bool:
    choices = field.choices
    if isinstance(choices, BlankChoiceIterator):
        choices = choices.choices
    return isinstance(choices, BaseChoiceIterator)


def _tells_more(value: Any, label: Any) -> bool:
    return isinstance(label, Promise) or str(label).casefold() != str(value).replace("_", " ").casefold()


@keep_lazy_text
def _by_key(called: str, key: str) -> str:
    return f"Which {called}, by {key}."


def _labelled(values: Iterable[Any], *labels: Any) -> Any:
    @keep_lazy_text
    def joined(*words: str) -> str:
        return f"{'; '.join(f'{value}: {word}' for value, word in zip(values, words, strict=True))}."

    return joined(*labels)


@keep_lazy_text
def _plain(*notes: Any) -> str:
    return " ".join(html.unescape(strip_tags(str(note))).strip() for note in notes)


def _default(field: Any, initial: Any, schema: Mapping[str, Any]) -> Any:
    """An initial value in JSON; None where there is none that JSON could give."""
    if initial in field.empty_values or isinstance(initial, QuerySet) or schema.get("format") == "password":
        return None
    value = to_json_value(initial if isinstance(field, forms.JSONField) else field.prepare_value(initial))
    if isinstance(field, forms.FileField | forms.MultiValueField):
        return None if schema.get("format") != "date-time" else value
    if "enum" in schema:
        return next((each for each in schema["enum"] if str(each) == str(value)), None)
    return value
