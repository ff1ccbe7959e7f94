"""Previews of creating, updating and deleting rows.

A preview applies the caller's own access and fails like the call. It does not run ``save_model`` or ``delete_model``.
"""

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from copy import deepcopy
from decimal import Decimal
from typing import Any, NamedTuple

from django.db import models
from django.db.models.expressions import DatabaseDefault
from django.utils.crypto import salted_hmac
from django.utils.text import capfirst

from django_mcp.conf import settings
from django_mcp.core.context import Context
from django_mcp.core.redaction import HIDDEN, is_hidden
from django_mcp.model_resources.access import RowAccess, find_row, m2m_pks, using_write_db
from django_mcp.model_resources.bound_resource import BoundResource, OutputField
from django_mcp.model_resources.compile import own_fields
from django_mcp.model_resources.form_choices import visible_value
from django_mcp.model_resources.pagination import TEXT_IN_LISTS, whole_row, with_output_fields
from django_mcp.model_resources.queryset import load_related_sets
from django_mcp.model_resources.schema import column_value, is_json, to_json_value
from django_mcp.model_resources.serializers import (
    FunctionField,
    RelatedLinkField,
    RelatedListField,
    SerializerContext,
    serialize_link,
    title_of,
)
from django_mcp.model_resources.writes import (
    Writer,
    cascade_querysets,
    overrides_deletion,
    require_change_permission,
    require_delete_permission,
    translate_errors,
)
from django_mcp.primitives.validation_errors import shortened

MAX_TEXT = 1000
"""Maximum characters of a text, shown around the changed part."""
MAX_ROWS = 50
"""Maximum number of rows shown as added to a set or removed from it."""
_AROUND = 60
_NOT_SHOWN: Any = object()
Row = dict[str, Any]


class Fields(NamedTuple):
    """The changes of a model's fields, as one caller may see them."""

    bound: BoundResource
    access: RowAccess

    def output_fields(self, field: Any) -> list[OutputField]:
        return [column for column in self.bound.output_fields if column.name == field.name or _is_behind(column, field)]

    def shows(self, field: Any) -> bool:
        return field == self.bound.lookup or bool(self.output_fields(field))

    def change(self, field: Any, row: Any, obj: Any, *, is_given: bool) -> Row:
        """Return the change of a field that is not a set of rows.

        Args:
            row: the present row with its columns; None if it is created.
            obj: the row as it would be saved.
            is_given: True if the caller gave the value.
        """
        before = None if row is None else self._before(field, row)
        after = self._after(field, obj, is_given=is_given)
        if isinstance(before, str) and isinstance(after, str):
            before, after = _around_change(before, after)
        return self._entry(field, before, after, is_new=row is None)

    def set_change(self, field: Any, obj: Any, rows: Any, *, is_new: bool) -> Row | None:
        """Return the change of a set of rows to *rows*, or None if the caller would see no difference."""
        given = {row.pk: row for row in rows}
        if is_new:
            return self._entry(field, None, self._listed(field, given), is_new=True) if given else None
        if not any(isinstance(column, RelatedListField) for column in self.output_fields(field)):
            return self._entry(field, _NOT_SHOWN, self._listed(field, given), is_new=False)
        reached = self.reached(field)
        now = {row.pk: row for row in reached.filter(pk__in=m2m_pks(obj, field)) if self._sees(field, row)}
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
        return {**entry, **{key: unless_secret(field.name, part) for key, part in shown.items()}}

    def _before(self, field: Any, row: Any) -> Any:
        columns = self.output_fields(field)
        if not columns:
            return column_value(field, getattr(row, field.attname)) if field == self.bound.lookup else _NOT_SHOWN
        context = SerializerContext(self.access, self.bound, MAX_TEXT * 1000)
        value = _one({column.name: column.value(row, context) for column in columns})
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
        return column_value(field, key) if is_given else _NOT_SHOWN

    def shown(self, field: Any, row: Any) -> Any:
        values = {
            column.name: value for column in self.output_fields(field) for value in self._part(field, column, row)
        }
        if values:
            return _one(values)
        target = self.bound.on_server(field.related_model)
        return to_json_value(row) if target is None else serialize_link(target, row, self.access)

    def _part(self, field: Any, column: OutputField, row: Any) -> Iterator[Any]:
        if _is_behind(column, field):
            yield column_value(column.path.field, getattr(row, column.path.field.attname))
        elif isinstance(column, RelatedLinkField | RelatedListField) and column.target is not None:
            yield serialize_link(column.target, row, self.access)
        elif not isinstance(column, FunctionField):
            yield to_json_value(row)

    # Related rows

    def reached(self, field: Any) -> models.QuerySet[Any]:
        """Return the related rows that the caller may see."""
        rows = self.access.related_queryset(field, self.bound)
        if rows is None:
            rows = field.related_model._base_manager.all()  # noqa: SLF001 - Django's documented API
        return using_write_db(rows).order_by("pk")

    def _sees(self, field: Any, row: Any) -> bool:
        return self.access.can_view_related(field, row, self.bound)

    def _listed(self, field: Any, rows: Mapping[Any, Any]) -> list[Any]:
        listed = [self.shown(field, row) for row in list(rows.values())[:MAX_ROWS]]
        return [*listed, f"… ({len(rows) - MAX_ROWS} more)"] if len(rows) > MAX_ROWS else listed

    def _staying(self, field: Any, rows: Mapping[Any, Any]) -> list[Any]:
        many = len(rows) > self.bound.resource.max_related
        return [f"… ({len(rows)} unchanged)"] if many else self._listed(field, rows)


