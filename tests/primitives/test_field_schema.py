"""A class of fields whose values the site describes once, for models, forms and serializers."""

from typing import Any

import pytest
from django import forms
from django.core.exceptions import ValidationError
from django.db import models
from rest_framework import serializers
from rest_framework.generics import CreateAPIView

from django_mcp import MCPServer, form_tool, register_field
from django_mcp.contrib.drf import drf_tools
from django_mcp.model_resources.schema import column_value, json_type
from django_mcp.primitives import field_schema
from tests.clients import MODERN, Client

COLOUR = {"type": "string", "pattern": "^#[0-9a-f]{6}$"}


@pytest.fixture(autouse=True)
def fields_of_the_site(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_schema, "_TYPES", dict(field_schema._TYPES))


class ColourColumn(models.IntegerField):
    """A number in the database."""


class ColourInput(forms.IntegerField):
    """A number in a page."""


class DarkColourInput(ColourInput):
    """Inherits what is said of the other."""


class ColourField(serializers.Field):
    """Says nothing of itself."""

    def to_internal_value(self, data: Any) -> Any:
        if not str(data).startswith("#"):
            raise serializers.ValidationError("That is no colour.")
        return data

    def to_representation(self, value: Any):
        return value


def number(value: Any) -> int:
    if not isinstance(value, str) or not value.startswith("#"):
        raise ValidationError("must be a colour")
    return int(value[1:], 16)


def test_a_column_is_shown_as_the_site_says() -> None:
    register_field(ColourColumn, schema=COLOUR, to_json=lambda value: f"#{value:06x}")
    assert json_type(ColourColumn()) == COLOUR
    assert column_value(ColourColumn(), 255) == "#0000ff"


def test_a_form_field_takes_what_the_site_says_and_so_does_its_subclass(server: MCPServer, db: None) -> None:
    register_field(ColourInput, schema=lambda field: {**COLOUR, "description": type(field).__name__}, from_json=number)

    class Paint(forms.Form):
        wall, door = ColourInput(), DarkColourInput()

    def paint(ctx: Any, form: Any) -> str:
        return f"{form.cleaned_data['wall']} and {form.cleaned_data['door']}"

    form_tool(Paint, handle=paint, server=server)
    properties = server.tools["paint"].definition["inputSchema"]["properties"]
    assert (properties["wall"]["pattern"], properties["door"]["pattern"]) == (COLOUR["pattern"], COLOUR["pattern"])
    client = Client(server, MODERN, "view")
    assert client.call("paint", wall="#0000ff", door="#000001").text == "255 and 1"
    assert "'door' must be a colour" in client.call("paint", wall="#0000ff", door=1).text


def test_a_serializer_field_takes_and_shows_what_the_site_says(server: MCPServer, db: None) -> None:
    register_field(ColourField, schema=COLOUR, output_schema={"type": "string"})

    class Wall(serializers.Serializer):
        colour = ColourField(help_text="Of the wall.")

    class Walls(CreateAPIView):
        serializer_class = Wall

        def perform_create(self, serializer: Any) -> None:
            """Keep nothing."""

    drf_tools(Walls, name="wall", mounted=False, server=server)
    definition = server.tools["create_wall"].definition
    assert definition["inputSchema"]["properties"]["colour"] == {**COLOUR, "description": "Of the wall."}
    assert definition["outputSchema"]["properties"]["colour"] == {"type": "string", "description": "Of the wall."}
    client = Client(server, MODERN, "view")
    assert client.call("create_wall", colour="#000000").result["structuredContent"] == {"colour": "#000000"}
    assert client.call("create_wall", colour="red").text == "Argument 'colour': That is no colour. (It was \"red\".)"
