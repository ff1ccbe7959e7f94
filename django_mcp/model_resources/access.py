"""The rows that a caller may see, also through relations.

Whatever is compared, sorted, grouped or added up goes through here, so that a row of another model that the caller may
not see counts as no row at all.
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
    """The caller of one call, and what was found out about their rights.

    Args:
        ctx: the call.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._views: dict[BoundResource, bool] = {}
        self._seen: dict[tuple[BoundResource, Any], bool] = {}

    def may_view(self, bound: BoundResource) -> bool:
        """Whether the caller may view the model at all."""
        if bound not in self._views:
            # One whose declaration has a problem offers nothing, and nothing leads to its rows.
            self._views[bound] = (
                bound.is_sound
                and covers(self.ctx.principal.scopes, frozenset(bound.resource.scopes))
                and bound.resource.has_view_permission(self.ctx)
            )
        return self._views[bound]

    def related_queryset(self, relation: Any, bound: BoundResource) -> models.QuerySet[Any] | None:
        """The rows at the end of a relation that exist for the caller; None where that is so for all of them.

        What is not exposed is only reached by what its owner wrote down; of it there are the rows its default manager
        has, for that is where deleted ones are left out.
        """
        target = bound.rules_of(relation.related_model)
        if target is not None:
            return None if target.resource.has_plain_rows and self.may_view(target) else self.get_queryset(target)
        manager = relation.related_model._default_manager  # noqa: SLF001 - Django's documented API
        return None if is_plain(manager) else manager.all()

    def get_queryset(self, bound: BoundResource) -> models.QuerySet[Any]:
        """The rows that exist for the caller, as far as the database can tell."""
        if not self.may_view(bound):
            nothing: models.QuerySet[Any] = bound.model._base_manager.none()  # noqa: SLF001 - documented API
            return nothing
        return each_once(bound.resource.get_queryset(self.ctx))

    def can_view(self, bound: BoundResource, obj: Any) -> bool:
        """Whether a row that came through the door exists for the caller."""
        if not bound.resource.checks_each_row:
            return True
        key = bound, obj.pk
        if key not in self._seen:
            self._seen[key] = bound.resource.has_view_permission(self.ctx, obj)
        return self._seen[key]

    def sees_behind(self, relation: Any, obj: Any, bound: BoundResource) -> bool:
        """The same of a row at the end of a relation."""
        target = bound.rules_of(relation.related_model)
        return target is None or self.can_view(target, obj)


def find_row(bound: BoundResource, access: RowAccess, value: str) -> models.QuerySet[Any]:
    """Return the row that *value* addresses if it exists for the caller; an empty queryset if it does not."""
    rows, found = access.get_queryset(bound), bound.address(value)
    return rows.none() if found is None else rows.filter(**{bound.lookup.attname: found})


def each_once(rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """*rows* as something that can be filtered and sorted further, and has no row twice.

    A site may write ``filter(members__in=…)``, which gives a row once for each member, or cut or unite its rows.
    """
    query = rows.query
    if query.is_sliced or query.combinator or query.distinct_fields:
        every: models.QuerySet[Any] = rows.model._base_manager.using(rows.db)  # noqa: SLF001 - documented API
        return every.filter(pk__in=rows.values("pk"))
    return rows if query.distinct or query.group_by is not None or not _joins_sets(query) else rows.distinct()


def _joins_sets(query: Any) -> bool:
    """Whether a query joins rows of which there may be several for one."""
    fields = [
        getattr(join, "join_field", None) for alias, join in query.alias_map.items() if query.alias_refcount[alias]
    ]
    return any(field is not None and (field.one_to_many or field.many_to_many) for field in fields)


def seen_through(path: Path, access: RowAccess, bound: BoundResource) -> Q | None:
    """That every row on the way of *path* exists for the caller; None where that is so for all rows."""
    condition: Q | None = None
    for prefix, relation in path.prefixes:
        rows = access.related_queryset(relation, bound)
        if rows is None:
            continue
        here = Q(**{f"{prefix}__in": rows.order_by()})
        condition = here if condition is None else condition & here
    return condition


def guarded(path: Path, access: RowAccess, bound: BoundResource) -> Any:
    """An expression for the value of *path* that is null behind rows the caller may not see; None: the path will do."""
    seen = seen_through(path, access, bound)
    if seen is None:
        return None
    # A null of the value's own type, for where nothing at all is seen there is nothing else to tell PostgreSQL which.
    nothing = Cast(Value(None), path.end)
    return Case(When(seen, then=F(path.column)), default=nothing, output_field=path.end)


def matching(path: Path, lookup: str, value: Any, access: RowAccess, bound: BoundResource) -> Q:
    """The condition that a value of *path* compares to *value*, as far as the caller can see."""
    condition = Q(**{f"{path.column}__{lookup}": value})
    seen = seen_through(path, access, bound)
    if seen is not None:
        # Of a set with rows of both kinds, too, only those that exist for the caller are compared.
        condition = ~seen | (seen & condition) if lookup == "isnull" and value else seen & condition
    if not path.is_many:
        return condition
    # In a query of its own, so that a row is not found once for each row of the set.
    return Q(pk__in=rows_with(bound, condition))


def rows_with(bound: BoundResource, condition: Q) -> QuerySet[Any]:
    """Primary keys of the rows of a model that meet *condition*."""
    return bound.model._base_manager.filter(condition).order_by().values("pk")  # noqa: SLF001 - Django's documented API


# Rows that are written


def locked(model: type[models.Model], look: Callable[[], Any]) -> Any:
    """The row that *look* finds, which nobody else changes until the transaction ends; None where it finds none."""
    seen = look()
    if seen is None:
        return None
    alias = seen._state.db  # noqa: SLF001 - Django's documented API
    rows = model._base_manager.using(alias).select_related(None)  # noqa: SLF001 - Django's documented API
    for obj in rows.select_for_update(of=_own_tables(model, alias)).filter(pk=seen.pk):
        # While it was waited for, it may have been hidden from the caller.
        again = look()
        if again is not None and again.pk == obj.pk:
            return obj
    return None


def on_writer(rows: QuerySet[Any]) -> QuerySet[Any]:
    """*rows*, read where they are written, whatever copies a router would read them from."""
    return rows.using(rows._db or router.db_for_write(rows.model))  # type: ignore[attr-defined] # noqa: SLF001


def _own_tables(model: type[models.Model], alias: str) -> Sequence[str]:
    """What is locked: the row itself with its parts in tables of parents, and nothing that a manager may join."""
    if not connections[alias].features.has_select_for_update_of:
        return ()
    parents = model._meta.concrete_model._meta.parents.values()  # type: ignore[union-attr] # noqa: SLF001
    return ("self", *(link.name for link in parents if link is not None))


def linked(obj: Any, field: Any) -> QuerySet[Any]:
    """Primary keys of the rows in a set of *obj*, whoever may see them."""
    links: models.Manager[Any] = field.remote_field.through._base_manager  # noqa: SLF001 - Django's documented API
    rows = links.using(obj._state.db).filter(**{field.m2m_field_name(): obj.pk})  # noqa: SLF001
    return rows.values_list(field.m2m_reverse_field_name(), flat=True)
