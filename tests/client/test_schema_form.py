"""Text becomes a value in one way, whether it is typed in the playground, at a prompt or after ``mcp_call``."""

from typing import Any

import pytest
from django.http import QueryDict

from django_mcp.client.schema_form import InvalidValue, SchemaForm, convert_text

VALUES: list[tuple[dict[str, Any], str, Any]] = [
    ({"type": "integer"}, " +7 ", 7),
    ({"type": "number"}, "1e3", 1000.0),
    ({"type": "number"}, "7", 7),
    ({"type": "boolean"}, "yes", True),
    ({"type": "boolean"}, "Off", False),
    ({"type": ["boolean", "integer"]}, "1", 1),
    ({"type": ["boolean", "string"]}, "yes", "yes"),
    ({"type": ["boolean", "string"]}, "true", True),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "12", 12),
    ({"type": ["string", "null"]}, "null", None),
    ({"enum": [1, "two"]}, "1", 1),
    ({"oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}, "Blue", "b"),
    ({"type": "array", "items": {"type": "integer"}}, "1, 2,", [1, 2]),
    ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
    ({"type": "object"}, '{"a": 1}', {"a": 1}),
    ({}, "anything", "anything"),
    ({"type": "string", "maxLength": "odd"}, "text", "text"),
]


@pytest.mark.parametrize(("schema", "text", "value"), VALUES)
def test_a_text_is_the_value_that_its_schema_wants(schema: dict[str, Any], text: str, value: Any) -> None:
    found = convert_text(schema, text, schema)
    assert found == value
    assert type(found) is type(value)


WRONG: list[tuple[dict[str, Any], str, str, Any]] = [
    ({"type": "number"}, "nan", "a number", "nan"),
    ({"type": "number"}, "1e999", "a number", "1e999"),
    ({"type": "number"}, "1_000", "a number", "1_000"),
    ({"type": "integer"}, "1.5", "a whole number", "1.5"),
    ({"type": "integer"}, "９", "a whole number", "９"),
    ({"type": "integer", "minimum": 3}, "2", "a number of at least 3", 2),
    ({"type": "number", "maximum": 3}, "4", "a number of at most 3", 4),
    ({"type": "string", "minLength": 2}, "x", "at least 2 characters long", "x"),
    ({"type": "string", "maxLength": 1}, "xy", "at most 1 character long", "xy"),
    ({"type": "boolean"}, "maybe", "yes or no", "maybe"),
    ({"enum": ["a", "b"]}, "c", "one of a, b", "c"),
    ({"type": ["boolean", "integer"]}, "x", "yes or no or a whole number", "x"),
    ({"type": "array"}, '["a", "a"', "a JSON array", '["a", "a"'),
    ({"type": "object"}, "{'a': 1}", 'a JSON object, such as {"key": "value"}', "{'a': 1}"),
]


@pytest.mark.parametrize(("schema", "text", "words", "value"), WRONG)
def test_what_does_not_fit_is_said_in_words_and_kept(schema: dict[str, Any], text: str, words: str, value: Any) -> None:
    with pytest.raises(InvalidValue) as error:
        convert_text(schema, text, schema)
    assert str(error.value) == words
    assert error.value.value == value


def test_a_form_shows_what_was_typed_beside_its_error() -> None:
    form = SchemaForm({"properties": {"place": {"type": "object"}, "note": {"type": "string"}}})
    assert form.read(QueryDict("a.place={&a.note=<b>")) is None
    shown = form.as_div()
    assert "This is not valid JSON" in shown
    assert ">\n{</textarea>" in shown
    assert "&lt;b&gt;" in shown


def test_a_form_of_several_has_no_null() -> None:
    schema = {"properties": {"either": {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}}}
    assert SchemaForm(schema).read(QueryDict("a.either=null")) == {"either": "null"}
    assert SchemaForm(schema).read(QueryDict("a.either=3")) == {"either": 3}
    assert SchemaForm(schema).read(QueryDict("a.either=")) == {}
