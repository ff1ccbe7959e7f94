"""Saving and deleting one row: validated as a whole, through the door before and after, all of it or nothing."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections, router, transaction
from django.db.models import Model
from django.db.models.expressions import DatabaseDefault

from django_mcp.core.context import Context
from django_mcp.core.request import require_same
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.pages import show_row
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.write_fields import NOT_GIVEN, WriteField, has_default
from django_mcp.exposure.write_forms import fill, save_sets
from django_mcp.exposure.write_history import ADDED, CHANGED, DELETED, note
from django_mcp.exposure.write_rows import find_related, lock_row, replace
from django_mcp.exposure.write_types import read_foreign
from django_mcp.exposure.write_words import of_field, readable
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import ToolError


class Writer:
    """Creates rows of a model, or changes them.

    Args:
        exposed: the model.
        fields: what callers can give.
        change: change rows instead of creating them.
    """

    def __init__(self, exposed: Exposed, fields: Iterable[WriteField], *, change: bool) -> None:
        self.exposed = exposed
        self.fields = {each.name: each for each in fields}
        self.arguments = {each.name: each.argument(exposed, change=change) for each in fields}
        self.change = change

    def create(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """A new row, shown.

        Raises:
            ToolError: it cannot be like that.
        """
        with in_database(self.exposed.model), readable(self.exposed, self.arguments):
            obj = self._write(ctx, self.exposed.model(), self.values(given))
            shown = self._shown(ctx, obj, f"The {self.exposed.one} was not created: you could not see it.")
            note(ctx, obj, ADDED, [{"added": {}}])
            return shown

    def update(self, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
        """A row that was changed, shown.

        Raises:
            ToolError: there is none for the caller, they may not change it, or it cannot be like that.
        """
        values = self.values(given)
        with in_database(self.exposed.model), readable(self.exposed, self.arguments):
            obj = lock_row(self.exposed, ctx, given[self.exposed.lookup_name])
            require_change(self.exposed, ctx, obj)
            obj = self._write(ctx, obj, values)
            shown = self._shown(ctx, obj, f"The {self.exposed.one} was not changed: you could not see it any more.")
            note(ctx, obj, CHANGED, [{"changed": {"fields": [*values]}}])
            return shown

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is given of the fields, by their names.

        Raises:
            ToolError: a row is to be changed, and there is nothing.
        """
        named = {name: given.get(argument, NOT_GIVEN) for name, argument in self.arguments.items()}
        values = {name: value for name, value in named.items() if value is not NOT_GIVEN}
        if self.change and not values:
            raise ToolError(f"Give at least one of {', '.join(map(repr, self.arguments.values()))}.")
        return values

    def with_rows(self, values: Mapping[str, Any], viewer: Viewer) -> dict[str, Any]:
        """*values* with rows in place of what addresses them.

        Raises:
            ToolError: one does not exist for the caller.
        """
        return {
            name: value
            if self.fields[name].target is None
            else find_related(self.fields[name], self.arguments[name], value, viewer)
            for name, value in values.items()
        }

    def fill_in(self, obj: Any, given: Mapping[str, Any]) -> None:
        """Put what is given into *obj*, but for sets of rows, and see that it can be like that. Nothing is saved.

        Raises:
            ValidationError: it cannot.
        """
        for name, value in given.items():
            field = self.fields[name]
            if not field.is_set:
                with of_field(name):
                    setattr(obj, name, read_foreign(field.field, value) if field.is_foreign else value)
        others = {each.name for each in self.exposed.options.fields} - set(given)
        obj.full_clean(exclude=others, validate_unique=False, validate_constraints=False)
        check_whole(obj, given, change=self.change)

    def _write(self, ctx: Context, obj: Any, values: Mapping[str, Any]) -> Any:
        """Save *obj* with *values*.

        Raises:
            ToolError, ValidationError, IntegrityError, DataError: it cannot be.
        """
        viewer = Viewer(ctx)
        given = self.with_rows(values, viewer)
        for name in (each for each in values if self.fields[each].target is not None):
            require_same(ctx, self.arguments[name], given[name])
        save = self._save if self.exposed.resource.form is None else self._save_form
        obj = save(ctx, obj, given, viewer)
        check_at_once(self.exposed.model)
        return obj

    def _save(self, ctx: Context, obj: Any, given: Mapping[str, Any], viewer: Viewer) -> Any:
        self.fill_in(obj, given)
        self.exposed.resource.save_model(ctx, obj, self.change)
        for name, rows in given.items():
            if self.fields[name].is_set:
                replace(obj, self.fields[name], rows, viewer)
        return obj

    def _save_form(self, ctx: Context, obj: Any, given: Mapping[str, Any], viewer: Viewer) -> Any:
        form = fill(self.exposed, obj, given, self.fields)
        obj = form.save(commit=False)
        check_whole(obj, given, change=self.change)
        self.exposed.resource.save_model(ctx, obj, self.change)
        save_sets(form, obj, given, self.fields, viewer, change=self.change)
        return obj

    def _shown(self, ctx: Context, obj: Any, words: str) -> ToolResult[Any]:
        """The row as the caller sees it now.

        Raises:
            ToolError: *words*; it does not exist for the caller, so it must not be written by them either.
        """
        viewer = Viewer(ctx)
        rows = viewer.door(self.exposed).using(obj._state.db).filter(pk=obj.pk)  # noqa: SLF001
        row = show_row(self.exposed, viewer, rows)
        if row is None:
            raise ToolError(words)
        return ToolResult(row)


