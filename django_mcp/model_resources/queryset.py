"""Querysets of a request: related rows, search, filters and aggregates."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.db import connections, models
from django.db.models import Count, F, Prefetch, Q, QuerySet, Value, Window
from django.db.models.constants import LOOKUP_SEP
from django.db.models.fields import related_descriptors
from django.db.models.functions import Cast, RowNumber
from django.utils.text import smart_split, unescape_string_literal

from django_mcp.model_resources.access import RowAccess, mask_hidden, rows_with, visibility_q, visible_lookup_q
from django_mcp.model_resources.bound_resource import FUNCTIONS, PARTS, BoundResource, Dimension, Measure, OutputField
from django_mcp.model_resources.filters import Filter, MethodFilter, SearchField
from django_mcp.model_resources.paths import Path
from django_mcp.model_resources.schema import as_decimal, column_value, is_json, to_json_value, value_field, with_places
from django_mcp.model_resources.serializers import (
    TITLED,
    FunctionField,
    RelatedLinkField,
    RelatedListField,
    rows_attribute,
    serialize_link,
)
from django_mcp.primitives.base import ToolError

MAX_DIMENSIONS = 3
COUNT = "count"


def aggregate(
    rows: QuerySet[Any],
    measures: Sequence[str],
    dimensions: Sequence[str],
    most: int,
    access: RowAccess,
    bound: BoundResource,
) -> list[dict[str, Any]]:
    """Return a dict per group of *rows*, ordered by dimension: up to *most*, plus one if there are more."""
    if rows.query.annotations or not bound.has_plain_rows:
        # Start from primary keys, so that joins and annotations of the site's queryset do not affect the result.
        rows = bound.model._base_manager.using(rows.db).filter(pk__in=rows.order_by().values("pk"))  # noqa: SLF001
    names = {f"mcp_by_{at}": name for at, name in enumerate(dimensions)}
    rows = rows.annotate(**{key: _dimension(bound.dimensions[name], access, bound) for key, name in names.items()})
    worked = {f"mcp_of_{at}": name for at, name in enumerate(measures)}
    functions = {key: _measure(bound.measures.get(name), access, bound) for key, name in worked.items()}
    if not dimensions:
        return [_named(rows.aggregate(**functions), worked, bound)]
    groups = list(rows.order_by().values(*names).annotate(**functions).order_by(*names)[: most + 1])
    shown = [_named(group, {**names, **worked}, bound) for group in groups]
    for key, name in names.items():
        if (target := bound.dimensions[name].target) is not None:
            links = _links(target, [group[key] for group in groups], access)
            for group, row in zip(groups, shown, strict=True):
                row[name] = links.get(group[key])
    return shown


def _links(target: BoundResource, keys: Sequence[Any], access: RowAccess) -> dict[Any, Any]:
    rows = add_titles(
        access.get_queryset(target).filter(pk__in={key for key in keys if key is not None}), target, access
    )
    return {row.pk: serialize_link(target, row, access) for row in rows.order_by()}


def _named(group: Mapping[str, Any], names: Mapping[str, str], bound: BoundResource) -> dict[str, Any]:
    return {
        name: _shown(group[key], bound.measures.get(name) or bound.dimensions.get(name)) for key, name in names.items()
    }


def _shown(value: Any, of: Measure | Dimension | None) -> Any:
    if of is None:
        return to_json_value(value)
    field = of.path.field
    if isinstance(of, Measure):
        value = _exact(as_decimal(field, value), of)
    return column_value(field, value) if of.has_column_values else to_json_value(value)


def _exact(value: Any, measure: Measure) -> Any:
    places = getattr(measure.path.value_field, "decimal_places", None)
    # Averages get two more.
    more = 2 if measure.function == "avg" else 0
    return with_places(value, None if places is None else places + more)


def _value(path: Path, access: RowAccess, bound: BoundResource) -> Any:
    expression = mask_hidden(path, access, bound)
    return F(path.column) if expression is None else expression


def _dimension(dimension: Dimension, access: RowAccess, bound: BoundResource) -> Any:
    value = _value(dimension.path, access, bound)
    return PARTS[dimension.part](value) if dimension.part else value


def _measure(measure: Measure | None, access: RowAccess, bound: BoundResource) -> Any:
    if measure is None:
        return Count("pk")
    return FUNCTIONS[measure.function](_value(measure.path, access, bound))


MORE_OF_A_SET = 200
"""Rows of a set to load if ``has_view_permission`` is checked for each."""


def select_and_prefetch(
    rows: QuerySet[Any], columns: Iterable[OutputField], bound: BoundResource, access: RowAccess
) -> QuerySet[Any]:
    """Return *rows* with the related rows that *columns* need, joined if all of them are visible, else prefetched."""
    joined: list[str] = list(bound.resource.select_related)
    apart: dict[str, Any] = {}
    ours: set[str] = set()
    columns = list(columns)
    unread: list[str] = []
    for prefix, relation, path in _relations(columns, bound):
        names = _unread(prefix, relation, columns, bound)
        if not _is_own((*path.hops, path.field)[0]):  # handled by load_related_sets
            continue
        where = _accessor(prefix, path)
        if _is_set(relation):
            apart[where] = _set(prefix, relation, bound, access, names)
            continue
        behind = access.related_queryset(relation, bound)
        parent = prefix.rpartition(LOOKUP_SEP)[0]
        if behind is None and (not parent or parent in joined) and not _needs_titles(relation, bound):
            if prefix not in bound.resource.select_related:
                unread += [f"{prefix}{LOOKUP_SEP}{name}" for name in names]
            joined.append(prefix)
            continue
        if behind is None:
            behind = relation.related_model._base_manager.all()  # noqa: SLF001 - Django's documented API
        apart[where] = Prefetch(where, queryset=_as_titled(_alone(behind).defer(*names), relation, bound, access))
        ours |= {prefix, where}
    rows = _without(rows, ours) if ours else rows
    if joined := [path for path in joined if not _leads_over(path, ours)]:
        rows = rows.select_related(*joined)
    if unread := [path for path in unread if not _leads_over(path, ours)]:
        rows = rows.defer(*unread)
    declared = [path for path in bound.resource.prefetch_related if path not in apart and not _leads_over(path, ours)]
    return rows.prefetch_related(*declared, *apart.values())


def add_titles(rows: QuerySet[Any], bound: BoundResource, access: RowAccess) -> QuerySet[Any]:
    if bound.title_output_field is None or bound.title_output_field.path is None:
        return rows
    columns = [bound.title_output_field]
    rows = annotate(rows, [bound.title_output_field.path.source], access, bound)
    found: QuerySet[Any] = select_and_prefetch(rows, columns, bound, access).annotate(**{TITLED: Value(1)})
    return found


def _as_titled(rows: QuerySet[Any], relation: Any, bound: BoundResource, access: RowAccess) -> QuerySet[Any]:
    target = bound.on_server(relation.related_model)
    return rows if target is None else add_titles(rows, target, access)


def _needs_titles(relation: Any, bound: BoundResource) -> bool:
    target = bound.on_server(relation.related_model)
    return target is not None and target.title_output_field is not None and target.title_output_field.path is not None


def _unread(prefix: str, relation: Any, columns: Sequence[OutputField], bound: BoundResource) -> list[str]:
    """Return the columns of related rows to defer, since nothing shows them."""
    rules = bound.rules_of(relation.related_model)
    target = rules.own
    is_method = target is not None and target.title_output_field is not None and target.title_output_field.path is None
    if rules.checks_each_row or is_method:
        return []  # a site's own code may look at anything
    if any(isinstance(column, FunctionField) for column in bound.output_fields):
        return []
    read = {column.path.source for column in columns if column.path}
    titles = set() if target is None or not target.is_sound else {target.lookup.name, target.title_field}
    return [
        column.name
        for column in relation.related_model._meta.concrete_fields  # noqa: SLF001 - Django's documented API
        if not (column.unique or column.is_relation or column.name in titles)
        and f"{prefix}{LOOKUP_SEP}{column.name}" not in read
    ]


def _without(rows: QuerySet[Any], ours: set[str]) -> QuerySet[Any]:
    rows = rows.all()
    joined = rows.query.select_related
    # Django would not fetch those relations again, and a join includes hidden rows.
    rows.query.select_related = _cut(joined, "", ours) if isinstance(joined, dict) else False
    fetched: Any = rows
    kept = [lookup for lookup in fetched._prefetch_related_lookups if not _leads_over(lookup, ours)]  # noqa: SLF001
    return rows.prefetch_related(None).prefetch_related(*kept)


def _cut(joined: dict[str, Any], before: str, ours: set[str]) -> dict[str, Any]:
    return {
        name: _cut(behind, f"{before}{name}{LOOKUP_SEP}", ours)
        for name, behind in joined.items()
        if before + name not in ours
    }


def _leads_over(lookup: Any, ours: set[str]) -> bool:
    path = getattr(lookup, "prefetch_to", lookup)
    return any(f"{path}{LOOKUP_SEP}".startswith(f"{own}{LOOKUP_SEP}") for own in ours)


def _alone(rows: QuerySet[Any]) -> QuerySet[Any]:
    # Access to related rows is checked separately.
    return rows.select_related(None).prefetch_related(None)


def defer_long_columns(rows: QuerySet[Any], columns: Iterable[OutputField], bound: BoundResource) -> QuerySet[Any]:
    """Return *rows* with long columns deferred that *columns* do not show."""
    shown = {column.path.source for column in columns if column.path}
    shown |= {bound.lookup.name, bound.title_field, bound.resource.modified_field}
    if bound.checks_each_row or any(isinstance(column, FunctionField) for column in bound.output_fields):
        return rows  # the site's code may use any column
    heavy = [
        column.name
        for column in bound.options.concrete_fields
        if (isinstance(value_field(column), models.TextField | models.BinaryField) or is_json(value_field(column)))
        and column.name not in shown
    ]
    return rows.defer(*heavy) if heavy else rows


def _relations(columns: Iterable[OutputField], bound: BoundResource) -> Iterable[tuple[str, Any, Path]]:
    seen: dict[str, tuple[str, Any, Path]] = {}
    for column in columns:
        if column.path is None:
            continue
        for prefix, relation in column.path.prefixes:
            is_key = relation is column.path.field and not isinstance(column, RelatedLinkField | RelatedListField)
            if not is_key or bound.guards_key(relation):
                seen.setdefault(prefix, (prefix, relation, column.path))
    # Parents before children.
    return sorted(seen.values(), key=lambda relation: relation[0].count(LOOKUP_SEP))


def _is_set(relation: Any) -> bool:
    return bool(relation.one_to_many or relation.many_to_many)


def _accessor(prefix: str, path: Path) -> str:
    """Return the attribute path along *prefix*; for a set, with the attribute that its rows are put on."""
    depth = prefix.count(LOOKUP_SEP) + 1
    names = []
    for at, relation in enumerate((*path.hops, path.field)[:depth]):
        if _is_set(relation):
            names.append(relation.name if at == depth - 1 else rows_attribute(relation.name))
        else:
            names.append(relation.get_accessor_name() if relation.auto_created else relation.name)
    return LOOKUP_SEP.join(names)


def _is_own(relation: Any) -> bool:
    # A manager that is not Django's may not support prefetching a slice.
    if not _is_set(relation):
        return True
    accessor = relation.get_accessor_name() if relation.auto_created else relation.name
    descriptor = inspect.getattr_static(relation.model, accessor, None)
    return type(descriptor).__module__ == related_descriptors.__name__


def load_related_sets(
    objects: Sequence[Any], columns: Iterable[OutputField], bound: BoundResource, access: RowAccess
) -> None:
    """Load the sets that ``select_and_prefetch`` cannot prefetch, such as generic relations, onto *objects*.

    Their managers are bypassed: the database joins the rows, with two queries per set.
    """
    columns = list(columns)
    relations = [entry for entry in _relations(columns, bound) if not _is_own((*entry[2].hops, entry[2].field)[0])]
    for prefix, relation, _path in relations:
        if not _is_set(relation) or not objects:
            continue
        behind: list[Any] = []
        for further, hop, path in relations:
            if further.startswith(f"{prefix}{LOOKUP_SEP}"):
                rows = access.related_queryset(hop, bound)
                rows = hop.related_model._base_manager.all() if rows is None else rows  # noqa: SLF001 - documented API
                where = _accessor(further, path).partition(LOOKUP_SEP)[2]
                unread = _unread(further, hop, columns, bound)
                behind.append(Prefetch(where, queryset=_alone(rows).defer(*unread)))
        own = _rows_of(relation, bound, access).defer(*_unread(prefix, relation, columns, bound))
        _put_set(objects, relation, own.prefetch_related(*behind), bound)


def _put_set(objects: Sequence[Any], relation: Any, rows: QuerySet[Any], bound: BoundResource) -> None:
    database = objects[0]._state.db  # noqa: SLF001 - Django's documented API
    rows, keys, own = rows.using(database), [obj.pk for obj in objects], bound.options.pk
    if (owner := getattr(relation, "object_id_field_name", None)) is not None:
        # A generic relation may store keys as text, which PostgreSQL does not join to numbers.
        given = {relation.content_type_field_name: relation.get_content_type(), f"{owner}__in": keys}
        base, key = rows.order_by().filter(**given), "pk"
    else:
        owner, key = "pk", f"{relation.name}{LOOKUP_SEP}pk"
        given = {"pk__in": keys, f"{key}__in": rows.order_by().values("pk")}
        base = bound.model._base_manager.using(database).filter(**given)  # noqa: SLF001 - Django's documented API
    ranked = base.annotate(mcp_rank=Window(RowNumber(), partition_by=F(owner), order_by=F(key).asc()))
    ranked = ranked.filter(mcp_rank__lte=_most_of(relation, bound)).order_by("mcp_rank")
    pairs = [(own.to_python(owner), row) for owner, row in ranked.values_list(owner, key)]
    found = {row.pk: row for row in rows.filter(pk__in={row for _, row in pairs})}
    for obj in objects:
        its = [found[row] for owner, row in pairs if owner == obj.pk and row in found]
        setattr(obj, rows_attribute(relation.name), its)


def _rows_of(relation: Any, bound: BoundResource, access: RowAccess) -> QuerySet[Any]:
    rows = access.related_queryset(relation, bound)
    if rows is None:
        rows = relation.related_model._default_manager.all()  # noqa: SLF001 - Django's documented API
    return _as_titled(_alone(rows), relation, bound, access)


def _most_of(relation: Any, bound: BoundResource) -> int:
    return MORE_OF_A_SET if bound.rules_of(relation.related_model).checks_each_row else bound.resource.max_related


def _set(name: str, relation: Any, bound: BoundResource, access: RowAccess, unread: Sequence[str]) -> "Prefetch[Any]":
    accessor = relation.get_accessor_name() if relation.auto_created else relation.name
    rows = _rows_of(relation, bound, access).defer(*unread).order_by("pk")[: _most_of(relation, bound)]
    return Prefetch(accessor, queryset=rows, to_attr=rows_attribute(name))


def annotate(rows: QuerySet[Any], names: Iterable[str], access: RowAccess, bound: BoundResource) -> QuerySet[Any]:
    """Return *rows* with the declared annotations among *names* that are missing.

    An annotation that joins rows is null unless the caller may see all rows of those models.

    Raises:
        ImproperlyConfigured: ``get_queryset`` lacks an annotation of which only the type is declared.
    """
    lacking: dict[str, Any] = {}
    for name in {*names} & bound.annotations.keys() - rows.query.annotations.keys():
        annotation = bound.annotations[name]
        if annotation.expression is None and not rows.query.is_empty():
            msg = f"{bound.resource!r}: get_queryset does not annotate {name!r}, which annotations declares."
            raise ImproperlyConfigured(msg)
        is_seen = all(access.related_queryset(relation, bound) is None for relation in annotation.relations)
        nothing = Cast(Value(None), annotation.field)
        lacking[name] = annotation.expression if annotation.expression is not None and is_seen else nothing
    return rows.annotate(**lacking) if lacking else rows


def apply_filters(
    rows: QuerySet[Any], arguments: Mapping[str, Any], access: RowAccess, bound: BoundResource
) -> QuerySet[Any]:
    given = [filter_ for filter_ in bound.filters if arguments.get(filter_.argument) is not None]
    rows = annotate(rows, [filter_.path.source for filter_ in given if isinstance(filter_, Filter)], access, bound)
    for filter_ in given:
        value = arguments[filter_.argument]
        if isinstance(filter_, MethodFilter):
            rows = _filter_by_method(rows, filter_, value, access, bound)
            continue
        if isinstance(value, list):
            value = tuple(value)
        rows = rows.filter(visible_lookup_q(filter_.path, filter_.lookup, value, access, bound))
    return rows


def _filter_by_method(
    rows: QuerySet[Any], filter_: MethodFilter, value: Any, access: RowAccess, bound: BoundResource
) -> QuerySet[Any]:
    """Return those of *rows* that a method of the declaration returns.

    Raises:
        TypeError: it returns something else than rows of the model.
    """
    found: Any = filter_.method(access.ctx, rows.all(), value)
    of = found.model._meta if isinstance(found, QuerySet) else None  # noqa: SLF001 - Django's documented API
    if of is None or of.concrete_model is not bound.options.concrete_model or found._fields is not None:
        kind = type(found).__name__ if of is None else f"one of {of.label if found._fields is None else 'values'}"
        msg = (
            f"{bound.resource!r}: the filter {filter_.argument!r} must return a queryset of {bound.options.label}, "
            f"not {kind}"
        )
        raise TypeError(msg)
    # Only the keys are taken, so that a method cannot add rows that the caller may not see, or return one twice.
    if found.query.is_sliced or found.query.distinct_fields:  # which need their order
        return rows.filter(pk__in=list(found.values_list("pk", flat=True)))
    return rows.filter(pk__in=found.order_by().values("pk"))


MAX_WORDS = 10
FEW = 1000
"""Up to this number of full-text matches, rows are selected by primary key."""


def search_terms(text: str) -> list[str]:
    """Return the distinct search terms of *text*. A quoted phrase is one term."""
    bits = [
        unescape_string_literal(bit) if len(bit) > 1 and bit[0] == bit[-1] and bit[0] in "\"'" else bit
        for bit in smart_split(text.replace("\0", " "))
    ]
    return [word for word in dict.fromkeys(bit.strip() for bit in bits) if word]


def apply_search(rows: QuerySet[Any], text: str, access: RowAccess, bound: BoundResource) -> QuerySet[Any]:
    """Return the rows in which every term of *text* occurs in some search field, or that full-text search finds.

    Raises:
        ToolError: there are no terms, or too many.
    """
    words = search_terms(text)
    rows = annotate(rows, [field.path.source for field in bound.search_fields], access, bound)
    if not 0 < len(words) <= MAX_WORDS:
        raise ToolError(f"Argument 'query' must have 1 to {MAX_WORDS} search terms, not {len(words)}.")
    fields: Sequence[SearchField] = bound.search_fields
    whole = (
        [search_field for search_field in fields if search_field.lookup == "search"]
        if connections[rows.db].vendor == "postgresql"
        else []
    )
    apart = [search_field for search_field in fields if search_field not in whole and not search_field.is_vector]
    found = Q(pk__in=())
    for field in whole:
        found |= _as_seen(field.path, _in_full_text(field, text, bound.resource.search_config), access, bound)
    if apart:
        found |= Q(*(_anywhere(apart, word, access, bound) for word in words))
    return rows.filter(found) if apart else _by_key(rows, found)


def _by_key(rows: QuerySet[Any], found: Q) -> QuerySet[Any]:
    # PostgreSQL overestimates the frequency of rare words, and would scan the ordering's index instead of the full-text
    # index.
    keys = list(rows.filter(found).order_by().values_list("pk", flat=True)[: FEW + 1])
    return rows.filter(found) if len(keys) > FEW else rows.filter(pk__in=keys)


def _anywhere(fields: Sequence[SearchField], word: str, access: RowAccess, bound: BoundResource) -> Q:
    anywhere = Q(pk__in=())
    for field in fields:
        lookup = "icontains" if field.lookup == "search" else field.lookup
        condition = Q(**{f"{field.path.column}__{lookup}": word})
        anywhere |= _as_seen(field.path, condition, access, bound)
    return anywhere


def _in_full_text(field: SearchField, text: str, config: str | None) -> Q:
    from django.contrib.postgres.search import (  # noqa: PLC0415 - they need psycopg
        SearchQuery,
        SearchVector,
        SearchVectorExact,
    )

    vector = F(field.path.source) if field.is_vector else SearchVector(field.path.source, config=config)
    query = SearchQuery(text.replace("\0", " "), config=config, search_type="websearch")
    return Q(SearchVectorExact(vector, query))


def _as_seen(path: Path, condition: Q, access: RowAccess, bound: BoundResource) -> Q:
    seen = visibility_q(path, access, bound)
    whole = condition if seen is None else seen & condition
    return Q(pk__in=rows_with(bound, whole)) if path.is_many else whole