def unless_secret(name: str, value: Any) -> Any:
    return HIDDEN if is_hidden(name, value, settings.REDACTED_ARGUMENTS) else value


def _is_behind(column: OutputField, field: Any) -> bool:
    return column.path is not None and column.path.hops == (field,) and not column.path.field.is_relation


def _as_stored(field: Any, value: Any) -> Any:
    """Return an unsaved value, such as a default, as it would be read from the database."""
    value = field.to_python(value)
    if isinstance(field, models.DecimalField) and value.is_finite():
        return value.quantize(Decimal(1).scaleb(-field.decimal_places), context=field.context)
    return value


def _one(values: Mapping[str, Any]) -> Any:
    return next(iter(values.values())) if len(values) == 1 else dict(values)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, dict) and all(part is None for part in value.values()))


def _around_change(before: str, after: str) -> tuple[str, str]:
    """Return two texts, or of long ones the part around their first and last difference."""
    if max(len(before), len(after)) <= MAX_TEXT:
        return before, after
    start = max(_same(before, after) - _AROUND, 0)
    end = max(_same(before[start:][::-1], after[start:][::-1]) - _AROUND, 0)
    return _part_of(before, start, end), _part_of(after, start, end)


def _same(first: str, second: str) -> int:
    pairs = zip(first, second, strict=False)
    return next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(first), len(second)))


def _part_of(text: str, start: int, end: int) -> str:
    inside = shortened(text[start : len(text) - end], MAX_TEXT)
    return f"{'… ' if start else ''}{inside}{' …' if end else ''}"


_WITHOUT_VALUE = (models.FileField, models.BinaryField)


def field_changes(
    bound: BoundResource, access: RowAccess, row: Any, old: Mapping[str, Any], form: Any, given: Container[str]
) -> Iterator[Row]:
    """Yield the changes that a form makes to a row or, for a new row, all values that callers can give.

    Args:
        row: the present row with its columns; None if it is created.
        old: the result of ``_stored`` before the form was bound.
        form: the valid form.
        given: names of the fields that the caller gave.
    """
    fields, obj = Fields(bound, access), form.instance
    new = _stored(obj)
    for name, field in _comparable(bound, form).items():
        if field.many_to_many:
            if name in given or (row is None and name in form.cleaned_data):
                entry = fields.set_change(field, obj, visible_value(form, name), is_new=row is None)
                if entry is not None:
                    yield entry
            continue
        differs = name in new and _differ(field, old.get(name), new[name])
        if _is_listed(
            fields, field, given, new.get(name), is_new=row is None, differs=differs, form_fields=form.fields
        ):
            yield fields.change(field, row, obj, is_given=name in given)


