"""A field before and after a row is written, as its declaration shows it to the caller."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import models
from django.utils.text import capfirst

from django_mcp.conf import settings
from django_mcp.core.redaction import HIDDEN, is_hidden
from django_mcp.exposure.columns import FunctionColumn, LinkColumn, SetColumn, Showing, serialize_link
from django_mcp.exposure.exposed import Column, Exposed
from django_mcp.exposure.field_types import column_value, to_json_value
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.write_rows import linked, on_writer
from django_mcp.primitives.validation_errors import shortened

MOST_TEXT = 1000
"""Characters of a text that are shown, around where it changes."""
MOST_ROWS = 50
"""Rows that are shown of those that come into a set, or leave it."""
_AROUND = 60
_NOT_SHOWN: Any = object()
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fields:
    """The model's own fields, for one caller.

    Attributes:
        exposed: the model.
        viewer: the caller.
    """

    exposed: Exposed
    viewer: Viewer

    def columns(self, field: Any) -> list[Column]:
        """What the declaration shows of a field: the column of its name, and values of the rows that it leads to."""
        return [each for each in self.exposed.columns if each.name == field.name or _is_behind(each, field)]

    def shows(self, field: Any) -> bool:
        """Whether the caller may read a field, or something of what it leads to."""
        return field == self.exposed.lookup or bool(self.columns(field))

    def change(self, field: Any, row: Any, obj: Any, *, is_given: bool) -> Row:
        """A field that is no set of rows.

        Args:
            field: of the model.
            row: as it is, with its columns; None for one that is created.
            obj: as it would be.
            is_given: the caller gave it.
        """
        before = None if row is None else self._before(field, row)
        after = self._after(field, obj, is_given=is_given)
        if isinstance(before, str) and isinstance(after, str):
            before, after = _around_change(before, after)
        return self._entry(field, before, after, is_new=row is None)

    def set_change(self, field: Any, obj: Any, rows: Any, *, is_new: bool) -> Row | None:
        """A set of rows; None where the caller sees no difference.

        Args:
            field: of the model.
            obj: the row that has it.
            rows: those that are to be in it.
            is_new: the row is created.
        """
        given = {row.pk: row for row in rows}
        if is_new:
            return self._entry(field, None, self._listed(field, given), is_new=True) if given else None
        if not any(isinstance(each, SetColumn) for each in self.columns(field)):
            return self._entry(field, _NOT_SHOWN, self._listed(field, given), is_new=False)
        reached = self.reached(field)
        now = {row.pk: row for row in reached.filter(pk__in=linked(obj, field)) if self._sees(field, row)}
        if now.keys() == given.keys():
            return None
        staying = self._staying(field, {key: row for key, row in now.items() if key in given})
        gone = self._listed(field, {key: row for key, row in now.items() if key not in given})
        new = self._listed(field, {key: row for key, row in given.items() if key not in now})
        return self._entry(field, [*staying, *gone], [*staying, *new], is_new=False)

    def _entry(self, field: Any, before: Any, after: Any, *, is_new: bool) -> Row:
        entry: Row = {"field": field.name, "label": capfirst(str(field.verbose_name))}
        values = {"after": after} if is_new else {"before": before, "after": after}
        shown = {key: value for key, value in values.items() if value is not _NOT_SHOWN}
        if len(shown) < len(values):
            entry["hidden"] = True
        return {**entry, **{key: unless_secret(field.name, each) for key, each in shown.items()}}

    # Values

    def _before(self, field: Any, row: Any) -> Any:
        columns = self.columns(field)
        if not columns:
            return column_value(field, getattr(row, field.attname)) if field == self.exposed.lookup else _NOT_SHOWN
        showing = Showing(self.viewer, self.exposed, MOST_TEXT * 1000)
        value = _one({each.name: each.value(row, showing) for each in columns})
        is_out_of_sight = field.is_relation and _is_empty(value) and getattr(row, field.attname) is not None
        return _NOT_SHOWN if is_out_of_sight else value

    def _after(self, field: Any, obj: Any, *, is_given: bool) -> Any:
        key = getattr(obj, field.attname)
        if key is None:
            return None
        if not field.is_relation:
            return column_value(field, _as_stored(field, key))
        for row in self.reached(field).filter(**{field.target_field.attname: key})[:1]:
            if self._sees(field, row):
                return self.shown(field, row)
        return to_json_value(key) if is_given else _NOT_SHOWN

    def shown(self, field: Any, row: Any) -> Any:
        """A row at the end of a relation."""
        values = {each.name: value for each in self.columns(field) for value in self._part(field, each, row)}
        if values:
            return _one(values)
        target = self.exposed.on_server(field.related_model)
        return to_json_value(row.pk) if target is None else serialize_link(target, row, self.viewer)

    def _part(self, field: Any, column: Column, row: Any) -> Iterator[Any]:
        if _is_behind(column, field):
            yield column_value(column.path.field, getattr(row, column.path.field.attname))
        elif isinstance(column, LinkColumn | SetColumn) and column.target is not None:
            yield serialize_link(column.target, row, self.viewer)
        elif not isinstance(column, FunctionColumn):
            yield to_json_value(row.pk)

    # Rows behind a relation

    def reached(self, field: Any) -> models.QuerySet[Any]:
        """Those that exist for the caller."""
        rows = self.viewer.behind(field, self.exposed)
        if rows is None:
            rows = field.related_model._base_manager.all()  # noqa: SLF001 - Django's documented API
        return on_writer(rows).order_by("pk")

    def _sees(self, field: Any, row: Any) -> bool:
        return self.viewer.sees_behind(field, row, self.exposed)

    def _listed(self, field: Any, rows: Mapping[Any, Any]) -> list[Any]:
        listed = [self.shown(field, row) for row in list(rows.values())[:MOST_ROWS]]
        return [*listed, f"… ({len(rows) - MOST_ROWS} more)"] if len(rows) > MOST_ROWS else listed

    def _staying(self, field: Any, rows: Mapping[Any, Any]) -> list[Any]:
        many = len(rows) > self.exposed.resource.max_related
        return [f"… ({len(rows)} that stay)"] if many else self._listed(field, rows)


def unless_secret(name: str, value: Any) -> Any:
    """A value of the field or column *name*, as far as people may read it."""
    return HIDDEN if is_hidden(name, value, settings.REDACTED_ARGUMENTS) else value


def _is_behind(column: Column, field: Any) -> bool:
    """Whether a column shows a value of the row, or of each row, that *field* leads to."""
    return column.path is not None and column.path.hops == (field,) and not column.path.field.is_relation


def _as_stored(field: Any, value: Any) -> Any:
    """A value that was not saved yet, such as a default, as it will be read."""
    value = field.to_python(value)
    if isinstance(field, models.DecimalField) and value.is_finite():
        return value.quantize(Decimal(1).scaleb(-field.decimal_places), context=field.context)
    return value


def _one(values: Mapping[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else dict(values)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(each is None for each in value.values()))


def _around_change(before: str, after: str) -> tuple[str, str]:
    """Two texts, of long ones what is around the first and the last difference."""
    if max(len(before), len(after)) <= MOST_TEXT:
        return before, after
    start = max(_same(before, after) - _AROUND, 0)
    end = max(_same(before[start:][::-1], after[start:][::-1]) - _AROUND, 0)
    return _part_of(before, start, end), _part_of(after, start, end)


def _same(first: str, second: str) -> int:
    """With how many characters both begin."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def _part_of(text: str, start: int, end: int) -> str:
    inside = shortened(text[start : len(text) - end], MOST_TEXT)
    return f"{'… ' if start else ''}{inside}{' …' if end else ''}"
