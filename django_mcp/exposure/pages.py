"""One page of rows: as many as fit, and where the next one begins."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from django.db.models import QuerySet, prefetch_related_objects
from pydantic_core import to_json

from django_mcp.exposure.columns import Showing, serialize_row
from django_mcp.exposure.exposed import Column, Exposed
from django_mcp.exposure.fetching import load_sets, with_relations, without_weight
from django_mcp.exposure.ordering import Sorting
from django_mcp.exposure.viewing import Viewer, find_row

MOST_LOOKED_AT = 200
"""Rows that one call looks at where each has to be asked about, which may be a query for each."""
BATCH = 100
COUNTED = 1000
"""Beyond so many, rows are not counted: a count costs as much as there are rows."""
TEXT_IN_LISTS = 400
"""The most characters of one text where there are many rows."""
TEXT_ALONE = 20_000
SHORTER = (5000, 1000, TEXT_IN_LISTS, 100)
"""The most characters of one text, tried in turn where a single row is too long for an answer."""


@dataclass(frozen=True, slots=True)
class Page:
    """Rows as JSON.

    Attributes:
        rows: an object each.
        place: of the last row that was looked at, where there is more behind it.
        was_cut: there are fewer rows than asked for, for else they had too many characters.
    """

    rows: list[dict[str, Any]]
    place: Sequence[Any] | None
    was_cut: bool = False


def read_page(
    exposed: Exposed,
    viewer: Viewer,
    rows: QuerySet[Any],
    sorting: Sorting,
    columns: Sequence[Column],
    limit: int,
    place: Sequence[Any] | None,
) -> Page:
    """The rows behind *place* that exist for the caller, *limit* of them at most.

    Raises:
        InvalidParams: *place* is of another sorting.
    """
    showing = Showing(viewer, exposed, TEXT_IN_LISTS)
    found = objects(exposed, viewer, with_columns(exposed, viewer, rows, columns), sorting, limit, place)
    load_sets(found.objects, columns, exposed, viewer)
    shown: list[dict[str, Any]] = []
    room = exposed.resource.max_characters
    for at, obj in enumerate(found.objects):
        row = serialize_row(exposed, obj, columns, showing) if shown else whole_row(exposed, obj, columns, showing)
        room -= len(to_json(row)) + 2
        if room < 0 and shown:
            return Page(shown, sorting.place(found.objects[at - 1]), was_cut=True)
        shown.append(row)
    return Page(shown, found.place)


def whole_row(exposed: Exposed, obj: Any, columns: Sequence[Column], showing: Showing) -> dict[str, Any]:
    """A row that is to be shown whatever its length: its texts, and what has no shape, are cut until it fits."""
    row = serialize_row(exposed, obj, columns, showing)
    for most in SHORTER:
        if len(to_json(row)) <= exposed.resource.max_characters:
            break
        row = serialize_row(exposed, obj, columns, replace(showing, most_characters=min(most, showing.most_characters)))
        row |= {column.name: _bounded(row[column.name], column.schema, most) for column in columns}
    return row


def _bounded(value: Any, schema: Mapping[str, Any], most: int) -> Any:
    """A list, or an object of no declared shape, in *most* characters."""
    if not isinstance(value, list | dict) or len(to_json(value)) <= most:
        return value
    if not {"type", "anyOf", "$ref"} & schema.keys():
        text = to_json(value).decode()
        return f"{text[:most]}… ({len(text) - most} more characters)"
    if isinstance(value, dict):
        return value
    lengths = accumulate(len(to_json(each)) + 1 for each in value)
    return [each for each, length in zip(value, lengths, strict=True) if length < most]


def read_row(exposed: Exposed, viewer: Viewer, value: str) -> dict[str, Any] | None:
    """What is shown of the row that *value* addresses; None where it does not exist for the caller."""
    return show_row(exposed, viewer, find_row(exposed, viewer, value))


def show_row(exposed: Exposed, viewer: Viewer, rows: QuerySet[Any]) -> dict[str, Any] | None:
    """What is shown of the first of *rows*, which came through the door; None where there is none for the caller."""
    for obj in with_columns(exposed, viewer, rows, exposed.columns)[:1]:
        if viewer.sees(exposed, obj):
            load_sets([obj], exposed.columns, exposed, viewer)
            return whole_row(exposed, obj, exposed.columns, Showing(viewer, exposed, TEXT_ALONE, in_full=True))
    return None


def with_columns(exposed: Exposed, viewer: Viewer, rows: QuerySet[Any], columns: Sequence[Column]) -> QuerySet[Any]:
    """*rows* with all that *columns* show, but for what ``load_sets`` puts on objects."""
    return without_weight(with_relations(rows, columns, exposed, viewer), columns, exposed)


@dataclass(frozen=True, slots=True)
class Found:
    """Objects, and where the next ones begin, if there are any."""

    objects: list[Any]
    place: Sequence[Any] | None


def objects(
    exposed: Exposed,
    viewer: Viewer,
    rows: QuerySet[Any],
    sorting: Sorting,
    limit: int,
    place: Sequence[Any] | None,
) -> Found:
    """The objects behind *place* that exist for the caller, *limit* of them at most.

    Raises:
        InvalidParams: *place* is of another sorting.
    """
    ordered = sorting.sorted(rows)
    if not exposed.resource.checks_each_row:
        found = _first(limit + 1, [ordered] if place is None else sorting.after(ordered, place))
        more = len(found) > limit
        return Found(found[:limit], sorting.place(found[limit - 1]) if more else None)
    seen: list[Any] = []
    for _ in range(MOST_LOOKED_AT // BATCH):
        batch = _first(BATCH, [ordered] if place is None else sorting.after(ordered, place))
        for obj in batch:
            if viewer.sees(exposed, obj):
                if len(seen) == limit:
                    return Found(seen, sorting.place(seen[-1]))
                seen.append(obj)
        if len(batch) < BATCH:
            return Found(seen, None)
        place = sorting.place(batch[-1])
    return Found(seen, place)


def _first(most: int, parts: Sequence[QuerySet[Any]]) -> list[Any]:
    """The first objects of querysets of one kind that come one after the other."""
    found: list[Any] = []
    for part in parts:
        found += part.prefetch_related(None)[: most - len(found)]
        if len(found) == most:
            break
    # Once for all of them, so that a page takes as many queries wherever it is.
    for part in parts[:1]:
        prefetch_related_objects(found, *part._prefetch_related_lookups)  # type: ignore[attr-defined]  # noqa: SLF001
    return found


def count(exposed: Exposed, rows: QuerySet[Any]) -> int | None:
    """How many rows there are; None where they are too many to count, or each has to be asked about."""
    if exposed.resource.checks_each_row:
        return None
    counted = rows.order_by()[: COUNTED + 1].count()
    return counted if counted <= COUNTED else None
