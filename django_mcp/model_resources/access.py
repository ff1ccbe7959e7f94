"""Row-level access: the rows that a caller may see, also across relations.

Filters, orderings, groups and aggregates go through this module, so that hidden related rows count as absent.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.db import connections, models, router
from django.db.models import Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Cast

from django_mcp.core.context import Context
from django_mcp.core.permissions import covers
from django_mcp.model_resources.bound_resource import BoundResource, Relative, TableRules
from django_mcp.model_resources.options import ACTIONS, is_plain
from django_mcp.model_resources.paths import Path


class RowAccess:
    """The model and row permissions of one call's caller, cached for that call."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._views: dict[BoundResource, bool] = {}
        self._seen: dict[tuple[BoundResource | Relative, Any], bool] = {}

    def add_titles(self, bound: BoundResource, rows: models.QuerySet[Any]) -> models.QuerySet[Any]:
        assert bound.add_titles is not None  # noqa: S101 - set when the declaration is compiled
        found: models.QuerySet[Any] = bound.add_titles(rows, bound, self)
        return found

    def can_view_model(self, bound: BoundResource) -> bool:
        if bound not in self._views:
            # A declaration with errors is not served, and related rows of its model are hidden.
            self._views[bound] = (
                bound.is_sound
                and covers(self.ctx.principal.scopes, frozenset(bound.resource.scopes))
                and bound.resource.has_view_permission(self.ctx)
            )
        return self._views[bound]

    def related_queryset(self, relation: Any, bound: BoundResource) -> models.QuerySet[Any] | None:
        """Return the related rows that the caller may see, or None if they may see all of them."""
        return self.visible_rows(bound.rules_of(relation.related_model))

    def visible_rows(self, rules: TableRules) -> models.QuerySet[Any] | None:
        """Return the rows of a model that the caller may see, or None if they may see all of them.

        For a model without rules, these are the rows of its default manager, which often leaves out soft-deleted ones.
        """
        if rules.own is not None:
            return None if rules.own.has_plain_rows and self.can_view_model(rules.own) else self.get_queryset(rules.own)
        manager = rules.model._default_manager  # noqa: SLF001 - Django's documented API
        conditions = self._conditions(rules.relatives)
        if conditions:
            found: models.QuerySet[Any] = manager.filter(*conditions)
            return found
        return None if is_plain(manager) else manager.all()

    def get_queryset(self, bound: BoundResource) -> models.QuerySet[Any]:
        """Return the rows that the caller may see, before ``has_view_permission`` is checked for each row."""
        if not self.can_view_model(bound):
            nothing: models.QuerySet[Any] = bound.model._base_manager.none()  # noqa: SLF001 - documented API
            return nothing
        rows = bound.declared_rows(self.ctx)
        if bound.resource.has_own_rows or not (
            below := [relative for relative in bound.relatives if relative.is_below]
        ):
            return rows
        return rows.filter(*self._conditions(below))

    def can_view(self, bound: BoundResource, obj: Any) -> bool:
        """Return True if the caller may view *obj*, a row from ``get_queryset``."""
        if not bound.checks_each_row:
            return True
        key = bound, obj.pk
        if key not in self._seen:
            self._seen[key] = (
                bound.resource.has_view_permission(self.ctx, obj)
                if bound.resource.checks_each_row
                else self._can_view_as(bound.relatives, obj)
            )
        return self._seen[key]

    def can_view_row(self, rules: TableRules, obj: Any) -> bool:
        """Return True if the caller may view *obj*, a row from ``visible_rows``."""
        return self._can_view_as(rules.relatives, obj) if rules.own is None else self.can_view(rules.own, obj)

    def as_declared(self, rules: TableRules, rows: Iterable[Any]) -> dict[Any, tuple[BoundResource, Any]]:
        """Return the class that declares what the caller may read of each row, and the row of that class, by key.

        That is the model's own class, else the nearest registered parent, proxy or multi-table child that shows the
        row. Rows that no registered class shows are left out. The rows have all that their titles need.

        Args:
            rules: of the model of *rows*.
        """
        rows = list(rows)
        if rules.own is not None:
            if not _has_title_elsewhere(rules.own):
                return {row.pk: (rules.own, row) for row in rows}
            return self._declared_by(rules.own, "pk", {row.pk: row.pk for row in rows})
        found: dict[Any, tuple[BoundResource, Any]] = {}
        for relative in rules.relatives:
            for bound in relative.bounds:
                left = [row for row in rows if row.pk not in found]
                if relative.is_below:
                    found |= self._declared_by(bound, relative.path, {row.pk: row.pk for row in left})
                else:
                    keys = {rules.key_as(bound, row): row.pk for row in left}
                    found |= self._declared_by(bound, "pk", keys)
        return found

    def _declared_by(
        self, bound: BoundResource, path: str, keys: Mapping[Any, Any]
    ) -> dict[Any, tuple[BoundResource, Any]]:
        """Return the visible rows of a class whose *path* is one of *keys*, by the values of *keys*."""
        if not keys:
            return {}
        rows = using_write_db(self.get_queryset(bound).filter(**{f"{path}__in": list(keys)}))
        rows = self.add_titles(bound, rows) if _has_title_elsewhere(bound) else rows
        link: Any = bound.options.pk if path == "pk" else bound.options.get_field(path)
        return {keys[getattr(row, link.attname)]: (bound, row) for row in rows.order_by() if self.can_view(bound, row)}

    def can_view_related(self, relation: Any, obj: Any, bound: BoundResource) -> bool:
        return self.can_view_row(bound.rules_of(relation.related_model), obj)

    def has_permission(self, rules: TableRules, action: str, obj: Any = None) -> bool:
        """Return True if the declarations that decide on a model let the caller write its rows, or the row *obj*.

        Args:
            action: one of ``options.ACTIONS``.
        """
        if rules.own is not None:
            return self._permits(rules.own, action, obj)
        for relative in rules.relatives:
            if obj is None:
                if not relative.is_below and not any(self._permits(bound, action) for bound in relative.bounds):
                    return False
            elif not _is_outside(relative, obj) and not any(
                self._permits(bound, action, row)
                for bound in relative.bounds
                for row in _rows_as(relative, bound.model._base_manager.all(), obj)  # noqa: SLF001 - documented API
            ):
                return False
        return True

    def _permits(self, bound: BoundResource, action: str, obj: Any = None) -> bool:
        resource = bound.resource
        scopes = frozenset((*resource.scopes, *resource.write_scopes))
        if not covers(self.ctx.principal.scopes, scopes) or not resource.allows(self.ctx, action):
            return False
        return obj is None or bool(getattr(resource, f"has_{ACTIONS[action]}_permission")(self.ctx, obj))

    # Rows that are also rows of other models

    def _conditions(self, relatives: Iterable[Relative]) -> list[Q]:
        return [found for relative in relatives if (found := self._condition(relative)) is not None]

    def _condition(self, relative: Relative) -> Q | None:
        """Return the condition that a row is visible as one of *relative*, or None if all are."""
        seen = Q()
        for bound in relative.bounds:
            if relative.is_whole and bound.has_plain_rows and self.can_view_model(bound):
                return None
            seen |= Q(pk__in=self._rows_of(relative, bound).order_by().values("pk"))
        table: Any = relative.bounds[0].options.concrete_model
        if relative.is_below:
            hidden = table._base_manager.exclude(seen).order_by()  # noqa: SLF001 - Django's documented API
            return ~Q(pk__in=hidden.values(relative.path))
        return Q(**{f"{relative.path}__in": table._base_manager.filter(seen).order_by().values("pk")})  # noqa: SLF001

    def _rows_of(self, relative: Relative, bound: BoundResource) -> models.QuerySet[Any]:
        return self.get_queryset(bound) if relative.is_whole else bound.declared_rows(self.ctx)

    def _can_view_as(self, relatives: Iterable[Relative], obj: Any) -> bool:
        return all(self._can_view_one_as(relative, obj) for relative in relatives if relative.checks_each_row)

    def _can_view_one_as(self, relative: Relative, obj: Any) -> bool:
        key = relative, obj.pk
        if key not in self._seen:
            self._seen[key] = any(
                self.can_view(bound, row)
                if relative.is_whole
                else not bound.resource.checks_each_row or bound.resource.has_view_permission(self.ctx, row)
                for bound in relative.bounds
                for row in _rows_as(relative, self._rows_of(relative, bound), obj)
            ) or _is_outside(relative, obj)
        return self._seen[key]


