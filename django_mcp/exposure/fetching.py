"""Reading rows with all that is shown of them, in a number of queries that does not depend on how many there are."""

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

from django.db import models
from django.db.models import F, Prefetch, QuerySet, Window
from django.db.models.constants import LOOKUP_SEP
from django.db.models.fields import related_descriptors
from django.db.models.functions import RowNumber

from django_mcp.exposure.columns import FunctionColumn, LinkColumn, SetColumn, rows_attribute
from django_mcp.exposure.exposed import Column, Exposed
from django_mcp.exposure.field_types import is_json, value_field
from django_mcp.exposure.paths import Path
from django_mcp.exposure.viewing import Viewer

MORE_OF_A_SET = 200
"""How many rows of a set are looked at where the database cannot tell which of them the caller may see."""


def with_relations(rows: QuerySet[Any], columns: Iterable[Column], exposed: Exposed, viewer: Viewer) -> QuerySet[Any]:
    """*rows* with what *columns* need of other models: joined where all of it exists for the caller, else apart."""
    joined: list[str] = list(exposed.resource.select_related)
    apart: dict[str, Any] = {}
    ours: set[str] = set()
    columns = list(columns)
    unread: list[str] = []
    for prefix, relation, path in _relations(columns):
        names = _unread(prefix, relation, columns, exposed)
        if not _is_own((*path.hops, path.field)[0]):  # see load_sets
            continue
        where = _accessor(prefix, path)
        if _is_set(relation):
            apart[where] = _set(prefix, relation, exposed, viewer, names)
            continue
        behind = viewer.behind(relation, exposed)
        parent = prefix.rpartition(LOOKUP_SEP)[0]
        if behind is None and (not parent or parent in joined):
            if prefix not in exposed.resource.select_related:
                unread += [f"{prefix}{LOOKUP_SEP}{name}" for name in names]
            joined.append(prefix)
            continue
        if behind is None:
            behind = relation.related_model._base_manager.all()  # noqa: SLF001 - Django's documented API
        apart[where] = Prefetch(where, queryset=_alone(behind).defer(*names))
        ours |= {prefix, where}
    rows = _without(rows, ours) if ours else rows
    if joined := [each for each in joined if not _leads_over(each, ours)]:
        rows = rows.select_related(*joined)
    if unread := [each for each in unread if not _leads_over(each, ours)]:
        rows = rows.defer(*unread)
    declared = [each for each in exposed.resource.prefetch_related if each not in apart and not _leads_over(each, ours)]
    return rows.prefetch_related(*declared, *apart.values())


def _unread(prefix: str, relation: Any, columns: Sequence[Column], exposed: Exposed) -> list[str]:
    """Columns of the rows at the end of a relation that nothing shows, so that they are not read at all."""
    target = exposed.rules_of(relation.related_model)
    if target is not None and target.resource.checks_each_row:
        return []  # a site's own code may look at anything
    if any(isinstance(column, FunctionColumn) for column in exposed.columns):
        return []
    read = {column.path.source for column in columns if column.path}
    titles = set() if target is None or not target.is_sound else {target.lookup.name, target.resource.title_field}
    return [
        each.name
        for each in relation.related_model._meta.concrete_fields  # noqa: SLF001 - Django's documented API
        if not (each.unique or each.is_relation or each.name in titles)
        and f"{prefix}{LOOKUP_SEP}{each.name}" not in read
    ]


def _without(rows: QuerySet[Any], ours: set[str]) -> QuerySet[Any]:
    """*rows* without what the site itself joins or prefetches over *ours*: Django would not fetch that once more.

    What a join brought would be shown then, whether it exists for the caller or not.
    """
    rows = rows.all()
    joined = rows.query.select_related
    rows.query.select_related = _cut(joined, "", ours) if isinstance(joined, dict) else False
    fetched: Any = rows
    kept = [each for each in fetched._prefetch_related_lookups if not _leads_over(each, ours)]  # noqa: SLF001
    return rows.prefetch_related(None).prefetch_related(*kept)


def _cut(joined: dict[str, Any], before: str, ours: set[str]) -> dict[str, Any]:
    return {
        name: _cut(behind, f"{before}{name}{LOOKUP_SEP}", ours)
        for name, behind in joined.items()
        if before + name not in ours
    }


def _leads_over(lookup: Any, ours: set[str]) -> bool:
    path = getattr(lookup, "prefetch_to", lookup)
    return any(f"{path}{LOOKUP_SEP}".startswith(f"{each}{LOOKUP_SEP}") for each in ours)


def _alone(rows: QuerySet[Any]) -> QuerySet[Any]:
    """*rows* without rows of other models, which have to come through their own doors."""
    return rows.select_related(None).prefetch_related(None)


def without_weight(rows: QuerySet[Any], columns: Iterable[Column], exposed: Exposed) -> QuerySet[Any]:
    """*rows* without their long columns that nobody is going to look at."""
    shown = {column.path.source for column in columns if column.path}
    shown |= {exposed.lookup.name, exposed.resource.title_field, exposed.resource.modified_field}
    if exposed.resource.checks_each_row or any(isinstance(column, FunctionColumn) for column in exposed.columns):
        return rows  # somebody's code may look at anything
    heavy = [
        each.name
        for each in exposed.options.concrete_fields
        if (isinstance(value_field(each), models.TextField | models.BinaryField) or is_json(value_field(each)))
        and each.name not in shown
    ]
    return rows.defer(*heavy) if heavy else rows


