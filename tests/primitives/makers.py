"""Primitives of functions, without a server."""

from collections.abc import Callable
from typing import Any

from jsonschema import Draft202012Validator

from django_mcp import Context
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool


def make_tool(call: Callable[..., Any], **options: Any) -> Tool:
    """A tool whose schemas are JSON Schema 2020-12, or the test fails."""
    tool = Tool(call, context_type=Context, **options)
    assert tool.definition["inputSchema"]["type"] == "object", "clients refuse a schema that is not an object's"
    for schema in (tool.definition["inputSchema"], tool.definition.get("outputSchema", {"type": "object"})):
        assert isinstance(schema["type"], str), "a value has to show whether its schema is an object's"
        Draft202012Validator.check_schema(schema)
    return tool


def make_resource(call: Callable[..., Any], uri: str, **options: Any) -> Resource:
    return Resource(call, uri, context_type=Context, **options)


def make_prompt(call: Callable[..., Any], **options: Any) -> Prompt:
    return Prompt(call, context_type=Context, **options)


def taking(annotation: Any, *default: Any) -> Tool:
    """A tool with one parameter ``value``."""

    def take(value: Any) -> None: ...

    take.__annotations__["value"] = annotation
    take.__defaults__ = default or None
    return make_tool(take)


def giving(annotation: Any) -> Tool:
    """A tool with that return annotation."""

    def give() -> Any: ...

    give.__annotations__["return"] = annotation
    return make_tool(give)
