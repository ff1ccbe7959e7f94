"""Previews of creating, updating and deleting rows.

It is the caller's view of it: rows come through the doors that they come through when the call is run, and what cannot
be written fails here with the same words. What ``save_model`` and ``delete_model`` do besides is not known.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import models, router
from django.db.models import ProtectedError, RestrictedError
from django.db.models.deletion import Collector
from django.db.models.expressions import DatabaseDefault
from django.utils.text import capfirst

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.database import rolled_back, tools_alias
from django_mcp.core.redaction import HIDDEN, is_hidden
from django_mcp.model_resources.access import RowAccess, find_row, linked, on_writer
from django_mcp.model_resources.bound_resource import BoundResource, OutputField
from django_mcp.model_resources.compile import own_fields
from django_mcp.model_resources.options import ModelResource
from django_mcp.model_resources.pagination import TEXT_IN_LISTS, whole_row, with_columns
from django_mcp.model_resources.queryset import load_sets
from django_mcp.model_resources.schema import column_value, is_json, to_json_value
from django_mcp.model_resources.serializers import (
    FunctionColumn,
    LinkColumn,
    SerializerContext,
    SetColumn,
    serialize_link,
)
from django_mcp.model_resources.writes import (
    Writer,
    readable,
    require_change,
    require_delete,
)
from django_mcp.primitives.validation_errors import shortened

MAX_TEXT = 1000
"""Characters of a text that are shown, around where it changes."""
MAX_ROWS = 50
"""Rows that are shown of those that come into a set, or leave it."""
_AROUND = 60
_NOT_SHOWN: Any = object()
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Fields:
    """The model's own fields, for one caller.

    Attributes:
        bound: the model.
        access: the caller.
    """

    bound: BoundResource
    access: RowAccess

    def columns(self, field: Any) -> list[OutputField]:
        """What the declaration shows of a field: the column of its name, and values of the rows that it leads to."""
        return [each for each in self.bound.columns if each.name == field.name or _is_behind(each, field)]

    def shows(self, field: Any) -> bool:
        """Whether the caller may read a field, or something of what it leads to."""
        return field == self.bound.lookup or bool(self.columns(field))

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
            return column_value(field, getattr(row, field.attname)) if field == self.bound.lookup else _NOT_SHOWN
        showing = SerializerContext(self.access, self.bound, MAX_TEXT * 1000)
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
        target = self.bound.on_server(field.related_model)
        return to_json_value(row.pk) if target is None else serialize_link(target, row, self.access)

    def _part(self, field: Any, column: OutputField, row: Any) -> Iterator[Any]:
        if _is_behind(column, field):
            yield column_value(column.path.field, getattr(row, column.path.field.attname))
        elif isinstance(column, LinkColumn | SetColumn) and column.target is not None:
            yield serialize_link(column.target, row, self.access)
        elif not isinstance(column, FunctionColumn):
            yield to_json_value(row.pk)

    # Rows behind a relation

    def reached(self, field: Any) -> models.QuerySet[Any]:
        """Those that exist for the caller."""
        rows = self.access.related_queryset(field, self.bound)
        if rows is None:
            rows = field.related_model._base_manager.all()  # noqa: SLF001 - Django's documented API
        return on_writer(rows).order_by("pk")

    def _sees(self, field: Any, row: Any) -> bool:
        return self.access.sees_behind(field, row, self.bound)

    def _listed(self, field: Any, rows: Mapping[Any, Any]) -> list[Any]:
        listed = [self.shown(field, row) for row in list(rows.values())[:MAX_ROWS]]
        return [*listed, f"… ({len(rows) - MAX_ROWS} more)"] if len(rows) > MAX_ROWS else listed

    def _staying(self, field: Any, rows: Mapping[Any, Any]) -> list[Any]:
        many = len(rows) > self.bound.resource.max_related
        return [f"… ({len(rows)} that stay)"] if many else self._listed(field, rows)


def unless_secret(name: str, value: Any) -> Any:
    """A value of the field or column *name*, as far as people may read it."""
    return HIDDEN if is_hidden(name, value, settings.REDACTED_ARGUMENTS) else value


def _is_behind(column: OutputField, field: Any) -> bool:
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
    if max(len(before), len(after)) <= MAX_TEXT:
        return before, after
    start = max(_same(before, after) - _AROUND, 0)
    end = max(_same(before[start:][::-1], after[start:][::-1]) - _AROUND, 0)
    return _part_of(before, start, end), _part_of(after, start, end)


def _same(first: str, second: str) -> int:
    """With how many characters both begin."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def _part_of(text: str, start: int, end: int) -> str:
    inside = shortened(text[start : len(text) - end], MAX_TEXT)
    return f"{'… ' if start else ''}{inside}{' …' if end else ''}"


_WITHOUT_VALUE = (models.FileField, models.BinaryField)