def _has_title_elsewhere(bound: BoundResource) -> bool:
    return bound.title_output_field is not None and bound.title_output_field.path is not None


def _rows_as(relative: Relative, rows: models.QuerySet[Any], obj: Any) -> models.QuerySet[Any]:
    return rows.using(obj._state.db).filter(**_row_as(relative, obj))[:1]  # noqa: SLF001 - Django's documented API


def _row_as(relative: Relative, obj: Any) -> dict[str, Any]:
    """Return the condition for the row of *relative* that *obj* also is."""
    if relative.is_below:
        return {relative.path: obj.pk}
    return {"pk": getattr(obj, "pk" if relative.path == "pk" else obj._meta.get_field(relative.path).attname)}  # noqa: SLF001


def _is_outside(relative: Relative, obj: Any) -> bool:
    """Return True if *obj* is no row of *relative*, a multi-table child of its model."""
    if not relative.is_below:
        return False
    table: Any = relative.bounds[0].options.concrete_model
    rows = table._base_manager  # noqa: SLF001 - Django's documented API
    return not rows.using(obj._state.db).filter(**_row_as(relative, obj)).exists()  # noqa: SLF001


def find_row(bound: BoundResource, access: RowAccess, value: str) -> models.QuerySet[Any]:
    """Return a queryset with the row that *value* identifies, from ``get_queryset``."""
    rows, found = access.get_queryset(bound), bound.lookup_value(value)
    return rows.none() if found is None else rows.filter(**{bound.lookup.attname: found})


