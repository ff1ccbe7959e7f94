"""From a serializer and its fields to the JSON Schema of what they take.

The schema is for whoever writes the call. Values are checked by the serializer, and by nothing else.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import singledispatch
from typing import Any

from django.core.validators import MaxLengthValidator, MinLengthValidator, RegexValidator
from django.utils.encoding import force_str
from django.utils.functional import Promise, keep_lazy_text
from pydantic_core import PydanticSerializationError, to_jsonable_python
from rest_framework import ISO_8601, serializers
from rest_framework.fields import Field, _UnvalidatedField, empty
from rest_framework.settings import api_settings
from rest_framework.utils.humanize_datetime import date_formats, datetime_formats, time_formats

from django_mcp.adapters.files import FILE_SCHEMA, file_note
from django_mcp.contrib.rest_framework.columns import called, column_of, column_schema, key_schema
from django_mcp.contrib.rest_framework.dialect import Schema, nullable, one_of
from django_mcp.contrib.rest_framework.notes import note_of_field, without
from django_mcp.primitives.validation_errors import with_article


def schema_of(field: Field) -> Schema:
    """What a field takes, with its words: label, help text, default."""
    noted = note_of_field(field, schema_of)
    schema = noted
    if schema is None:
        schema = _untyped(field, _typed(field)) if is_read_by_the_site(field) else _typed(field)
    if field.allow_null:
        schema = nullable(schema)
    if field.label and _tells_more(field):
        schema = {"title": field.label, **schema}
    if words := [each for each in (field.help_text, schema.get("description")) if each]:
        schema = {**schema, "description": words[0] if len(words) == 1 else _joined(*words)}
    if (default := _default(field)) is not empty:
        schema = {**schema, "default": default}
    return schema


def is_read_by_the_site(field: Field) -> bool:
    """Return True for a relation that is read by code of the site: perhaps it takes a key, or an object, or either.

    The serializer of a whole body takes an object even so: its members are arguments.
    """
    own = getattr(type(field).to_internal_value, "__module__", None) or ""
    if not isinstance(field, serializers.BaseSerializer | serializers.RelatedField) or own.startswith(
        "rest_framework."
    ):
        return False
    outer = field.parent
    return outer is not None and not (isinstance(outer, serializers.ListSerializer) and outer.parent is None)


def _untyped(field: Any, schema: Schema) -> Schema:
    """Return *schema* without ``type``, ``required`` and its other restrictions."""
    kept = {key: schema[key] for key in ("description", "properties", "items") if schema.get(key)}
    model = getattr(getattr(getattr(field, "child", field), "Meta", None), "model", None)
    if model is None or "properties" not in kept:
        return kept
    return {**kept, "description": f"An object, or what else names {with_article(called(model))}, such as its key."}


def _tells_more(field: Field) -> bool:
    """Whether its label is not its name again. A translation may be another word in each language."""
    return isinstance(field.label, Promise) or field.label != str(field.field_name).replace("_", " ").capitalize()


@keep_lazy_text
def _joined(*words: str) -> str:
    return " ".join(map(str, words))


def is_taken(field: Field) -> bool:
    """Whether a caller can give it a value."""
    return not field.read_only and not isinstance(field, serializers.HiddenField)


def is_upload(field: Field) -> bool:
    """Whether it takes a file as a form sends it. Some descendants of ``FileField`` take text."""
    own = type(field).to_internal_value in (
        serializers.FileField.to_internal_value,
        serializers.ImageField.to_internal_value,
    )
    return isinstance(field, serializers.FileField) and own


def _default(field: Field) -> Any:
    if field.default is empty or callable(field.default) or field.default is None:
        return empty
    try:
        return to_jsonable_python(field.default)
    except PydanticSerializationError:
        return empty


@singledispatch
def _typed(field: Field) -> Schema:
    """Of a field of a site's own, which takes anything, unless it has choices as ``ChoiceField`` has them."""
    choices = getattr(field, "choices", None)
    is_plain = isinstance(choices, Mapping) and all(isinstance(key, str | int | float | None) for key in choices)
    return _chosen(field) if is_plain else {}


