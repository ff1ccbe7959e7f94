"""Row-level access: the rows that a caller may see, also across relations.

Filters, orderings, groups and aggregates go through this module, so that hidden related rows count as absent.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connections, models, router
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Cast

from django_mcp.core.context import Context
from django_mcp.core.permissions import covers
from django_mcp.model_resources.bound_resource import BoundResource, Path
from django_mcp.model_resources.options import is_plain


class RowAccess:
    """The model and row permissions of one call's caller, cached for that call."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._views: dict[BoundResource, bool] = {}
        self._seen: dict[tuple[BoundResource, Any], bool] = {}

    def may_view(self, bound: BoundResource) -> bool:
        """Return True if the caller may view the model at all."""
        if bound not in self._views:
            # A declaration with errors is not served, and related rows of its model are hidden.
            self._views[bound] = (
                bound.is_sound
                and covers(self.ctx.principal.scopes, frozenset(bound.resource.scopes))
                and bound.resource.has_view_permission(self.ctx)
            )
        return self._views[bound]

    def related_queryset(self, relation: Any, bound: BoundResource) -> models.QuerySet[Any] | None:
        """Return the related rows that the caller may see, or None if they may see all of them.

        For a model that is not registered, these are the rows of its default manager, which often leaves out
        soft-deleted ones.
        """
        target = bound.rules_of(relation.related_model)
        if target is not None:
            return None if target.resource.has_plain_rows and self.may_view(target) else self.get_queryset(target)
        manager = relation.related_model._default_manager  # noqa: SLF001 - Django's documented API
        return None if is_plain(manager) else manager.all()

    def get_queryset(self, bound: BoundResource) -> models.QuerySet[Any]:
        """Return the rows that the caller may see, before ``has_view_permission`` is checked for each row."""
        if not self.may_view(bound):
            nothing: models.QuerySet[Any] = bound.model._base_manager.none()  # noqa: SLF001 - documented API
            return nothing
        return each_once(bound.resource.get_queryset(self.ctx))

    def can_view(self, bound: BoundResource, obj: Any) -> bool:
        """Return True if the caller may view *obj*, a row from ``get_queryset``."""
        if not bound.resource.checks_each_row:
            return True
        key = bound, obj.pk
        if key not in self._seen:
            self._seen[key] = bound.resource.has_view_permission(self.ctx, obj)
        return self._seen[key]

    def sees_behind(self, relation: Any, obj: Any, bound: BoundResource) -> bool:
        """Return True if the caller may view *obj*, a row that *relation* leads to."""
        target = bound.rules_of(relation.related_model)
        return target is None or self.can_view(target, obj)


def find_row(bound: BoundResource, access: RowAccess, value: str) -> models.QuerySet[Any]:
    """Return a queryset with the row that *value* identifies, from ``get_queryset``."""
    rows, found = access.get_queryset(bound), bound.address(value)
    return rows.none() if found is None else rows.filter(**{bound.lookup.attname: found})


def each_once(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """Return *rows* without duplicates, as a queryset that can be filtered and ordered further.

    A site's ``get_queryset`` may contain duplicates (``filter(members__in=…)``), be sliced or combine querysets.
    """
    query = rows.query
    if query.is_sliced or query.combinator or query.distinct_fields:
        every: models.QuerySet[Any] = rows.model._base_manager.using(rows.db)  # noqa: SLF001 - documented API
        return every.filter(pk__in=rows.values("pk"))
    return rows if query.distinct or query.group_by is not None or not _joins_sets(query) else rows.distinct()


def _joins_sets(query: Any) -> bool:
    fields = [
        getattr(join, "join_field", None) for alias, join in query.alias_map.items() if query.alias_refcount[alias]
    ]
    return any(field is not None and (field.one_to_many or field.many_to_many) for field in fields)


def seen_through(path: Path, access: RowAccess, bound: BoundResource) -> Q | None:
    """Return the condition that every row along *path* is visible, or None if all are."""
    condition: Q | None = None
    for prefix, relation in path.prefixes:
        rows = access.related_queryset(relation, bound)
        if rows is None:
            continue
        here = Q(**{f"{prefix}__in": rows.order_by()})
        condition = here if condition is None else condition & here
    return condition


def guarded(path: Path, access: RowAccess, bound: BoundResource) -> Any:
    """Return an expression for *path* that is null behind hidden rows, or None if no row can be hidden."""
    seen = seen_through(path, access, bound)
    if seen is None:
        return None
    # The cast gives PostgreSQL the type of the null if the other branch is empty.
    nothing = Cast(Value(None), path.end)
    return Case(When(seen, then=F(path.column)), default=nothing, output_field=path.end)


def matching(path: Path, lookup: str, value: Any, access: RowAccess, bound: BoundResource) -> Q:
    """Return the condition that a visible value of *path* matches the lookup."""
    condition = Q(**{f"{path.column}__{lookup}": value})
    seen = seen_through(path, access, bound)
    if seen is not None:
        # In a set of visible and hidden rows, only the visible ones are compared.
        condition = ~seen | (seen & condition) if lookup == "isnull" and value else seen & condition
    if not path.is_many:
        return condition
    # A subquery, so that a row is not returned once for each row of the set.
    return Q(pk__in=rows_with(bound, condition))


def rows_with(bound: BoundResource, condition: Q) -> QuerySet[Any]:
    """Return the primary keys of the rows that meet *condition*."""
    return bound.model._base_manager.filter(condition).order_by().values("pk")  # noqa: SLF001 - Django's documented API


# Writing


def locked(model: type[models.Model], look: Callable[[], Any]) -> Any:
    """Return the row that *look* finds, locked until the transaction ends, or None."""
    seen = look()
    if seen is None:
        return None
    alias = seen._state.db  # noqa: SLF001 - Django's documented API
    rows = model._base_manager.using(alias).select_related(None)  # noqa: SLF001 - Django's documented API
    for obj in rows.select_for_update(of=_own_tables(model, alias)).filter(pk=seen.pk):
        # Look again: the row may have been hidden from the caller while the lock was awaited.
        again = look()
        if again is not None and again.pk == obj.pk:
            return obj
    return None


def on_writer(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return *rows* from the database that they are written to, unless ``using()`` has chosen another."""
    return rows.using(rows._db or router.db_for_write(rows.model))  # type: ignore[attr-defined] # noqa: SLF001


def _own_tables(model: type[models.Model], alias: str) -> Sequence[str]:
    """Return the tables to lock: the row's own and its parents', not those that a manager joins."""
    if not connections[alias].features.has_select_for_update_of:
        return ()
    parents = model._meta.concrete_model._meta.parents.values()  # type: ignore[union-attr] # noqa: SLF001
    return ("self", *(link.name for link in parents if link is not None))


def linked(obj: Any, field: Any) -> QuerySet[Any]:
    """Return the primary keys in the many-to-many set *field* of *obj*, including hidden rows."""
    links: models.Manager[Any] = field.remote_field.through._base_manager  # noqa: SLF001 - Django's documented API
    rows = links.using(obj._state.db).filter(**{field.m2m_field_name(): obj.pk})  # noqa: SLF001
    return rows.values_list(field.m2m_reverse_field_name(), flat=True)
