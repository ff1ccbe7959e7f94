"""What a view reads from the query: filters, the order, pages, and what it is annotated with."""

import inspect
import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db.models.constants import LOOKUP_SEP
from django.utils.choices import flatten_choices
from django.utils.encoding import force_str
from rest_framework.fields import Field
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.serializers import BaseSerializer

from django_mcp.adapters.form_schema import described
from django_mcp.contrib.rest_framework import incoming
from django_mcp.contrib.rest_framework.dialect import Schema, inlined, one_of
from django_mcp.contrib.rest_framework.notes import OperationNote, schema_of_note
from django_mcp.contrib.rest_framework.views import Operation

logger = logging.getLogger("django_mcp")

MANY_FILTERS = 60
"""Above so many filters of a class, those made from lookups are offered only where they are named."""


@dataclass(frozen=True)
class Parameter:
    """One variable of a URL, or one parameter of its query.

    Attributes:
        joined: of a list, the values stand in one text with commas between them.
    """

    name: str
    schema: Schema
    required: bool = False
    joined: bool = False


def query_parameters(
    operation: Operation, view: Any, note: OperationNote, model: Any, filters: Collection[str] | None = None
) -> list[Parameter]:
    """All that an operation reads from the query, as far as the view or its annotations tell.

    Args:
        operation, view, note: what is asked.
        model: of the view's rows.
        filters: the only ones of filter sets to give; None for all, or where they are very many for those that are not
            made from lookups.

    Raises:
        ImproperlyConfigured: there is no such filter.
    """
    found: dict[str, Parameter] = {}
    filtered = operation.action == "list" or operation.mentions("filter_queryset")
    paged = operation.action == "list" or operation.mentions("paginate_queryset")
    if filtered if note.filters is None else note.filters:
        for backend in getattr(view, "filter_backends", ()):
            parameters = {each.name: each for each in _of_backend(backend(), view, model, whole=filters is not None)}
            if filters is not None and hasattr(backend, "get_filterset_class"):
                parameters = _chosen(parameters, filters, view)
            found |= parameters
    if paged and getattr(view, "paginator", None) is not None:
        paginator = view.paginator
        if getattr(paginator, "page_size", True) is not None or getattr(paginator, "default_limit", None) is not None:
            found |= {each.name: each for each in map(_of_openapi, paginator.get_schema_operation_parameters(view))}
    return list(_annotated(found, note).values())


def _chosen(parameters: Mapping[str, Parameter], names: Collection[str], view: Any) -> dict[str, Parameter]:
    if wrong := [name for name in names if name not in parameters]:
        msg = (
            f"api_tools: {type(view).__qualname__} has no filter {wrong[0]!r}; it has {', '.join(sorted(parameters))}."
        )
        raise ImproperlyConfigured(msg)
    return {name: each for name, each in parameters.items() if name in names}


def serializer_parameters(serializer: BaseSerializer) -> Iterator[Parameter]:
    """A serializer's fields, where a view checks its query with one."""
    for name, each in getattr(serializer, "fields", {}).items():
        if incoming.is_taken(each):
            yield Parameter(name, incoming.schema_of(each), each.required)


def _of_backend(backend: Any, view: Any, model: Any, *, whole: bool) -> Iterator[Parameter]:
    """What a filter backend takes, told better than it does itself for those that everybody uses.

    Args:
        backend, view, model: what is asked.
        whole: give every filter of a filter set, however many there are.
    """
    if isinstance(backend, SearchFilter):
        if fields := backend.get_search_fields(view, view.request):
            words = ", ".join(str(each).lstrip("^=@$").replace("__", " ").replace("_", " ") for each in fields)
            yield Parameter(backend.search_param, {"type": "string", "description": f"Words to look for in: {words}."})
    elif isinstance(backend, OrderingFilter):
        if names := list(_orderings(backend, view, model)):
            told = f"One or more of {', '.join(names)}, with commas between them; - before one turns it round."
            yield Parameter(backend.ordering_param, {"type": "string", "description": told})
    elif hasattr(backend, "get_filterset_class"):
        rows = None if model is None else model._default_manager.none()  # noqa: SLF001 - Django's documented API
        if filters := backend.get_filterset_class(view, rows):
            for name, each in _offered(filters, whole=whole).items():
                try:
                    yield from _of_filter(name, each)
                except FieldDoesNotExist as error:  # it could never be used, and the others can
                    logger.warning("The filter %r of %s is left out: %s", name, type(view).__qualname__, error)
    else:
        yield from map(_of_openapi, backend.get_schema_operation_parameters(view))


