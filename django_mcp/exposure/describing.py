"""What an exposed model is made of, for the model that is going to ask for it."""

from typing import Any

from django_mcp.core.permissions import covers
from django_mcp.core.principal import Principal
from django_mcp.exposure.columns import SetColumn
from django_mcp.exposure.exposed import Column, Exposed
from django_mcp.exposure.field_types import choices_of
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.write_fields import declared_names


def schema_uri(exposed: Exposed) -> str:
    """The URI under which it is described."""
    return f"schema://{exposed.options.app_label.replace('_', '-')}/{exposed.options.model_name}"


def describe(exposed: Exposed, viewer: Viewer) -> dict[str, Any]:
    """Fields, relations, and what can be asked; of other models only those the caller may view."""
    resource = exposed.resource
    described: dict[str, Any] = {
        "model": exposed.options.label,
        "title": exposed.title,
        "description": exposed.description,
        "list": exposed.base,
        "row": f"{exposed.base}/{{{exposed.lookup_name}}}",
        "lookup": exposed.lookup_name,
        "fields": [_column(exposed, column, viewer) for column in exposed.columns],
        "searched": list(dict.fromkeys(field.path.source for field in exposed.search_fields)),
        "filters": [{"name": each.argument, "schema": each.schema} for each in exposed.filters],
        "sortable_by": [way for way in exposed.sortings if way],
        "aggregates": ["count", *exposed.measures] if resource.aggregates is not None else [],
        "dimensions": list(exposed.dimensions),
        "verbs": _verbs(exposed, viewer.ctx.principal),
    }
    return described


def _verbs(exposed: Exposed, principal: Principal) -> list[str]:
    resource = exposed.resource
    if not covers(principal.scopes, frozenset(resource.write_scopes)):
        return []
    return [verb for verb in resource.verbs if resource.allows(verb, principal.user)]


def _column(exposed: Exposed, column: Column, viewer: Viewer) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "schema": column.schema}
    if column.path is None:
        return described
    end = column.path.field
    if title := str(getattr(end, "verbose_name", "") or ""):
        described["title"] = title
    if help_text := str(getattr(end, "help_text", "") or ""):
        described["help_text"] = help_text
    if choices := choices_of(end):
        described["choices"] = [{"value": value, "label": label} for value, label in choices]
    target = exposed.on_server(end.related_model) if end.is_relation else None
    if target is not None and viewer.may_view(target):
        described["relation"] = {
            "model": target.options.label,
            "schema": schema_uri(target),
            "many": isinstance(column, SetColumn),
        }
    if exposed.resource.verbs and column.name in declared_names(exposed):
        described["writable"] = True
    return described
