"""Sorting rows, and going on behind one of them, whatever was added or deleted in between.

Pages begin behind the values of a row instead of after so many rows (keyset pagination): what was there throughout is
in exactly one page, and a deep page costs what the first one does where there is an index.
"""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from django.db import models
from django.db.models import F, Func, Q, QuerySet
from django.db.models.expressions import OrderBy
from django.db.models.functions import Left
from django.db.models.lookups import Exact, GreaterThan, IsNull, LessThan

from django_mcp.exposure.cursors import invalid
from django_mcp.exposure.exposed import Key
from django_mcp.exposure.field_types import value_field
from django_mcp.exposure.guards import guarded
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.written import as_value, vendor_of, written

LETTERS = 480
"""Characters of all texts that rows are sorted by: a cursor holds them, and must be short enough for a header."""


class Sorting:
    """Rows in an order that leaves no two of them in the same place.

    Args:
        keys: by which they are sorted, the last of them unique.
        viewer: what of other models exists for them decides where rows stand.
        exposed: whose rows they are.
    """

    def __init__(self, keys: Sequence[Key], viewer: Viewer, exposed: Any) -> None:
        self._keys = keys
        self._ends = [key.end for key in keys]
        self._names: list[str] = []
        self._nullable: list[bool] = []
        self._computed: dict[str, Any] = {}
        most = LETTERS // max(1, sum(map(_is_text, self._ends)))
        for at, key in enumerate(keys):
            expression, is_cut = guarded(key.path, viewer, exposed), _is_longer(self._ends[at], most)
            is_plain = expression is None and not is_cut and not key.path.hops and not key.path.field.is_relation
            self._names.append(key.path.field.attname if is_plain else f"mcp_key_{at}")
            self._nullable.append(expression is not None or bool(key.path.hops) or key.path.is_nullable)
            if is_plain:
                continue
            value = F(key.path.column) if expression is None else expression
            self._computed[self._names[at]] = Left(value, most) if is_cut else value
            if is_cut:
                self._ends[at] = models.CharField()

    @property
    def _mark(self) -> int:
        """Differs from that of another sorting, such as this one before the site declared another order."""
        ends = zip(self._keys, self._ends, strict=True)
        said = [f"{key.path.column} {key.is_descending} {end.get_internal_type()}" for key, end in ends]
        return zlib.crc32(",".join(said).encode())

    def sorted(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """*rows* in order, with where they stand."""
        vendor = vendor_of(rows)
        with_keys: QuerySet[Any] = rows.annotate(**self._computed)
        places = {f"mcp_place_{at}": written(F(name), vendor) for at, name in enumerate(self._names)}
        with_places: QuerySet[Any] = with_keys.annotate(**places)
        return with_places.order_by(*map(self._order, range(len(self._keys))))

    def _order(self, at: int) -> OrderBy:
        """Nothing comes after everything: as PostgreSQL's indexes have it, and said aloud for the others."""
        nulls, descending = self._nullable[at] or None, self._keys[at].is_descending
        return OrderBy(
            F(self._names[at]),
            descending=descending,
            nulls_first=nulls if descending else None,
            nulls_last=None if descending else nulls,
        )

    def place(self, obj: Any) -> list[Any]:
        """Where a row of ``sorted`` stands, as JSON can hold it."""
        return [self._mark, *(getattr(obj, f"mcp_place_{at}") for at in range(len(self._keys)))]

    def after(self, rows: QuerySet[Any], place: Sequence[Any]) -> list[QuerySet[Any]]:
        """Those of *rows*, which ``sorted`` gave, that stand behind *place*: one queryset after the other.

        There are several, with no row in two of them, for databases find the place in an index only where the
        condition is one range of it: an OR has them read all that comes before.

        Raises:
            InvalidParams: *place* is of another sorting.
        """
        mark, *found = place
        if mark != self._mark or len(found) != len(self._keys):
            raise invalid()
        vendor = vendor_of(rows)
        ends = zip(found, self._ends, strict=True)
        values = [None if value is None else as_value(value, end, vendor) for value, end in ends]
        return [rows.filter(behind) for behind in self._behind(values, vendor)]

    def _behind(self, values: Sequence[Any], vendor: str) -> Iterator[Q]:
        """What is the same up to some key and beyond the place by it, for each key from the last to the first."""
        # Of a row SQLite looks up the first value alone; and there two queries cost hardly more than one.
        last = len(values) - 1 if vendor == "sqlite" else self._compared_at_once(values)
        for at in range(last, -1, -1):
            equal = Q(*(self._same(key, values[key]) for key in range(at)))
            end = len(values) if at == last else at + 1
            for beyond in self._beyond(at, values[at:end]):
                yield equal & beyond

    def _compared_at_once(self, values: Sequence[Any]) -> int:
        """From which key on all are compared as one row: they go one way, and there is no null among them."""
        at = len(values) - 1
        while (
            at > 0
            and not self._nullable[at]
            and values[at - 1] is not None
            and self._keys[at - 1].is_descending == self._keys[at].is_descending
        ):
            at -= 1
        return at

    def _same(self, at: int, value: Any) -> Q:
        name = F(self._names[at])
        return Q(IsNull(name, True)) if value is None else Q(Exact(name, value))

    def _beyond(self, at: int, values: Sequence[Any]) -> Iterator[Q]:
        names, descending = [F(name) for name in self._names[at : at + len(values)]], self._keys[at].is_descending
        if values[0] is not None:
            yield Q(_beyond(names, values, "<" if descending else ">"))
            if self._nullable[at] and not descending:
                yield Q(IsNull(names[0], True))
        elif descending:
            yield Q(IsNull(names[0], False))


def _beyond(names: Sequence[Any], values: Sequence[Any], sign: str) -> Any:
    """A comparison of rows, ``(a, b) > (1, 2)``: one range of an index over *names*."""
    if len(names) == 1:
        return LessThan(names[0], values[0]) if sign == "<" else GreaterThan(names[0], values[0])
    # Neither of both is a value of its own, so it does not matter of which field they are said to be.
    sides = [Func(*side, template="(%(expressions)s)", output_field=models.Field()) for side in (names, values)]
    return Func(*sides, template="%(expressions)s", arg_joiner=f" {sign} ", output_field=models.BooleanField())


def _is_text(end: Any) -> bool:
    return isinstance(value_field(end), models.CharField | models.TextField)


def _is_longer(end: Any, most: int) -> bool:
    """Whether a text may be too long for a cursor, so that rows are sorted by how it begins."""
    return _is_text(end) and (end.max_length is None or end.max_length > most)