def changes_of(
    bound: BoundResource, ctx: Context, form: Any, given: Container[str], form_changes: list[Row]
) -> list[Row]:
    """Return the changes that a form of ``form_tool`` makes to a row, as far as the caller may see its fields.

    Args:
        form: the valid form.
        given: names of the fields that the caller gave.
        form_changes: the form's own list of changes, for a row that the caller may not see and for fields that the
            model lacks.
    """
    access = RowAccess(ctx)
    row = _found(bound, access, access.get_queryset(bound).filter(pk=form.instance.pk), _all_columns(bound, access))
    if row is None:
        return form_changes
    compared = _comparable(bound, form)
    changes = field_changes(bound, access, row, _stored(_stored_value(bound, row)), form, given)
    return [*changes, *(change for change in form_changes if change["field"] not in compared)]


def _all_columns(bound: BoundResource, access: RowAccess) -> list[OutputField]:
    fields = Fields(bound, access)
    return [column for field in own_fields(bound).values() for column in fields.output_fields(field)]


def _comparable(bound: BoundResource, form: Any) -> dict[str, Any]:
    own = own_fields(bound)
    known = {name: own[name] for name in dict.fromkeys([*form.fields, *own]) if name in own}
    return {
        name: field for name, field in known.items() if not field.primary_key and not isinstance(field, _WITHOUT_VALUE)
    }


def _is_listed(
    fields: Fields,
    field: Any,
    given: Container[str],
    value: Any,
    *,
    is_new: bool,
    differs: bool,
    form_fields: Container[str],
) -> bool:
    is_shown = fields.shows(field)
    if field.name in given:
        # For a field that the caller may not read, "unchanged" would reveal its value.
        return is_new or differs or not is_shown
    has_value = not isinstance(value, DatabaseDefault) and value not in field.empty_values
    return (is_new and field.name in form_fields and has_value) or (differs and is_shown)


def _stored(obj: Any) -> dict[str, Any]:
    columns = obj._meta.concrete_fields  # noqa: SLF001 - Django's documented API
    # A copy, as a form may change JSON and arrays in place.
    known = {column.name: vars(obj)[column.attname] for column in columns if column.attname in vars(obj)}
    return {name: deepcopy(value) if isinstance(value, dict | list) else value for name, value in known.items()}


