"""Counting and adding up rows, in groups."""

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

from django.db.models import Count, F, QuerySet

from django_mcp.exposure.columns import serialize_link
from django_mcp.exposure.exposed import FUNCTIONS, PARTS, Dimension, Exposed, Measure
from django_mcp.exposure.field_types import as_decimal, to_json_value
from django_mcp.exposure.guards import guarded
from django_mcp.exposure.paths import Path
from django_mcp.exposure.viewing import Viewer

MOST_DIMENSIONS = 3
COUNT = "count"


def aggregated(
    rows: QuerySet[Any],
    measures: Sequence[str],
    dimensions: Sequence[str],
    most: int,
    viewer: Viewer,
    exposed: Exposed,
) -> list[dict[str, Any]]:
    """A dict for each group of *rows*, in the order of the dimensions; *most* of them, and one more if there are."""
    if not exposed.resource.has_plain_rows:
        # Rows the caller sees, each once, whatever the site's own queryset joins.
        rows = exposed.model._base_manager.using(rows.db).filter(pk__in=rows.order_by().values("pk"))  # noqa: SLF001
    names = {f"mcp_by_{at}": name for at, name in enumerate(dimensions)}
    rows = rows.annotate(**{key: _dimension(exposed.dimensions[name], viewer, exposed) for key, name in names.items()})
    worked = {f"mcp_of_{at}": name for at, name in enumerate(measures)}
    functions = {key: _measure(exposed.measures.get(name), viewer, exposed) for key, name in worked.items()}
    if not dimensions:
        return [_named(rows.aggregate(**functions), worked, exposed)]
    groups = list(rows.order_by().values(*names).annotate(**functions).order_by(*names)[: most + 1])
    shown = [_named(group, {**names, **worked}, exposed) for group in groups]
    for key, name in names.items():
        if (target := exposed.dimensions[name].target) is not None:
            links = _links(target, [group[key] for group in groups], viewer)
            for group, row in zip(groups, shown, strict=True):
                row[name] = links.get(group[key])
    return shown


def _links(target: Exposed, keys: Sequence[Any], viewer: Viewer) -> dict[Any, Any]:
    """Links to rows by primary key, as far as they exist for the caller."""
    rows = viewer.door(target).filter(pk__in={key for key in keys if key is not None})
    return {row.pk: serialize_link(target, row, viewer) for row in rows.order_by()}


def _named(group: Mapping[str, Any], names: Mapping[str, str], exposed: Exposed) -> dict[str, Any]:
    return {
        name: _shown(group[key], exposed.measures.get(name) or exposed.dimensions.get(name))
        for key, name in names.items()
    }


def _shown(value: Any, of: Measure | Dimension | None) -> Any:
    if of is None or (isinstance(of, Dimension) and of.part):
        return to_json_value(value)
    value = as_decimal(of.path.field, value)
    return to_json_value(_exact(value, of) if isinstance(of, Measure) else value)


def _exact(value: Any, measure: Measure) -> Any:
    """A decimal with the places of its column, for SQLite works with floats; a mean with two more."""
    if not isinstance(value, Decimal) or not value.is_finite():
        return value
    places = measure.path.value_field.decimal_places + (2 if measure.function == "avg" else 0)
    with localcontext(prec=100):
        return value.quantize(Decimal(1).scaleb(-places))


def _value(path: Path, viewer: Viewer, exposed: Exposed) -> Any:
    expression = guarded(path, viewer, exposed)
    return F(path.column) if expression is None else expression


def _dimension(dimension: Dimension, viewer: Viewer, exposed: Exposed) -> Any:
    value = _value(dimension.path, viewer, exposed)
    return PARTS[dimension.part](value) if dimension.part else value


def _measure(measure: Measure | None, viewer: Viewer, exposed: Exposed) -> Any:
    if measure is None:
        return Count("pk")
    return FUNCTIONS[measure.function](_value(measure.path, viewer, exposed))
