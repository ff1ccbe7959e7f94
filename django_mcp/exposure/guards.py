"""Paths that lead through rows of other models, of which some may not exist for the caller.

Whatever is compared, sorted, grouped or added up goes through here, so that a row of another model that the caller may
not see counts as no row at all.
"""

from typing import Any

from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Cast

from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.paths import Path
from django_mcp.exposure.viewing import Viewer


def seen_through(path: Path, viewer: Viewer, exposed: Exposed) -> Q | None:
    """That every row on the way of *path* exists for the caller; None where that is so for all rows."""
    condition: Q | None = None
    for prefix, relation in path.prefixes:
        rows = viewer.behind(relation, exposed)
        if rows is None:
            continue
        here = Q(**{f"{prefix}__in": rows.order_by()})
        condition = here if condition is None else condition & here
    return condition


def guarded(path: Path, viewer: Viewer, exposed: Exposed) -> Any:
    """An expression for the value of *path* that is null behind rows the caller may not see; None: the path will do."""
    seen = seen_through(path, viewer, exposed)
    if seen is None:
        return None
    # A null of the value's own type, for where nothing at all is seen there is nothing else to tell PostgreSQL which.
    nothing = Cast(Value(None), path.end)
    return Case(When(seen, then=F(path.column)), default=nothing, output_field=path.end)


def matching(path: Path, lookup: str, value: Any, viewer: Viewer, exposed: Exposed) -> Q:
    """The condition that a value of *path* compares to *value*, as far as the caller can see."""
    condition = Q(**{f"{path.column}__{lookup}": value})
    seen = seen_through(path, viewer, exposed)
    if seen is not None:
        # Of a set with rows of both kinds, too, only those that exist for the caller are compared.
        condition = ~seen | (seen & condition) if lookup == "isnull" and value else seen & condition
    if not path.is_many:
        return condition
    # In a query of its own, so that a row is not found once for each row of the set.
    return Q(pk__in=rows_with(exposed, condition))


def rows_with(exposed: Exposed, condition: Q) -> QuerySet[Any]:
    """Primary keys of the rows of a model that meet *condition*."""
    return exposed.model._base_manager.filter(condition).order_by().values("pk")  # noqa: SLF001 - Django's documented API
