"""Rows that are written, and rows that these lead to: each found through the door of its own model."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections, models, router
from django.db.models import QuerySet

from django_mcp.core.context import Context
from django_mcp.core.request import require_same
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.viewing import Viewer, find_row
from django_mcp.exposure.write_fields import WriteField
from django_mcp.primitives.tool import ToolError


def lock_row(exposed: Exposed, ctx: Context, value: object) -> Any:
    """The row that *value* addresses, which nobody else changes until the transaction ends.

    Raises:
        ToolError: there is none, for this caller, or the call was approved for another one.
    """
    obj = locked(exposed.model, lambda: _look(exposed, ctx, value))
    if obj is None:
        raise exposed.missing(value)
    require_same(ctx, exposed.lookup_name, obj)
    return obj


def locked(model: type[models.Model], look: Callable[[], Any]) -> Any:
    """The row that *look* finds, which nobody else changes until the transaction ends; None where it finds none."""
    seen = look()
    if seen is None:
        return None
    alias = seen._state.db  # noqa: SLF001 - Django's documented API
    rows = model._base_manager.using(alias).select_related(None)  # noqa: SLF001 - Django's documented API
    for obj in rows.select_for_update(of=_own_tables(model, alias)).filter(pk=seen.pk):
        # While it was waited for, it may have been hidden from the caller.
        again = look()
        if again is not None and again.pk == obj.pk:
            return obj
    return None


def _look(exposed: Exposed, ctx: Context, value: object) -> Any:
    viewer = Viewer(ctx)
    for obj in on_writer(find_row(exposed, viewer, str(value)))[:1]:
        if viewer.sees(exposed, obj):
            return obj
    return None


def on_writer(rows: QuerySet[Any]) -> QuerySet[Any]:
    """*rows*, read where they are written, whatever copies a router would read them from."""
    return rows.using(rows._db or router.db_for_write(rows.model))  # type: ignore[attr-defined] # noqa: SLF001


def _own_tables(model: type[models.Model], alias: str) -> Sequence[str]:
    """What is locked: the row itself with its parts in tables of parents, and nothing that a manager may join."""
    if not connections[alias].features.has_select_for_update_of:
        return ()
    parents = model._meta.concrete_model._meta.parents.values()  # type: ignore[union-attr] # noqa: SLF001
    return ("self", *(link.name for link in parents if link is not None))


# Relations


def find_related(field: WriteField, argument: str, value: Any, viewer: Viewer) -> Any:
    """The row that *value* addresses in another model; of a set the list of rows; None for null.

    Raises:
        ToolError: one does not exist for the caller.
    """
    if value is None:
        return None
    values = value if field.is_set else [value]
    # All in one query, however many there are.
    found = _addressed(field, values, viewer)
    lacking = [each for each in values if _key(field.target, each) not in found]
    if lacking:
        names = ", ".join(repr(str(each)[:80]) for each in lacking[:5])
        raise ToolError(
            f"Argument {argument!r}: there is no {field.target.one} with {field.target.lookup_name} {names}."
        )
    rows = {row.pk: row for row in (found[_key(field.target, each)] for each in values)}
    return list(rows.values()) if field.is_set else next(iter(rows.values()))


def _addressed(field: WriteField, values: Iterable[Any], viewer: Viewer) -> dict[Any, Any]:
    target = field.target
    name = target.lookup.attname
    keys = [key for key in (_key(target, each) for each in values) if key is not None]
    rows = on_writer(viewer.door(target)).order_by().complex_filter(field.field.get_limit_choices_to())
    return {getattr(row, name): row for row in rows.filter(**{f"{name}__in": keys}) if viewer.sees(target, row)}


def _key(target: Exposed, value: Any) -> Any:
    try:
        return target.lookup.to_python(value)
    except (ValidationError, ValueError, TypeError, OverflowError):
        return None


def linked(obj: Any, field: Any) -> QuerySet[Any]:
    """Primary keys of the rows in a set of *obj*, whoever may see them."""
    links: models.Manager[Any] = field.remote_field.through._base_manager  # noqa: SLF001 - Django's documented API
    rows = links.using(obj._state.db).filter(**{field.m2m_field_name(): obj.pk})  # noqa: SLF001
    return rows.values_list(field.m2m_reverse_field_name(), flat=True)


def visible(obj: Any, field: WriteField, viewer: Viewer) -> dict[Any, Any]:
    """The rows in a set of *obj* that exist for the caller, by primary key."""
    rows = on_writer(viewer.door(field.target)).order_by().filter(pk__in=linked(obj, field.field))
    return {row.pk: row for row in rows if viewer.sees(field.target, row)}


def replace(obj: Any, field: WriteField, rows: Iterable[Any], viewer: Viewer) -> None:
    """Make *rows* the set of *obj*, as far as the caller sees it: what they cannot see stays in it."""
    given, before = {row.pk: row for row in rows}, visible(obj, field, viewer)
    manager = getattr(obj, field.name)
    if gone := [row for key, row in before.items() if key not in given]:
        manager.remove(*gone)
    if new := [row for key, row in given.items() if key not in before]:
        manager.add(*new)