@_typed.register
def _(field: serializers.RelatedField) -> Schema:  # noqa: ARG001 - its choices are rows, which are not listed
    return {}


@_typed.register
def _(field: serializers.BaseSerializer) -> Schema:  # noqa: ARG001
    return {}


@_typed.register
def _(field: serializers.Serializer) -> Schema:
    hidden = without(field)
    taken = {name: each for name, each in field.fields.items() if is_taken(each) and name not in hidden}
    schema: Schema = {"type": "object", "properties": {name: schema_of(each) for name, each in taken.items()}}
    required = [name for name, each in taken.items() if each.required and not field.root.partial]
    return {**schema, "required": required} if required else schema


@_typed.register
def _(field: serializers.ListSerializer) -> Schema:
    return _limited({"type": "array", "items": schema_of(field.child)}, field)


@_typed.register
def _(field: serializers.BooleanField) -> Schema:  # noqa: ARG001
    return {"type": "boolean"}


@_typed.register
def _(field: serializers.CharField) -> Schema:
    schema: Schema = {"type": "string"}
    for validator in field.validators:
        match validator:
            case MaxLengthValidator(limit_value=int(limit)):
                schema["maxLength"] = limit
            case MinLengthValidator(limit_value=int(limit)):
                schema["minLength"] = limit
            case RegexValidator() if (pattern := _portable(validator)) and not isinstance(field, serializers.URLField):
                schema["pattern"] = pattern
    if not field.allow_blank:
        schema["minLength"] = max(schema.get("minLength", 0), 1)
    return schema


def _portable(validator: RegexValidator) -> str | None:
    """A pattern as ECMA 262 has it; None where it may mean something else there."""
    pattern: str = validator.regex.pattern  # type: ignore[union-attr]  # compiled when it is first asked for
    if validator.inverse_match or validator.flags or "(?" in pattern or "\\A" in pattern or "\\w" in pattern:
        return None
    return pattern.replace("\\Z", "$")


@_typed.register
def _(field: serializers.EmailField) -> Schema:
    return {**_typed.dispatch(serializers.CharField)(field), "format": "email"}


@_typed.register
def _(field: serializers.URLField) -> Schema:
    return {**_typed.dispatch(serializers.CharField)(field), "format": "uri"}


@_typed.register
def _(field: serializers.IPAddressField) -> Schema:
    return {"type": "string"} if field.protocol == "both" else {"type": "string", "format": field.protocol}


@_typed.register
def _(field: serializers.UUIDField) -> Schema:  # noqa: ARG001
    return {"type": "string", "format": "uuid"}


@_typed.register
def _(field: serializers.IntegerField) -> Schema:
    return _between({"type": "integer"}, field)


@_typed.register
def _(field: serializers.FloatField) -> Schema:
    return _between({"type": "number"}, field)


@_typed.register
def _(field: serializers.DecimalField) -> Schema:
    schema = _between({"type": ["number", "string"]}, field)
    if field.decimal_places is not None:
        # Not as multipleOf: 19.99 is no multiple of 0.01 to many a validator.
        schema["description"] = f"At most {field.decimal_places} decimal places."
    return schema


_LARGEST = 2**53
"""Integers beyond it are other ones in JavaScript."""


def _between(schema: Schema, field: Any) -> Schema:
    limits = {"minimum": field.min_value, "maximum": field.max_value}
    given = {key: _number(value) for key, value in limits.items() if value is not None and not callable(value)}
    # Those of the database's own integers say nothing, and JavaScript reads them as other numbers.
    return {**schema, **{key: value for key, value in given.items() if abs(value) <= _LARGEST}}


