"""Tools that a client or a provider of models would leave out are told of by the system checks and ``mcp_inspect``."""

import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command

from django_mcp import MCPServer, tool
from django_mcp.primitives.compatibility import problems

SCHEMAS: list[tuple[dict[str, Any], str]] = [
    ({"properties": {"value": {"type": "array"}}}, "value: an array without items"),
    ({"properties": {"values": {"type": ["array", "null"]}}}, "values: an array without items"),
    ({"properties": {"page[size]": {}}}, "invalid property name 'page[size]'"),
    ({"properties": {"deep": {"properties": {"ü": {}}}}}, "invalid property name 'ü'"),
    ({"properties": {"a" * 65: {}}}, "invalid property name"),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "oneOf at the top level"),
    ({"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}, "a: a $ref"),
    ({"properties": {"a": {"type": "string", "format": "decimal"}}}, "unknown format 'decimal'"),
    ({"properties": {"a": {"type": "string", "format": "time"}}}, "format 'time' rejects"),
    ({"properties": {"a": {"type": "string", "pattern": "^(?!x)"}}}, "a pattern with lookaround"),
    ({"properties": {"a": {"type": "integer", "maximum": 2**63 - 1}}}, "beyond 2**53"),
    ({"properties": {"a": {"description": "Anything."}}}, "a: a value without a type"),
    ({"properties": {"a": {"type": "array", "items": {}}}}, "a.items: a value without a type"),
    ({"properties": {"a": True}}, "a: a value without a type"),
    ({"properties": {"a": {"type": "array", "items": True}}}, "a.items: a value without a type"),
    ({"properties": {"a": {"type": ["string", "null"]}}}, "a: a list of types"),
    ({"properties": {"a": {"type": "integer", "enum": [1, 2]}}}, "a: an enum with 1, 2"),
    ({"properties": {"a": {"type": "string", "enum": ["b", ""]}}}, "a: an enum with ''"),
    ({"properties": {"a": {"anyOf": [{"enum": ["b", None]}]}}}, "a: an enum with null"),
    ({"properties": {"a": {"type": "integer", "const": 1}}}, "a: a const"),
    ({"properties": {"a": {"oneOf": [{"type": "string"}]}}}, "a: oneOf"),
    ({"properties": {"a": {"type": "object", "additionalProperties": {}}}}, "a: additionalProperties {}"),
]


@pytest.fixture
def take(make_server: Callable[..., MCPServer]) -> Callable[..., MCPServer]:
    made: list[MCPServer] = []

    def make(schema: dict[str, Any], description: str = "Take it.") -> MCPServer:
        server = made[0] if made else make_server(name="linted")
        made[:] = [server]

        @tool(server=server, input_schema={"type": "object", **schema}, name="take", description=description)
        def take_it() -> str:
            return ""

        return server

    return make


def told() -> list[str]:
    return [f"{each.msg} {each.hint}" for each in run_checks() if each.id == "django_mcp.W027"]


@pytest.mark.parametrize(("schema", "words"), SCHEMAS, ids=[words for _, words in SCHEMAS])
def test_what_some_client_rejects_is_found_in_a_written_schema(schema: dict[str, Any], words: str) -> None:
    found = [*problems({"name": "take", "inputSchema": {"type": "object", **schema}})]
    assert any(words in each for each in found), found


def test_the_check_tells_of_it_with_a_hint(take: Callable[..., MCPServer]) -> None:
    take({"properties": {"value": {"type": "array"}}})
    (found,) = [each for each in told() if "take" in each]
    assert "value: an array without items" in found
    assert "mcp_inspect" in found


def test_a_long_description_is_told_of(take: Callable[..., MCPServer]) -> None:
    take({}, "word " * 300)
    assert any("exceeds 1024 characters" in each for each in told())


def test_what_is_called_like_a_keyword_is_none(take: Callable[..., MCPServer]) -> None:
    take(
        {
            "properties": {
                "format": {"type": "string"},
                "pattern": {"type": "string", "enum": ["(?=a)"]},
                "items": {"type": "array", "items": {"type": "string"}},
                "properties": {"type": "object", "properties": {"type": {"type": "string", "enum": ["const"]}}},
                "choice": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            }
        }
    )
    assert not [each for each in told() if "take" in each]


@pytest.mark.django_db
def test_mcp_inspect_tells_them_too(take: Callable[..., MCPServer]) -> None:
    take({"properties": {"value": {"type": "array"}}})
    out = StringIO()
    call_command("mcp_inspect", "--server", "linted", "--json", stdout=out)
    (endpoint,) = [each for each in json.loads(out.getvalue())["endpoints"] if each["name"] == "linted"]
    (told_of,) = endpoint["tools"]
    assert "an array without items" in told_of["problems"][0]
    out = StringIO()
    call_command("mcp_inspect", "--server", "linted", stdout=out)
    assert "some clients reject it: inputSchema: value: an array without items" in out.getvalue()
