"""Which fields of a row would differ once it is written, and what they would be then."""

import json
from collections.abc import Container, Iterator, Mapping
from copy import deepcopy
from typing import Any

from django.db import models
from django.db.models.expressions import DatabaseDefault
from django.forms import BaseModelForm

from django_mcp.exposure.field_types import is_json
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.write_changes import Fields, Row
from django_mcp.exposure.write_fields import own_fields
from django_mcp.exposure.write_forms import fill, own_sets
from django_mcp.exposure.write_saving import Writer, check_whole

_WITHOUT_VALUE = (models.FileField, models.BinaryField)


def differences(writer: Writer, viewer: Viewer, row: Any, obj: Any, values: Mapping[str, Any]) -> list[Row]:
    """What would be different of a row; of a new one, what it would have of all that callers can give.

    Args:
        writer: that would write it.
        viewer: the caller.
        row: as it is read, with its columns; None for one that is created.
        obj: the same row to be filled in, or a new object.
        values: what is given of the fields.

    Raises:
        ToolError, ValidationError: it cannot be.
    """
    old = _stored(obj)
    given = writer.with_rows(values, viewer)
    obj, sets = _filled_in(writer, obj, given)
    return list(_different(writer, Fields(writer.exposed, viewer), row, old, obj, given, sets))


def _filled_in(writer: Writer, obj: Any, given: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The object with what is given, as valid as can be seen without saving it; and the sets of rows it would have."""
    if writer.exposed.resource.form is None:
        writer.fill_in(obj, given)
        return obj, {name: rows for name, rows in given.items() if writer.fields[name].is_set}
    form = fill(writer.exposed, obj, given, writer.fields)
    obj = form.instance
    if type(form).save is BaseModelForm.save:  # one of its own may yet set what is lacking
        check_whole(obj, given, change=writer.change)
    wanted = given if writer.change else writer.fields
    return obj, {each.name: form.cleaned_data[each.name] for each in own_sets(obj) if each.name in wanted}


def _different(
    writer: Writer, fields: Fields, row: Any, old: Mapping[str, Any], obj: Any, given: Mapping[str, Any], sets: Any
) -> Iterator[Row]:
    new = _stored(obj)
    for name, field in _comparable(writer):
        if field.many_to_many:
            entry = fields.set_change(field, obj, sets[name], is_new=row is None) if name in sets else None
            if entry is not None:
                yield entry
            continue
        differs = name in new and _differ(field, old.get(name), new[name])
        if _is_listed(fields, field, given, new.get(name), is_new=row is None, differs=differs, asked=writer.fields):
            yield fields.change(field, row, obj, is_given=name in given)


def _comparable(writer: Writer) -> Iterator[tuple[str, Any]]:
    """What callers can give comes first, in the order of the declaration."""
    own = own_fields(writer.exposed)
    for name in dict.fromkeys([*writer.fields, *own]):
        field = own.get(name)  # a form may ask for more
        if field is not None and not field.primary_key and not isinstance(field, _WITHOUT_VALUE):
            yield name, field


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
