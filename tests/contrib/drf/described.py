"""What is said of a serializer and of a field, as tools say it."""

from typing import Any

from rest_framework import serializers
from rest_framework.generics import CreateAPIView

from django_mcp.contrib.drf.operations import operations
from django_mcp.contrib.drf.schema import inspector, note_schema, structural


def taken(serializer: Any) -> Any:
    """What a serializer takes."""
    return _described(serializer, "request")


def shown(serializer: Any) -> Any:
    """What it shows."""
    return structural(_described(serializer, "response"))


def taken_by(field: serializers.Field) -> Any:
    """As part of a serializer, for only there it has a name."""
    return taken(_with(field))["properties"]["value"]


def shown_by(field: serializers.Field) -> Any:
    """Likewise."""
    return shown(_with(field))["properties"]["value"]


def _with(field: serializers.Field) -> Any:
    return type("Made", (serializers.Serializer,), {"value": field})()


def _described(serializer: Any, direction: str) -> Any:
    (operation,) = operations(type("View", (CreateAPIView,), {"serializer_class": type(serializer)}))
    schema, document = note_schema(inspector(operation, operation.instance()), serializer, direction)
    return document.schema(schema)