def _offered(filters: Any, *, whole: bool) -> dict[str, Any]:
    """Return the filters of a class; of very many those that it declares, and those called like a field alone."""
    every = dict(filters.base_filters)
    if whole or len(every) <= MANY_FILTERS:
        return every
    return {name: each for name, each in every.items() if name in filters.declared_filters or LOOKUP_SEP not in name}


def _orderings(backend: OrderingFilter, view: Any, model: Any) -> Iterator[str]:
    fields = getattr(view, "ordering_fields", backend.ordering_fields)
    if model is not None or not (fields is None or fields == "__all__"):
        rows = None if model is None else model._default_manager.none()  # noqa: SLF001 - Django's documented API
        yield from (name for name, _ in backend.get_valid_fields(rows, view, {"request": view.request}))


def _of_filter(name: str, each: Any) -> Iterator[Parameter]:
    """A filter of django-filter: its form field says what it takes. One for a range has several names."""
    field, label = each.field, each.extra.get("help_text")
    suffixes = getattr(field.widget, "suffixes", None)
    if suffixes:
        parts = zip(suffixes, field.fields, strict=False)
        fields = {f"{name}_{suffix}" if suffix else name: part for suffix, part in parts}
    else:
        fields = {name: field}
    # Numbers or words in one text, with commas between them.
    joined = any(kind.__name__ == "BaseCSVField" for kind in type(field).__mro__)
    for parameter, part in fields.items():
        schema = {**described(parameter, part, None, 0), **_choices(each)}
        schema.pop("title", None)
        if joined:
            schema = {"type": "array", "items": {key: schema[key] for key in ("type", "format") if key in schema}}
        if not field.required:
            schema = {key: value for key, value in schema.items() if key != "minLength"}
        if label and "description" not in schema:
            schema["description"] = label
        yield Parameter(parameter, schema, field.required, joined)


def _choices(each: Any) -> Schema:
    """The choices of a filter, where they are known without a query."""
    choices = each.extra.get("choices")
    if not isinstance(choices, list | tuple):
        return {}
    values = one_of(value for value, _ in flatten_choices(choices) if value not in ("", None))
    return {"items": values} if isinstance(each.field, forms.MultipleChoiceField) else values


def _of_openapi(parameter: Mapping[str, Any]) -> Parameter:
    """One that is told as OpenAPI has it."""
    schema = inlined(parameter.get("schema", {"type": "string"}))
    if words := force_str(parameter.get("description") or ""):
        schema = {**schema, "description": words}
    joined = schema.get("type") == "array" and parameter.get("explode") is False
    return Parameter(parameter["name"], schema, bool(parameter.get("required")), joined)


def _annotated(found: Mapping[str, Parameter], note: OperationNote) -> dict[str, Parameter]:
    """With what ``@extend_schema(parameters=…)`` adds, replaces and leaves out."""
    merged = dict(found)
    for each in note.parameters:
        if isinstance(each, Field) or (inspect.isclass(each) and issubclass(each, Field)):
            serializer = each() if inspect.isclass(each) else each
            merged |= {parameter.name: parameter for parameter in serializer_parameters(serializer)}
        elif each.exclude:
            merged.pop(each.name, None)
        elif each.location == "query" and not each.response:
            merged[each.name] = _of_note(each)
    return merged


def _of_note(note: Any) -> Parameter:
    schema = schema_of_note(note.type, incoming.schema_of)
    told = {"enum": list(note.enum) if note.enum else None, "pattern": note.pattern, "default": note.default}
    schema = {**schema, **{key: value for key, value in told.items() if value is not None}}
    if note.many:
        schema = {"type": "array", "items": schema}
    if note.description:
        schema["description"] = note.description
    return Parameter(note.name, schema, note.required, bool(note.many) and note.explode is False)