def check_whole(obj: Any, given: Collection[str], *, change: bool) -> None:
    """See that the row as a whole does not break rules that hold for several fields, or several rows.

    Raises:
        ValidationError: it does.
    """
    fields = () if change else obj._meta.fields  # noqa: SLF001 - Django's documented API
    unset = {each.name for each in fields if each.name not in given and _is_unset(obj, each)}
    errors: Any = {}
    for check in (obj.validate_unique, obj.validate_constraints):
        try:
            check(exclude=unset)
        except ValidationError as error:
            errors = error.update_error_dict(errors)
    if errors:
        raise ValidationError(errors)


def _is_unset(obj: Any, field: Any) -> bool:
    """Whether a new row gets the value of a field only later, in ``save_model`` or from the database."""
    if getattr(field, "generated", False):  # an unsaved row does not even let one ask
        return True
    value = getattr(obj, field.attname)
    needed = not field.blank and not has_default(field)
    return isinstance(value, DatabaseDefault) or (needed and value in field.empty_values)


def run_delete(exposed: Exposed, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """Delete a row; the URI it had.

    Raises:
        ToolError: there is none for the caller, they may not delete it, or something needs it.
    """
    with in_database(exposed.model), readable(exposed, {}):
        obj = lock_row(exposed, ctx, given[exposed.lookup_name])
        require_delete(exposed, ctx, obj)
        uri = exposed.uri_of(obj)
        note(ctx, obj, DELETED, [])
        exposed.resource.delete_model(ctx, obj)
        check_at_once(exposed.model)
        return ToolResult({"deleted": uri})


def require_change(exposed: Exposed, ctx: Context, obj: Any) -> None:
    """See that the caller may change a row they see.

    Raises:
        ToolError: they may not.
    """
    if not exposed.resource.has_change_permission(ctx.user, obj):
        raise ToolError(f"You may not change this {exposed.one}.")


def require_delete(exposed: Exposed, ctx: Context, obj: Any) -> None:
    """See that the caller may delete a row they see.

    Raises:
        ToolError: they may not.
    """
    if not exposed.resource.has_delete_permission(ctx.user, obj):
        raise ToolError(f"You may not delete this {exposed.one}.")


def in_database(model: type[Model]) -> AbstractContextManager[None]:
    """A transaction where rows of *model* are; the tool has one of the default database already."""
    alias = router.db_for_write(model)
    # No second one there: inside of it the site could not use ctx.once.
    return nullcontext() if alias == DEFAULT_DB_ALIAS else transaction.atomic(using=alias)


def check_at_once(model: type[Model]) -> None:
    """Have the database look now at what it would look at when the transaction ends, for there it could not be told.

    Elsewhere than on PostgreSQL it would read whole tables.
    """
    connection = connections[router.db_for_write(model)]
    if connection.vendor == "postgresql":
        connection.check_constraints()
