"""What drf-spectacular's decorators say of views, serializers and fields, where a site uses them.

They leave their notes on what they decorate, so nothing here needs the package to be installed.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.fields import Field
from rest_framework.serializers import BaseSerializer

from django_mcp.contrib.rest_framework.dialect import Schema, from_annotation, inlined

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
