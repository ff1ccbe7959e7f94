"""Save and delete rows: forms, locks, history and errors."""

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from django import forms
from django.apps import apps
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.core.serializers.json import DjangoJSONEncoder
from django.db import DEFAULT_DB_ALIAS, DataError, IntegrityError, connections, router, transaction
from django.db.models import Model, ProtectedError, RestrictedError
from django.db.models.expressions import DatabaseDefault

from django_mcp.core.context import Context
from django_mcp.core.request import require_same
from django_mcp.model_resources.access import Viewer, find_row, linked, locked, on_writer
from django_mcp.model_resources.bound_resource import Exposed
from django_mcp.model_resources.compile import NOT_GIVEN, WriteField, has_default
from django_mcp.model_resources.form_binding import Given, as_shown, keep
from django_mcp.model_resources.pagination import show_row
from django_mcp.model_resources.schema import form_value, read_foreign, require_kept
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import ToolError
from django_mcp.primitives.validation_errors import shortened

ADDED, CHANGED, DELETED = 1, 2, 3
"""``django.contrib.admin.models`` has the same, which can be imported only where the admin is installed."""


def note(ctx: Context, obj: Model, action: int, message: Sequence[dict[str, Any]]) -> None:
    """Make a ``LogEntry``, in the transaction of what was written; where there is an admin, and the caller is a user.

    Args:
        ctx: of the call.
        obj: what was written; not yet deleted.
        action: what was done.
        message: what the admin would write of it.
    """
    if not ctx.user.is_authenticated or not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import LogEntry  # noqa: PLC0415 - where it is installed
    from django.contrib.contenttypes.models import ContentType  # noqa: PLC0415 - likewise

    if router.db_for_write(LogEntry) != DEFAULT_DB_ALIAS:  # the transaction of a tool is of that one
        return
    LogEntry.objects.create(
        user_id=ctx.user.pk,
        content_type_id=ContentType.objects.get_for_model(obj, for_concrete_model=False).pk,
        object_id=str(obj.pk),
        object_repr=str(obj)[:200],
        action_flag=action,
        change_message=json.dumps(message) if message else "",
    )


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


def _look(exposed: Exposed, ctx: Context, value: object) -> Any:
    viewer = Viewer(ctx)
    for obj in on_writer(find_row(exposed, viewer, str(value)))[:1]:
        if viewer.sees(exposed, obj):
            return obj
    return None


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


logger = logging.getLogger("django_mcp")

RULE = (
    "The values do not fit together, or not with what there is already: other values must be unique, or something that "
    "is needed is missing."
)
NOT_SET = "A value is missing that this tool cannot set, whatever its arguments are. The site's log says which."
_MOST_CHARACTERS = 500
_LACKING = frozenset({"blank", "null", "required"})
_OF_RELATIONS = frozenset({"invalid", "invalid_choice", "invalid_pk_value"})


@contextmanager
def readable(exposed: Exposed, arguments: Mapping[str, str]) -> Iterator[None]:
    """What goes wrong while a row is written, as far as the caller may know.

    Args:
        exposed: the row's model.
        arguments: of each field that can be given, what it is called for the caller.

    Raises:
        ToolError: in place of what was raised; so the transaction is rolled back.
    """
    try:
        with stored(exposed.options.label):
            yield
    except ValidationError as error:
        if others := _others(error, arguments):
            logger.warning("A row of %s could not be written: %s", exposed.options.label, others)
        raise ToolError(in_words(error, exposed, arguments)) from None
    except (ProtectedError, RestrictedError):
        raise ToolError(f"This {exposed.one} cannot be deleted: there is something else that needs it.") from None


@contextmanager
def of_field(name: str) -> Iterator[None]:
    """Have what is wrong with a value be told of the field *name*.

    Raises:
        ValidationError: one that names the field, in place of one that names none.
    """
    try:
        yield
    except ValidationError as error:
        raise ValidationError({name: error}) from None


@contextmanager
def stored(label: str) -> Iterator[None]:
    """What a database says no to, in words that tell of no row.

    Args:
        label: of what is written, for the log.

    Raises:
        ToolError: in place of what the database raised.
    """
    try:
        yield
    except (ProtectedError, RestrictedError):
        raise
    except IntegrityError as error:
        # The caller reads nothing of it, for a database may quote another row; the site's owner has to.
        logger.warning("A row of %s could not be written", label, exc_info=error)
        raise ToolError(RULE) from None
    except (DataError, OverflowError):
        raise ToolError("A value is outside of what the database holds. Use another one.") from None


def in_words(error: ValidationError, exposed: Exposed, arguments: Mapping[str, str]) -> str:
    """All that an error says, each sentence once."""
    by_name = error.error_dict if hasattr(error, "error_dict") else {NON_FIELD_ERRORS: error.error_list}
    return " ".join(
        dict.fromkeys(_sentence(name, each, exposed, arguments) for name, errors in by_name.items() for each in errors)
    )


