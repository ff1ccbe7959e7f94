"""From a serializer and its fields to the JSON Schema of what they show.

Nothing is required and there are no limits: what a row holds may be older than its serializer.
"""

import inspect
import typing
from functools import singledispatch
from typing import Any

from rest_framework import ISO_8601, serializers
from rest_framework.fields import Field, _UnvalidatedField, empty
from rest_framework.settings import api_settings

from django_mcp.contrib.drf.json_schema import (
    Schema,
    column_of,
    column_schema,
    from_annotation,
    key_schema,
    note_of_field,
    nullable,
    structural,
    without,
)

STRING: Schema = {"type": "string"}


def schema_of(field: Field) -> Schema:
    """What a field shows."""
    noted = note_of_field(field, schema_of)
    if noted is None:
        noted = _written_by_the_site(field)
    schema = structural(_typed(field) if noted is None else noted)
    return nullable(schema) if field.allow_null or _may_be_null(field) else schema


def _written_by_the_site(field: Field) -> Schema | None:
    """What a ``to_representation`` of the site's own says of itself: its annotation, or that it may show anything."""
    method = type(field).to_representation
    if isinstance(field, serializers.BaseSerializer) or method.__module__.startswith("rest_framework."):
        return None
    return _returned(method) or {}


def _returned(call: Any) -> Schema | None:
    try:
        annotation = typing.get_type_hints(inspect.unwrap(call), include_extras=True).get("return", empty)
    except (NameError, TypeError):  # written for a type checker alone
        return None
    return None if annotation is empty else from_annotation(annotation)


def _may_be_null(field: Field) -> bool:
    if field.source in (None, "*") or field.parent is None:
        return False
    column = column_of(_model(field), field.source)
    return getattr(column, "concrete", False) and bool(column.null)


def _model(field: Field) -> Any:
    """The model whose rows its serializer shows; None where there is none."""
    return getattr(getattr(field.parent, "Meta", None), "model", None)


@singledispatch
def _typed(field: Field) -> Schema:  # noqa: ARG001
    return {}


@_typed.register
def _(field: serializers.BaseSerializer) -> Schema:  # noqa: ARG001
    return {}


@_typed.register
def _(field: serializers.Serializer) -> Schema:
    hidden = without(field)
    shown = {name: each for name, each in field.fields.items() if not each.write_only and name not in hidden}
    return {"type": "object", "properties": {name: schema_of(each) for name, each in shown.items()}}


@_typed.register
def _(field: serializers.ListSerializer) -> Schema:
    return {"type": "array", "items": schema_of(field.child)}


@_typed.register
def _(field: serializers.BooleanField) -> Schema:  # noqa: ARG001
    return {"type": "boolean"}


@_typed.register(serializers.CharField)
@_typed.register(serializers.IPAddressField)
@_typed.register(serializers.TimeField)
@_typed.register(serializers.DurationField)
@_typed.register(serializers.StringRelatedField)
@_typed.register(serializers.HyperlinkedRelatedField)
def _(field: Field) -> Schema:  # noqa: ARG001
    return STRING


@_typed.register
def _(field: serializers.FileField) -> Schema:  # noqa: ARG001
    return nullable(STRING)


@_typed.register
def _(field: serializers.UUIDField) -> Schema:
    return {"type": "integer"} if field.uuid_format == "int" else STRING


@_typed.register
def _(field: serializers.IntegerField) -> Schema:  # noqa: ARG001
    return {"type": "integer"}


def _big_integer(field: Field) -> Schema:
    as_text = getattr(field, "coerce_to_string", api_settings.COERCE_BIGINT_TO_STRING)
    return STRING if as_text else {"type": "integer"}


if hasattr(serializers, "BigIntegerField"):  # since 3.17 of Django REST framework
    _typed.register(serializers.BigIntegerField, _big_integer)


@_typed.register
def _(field: serializers.FloatField) -> Schema:  # noqa: ARG001
    return {"type": "number"}


@_typed.register
def _(field: serializers.DecimalField) -> Schema:
    as_text = getattr(field, "coerce_to_string", api_settings.COERCE_DECIMAL_TO_STRING)
    return STRING if as_text else {"type": "number"}


@_typed.register
def _(field: serializers.DateTimeField) -> Schema:
    return _moment(getattr(field, "format", api_settings.DATETIME_FORMAT), "an ISO 8601 date and time")


@_typed.register
def _(field: serializers.DateField) -> Schema:
    return _moment(getattr(field, "format", api_settings.DATE_FORMAT), "YYYY-MM-DD")


def _moment(chosen: str | None, words: str) -> Schema:
    # In words and not as "format", which some clients check more strictly than Django writes.
    return {**STRING, "description": f"{words[0].upper()}{words[1:]}."} if chosen in (None, ISO_8601) else STRING


@_typed.register
def _(field: serializers.ChoiceField) -> Schema:
    kinds = {type(key) for key in field.choices}
    return {"type": "integer"} if kinds == {int} else STRING if kinds <= {str} else {}


@_typed.register
def _(field: serializers.MultipleChoiceField) -> Schema:
    return {"type": "array", "items": _typed.dispatch(serializers.ChoiceField)(field)}


@_typed.register
def _(field: serializers.ListField) -> Schema:
    return {"type": "array", "items": nullable(_child(field))}


@_typed.register
def _(field: serializers.DictField) -> Schema:
    return {"type": "object", "additionalProperties": nullable(_child(field))}


def _child(field: Any) -> Schema:
    return {} if isinstance(field.child, _UnvalidatedField) else schema_of(field.child)


@_typed.register
def _(field: serializers.ModelField) -> Schema:
    return column_schema(field.model_field)


@_typed.register
def _(field: serializers.SerializerMethodField) -> Schema:
    method = getattr(field.parent, field.method_name)
    return note_of_field(method, schema_of) or _returned(method) or {}


@_typed.register
def _(field: serializers.ReadOnlyField) -> Schema:
    """A column, or a property or method of the model that says what it returns."""
    column = column_of(_model(field), field.source)
    if column is not None:
        return column_schema(column)
    found = inspect.getattr_static(_model(field), field.source, None)
    call = getattr(found, "fget", None) or getattr(found, "func", None) or found
    return (_returned(call) if callable(call) else None) or {}


@_typed.register
def _(field: serializers.ManyRelatedField) -> Schema:
    return {"type": "array", "items": schema_of(field.child_relation)}


@_typed.register
def _(field: serializers.PrimaryKeyRelatedField) -> Schema:
    if field.pk_field is not None:
        return schema_of(field.pk_field)
    model = getattr(field.queryset, "model", None)
    if model is None:
        shown = field.parent if isinstance(field.parent, serializers.ManyRelatedField) else field
        model = getattr(column_of(_model(shown), shown.source), "related_model", None)
    return key_schema(model)


@_typed.register
def _(field: serializers.SlugRelatedField) -> Schema:
    shown = field.parent if isinstance(field.parent, serializers.ManyRelatedField) else field
    column = column_of(_model(shown), f"{shown.source}.{field.slug_field}")
    return {} if column is None else column_schema(column)