def differences(
    bound: BoundResource, access: RowAccess, row: Any, old: Mapping[str, Any], form: Any, given: Container[str]
) -> Iterator[Row]:
    """Yield what a form would make different of a row; of a new one, what it would have of all that callers can give.

    Args:
        bound: the model.
        access: the caller.
        row: as it is read, with its columns; None for one that is created.
        old: what ``_stored`` gave of it before the form was filled in.
        form: filled in, and valid.
        given: the fields that the caller gave.
    """
    fields, obj = Fields(bound, access), form.instance
    new = _stored(obj)
    for name, field in _comparable(bound, form).items():
        if field.many_to_many:
            if name in given or (row is None and name in form.cleaned_data):
                # Those that stay because the caller does not see them are given as keys.
                rows = [each for each in form.cleaned_data[name] if isinstance(each, models.Model)]
                entry = fields.set_change(field, obj, rows, is_new=row is None)
                if entry is not None:
                    yield entry
            continue
        differs = name in new and _differ(field, old.get(name), new[name])
        if _is_listed(fields, field, given, new.get(name), is_new=row is None, differs=differs, asked=form.fields):
            yield fields.change(field, row, obj, is_given=name in given)


def changes_of(bound: BoundResource, ctx: Context, form: Any, given: Container[str], told: list[Row]) -> list[Row]:
    """What a form of ``form_tool`` would change of a row, as the model's declaration shows it to the caller.

    Args:
        bound: the model.
        ctx: the call.
        form: filled in, and valid.
        given: the fields that the caller gave.
        told: what is known without the declaration: all there is where the row does not exist for the caller, and else
            what is no field of the model.
    """
    access = RowAccess(ctx)
    row = _found(bound, access, access.get_queryset(bound).filter(pk=form.instance.pk), _all_columns(bound, access))
    if row is None:
        return told
    compared = _comparable(bound, form)
    changes = differences(bound, access, row, _stored(_stored_value(bound, row)), form, given)
    return [*changes, *(each for each in told if each["field"] not in compared)]


def _all_columns(bound: BoundResource, access: RowAccess) -> list[OutputField]:
    fields = Fields(bound, access)
    return [each for field in own_fields(bound).values() for each in fields.columns(field)]


def _comparable(bound: BoundResource, form: Any) -> dict[str, Any]:
    """The fields whose values are compared, those that the form asks for first, in its order."""
    own = own_fields(bound)
    known = {name: own[name] for name in dict.fromkeys([*form.fields, *own]) if name in own}
    return {
        name: field for name, field in known.items() if not field.primary_key and not isinstance(field, _WITHOUT_VALUE)
    }


def _is_listed(
    fields: Fields, field: Any, given: Container[str], value: Any, *, is_new: bool, differs: bool, asked: Container[str]
) -> bool:
    is_shown = fields.shows(field)
    if field.name in given:
        # Whether a value that the caller may not read is another one is not to be told either.
        return is_new or differs or not is_shown
    has_value = not isinstance(value, DatabaseDefault) and value not in field.empty_values
    return (is_new and field.name in asked and has_value) or (differs and is_shown)


def _stored(obj: Any) -> dict[str, Any]:
    """Values of columns by the names of their fields, as they are at this moment."""
    columns = obj._meta.concrete_fields  # noqa: SLF001 - Django's documented API
    known = {each.name: vars(obj)[each.attname] for each in columns if each.attname in vars(obj)}
    return {name: deepcopy(each) if isinstance(each, dict | list) else each for name, each in known.items()}