def _number(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return value


@_typed.register
def _(field: serializers.DateTimeField) -> Schema:
    formats = getattr(field, "input_formats", api_settings.DATETIME_INPUT_FORMATS)
    return _moment(formats, "date-time", datetime_formats)


@_typed.register
def _(field: serializers.DateField) -> Schema:
    return _moment(getattr(field, "input_formats", api_settings.DATE_INPUT_FORMATS), "date", date_formats)


@_typed.register
def _(field: serializers.TimeField) -> Schema:
    # Not "format": "time", which wants an offset from UTC that Django does not take.
    formats = getattr(field, "input_formats", api_settings.TIME_INPUT_FORMATS)
    return {"type": "string", "description": f"{time_formats(list(formats))}."}


def _moment(formats: Iterable[str], name: str, told: Any) -> Schema:
    listed = list(formats)
    if ISO_8601 in listed:
        return {"type": "string", "format": name}
    return {"type": "string", "description": f"{told(listed)}."}


@_typed.register
def _(field: serializers.DurationField) -> Schema:  # noqa: ARG001
    return {"type": "string", "description": "[DD] [HH:[MM:]]ss, or ISO 8601 such as P1DT2H."}


@_typed.register(serializers.ChoiceField)
def _chosen(field: Any) -> Schema:
    blank = [""] if getattr(field, "allow_blank", False) and "" not in field.choices else []
    schema = one_of([*blank, *map(_value, field.choices)])
    labels = {_value(key): force_str(label) for key, label in field.choices.items()}
    telling = [f"{key}: {label}" for key, label in labels.items() if _plain(key) != _plain(label)]
    return {**schema, "description": f"{'; '.join(telling)}."} if telling else schema


def _value(key: Any) -> Any:
    return to_jsonable_python(key)


def _plain(word: Any) -> str:
    return str(word).casefold().replace("_", " ").replace("-", " ")


@_typed.register
def _(field: serializers.MultipleChoiceField) -> Schema:
    schema: Schema = {"type": "array", "items": _typed.dispatch(serializers.ChoiceField)(field), "uniqueItems": True}
    return schema if field.allow_empty else {**schema, "minItems": 1}


@_typed.register
def _(field: serializers.FilePathField) -> Schema:  # noqa: ARG001 - which files there are is not told to everybody
    return {"type": "string"}


@_typed.register
def _(field: serializers.FileField) -> Schema:
    return {**FILE_SCHEMA, "description": file_note()} if is_upload(field) else {"type": "string"}


@_typed.register
def _(field: serializers.ListField) -> Schema:
    return _limited({"type": "array", "items": _child(field)}, field)


@_typed.register
def _(field: serializers.DictField) -> Schema:
    return {"type": "object", "additionalProperties": _child(field) or True}


def _child(field: Any) -> Schema:
    return {} if isinstance(field.child, _UnvalidatedField) else schema_of(field.child)


def _limited(schema: Schema, field: Any) -> Schema:
    least = field.min_length or (0 if field.allow_empty else 1)
    limits = {"minItems": least or None, "maxItems": field.max_length}
    return {**schema, **{key: value for key, value in limits.items() if value is not None}}


@_typed.register
def _(field: serializers.JSONField) -> Schema:  # noqa: ARG001
    return {"description": "Any JSON."}


@_typed.register
def _(field: serializers.ModelField) -> Schema:
    return column_schema(field.model_field)


@_typed.register
def _(field: serializers.ManyRelatedField) -> Schema:
    schema: Schema = {"type": "array", "items": schema_of(field.child_relation)}
    return schema if field.allow_empty else {**schema, "minItems": 1}


@_typed.register
def _(field: serializers.PrimaryKeyRelatedField) -> Schema:
    model = getattr(field.get_queryset(), "model", None)
    schema = key_schema(model) if field.pk_field is None else schema_of(field.pk_field)
    return {**schema, "description": f"Key of {with_article(called(model))}."} if model else schema


@_typed.register
def _(field: serializers.SlugRelatedField) -> Schema:
    model = getattr(field.get_queryset(), "model", None)
    column = column_of(model, field.slug_field)
    schema = {"type": "string"} if column is None else column_schema(column)
    words = field.slug_field.replace("_", " ")
    return {**schema, "description": f"The {words} of {with_article(called(model))}."} if model else schema


@_typed.register
def _(field: serializers.HyperlinkedRelatedField) -> Schema:
    model = getattr(field.get_queryset(), "model", None)
    return {"type": "string", "description": f"URL of {with_article(called(model))}." if model else "A URL."}
