"""What writing a row would change, field by field, for whoever is to approve it. Nothing is saved, and nobody is told.

It is the caller's view of it: rows come through the doors that they come through when the call is run, and what cannot
be written fails here with the same words. What ``save_model`` and ``delete_model`` do besides is not known.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from django.db import models, router
from django.db.models import ProtectedError, RestrictedError
from django.db.models.deletion import Collector
from django.utils.text import capfirst

from django_mcp.core.context import Context
from django_mcp.core.database import rolled_back, tools_alias
from django_mcp.exposure.columns import Showing
from django_mcp.exposure.declaration import ModelResource
from django_mcp.exposure.exposed import Column, Exposed
from django_mcp.exposure.fetching import load_sets
from django_mcp.exposure.pages import TEXT_IN_LISTS, whole_row, with_columns
from django_mcp.exposure.viewing import Viewer, find_row
from django_mcp.exposure.write_changes import Fields, Row, unless_secret
from django_mcp.exposure.write_differences import differences
from django_mcp.exposure.write_fields import own_fields
from django_mcp.exposure.write_rows import on_writer
from django_mcp.exposure.write_saving import Writer, require_change, require_delete
from django_mcp.exposure.write_words import readable


def preview_create(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    """The values that a new row would have, as far as callers give them.

    Raises:
        ToolError: it cannot be like that.
    """
    exposed = writer.exposed
    return _looking(exposed, writer.arguments, lambda: _create(writer, ctx, given))


def _create(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    obj = writer.exposed.model()
    changes = differences(writer, Viewer(ctx), None, obj, writer.values(given))
    return {"verb": "create", "object": capfirst(writer.exposed.one), "changes": changes}


def preview_update(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    """The values that a row would no longer have, and those it would have.

    Raises:
        ToolError: there is none for the caller, they may not change it, or it cannot be like that.
    """
    exposed = writer.exposed
    return _looking(exposed, writer.arguments, lambda: _update(writer, ctx, given))


def _update(writer: Writer, ctx: Context, given: Mapping[str, Any]) -> Row:
    exposed, viewer = writer.exposed, Viewer(ctx)
    values = writer.values(given)
    fields = Fields(exposed, viewer)
    columns = [each for field in own_fields(exposed).values() for each in fields.columns(field)]
    row = _row(exposed, viewer, given[exposed.lookup_name], columns)
    obj = _as_stored(exposed, row)
    require_change(exposed, ctx, obj)
    return {"verb": "update", **_named(exposed, row), "changes": differences(writer, viewer, row, obj, values)}


def rows_of(exposed: Exposed, writer: Writer | None, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that the arguments of a call address, by argument: the one it is about, and those it links.

    Args:
        exposed: the model.
        writer: of the call; None where it deletes.
        ctx: of the call.
        given: its arguments.

    Raises:
        ToolError: one does not exist for the caller.
    """
    viewer, name = Viewer(ctx), exposed.lookup_name

    def look() -> Row:
        found: Row = {}
        if writer is None or writer.change:
            found[name] = _row(exposed, viewer, given[name], ())
        if writer is not None:
            links = {each: value for each, value in writer.values(given).items() if writer.fields[each].target}
            rows = writer.with_rows(links, viewer)
            found |= {writer.arguments[each]: value for each, value in rows.items()}
        return found

    return _looking(exposed, {} if writer is None else writer.arguments, look)


def preview_delete(exposed: Exposed, ctx: Context, given: Mapping[str, Any]) -> Row:
    """What is shown of a row that would be gone, and of which other rows how many would go with it.

    Raises:
        ToolError: there is none for the caller, they may not delete it, or something needs it.
    """
    return _looking(exposed, {}, lambda: _delete(exposed, ctx, given))


def _delete(exposed: Exposed, ctx: Context, given: Mapping[str, Any]) -> Row:
    viewer = Viewer(ctx)
    row = _row(exposed, viewer, given[exposed.lookup_name], exposed.columns)
    obj = _as_stored(exposed, row)
    require_delete(exposed, ctx, obj)
    shown = whole_row(exposed, row, exposed.columns, Showing(viewer, exposed, TEXT_IN_LISTS))
    changes = [
        {"field": each.name, "label": _label(each), "before": unless_secret(each.name, shown[each.name])}
        for each in exposed.columns
    ]
    return {"verb": "delete", **_named(exposed, row), "changes": changes, "also": _also(exposed, obj)}


# Rows


def _looking(exposed: Exposed, arguments: Mapping[str, str], look: Callable[[], Row]) -> Row:
    """What *look* gives. The default database's transaction is the preview's own, and rolled back there."""
    alias = router.db_for_write(exposed.model)
    with readable(exposed, arguments):
        return look() if alias == tools_alias() else rolled_back(look, alias)


def _row(exposed: Exposed, viewer: Viewer, value: Any, columns: Iterable[Column]) -> Any:
    """The row that *value* addresses, as it is read, with all that *columns* show.

    Raises:
        ToolError: there is none, for this caller.
    """
    shown = [*columns]
    for row in with_columns(exposed, viewer, on_writer(find_row(exposed, viewer, str(value))), shown)[:1]:
        if viewer.sees(exposed, row):
            load_sets([row], shown, exposed, viewer)
            return row
    raise exposed.missing(value)


def _as_stored(exposed: Exposed, row: Any) -> Any:
    """The same row once more, with nothing but its columns, as it is written."""
    rows = exposed.model._base_manager.using(row._state.db)  # noqa: SLF001 - Django's documented API
    found = rows.select_related(None).filter(pk=row.pk).first()
    if found is None:
        raise exposed.missing(getattr(row, exposed.lookup.attname))
    return found


def _named(exposed: Exposed, row: Any) -> Row:
    return {"object": f"{capfirst(exposed.one)} {exposed.title_of(row)}", "uri": exposed.uri_of(row)}


# Deleting


def _label(column: Column) -> str:
    field = None if column.path is None or column.path.hops else column.path.field
    return capfirst(str(getattr(field, "verbose_name", "") or re.sub("_+", " ", column.name)))


def _also(exposed: Exposed, obj: Any) -> list[Row]:
    """Rows that would go with a row, by model: how many, whoever may see them.

    Raises:
        ProtectedError, RestrictedError: some would not.
    """
    collector = Collector(using=obj._state.db, origin=obj)  # noqa: SLF001 - Django's documented API
    try:
        collector.collect([obj])
    except (ProtectedError, RestrictedError):
        if _deletes_its_own_way(exposed):
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


def _deletes_its_own_way(exposed: Exposed) -> bool:
    """Whether deleting a row may be something else than that."""
    is_usual = type(exposed.resource).delete_model is ModelResource.delete_model
    return not is_usual or exposed.model.delete is not models.Model.delete