def _differ(field: Any, old: Any, new: Any) -> bool:
    if isinstance(old, dict | list) or isinstance(new, dict | list) or is_json(field):
        # Python takes true for 1.
        return _canonical(old) != _canonical(new)
    return bool(old != new)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def preview_create(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    """The values that a new row would have, as far as callers give them.

    Raises:
        ToolError: it cannot be like that.
    """
    bound = writer.bound
    return _looking(ctx, bound, writer.arguments, lambda: _create(writer, ctx, given))


def _create(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    bound, values = writer.bound, given["given"]
    obj = bound.model()
    old = _stored(obj)
    form = writer.bind_form(ctx, obj, values)
    changes = differences(bound, RowAccess(ctx), None, old, form, writer.source.by_field(values))
    return {"verb": "create", "object": capfirst(bound.one), "changes": [*changes]}


def preview_update(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    """The values that a row would no longer have, and those it would have.

    Raises:
        ToolError: there is none for the caller, they may not change it, or it cannot be like that.
    """
    bound = writer.bound
    return _looking(ctx, bound, writer.arguments, lambda: _update(writer, ctx, given))


def _update(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    bound, access = writer.bound, RowAccess(ctx)
    value, values = writer.apart(given)
    row = _row(bound, access, value, _all_columns(bound, access))
    obj = _stored_value(bound, row)
    require_change(bound, ctx, obj)
    old = _stored(obj)
    form = writer.bind_form(ctx, obj, values)
    changes = differences(bound, access, row, old, form, writer.source.by_field(values))
    return {"verb": "update", **_named(bound, row), "changes": [*changes]}


def rows_of(bound: BoundResource, writer: Writer | None, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that the arguments of a call address, by argument: the one it is about, and those it links.

    Args:
        bound: the model.
        writer: of the call; None where it deletes.
        ctx: of the call.
        given: its arguments.

    Raises:
        ToolError: one does not exist for the caller.
    """
    access, name = RowAccess(ctx), bound.lookup_name

    def look() -> Row:
        if writer is None:
            return {name: _row(bound, access, given[name], ())}
        value, values = writer.apart(given) if writer.change else (None, given["given"])
        found = writer.source.chosen(ctx, values, None)
        return {name: _row(bound, access, value, ()), **found} if writer.change else found

    return _looking(ctx, bound, {} if writer is None else writer.arguments, look)


def preview_delete(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> Row:
    """What is shown of a row that would be gone, and of which other rows how many would go with it.

    Raises:
        ToolError: there is none for the caller, they may not delete it, or something needs it.
    """
    return _looking(ctx, bound, {}, lambda: _delete(bound, ctx, given))


def _delete(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> Row:
    access = RowAccess(ctx)
    row = _row(bound, access, given[bound.lookup_name], bound.columns)
    obj = _stored_value(bound, row)
    require_delete(bound, ctx, obj)
    shown = whole_row(bound, row, bound.columns, SerializerContext(access, bound, TEXT_IN_LISTS))
    changes = [
        {"field": each.name, "label": _label(each), "before": unless_secret(each.name, shown[each.name])}
        for each in bound.columns
    ]
    return {"verb": "delete", **_named(bound, row), "changes": changes, "also": _also(bound, obj)}


# Rows


def _looking(ctx: Context, bound: BoundResource, arguments: Mapping[str, str], look: Callable[[], Row]) -> Row:
    """What *look* gives. The default database's transaction is the preview's own, and rolled back there."""
    alias = router.db_for_write(bound.model)
    with readable(ctx, bound, arguments):
        return look() if alias == tools_alias() else rolled_back(look, alias)


def _row(bound: BoundResource, access: RowAccess, value: Any, columns: Iterable[OutputField]) -> Any:
    """The row that *value* addresses, as it is read, with all that *columns* show.

    Raises:
        ToolError: there is none, for this caller.
    """
    row = _found(bound, access, find_row(bound, access, str(value)), columns)
    if row is None:
        raise bound.missing(value)
    return row


def _found(bound: BoundResource, access: RowAccess, rows: models.QuerySet[Any], columns: Iterable[OutputField]) -> Any:
    shown = [*columns]
    for row in with_columns(bound, access, on_writer(rows), shown)[:1]:
        if access.can_view(bound, row):
            load_sets([row], shown, bound, access)
            return row
    return None


def _stored_value(bound: BoundResource, row: Any) -> Any:
    """The same row once more, with nothing but its columns, as it is written."""
    rows = bound.model._base_manager.using(row._state.db)  # noqa: SLF001 - Django's documented API
    found = rows.select_related(None).filter(pk=row.pk).first()
    if found is None:
        raise bound.missing(getattr(row, bound.lookup.attname))
    return found


def _named(bound: BoundResource, row: Any) -> Row:
    return {"object": f"{capfirst(bound.one)} {bound.title_of(row)}", "uri": bound.uri_of(row)}


# Deleting


def _label(column: OutputField) -> str:
    field = None if column.path is None or column.path.hops else column.path.field
    return capfirst(str(getattr(field, "verbose_name", "") or re.sub("_+", " ", column.name)))


def _also(bound: BoundResource, obj: Any) -> list[Row]:
    """Rows that would go with a row, by model: how many, whoever may see them.

    Raises:
        ProtectedError, RestrictedError: some would not.
    """
    collector = Collector(using=obj._state.db, origin=obj)  # noqa: SLF001 - Django's documented API
    try:
        collector.collect([obj])
    except (ProtectedError, RestrictedError):
        if _deletes_its_own_way(bound):
            return []
        raise
    counts: Counter[Any] = Counter()
    for model, rows in collector.data.items():
        counts[model] += sum(not (isinstance(obj, model) and row.pk == obj.pk) for row in rows)
    for each in collector.fast_deletes:
        counts[each.model] += each.count()
    found = {_words(model, count): count for model, count in counts.items() if count}
    return [{"what": what, "count": count} for what, count in sorted(found.items())]


def _words(model: Any, count: int) -> str:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return str(options.verbose_name if count == 1 else options.verbose_name_plural)


def _deletes_its_own_way(bound: BoundResource) -> bool:
    """Whether deleting a row may be something else than that."""
    is_usual = type(bound.resource).delete_model is ModelResource.delete_model
    return not is_usual or bound.model.delete is not models.Model.delete