def _sentence(name: str, error: Any, exposed: Exposed, arguments: Mapping[str, str]) -> str:
    params = error.params if isinstance(error.params, dict) else {}
    if "unique_check" in params:
        return _unique(params["unique_check"], arguments)
    if error.code == "unique_for_date":
        return _unique((params["field"], params["date_field"]), arguments)
    message = error.messages[0]
    if message in _names_of_constraints(exposed):
        return RULE
    message = shortened(message + _parts(error), _MOST_CHARACTERS)
    if name not in arguments:
        return _of_another_field(name, error.code, message, exposed)
    if error.code in _OF_RELATIONS and _is_relation(exposed, name):
        message = "it cannot be this one; it is none of those that can be chosen here."
    return f"Argument {arguments[name]!r}: {message}"


def _of_another_field(name: str, code: Any, message: str, exposed: Exposed) -> str:
    """What is told of a field that is no argument. It is named where the caller knows it, from reading rows."""
    if name in {column.name for column in exposed.columns if column.path is not None and not column.path.hops}:
        return f"Field {name!r}, which this tool cannot set: {message}"
    return NOT_SET if code in _LACKING else message


def _others(error: ValidationError, arguments: Mapping[str, str]) -> dict[str, list[str]]:
    """What is wrong with fields that are no arguments."""
    by_name = error.message_dict if hasattr(error, "error_dict") else {}
    return {name: words for name, words in by_name.items() if name not in arguments and name != NON_FIELD_ERRORS}


def _parts(error: ValidationError) -> str:
    """What an error says of the parts of a value, as those of Wagtail do of blocks."""
    told = getattr(error, "as_json_data", None)
    return f" {json.dumps(told(), cls=DjangoJSONEncoder)}" if callable(told) else ""


def _unique(names: Any, arguments: Mapping[str, str]) -> str:
    if any(name not in arguments for name in names):
        return RULE
    together = " and ".join(repr(arguments[name]) for name in names)
    alone = len(names) == 1
    return f"{'Argument' if alone else 'Arguments'} {together}: {'it' if alone else 'together they'} must be unique."


def _names_of_constraints(exposed: Exposed) -> set[str]:
    """What Django says of a constraint for which the model has no words: its name, which is not for callers."""
    constraints = [each for options in _with_parents(exposed) for each in options.constraints]
    plain = [each for each in constraints if each.violation_error_message == each.default_violation_error_message]
    return {str(each.get_violation_error_message()) for each in plain}


def _with_parents(exposed: Exposed) -> Iterator[Any]:
    yield exposed.options
    for parent in exposed.options.all_parents:
        yield parent._meta  # noqa: SLF001 - Django's documented API


def _is_relation(exposed: Exposed, name: str) -> bool:
    return any(each.name == name and each.is_relation for each in exposed.options.get_fields())


def fill(exposed: Exposed, obj: Any, given: Mapping[str, Any], fields: Mapping[str, WriteField]) -> Any:
    """The form of a declaration, filled in and valid.

    Args:
        exposed: the model.
        obj: a row that is there already, or a new object.
        given: values by name of field; for relations to exposed models the rows.
        fields: all that can be given.

    Raises:
        ValidationError: the form says no.
    """
    form = exposed.resource.form(data={}, instance=obj)
    is_new = obj._state.adding  # noqa: SLF001 - Django's documented API
    data: dict[str, Any] = {}
    for name, field in form.fields.items():
        if name in given:
            data[form.add_prefix(name)] = _as_data(form, name, given[name], fields[name])
        elif is_new and (initial := form.get_initial_for_field(field, name)) is not None:
            data[form.add_prefix(name)] = as_shown(field, initial)
    if not is_new:
        keep(form, obj, given)
    for field in form.fields.values():
        field.widget = Given()
    form.data = data
    if not form.is_valid():
        raise ValidationError(form.errors.as_data())
    for name, value in given.items():
        if _is_read_by_column(form, fields[name]):
            with of_field(name):
                require_kept(fields[name].field, value, form.cleaned_data[name])
    return form


def _is_read_by_column(form: Any, field: WriteField) -> bool:
    return field.is_foreign and field.name not in form.declared_fields


def _as_data(form: Any, name: str, value: Any, field: WriteField) -> Any:
    asked = form.fields[name]
    if _is_read_by_column(form, field):
        with of_field(name):
            return form_value(field.field, asked, value)
    if field.target is not None and value is not None:
        key = asked.to_field_name or "pk"
        return [getattr(row, key) for row in value] if field.is_set else getattr(value, key)
    # JSON is text in forms; everything else they take as it is.
    return asked.prepare_value(value) if isinstance(asked, forms.JSONField) else value


def save_sets(
    form: Any, obj: Any, given: Mapping[str, Any], fields: Mapping[str, WriteField], viewer: Viewer, *, change: bool
) -> None:
    """Write the sets of rows that were given; what the caller cannot see stays in them."""
    for field in own_sets(obj):
        name = field.name
        if name not in form.cleaned_data:
            continue
        if change and name not in given:
            del form.cleaned_data[name]
        elif change and fields[name].target is not None:
            seen = visible(obj, fields[name], viewer)
            hidden = [key for key in linked(obj, field) if key not in seen]
            form.cleaned_data[name] = [*form.cleaned_data[name], *hidden]
    form.save_m2m()


def own_sets(obj: Any) -> Iterable[Any]:
    """The sets of rows that the model of *obj* declares."""
    sets: Iterable[Any] = obj._meta.many_to_many  # noqa: SLF001 - Django's documented API
    return sets


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
