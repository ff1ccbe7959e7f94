"""JSON Schema for REST framework: types of model fields, dialect, and drf-spectacular's annotations.

They leave their notes on what they decorate, so nothing here needs the package to be installed.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from rest_framework.fields import Field
from rest_framework.serializers import BaseSerializer

from django_mcp.model_resources.schema import json_type
from django_mcp.primitives.schema import json_schema

Schema = dict[str, Any]

CHECKED = frozenset(
    {
        "additionalProperties",
        "anyOf",
        "const",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "title",
        "type",
    }
)
"""What ``structural`` leaves of a schema."""
OPENAPI_ONLY = frozenset({"discriminator", "example", "externalDocs", "nullable", "readOnly", "writeOnly", "xml"})
PLAIN_TYPES: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def nullable(schema: Schema) -> Schema:
    """*schema*, or null."""
    kind = schema.get("type")
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if kind is None and "enum" not in schema:
        return schema
    allowed = dict(schema)
    if kind is not None:
        allowed["type"] = [*dict.fromkeys([*([kind] if isinstance(kind, str) else kind), "null"])]
    if "enum" in schema and None not in schema["enum"]:
        allowed["enum"] = [*schema["enum"], None]
    return allowed


def one_of(values: Iterable[Any]) -> Schema:
    """Any of *values*, with their types where all of them have one of JSON."""
    listed = list(values)
    kinds = [*dict.fromkeys(PLAIN_TYPES.get(type(value), "") for value in listed)]
    if not kinds or "" in kinds:
        return {"enum": listed} if listed else {}
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": listed}


def from_annotation(annotation: Any) -> Schema | None:
    """The schema of a Python type as pydantic sees it; None where it has none."""
    try:
        schema = json_schema(TypeAdapter(annotation), "serialization")
    except PydanticUserError:
        return None
    return inlined(schema)  # type: ignore[no-any-return]


def inlined(schema: Any) -> Any:
    """*schema* with its ``$defs`` in the places that refer to them, and in JSON Schema where it was in OpenAPI.

    What cannot be shown so, a type that contains itself or a component of another document, may be anything.
    """
    return _inlined(schema, schema.get("$defs", {}), ())


def _inlined(schema: Any, definitions: Mapping[str, Any], inside: tuple[str, ...]) -> Any:
    if isinstance(schema, list):
        return [_inlined(each, definitions, inside) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(reference := schema.get("$ref"), str):
        name = reference.rpartition("/")[2]
        beside = _inlined({key: value for key, value in schema.items() if key != "$ref"}, definitions, inside)
        if name in inside or name not in definitions:
            return beside
        return {**_inlined(definitions[name], definitions, (*inside, name)), **beside}
    kept = {key: value for key, value in schema.items() if key not in OPENAPI_ONLY and key != "$defs"}
    if "properties" in kept and isinstance(kept.get("title"), str):
        del kept["title"]
    found = {
        key: {name: _inlined(each, definitions, inside) for name, each in value.items()}
        if key in {"properties", "patternProperties"}
        else value
        if key in {"default", "enum", "const", "examples"}
        else _inlined(value, definitions, inside)
        for key, value in kept.items()
    }
    return nullable(found) if schema.get("nullable") is True else found


def structural(schema: Schema) -> Schema:
    """Only what ``fitted`` can hold a value to; all else a value might break."""
    found: Schema = {}
    for key in CHECKED & schema.keys():
        value = schema[key]
        if key == "properties":
            value = {name: structural(each) for name, each in value.items()}
        elif key == "anyOf":
            value = [structural(each) for each in value]
        elif isinstance(value, dict):
            value = structural(value)
        elif key == "additionalProperties":
            continue
        found[key] = value
    return {key: found[key] for key in schema if key in found}


# ruff: noqa: SLF001 - _meta is Django's documented API


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


SchemaOf = Callable[[Field], Schema]
NOTHING = object()
"""Where a note may be None, and means something by it."""


@dataclass(frozen=True)
class OperationNote:
    """What ``@extend_schema`` says of one method of a view.

    Attributes:
        request: what the body is; ``NOTHING`` where it does not say.
        responses: what the answer is, or a dict of these by status; likewise.
        filters: whether it takes the parameters of filters and pages; None where it does not say.
    """

    request: Any = NOTHING
    responses: Any = NOTHING
    parameters: Sequence[Any] = ()
    summary: str | None = None
    description: str | None = None
    operation_id: str | None = None
    excluded: bool = False
    filters: bool | None = None


def note_of_operation(view: Any, handler: Any, method: str) -> OperationNote:
    """What a view's method, or its class, is annotated with."""
    noted = getattr(handler, "kwargs", {}).get("schema") or inspect.getattr_static(type(view), "schema", None)
    inspector = noted if inspect.isclass(noted) else type(noted)
    if not hasattr(inspector, "get_override_parameters"):
        return OperationNote()
    schema: Any = type("Annotated", (inspector, _unsaid(inspector)), {})()
    schema.view, schema.method, schema.path = view, method, "/"
    backends = schema.get_filter_backends()
    return OperationNote(
        request=schema.get_request_serializer(),
        responses=schema.get_response_serializers(),
        parameters=schema.get_override_parameters(),
        summary=schema.get_summary(),
        description=schema.get_description(),
        operation_id=schema.get_operation_id(),
        excluded=schema.is_excluded(),
        filters=None if backends is NOTHING else bool(backends),
    )


def _unsaid(inspector: type) -> type:
    """A class that stands behind the annotations of *inspector*, and says nothing of its own.

    Each ``@extend_schema`` makes a class that answers what it was told, and asks the next one for the rest.
    """
    behind = next(each for each in inspector.__mro__ if each.__module__ != "drf_spectacular.utils")
    answers = {
        "get_request_serializer": NOTHING,
        "get_response_serializers": NOTHING,
        "get_override_parameters": [],
        "get_summary": None,
        "get_description": None,
        "get_operation_id": None,
        "is_excluded": False,
        "get_filter_backends": NOTHING,
    }
    return type("Unsaid", (behind,), {name: lambda _, answer=answer: answer for name, answer in answers.items()})


def note_of_field(noted: Any, schema_of: SchemaOf) -> Schema | None:
    """What ``@extend_schema_field`` says of a field, or of the method of a ``SerializerMethodField``."""
    note = _notes(noted).get("field")
    return None if note is None else schema_of_note(note, schema_of)


def without(serializer: BaseSerializer) -> Collection[str]:
    """The fields ``@extend_schema_serializer(exclude_fields=…)`` leaves out."""
    return _notes(serializer).get("exclude_fields") or ()


def schema_of_note(note: Any, schema_of: SchemaOf) -> Schema:
    """What a note means: a serializer or field (class or instance), a Python type, ``OpenApiTypes``, or a schema."""
    if isinstance(note, dict):
        return inlined(note)  # type: ignore[no-any-return]
    if inspect.isclass(note) and issubclass(note, Field):
        note = note()
    if isinstance(note, Field):
        return schema_of(note)
    spectacular = sys.modules.get("drf_spectacular.types")
    if spectacular and isinstance(note, spectacular.OpenApiTypes):
        return dict(spectacular.OPENAPI_TYPE_MAPPING.get(note, {"type": "object"}) or {"type": "null"})
    return from_annotation(note) or {}


def _notes(noted: Any) -> Mapping[str, Any]:
    return getattr(noted, "_spectacular_annotation", {})