def _relations(columns: Iterable[Column]) -> Iterable[tuple[str, Any, Path]]:
    """The relations that have to be there, each once, those before the ones behind them."""
    seen: dict[str, tuple[str, Any, Path]] = {}
    for column in columns:
        if column.path is None:
            continue
        for prefix, relation in column.path.prefixes:
            is_key = relation is column.path.field and not isinstance(column, LinkColumn | SetColumn)
            if not is_key:
                seen.setdefault(prefix, (prefix, relation, column.path))
    return sorted(seen.values(), key=lambda each: each[0].count(LOOKUP_SEP))


def _is_set(relation: Any) -> bool:
    return bool(relation.one_to_many or relation.many_to_many)


def _accessor(prefix: str, path: Path) -> str:
    """The names of the attributes that lead along *prefix*; of a set the one that its rows are put on."""
    depth = prefix.count(LOOKUP_SEP) + 1
    names = []
    for at, relation in enumerate((*path.hops, path.field)[:depth]):
        if _is_set(relation):
            names.append(relation.name if at == depth - 1 else rows_attribute(relation.name))
        else:
            names.append(relation.get_accessor_name() if relation.auto_created else relation.name)
    return LOOKUP_SEP.join(names)


def _is_own(relation: Any) -> bool:
    """Return True unless *relation* is a set with a manager that is not Django's, which may take no sliced queryset."""
    if not _is_set(relation):
        return True
    accessor = relation.get_accessor_name() if relation.auto_created else relation.name
    descriptor = inspect.getattr_static(relation.model, accessor, None)
    return type(descriptor).__module__ == related_descriptors.__name__


def load_sets(objects: Sequence[Any], columns: Iterable[Column], exposed: Exposed, viewer: Viewer) -> None:
    """Put the rows of sets on *objects* that ``with_relations`` cannot prefetch: of generic relations, for instance.

    Their managers are not asked; the sets are what the database joins, in two queries for each.
    """
    columns = list(columns)
    relations = [each for each in _relations(columns) if not _is_own((*each[2].hops, each[2].field)[0])]
    for prefix, relation, _path in relations:
        if not _is_set(relation) or not objects:
            continue
        behind: list[Any] = []
        for further, hop, path in relations:
            if further.startswith(f"{prefix}{LOOKUP_SEP}"):
                rows = viewer.behind(hop, exposed)
                rows = hop.related_model._base_manager.all() if rows is None else rows  # noqa: SLF001 - documented API
                where = _accessor(further, path).partition(LOOKUP_SEP)[2]
                unread = _unread(further, hop, columns, exposed)
                behind.append(Prefetch(where, queryset=_alone(rows).defer(*unread)))
        own = _rows_of(relation, exposed, viewer).defer(*_unread(prefix, relation, columns, exposed))
        _put_set(objects, relation, own.prefetch_related(*behind), exposed)


def _put_set(objects: Sequence[Any], relation: Any, rows: QuerySet[Any], exposed: Exposed) -> None:
    database = objects[0]._state.db  # noqa: SLF001 - Django's documented API
    rows, keys, own = rows.using(database), [obj.pk for obj in objects], exposed.options.pk
    if (owner := getattr(relation, "object_id_field_name", None)) is not None:
        # A generic relation; its rows may hold keys as text, which PostgreSQL does not join to numbers.
        given = {relation.content_type_field_name: relation.get_content_type(), f"{owner}__in": keys}
        base, key = rows.order_by().filter(**given), "pk"
    else:
        owner, key = "pk", f"{relation.name}{LOOKUP_SEP}pk"
        given = {"pk__in": keys, f"{key}__in": rows.order_by().values("pk")}
        base = exposed.model._base_manager.using(database).filter(**given)  # noqa: SLF001 - Django's documented API
    ranked = base.annotate(mcp_rank=Window(RowNumber(), partition_by=F(owner), order_by=F(key).asc()))
    ranked = ranked.filter(mcp_rank__lte=_most_of(relation, exposed)).order_by("mcp_rank")
    pairs = [(own.to_python(owner), row) for owner, row in ranked.values_list(owner, key)]
    found = {row.pk: row for row in rows.filter(pk__in={row for _, row in pairs})}
    for obj in objects:
        its = [found[row] for owner, row in pairs if owner == obj.pk and row in found]
        setattr(obj, rows_attribute(relation.name), its)


def _rows_of(relation: Any, exposed: Exposed, viewer: Viewer) -> QuerySet[Any]:
    rows = viewer.behind(relation, exposed)
    if rows is None:
        rows = relation.related_model._default_manager.all()  # noqa: SLF001 - Django's documented API
    return _alone(rows)


def _most_of(relation: Any, exposed: Exposed) -> int:
    target = exposed.rules_of(relation.related_model)
    each_is_asked_about = target is not None and target.resource.checks_each_row
    return MORE_OF_A_SET if each_is_asked_about else exposed.resource.max_related


def _set(name: str, relation: Any, exposed: Exposed, viewer: Viewer, unread: Sequence[str]) -> "Prefetch[Any]":
    accessor = relation.get_accessor_name() if relation.auto_created else relation.name
    rows = _rows_of(relation, exposed, viewer).defer(*unread).order_by("pk")[: _most_of(relation, exposed)]
    return Prefetch(accessor, queryset=rows, to_attr=rows_attribute(name))