def _differ(field: Any, old: Any, new: Any) -> bool:
    if isinstance(old, dict | list) or isinstance(new, dict | list) or is_json(field):
        # Compared as JSON, since True == 1 in Python.
        return _canonical(old) != _canonical(new)
    return bool(old != new)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def preview_create(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    """Preview creating a row.

    Raises:
        ToolError: the values are invalid.
    """
    bound = writer.bound
    return _looking(bound, writer.arguments, lambda: _create(writer, ctx, given))


def _create(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    bound, values = writer.bound, given["given"]
    obj = bound.model()
    old = _stored(obj)
    form = writer.bind_form(ctx, obj, values)
    changes = field_changes(bound, RowAccess(ctx), None, old, form, writer.source.values_by_field(values))
    return {"verb": "create", "object": capfirst(bound.one), "changes": [*changes]}


def preview_update(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    """Preview updating a row.

    Raises:
        ToolError: the values are invalid, or the row does not exist for the caller or may not be changed.
    """
    bound = writer.bound
    return _looking(bound, writer.arguments, lambda: _update(writer, ctx, given))


def _update(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    bound, access = writer.bound, RowAccess(ctx)
    value, values = writer.apart(given)
    row = _row(bound, access, value, _all_columns(bound, access))
    obj = _stored_value(bound, row)
    require_change_permission(bound, ctx, obj)
    old = _stored(obj)
    form = writer.bind_form(ctx, obj, values)
    changes = field_changes(bound, access, row, old, form, writer.source.values_by_field(values))
    return {"verb": "update", **_named(bound, access, row), "changes": [*changes]}


def rows_of(bound: BoundResource, writer: Writer | None, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rows that a call's arguments identify, by argument. *writer* is None for a deletion.

    Raises:
        ToolError: a row does not exist for the caller.
    """
    access, name = RowAccess(ctx), bound.lookup_name

    def look() -> Row:
        if writer is None:
            return {name: _row(bound, access, given[name], ())}
        value, values = writer.apart(given) if writer.change else (None, given["given"])
        found = writer.source.resolve_choices(ctx, values, None)
        return {name: _row(bound, access, value, ()), **found} if writer.change else found

    return _looking(bound, {} if writer is None else writer.arguments, look)


def preview_delete(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> Row:
    """Preview deleting a row, with the number of other rows that would be deleted; see ``_also``.

    Raises:
        ToolError: see ``writes.run_delete``.
    """
    return _looking(bound, {}, lambda: _delete(bound, ctx, given))


def _delete(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> Row:
    access = RowAccess(ctx)
    row = _row(bound, access, given[bound.lookup_name], bound.output_fields)
    obj = _stored_value(bound, row)
    require_delete_permission(bound, ctx, obj)
    shown = whole_row(bound, row, bound.output_fields, SerializerContext(access, bound, TEXT_IN_LISTS))
    changes = [
        {
            "field": column.name,
            "label": _label(column),
            "before": unless_secret(column.name, shown[column.name]),
            **({"computed": True} if isinstance(column, FunctionField) else {}),
        }
        for column in bound.output_fields
    ]
    return {"verb": "delete", **_named(bound, access, row), "changes": changes, **_also(bound, obj)}


def _looking(bound: BoundResource, arguments: Mapping[str, str], look: Callable[[], Row]) -> Row:
    with translate_errors(bound, arguments):
        return look()


def _row(bound: BoundResource, access: RowAccess, value: Any, columns: Iterable[OutputField]) -> Any:
    """Return the row that *value* identifies, with all that *columns* need.

    Raises:
        ToolError: it does not exist for the caller.
    """
    row = _found(bound, access, find_row(bound, access, str(value)), columns)
    if row is None:
        raise bound.missing(value)
    return row


def _found(bound: BoundResource, access: RowAccess, rows: models.QuerySet[Any], columns: Iterable[OutputField]) -> Any:
    shown = [*columns]
    for row in with_output_fields(bound, access, using_write_db(rows), shown)[:1]:
        if access.can_view(bound, row):
            load_related_sets([row], shown, bound, access)
            return row
    return None


def _stored_value(bound: BoundResource, row: Any) -> Any:
    rows = bound.model._base_manager.using(row._state.db)  # noqa: SLF001 - Django's documented API
    found = rows.select_related(None).filter(pk=row.pk).first()
    if found is None:
        raise bound.missing(getattr(row, bound.lookup.attname))
    return found


def _named(bound: BoundResource, access: RowAccess, row: Any) -> Row:
    return {"object": f"{capfirst(bound.one)} {title_of(bound, row, access)}", "uri": bound.uri_of(row)}


def _label(column: OutputField) -> str:
    field = None if column.path is None or column.path.hops else column.path.field
    return capfirst(str(getattr(field, "verbose_name", "") or re.sub("_+", " ", column.name)))


def _also(bound: BoundResource, obj: Any) -> Row:
    """Return the number of rows that would be deleted as well, by model, including rows the caller may not see.

    ``also_digest`` stands for which rows these are. ``also`` is None if the site overrides the deletion, such as with a
    soft delete: what it deletes is only known by running it.

    Raises:
        ProtectedError, RestrictedError: protected rows refer to it.
    """
    if overrides_deletion(bound):
        return {"also": None}
    keys: dict[Any, set[Any]] = {}
    for rows in cascade_querysets(obj):
        if isinstance(obj, rows.model):  # its own row in the table of a parent
            rows = rows.exclude(pk=getattr(obj, rows.model._meta.pk.attname))  # noqa: PLW2901, SLF001 - the others
        # A row may be reached in two ways, such as by two foreign keys to the same row.
        keys.setdefault(rows.model, set()).update(rows.values_list("pk", flat=True))
    found = sorted((_words(model, len(gone)), len(gone)) for model, gone in keys.items() if gone)
    also = [{"what": what, "count": count} for what, count in found]
    return {"also": also, **({"also_digest": _digest(keys)} if also else {})}


def _digest(keys: Mapping[Any, set[Any]]) -> str:
    # Keyed, so that keys of rows cannot be guessed from it.
    named = sorted(f"{model._meta.label} {key!r}" for model, gone in keys.items() for key in gone)  # noqa: SLF001
    return salted_hmac("django_mcp.previews", "\n".join(named), algorithm="sha256").hexdigest()


def _words(model: Any, count: int) -> str:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return str(options.verbose_name if count == 1 else options.verbose_name_plural)
