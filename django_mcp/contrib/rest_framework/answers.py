"""What a view answered, made to keep what the tool promised of it."""

import json
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from django_mcp import ToolResult
from django_mcp.contrib.rest_framework.arguments import APIArguments
from django_mcp.contrib.rest_framework.dialect import Schema

UNFIT = object()
NEXT, PREVIOUS = "next_arguments", "previous_arguments"
_OF_JSON = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def answered(result: ToolResult[Any], arguments: APIArguments, output: Schema | None) -> ToolResult[Any]:
    """A result with the arguments of the pages before and after it, and with data that fit *output*.

    Data that do not fit are left out of the structured content. The text has all that the view said.
    """
    value = result.structured
    if isinstance(value, dict):
        value = {**value, **_pages(value, arguments)}
    if output is None:
        return ToolResult(value, text=result.text, content=result.content)
    fitting = fitted(output, value)
    text = result.text or json.dumps(value, ensure_ascii=False)
    return ToolResult({} if fitting is UNFIT else fitting, text=text, content=result.content)


def page_arguments() -> dict[str, Schema]:
    """What ``_pages`` adds, for an output schema."""
    return {
        NEXT: {"type": "object", "description": "Call again with these too for the next page."},
        PREVIOUS: {"type": "object", "description": "Call again with these too for the page before."},
    }


def _pages(value: dict[str, Any], arguments: APIArguments) -> dict[str, Any]:
    """A model cannot follow a link; it can call again."""
    inner = value.get("links")
    links: dict[str, Any] = inner if isinstance(inner, dict) else value
    found = {NEXT: _of_link(links.get("next"), arguments), PREVIOUS: _of_link(links.get("previous"), arguments)}
    return {name: given for name, given in found.items() if given}


def _of_link(link: Any, arguments: APIArguments) -> dict[str, Any]:
    if not isinstance(link, str):
        return {}
    given = dict(parse_qsl(urlsplit(link).query, keep_blank_values=True))
    return {
        (argument := arguments.in_query(name)): arguments.from_query(argument, given[name])
        for name in arguments.paging & given.keys()
    }


def fitted(schema: Schema, value: Any) -> Any:
    """*value* without what does not fit a schema as ``structural`` makes them; ``UNFIT`` where nothing of it does."""
    if "anyOf" in schema:
        tried = (fitted(each, value) for each in schema["anyOf"])
        value = next((each for each in tried if each is not UNFIT), UNFIT)
    if value is UNFIT or not _is_of_type(schema.get("type"), value):
        return UNFIT
    if ("enum" in schema and value not in schema["enum"]) or ("const" in schema and value != schema["const"]):
        return UNFIT
    if isinstance(value, dict):
        return _fitted_members(schema, value)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        items = [fitted(schema["items"], each) for each in value]
        return UNFIT if any(each is UNFIT for each in items) else items
    return value


def _fitted_members(schema: Schema, value: dict[str, Any]) -> Any:
    properties, others = schema.get("properties", {}), schema.get("additionalProperties")
    schemas = {name: properties.get(name, others if isinstance(others, dict) else {}) for name in value}
    fitting = {name: fitted(schemas[name], each) for name, each in value.items()}
    kept = {name: each for name, each in fitting.items() if each is not UNFIT}
    return kept if kept.keys() >= set(schema.get("required", ())) else UNFIT


def _is_of_type(kind: Any, value: Any) -> bool:
    if kind is None:
        return True
    kinds = [kind] if isinstance(kind, str) else kind
    if isinstance(value, bool):
        return "boolean" in kinds
    return any(isinstance(value, _OF_JSON[each]) for each in kinds)