def visibility_q(path: Path, access: RowAccess, bound: BoundResource) -> Q | None:
    """Return the condition that every row along *path* is visible, or None if all are."""
    condition: Q | None = None
    for prefix, relation in path.prefixes:
        rows = access.related_queryset(relation, bound)
        if rows is None:
            continue
        here = Q(**{f"{prefix}__in": rows.order_by()})
        condition = here if condition is None else condition & here
    return condition


def mask_hidden(path: Path, access: RowAccess, bound: BoundResource) -> Any:
    """Return an expression for *path* that is null behind hidden rows, or None if no row can be hidden."""
    seen = visibility_q(path, access, bound)
    if seen is None:
        return None
    # The cast gives PostgreSQL the type of the null if the other branch is empty.
    nothing = Cast(Value(None), path.end)
    return Case(When(seen, then=F(path.column)), default=nothing, output_field=path.end)


def visible_lookup_q(path: Path, lookup: str, value: Any, access: RowAccess, bound: BoundResource) -> Q:
    """Return the condition that a visible value of *path* matches the lookup."""
    condition = Q(**{f"{path.column}__{lookup}": value})
    seen = visibility_q(path, access, bound)
    if seen is not None:
        # In a set of visible and hidden rows, only the visible ones are compared.
        condition = ~seen | (seen & condition) if lookup == "isnull" and value else seen & condition
    if not path.is_many:
        return condition
    # A subquery, so that a row is not returned once for each row of the set.
    return Q(pk__in=rows_with(bound, condition))


def rows_with(bound: BoundResource, condition: Q) -> QuerySet[Any]:
    return bound.model._base_manager.filter(condition).order_by().values("pk")  # noqa: SLF001 - Django's documented API


# Writing


def get_for_update(model: type[models.Model], look: Callable[[], Any]) -> Any:
    """Return the row that *look* finds, locked until the transaction ends, or None."""
    seen = look()
    if seen is None:
        return None
    obj = _lock(model, seen._state.db, seen.pk)  # noqa: SLF001 - Django's documented API
    # Look again: the row may have been hidden from the caller while the lock was awaited.
    again = None if obj is None else look()
    return obj if again is not None and again.pk == obj.pk else None


def _lock(model: type[models.Model], alias: str, key: Any) -> Any:
    rows = model._base_manager.using(alias).select_related(None)  # noqa: SLF001 - Django's documented API
    if connections[alias].in_atomic_block:  # not in tools with atomic=False
        rows = rows.select_for_update(of=_own_tables(model, alias))
    return next(iter(rows.filter(pk=key)), None)


def reload_for_update(read: Callable[[], Any]) -> Any:
    """Return the row that a function of the site gives, locked until the transaction ends and with its present values.

    The row may be one that the site keeps, such as ``user.profile``, or come from a replica. *read* is called again
    under the lock, so that what it sets stays. What is no stored row is returned as it is; None if the row is gone
    or another one by now.
    """
    obj = read()
    if not isinstance(obj, models.Model) or obj._state.adding:  # noqa: SLF001 - Django's documented API
        return obj
    model = type(obj)
    alias = router.db_for_write(model, instance=obj)
    if _lock(model, alias, obj.pk) is None:
        return None
    again = read()
    if again is obj:
        obj.refresh_from_db(using=alias)
        again = read()
    elif again is not None and again._state.db != alias:  # noqa: SLF001 - Django's documented API
        again.refresh_from_db(using=alias)
    return again if again is not None and again.pk == obj.pk else None


def using_write_db(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Return *rows* from the database that they are written to, unless ``using()`` has chosen another."""
    return rows.using(rows._db or router.db_for_write(rows.model))  # type: ignore[attr-defined] # noqa: SLF001


def _own_tables(model: type[models.Model], alias: str) -> Sequence[str]:
    # Not those that a manager joins.
    if not connections[alias].features.has_select_for_update_of:
        return ()
    parents = model._meta.concrete_model._meta.parents.values()  # type: ignore[union-attr] # noqa: SLF001
    return ("self", *(link.name for link in parents if link is not None))


def m2m_pks(obj: Any, field: Any) -> QuerySet[Any]:
    """Return the primary keys in the many-to-many set *field* of *obj*, including hidden rows."""
    links: models.Manager[Any] = field.remote_field.through._base_manager  # noqa: SLF001 - Django's documented API
    rows = links.using(obj._state.db).filter(**{field.m2m_field_name(): obj.pk})  # noqa: SLF001
    return rows.values_list(field.m2m_reverse_field_name(), flat=True)
