"""What an operation answers, as the output schema of its tool."""

from collections.abc import Mapping
from typing import Any

from ninja.constants import NOT_SET
from pydantic import TypeAdapter

from django_mcp.contrib.ninja.operations import Published
from django_mcp.primitives.schema import json_schema

Schema = dict[str, Any]


def output_schema(published: Published) -> Schema | None:
    """The schema of structured content; None where no single one is promised.

    That is so where nothing was declared, where an answer may be empty, or of several shapes, and where it is a stream
    or no JSON.
    """
    operation = published.operation
    statuses = operation.response_models
    models = [model for status, model in statuses.items() if status is Ellipsis or 200 <= status < 300]  # noqa: PLR2004
    is_json = operation.api.renderer.media_type == "application/json" and operation.stream_format is None
    if not is_json or len(models) != 1 or models[0] in (None, NOT_SET):
        return None
    whole = json_schema(TypeAdapter(models[0]), "serialization", by_alias=operation.by_alias)
    answer: Schema = _inlined(whole["properties"]["response"], whole.get("$defs", {}))
    if operation.exclude_unset or operation.exclude_defaults or operation.exclude_none:
        answer = _without_required(answer)
    if answer.get("type") != "object":
        answer = {"type": "object", "properties": {"result": answer}, "required": ["result"]}
    return answer


def _inlined(schema: Any, shared: Mapping[str, Schema], within: frozenset[str] = frozenset()) -> Any:
    """A schema without references. Of one within itself just the type is left."""
    match schema:
        case {"$ref": str(reference), **others}:
            name = reference.rpartition("/")[2]
            if name in within:
                return {"type": shared[name].get("type", "object"), **others}
            return {**_inlined(shared[name], shared, within | {name}), **others}
        case dict():
            return {key: _inlined(each, shared, within) for key, each in schema.items()}
        case list():
            return [_inlined(each, shared, within) for each in schema]
    return schema


def _without_required(schema: Any) -> Any:
    """A schema for objects from which anything may be left out."""
    match schema:
        case dict():
            names = (key for key in schema if key != "required" or not isinstance(schema[key], list))
            return {key: _without_required(schema[key]) for key in names}
        case list():
            return [_without_required(each) for each in schema]
    return schema
