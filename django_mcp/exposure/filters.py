"""Filter rows by the arguments that callers give."""

from collections.abc import Mapping
from typing import Any

from django.db.models import QuerySet

from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.guards import matching
from django_mcp.exposure.viewing import Viewer


def filtered(rows: QuerySet[Any], arguments: Mapping[str, Any], viewer: Viewer, exposed: Exposed) -> QuerySet[Any]:
    """Those of *rows* that all filters in *arguments* let through."""
    for each in exposed.filters:
        value = arguments.get(each.argument)
        if value is None:
            continue
        if isinstance(value, list):
            value = tuple(value)
        rows = rows.filter(matching(each.path, each.lookup, value, viewer, exposed))
    return rows
