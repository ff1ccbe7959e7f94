"""Schemas of arguments are published in a form that every client and provider of models accepts."""

import enum
import json
from typing import Any, Literal

import pytest
from django import forms
from django.utils import translation
from django.utils.translation import gettext_lazy

from django_mcp import MCPServer, form_tool, tool
from django_mcp.primitives.compatibility import LIMITS, for_arguments, for_results, problems
from tests.schemas import refused


class Rank(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Large(enum.IntEnum):
    LOW = 1
    HIGH = 2**60


def published(annotation: Any, server: MCPServer) -> dict[str, Any]:
    def take(value: Any) -> None:
        """Take it."""

    take.__annotations__ = {"value": annotation}
    tool(server=server)(take)
    assert not list(problems(server.tools["take"].definition))
    assert not list(refused(server.tools["take"].definition))
    found: dict[str, Any] = server.tools["take"].definition["inputSchema"]["properties"]["value"]
    return found


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (Literal[1, 2], {"type": "integer", "minimum": 1, "maximum": 2}),
        (Rank, {"type": "integer", "minimum": 1, "maximum": 5, "description": "One of: 1, 5."}),
        (
            (Literal[1, 3] | None),
            {
                "anyOf": [
                    {"type": "integer", "minimum": 1, "maximum": 3, "description": "One of: 1, 3."},
                    {"type": "null"},
                ]
            },
        ),
        (
            Literal["a", ""],
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "string", "maxLength": 0}]},
        ),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Literal[True], {"type": "boolean", "description": "Must be true."}),
        (int | Literal["any"], {"anyOf": [{"type": "integer"}, {"type": "string", "enum": ["any"]}]}),
        (dict[str, Any], {"type": "object", "additionalProperties": True}),
        (Large, {"type": "integer", "minimum": 1, "description": f"One of: 1, {2**60}."}),
    ],
    ids=str,
)
def test_choices_are_strings_or_limits(annotation: Any, expected: dict[str, Any], server: MCPServer) -> None:
    assert published(annotation, server) == expected


def test_a_choice_among_nothing_has_a_type(server: MCPServer) -> None:
    class Pick(forms.Form):
        one = forms.ChoiceField(choices=[], required=False)
        many = forms.MultipleChoiceField(choices=[], required=False)
        number = forms.TypedChoiceField(choices=[], coerce=int, required=False, empty_value=None)

    form_tool(Pick, name="pick", handle=lambda ctx, form: "", server=server)
    definition = server.tools["pick"].definition
    assert not list(problems(definition))
    assert '"enum": []' not in json.dumps(definition["inputSchema"])
    made = for_arguments({"type": "object", "properties": {"a": {"enum": []}}})
    assert made["properties"] == {"a": {"type": "string"}}


@pytest.mark.parametrize("annotation", [Any, list[Any], list, dict, dict[str, list[Any]], Any | None], ids=str)
def test_a_value_of_any_type_has_the_types_of_json(annotation: Any, server: MCPServer) -> None:
    written = json.dumps(published(annotation, server))
    assert "{}" not in written
    if annotation is Any:
        assert {each["type"] for each in json.loads(written)["anyOf"]} == {
            *("string", "number", "boolean", "null", "object", "array")
        }


class Survey(forms.Form):
    mood = forms.TypedChoiceField(
        choices=[("", "-"), (1, gettext_lazy("Yes")), (4, gettext_lazy("No"))], coerce=int, required=False
    )
    size = forms.ChoiceField(choices=[("", "-"), ("s", "Small")], required=False)
    data = forms.JSONField()
    agreed = forms.BooleanField()


def test_forms_keep_to_it_too_and_are_translated_for_each_reader(server: MCPServer) -> None:
    form_tool(Survey, handle=lambda ctx, form: "ok", server=server)
    definition = server.tools["survey"].definition
    assert not list(problems(definition))
    properties = definition["inputSchema"]["properties"]
    assert properties["mood"]["anyOf"] == [
        {"type": "integer", "minimum": 1, "maximum": 4},
        {"type": "string", "maxLength": 0},
    ]
    with translation.override("de"):
        assert str(properties["mood"]["description"]) == "1: Ja; 4: Nein."
    assert "const" not in properties["agreed"]
    assert properties["agreed"]["description"] == "It must be true."


def test_results_are_described_exactly() -> None:
    schema = {"type": "object", "properties": {"a": {"type": ["integer", "null"], "enum": [1, 2, None]}, "b": {}}}
    assert for_results(schema)["properties"] == {
        "a": {"anyOf": [{"type": "integer"}, {"type": "null"}], "enum": [1, 2, None]},
        "b": {},
    }


def test_whole_numbers_have_limits_that_are_included() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 9}}}
    assert for_arguments(schema)["properties"]["a"] == {"type": "integer", "minimum": 1, "maximum": 8}


@pytest.mark.parametrize("limit", [each for each in LIMITS if each.find is not None], ids=lambda each: each.id)
def test_each_limit_names_who_does_not_accept_it_and_where_that_is_said(limit: Any) -> None:
    assert limit.by
    assert all("." in page and "/" in page for page in limit.by.values())
