"""From a field of a model to the type of its values in JSON."""
# ruff: noqa: SLF001 - _meta is Django's documented API

from typing import Any

from django.core.exceptions import FieldDoesNotExist

from django_mcp.contrib.rest_framework.dialect import Schema
from django_mcp.model_resources.schema import json_type


def column_schema(column: Any) -> Schema:
    """The type of the values of a model's field, a key or another column; of any field, where it is None."""
    return {} if column is None else json_type(column)


def key_schema(model: Any) -> Schema:
    """The type of a model's primary keys; of any model, where it is None."""
    return {} if model is None else column_schema(model._meta.pk)


def column_of(model: Any, path: str) -> Any:
    """The field at the end of a path such as ``owner__username``; None where it is no field."""
    column = None
    for step in path.replace(".", "__").split("__"):
        if model is None:
            return None
        try:
            column = model._meta.pk if step == "pk" else model._meta.get_field(step)
        except FieldDoesNotExist:
            return None
        model = column.related_model
    return column


def called(model: Any) -> str:
    """What a row of a model is called."""
    return str(model._meta.verbose_name)
