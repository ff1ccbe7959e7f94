"""Saving and deleting rows: forms, locks, admin history and errors."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from functools import cache, cached_property, partial
from typing import Any, cast

from django import forms
from django.apps import apps
from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import DEFAULT_DB_ALIAS, DataError, IntegrityError, connection, connections, router, transaction
from django.db.models import Model, ProtectedError, QuerySet, RestrictedError
from django.db.models.deletion import Collector
from django.db.models.expressions import DatabaseDefault
from django.utils.text import format_lazy

from django_mcp.core.context import Context
from django_mcp.core.request import require_same
from django_mcp.model_resources.access import RowAccess, find_row, get_for_update, using_write_db
from django_mcp.model_resources.bound_resource import BoundResource
from django_mcp.model_resources.compile import written_arguments
from django_mcp.model_resources.form_data import assign_modelcluster_sets, commit_modelcluster_sets
from django_mcp.model_resources.form_errors import CONFLICT_MESSAGE, names_hidden_fields, plain_message
from django_mcp.model_resources.form_sources import FormSource, PerCallQuerySet, add_lookup_argument
from django_mcp.model_resources.model_admin import AdminResource
from django_mcp.model_resources.options import ModelResource, is_plain
from django_mcp.model_resources.pagination import show_row
from django_mcp.model_resources.schema import has_default, json_type
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.markers import MAX_BYTES
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument, missing_argument

logger = logging.getLogger("django_mcp")

ADDED, CHANGED, DELETED = 1, 2, 3
"""As in ``django.contrib.admin.models``, which requires the admin to be installed."""


def add_log_entry(ctx: Context, obj: Model, action: int, form: Any = None, *, formset: Any = None) -> None:
    """Add a ``LogEntry`` to the admin's history, if the admin is installed and the caller is a user.

    Args:
        obj: the row; before it is deleted.
        action: ``ADDED``, ``CHANGED`` or ``DELETED``.
        form: the form it was saved with; None for a deletion or a formset.
        formset: the inline formset that added rows to it.
    """
    if not ctx.user.is_authenticated or not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import LogEntry  # noqa: PLC0415 - the admin is optional
    from django.contrib.admin.utils import construct_change_message  # noqa: PLC0415 - likewise
    from django.contrib.contenttypes.models import ContentType  # noqa: PLC0415 - likewise

    if router.db_for_write(LogEntry) != DEFAULT_DB_ALIAS:  # the transaction of a tool is on that database
        return
    if not has_history():
        return
    formsets = [formset] if hasattr(formset, "new_objects") else []  # as ``save`` of a formset sets it
    message = [] if action == DELETED else construct_change_message(form or forms.Form(), formsets, action == ADDED)
    LogEntry.objects.create(
        user_id=ctx.user.pk,
        content_type_id=ContentType.objects.get_for_model(obj, for_concrete_model=False).pk,
        object_id=str(obj.pk),
        object_repr=str(obj)[:200],
        action_flag=action,
        change_message=json.dumps(message) if message else "",
    )


def has_history() -> bool:
    from django.contrib.admin.models import LogEntry  # noqa: PLC0415 - the admin is optional

    # NetBox, which had no admin, has dropped the table.
    return _has_table(LogEntry._meta.db_table)  # noqa: SLF001 - Django's documented API


@cache  # one query in a process
def _has_table(table: str) -> bool:
    found = table in connection.introspection.table_names()
    if not found:
        logger.warning(
            "The history of the admin is not written: its table %s does not exist. Run: manage.py migrate admin zero "
            "--fake, then manage.py migrate admin.",
            table,
        )
    return found


def lock_row(bound: BoundResource, ctx: Context, value: object) -> Any:
    """Return the row that *value* identifies, locked until the transaction ends.

    Raises:
        ToolError: it does not exist for the caller, or the call was approved for a different row.
    """
    obj = get_for_update(bound.model, lambda: _look(bound, ctx, value))
    if obj is None:
        raise bound.missing(value)
    require_same(ctx, bound.lookup_name, obj)
    return obj


def _look(bound: BoundResource, ctx: Context, value: object) -> Any:
    access = RowAccess(ctx)
    for obj in using_write_db(find_row(bound, access, str(value)))[:1]:
        if access.can_view(bound, obj):
            return obj
    return None


NOT_SET = (
    "A required value is missing that no argument of this tool sets. Do not retry: the site's operator must fix "
    "this. The site's log names the field."
)
OUT_OF_RANGE = "A value is out of range for the database. Use a smaller or shorter value."
IS_NEEDED = "This {} cannot be deleted because other rows refer to it."
NOT_CREATED = "The {} was not created: its values would make it invisible to you. Change them and retry."
NOT_UPDATED = "The {} was not updated: the new values would make it invisible to you. Change them and retry."
MAY_NOT_UPDATE = "You do not have permission to update this {}."
MAY_NOT_DELETE = "You do not have permission to delete this {}."
MAY_NOT_DELETE_OTHERS = (
    "This {} cannot be deleted: {} would be deleted with it, which you do not have permission to delete."
)
_LACKING = frozenset({"blank", "null", "required"})


@contextmanager
def translate_errors(bound: BoundResource, arguments: Mapping[str, str]) -> Iterator[None]:
    """Raise errors of writing a row as ``ToolError``, without details that the caller may not see.

    Args:
        arguments: the argument name of each writable field.
    """
    try:
        with translate_database_errors(bound.options.label):
            yield
    except ValidationError as error:
        if others := _others(error, arguments):
            logger.warning("A row of %s could not be written: %s", bound.options.label, others)
        raise ToolError(validation_error_message(error, bound, arguments)) from None
    except (ProtectedError, RestrictedError):
        raise ToolError(IS_NEEDED.format(bound.one)) from None


@contextmanager
def translate_database_errors(label: str) -> Iterator[None]:
    """Raise database errors as ``ToolError``, without data of other rows. *label* is used in the log."""
    try:
        yield
    except (ProtectedError, RestrictedError):
        raise
    except IntegrityError as error:
        # A database may quote other rows in its message, so it is only logged.
        logger.warning("A row of %s could not be written", label, exc_info=error)
        raise ToolError(CONFLICT_MESSAGE) from None
    except (DataError, OverflowError):
        raise ToolError(OUT_OF_RANGE) from None


def validation_error_message(error: ValidationError, bound: BoundResource, arguments: Mapping[str, str]) -> str:
    by_name = error.error_dict if hasattr(error, "error_dict") else {NON_FIELD_ERRORS: error.error_list}
    return " ".join(
        dict.fromkeys(_sentence(name, error, bound, arguments) for name, errors in by_name.items() for error in errors)
    )


def _sentence(name: str, error: Any, bound: BoundResource, arguments: Mapping[str, str]) -> str:
    if names_hidden_fields(error, bound.model, arguments):
        return CONFLICT_MESSAGE
    words = plain_message(error)
    if name in arguments:
        return about_argument([arguments[name]], words)
    return words if name == NON_FIELD_ERRORS else _of_another_field(name, error.code, words, bound)


def _of_another_field(name: str, code: Any, message: str, bound: BoundResource) -> str:
    """Return the error of a field that is not an argument, with its name only if the caller can read it."""
    if name in {column.name for column in bound.output_fields if column.path is not None and not column.path.hops}:
        return f"Field {name!r}, which this tool does not set: {message}"
    return NOT_SET if code in _LACKING else message


def _others(error: ValidationError, arguments: Mapping[str, str]) -> dict[str, list[str]]:
    by_name = error.message_dict if hasattr(error, "error_dict") else {}
    return {name: words for name, words in by_name.items() if name not in arguments and name != NON_FIELD_ERRORS}


class WholeRowMixin:
    """A mixin for model forms that validates the whole row, including fields that the form lacks."""

    def add_error(self: Any, field: Any, error: Any) -> None:
        # The form may lack the field of an error of the row.
        if field is None and hasattr(error, "error_dict"):
            for name, errors in error.error_dict.items():
                super().add_error(name if name in self.fields else None, errors)  # type: ignore[misc]
        else:
            super().add_error(field, error)  # type: ignore[misc]

    def _get_validation_exclusions(self: Any) -> set[str]:
        kept = {name for name, field in self.fields.items() if field.disabled}
        return kept | super()._get_validation_exclusions()  # type: ignore[misc, no-any-return]

    def validate_unique(self: Any) -> None:
        """Check uniqueness and constraints of the whole row."""
        skipped = {*self.errors, *_unset(self.instance)}
        for check in (self.instance.validate_unique, self.instance.validate_constraints):
            try:
                check(exclude=skipped)
            except ValidationError as error:
                self._update_errors(error)


def _unset(obj: Any) -> set[str]:
    # ``save_model`` or the database sets these later.
    fields = obj._meta.fields if obj._state.adding else ()  # noqa: SLF001 - Django's documented API
    return {field.name for field in fields if _is_unset(obj, field)}


def _is_unset(obj: Any, field: Any) -> bool:
    if getattr(field, "generated", False):  # reading it from an unsaved row raises an error
        return True
    value = getattr(obj, field.attname)
    needed = not field.blank and not has_default(field)
    return isinstance(value, DatabaseDefault) or (needed and value in field.empty_values)


def row_form(bound: BoundResource) -> Any:
    """Return the form class to write rows with: the declared one, or one of ``writable_fields``.

    Dates and times are restricted to ISO 8601, since other formats depend on the language.
    """
    resource = bound.resource
    own: Any = resource.form or forms.ModelForm
    attributes: dict[str, Any] = {"__module__": own.__module__}
    if hasattr(own, "Meta"):
        field = staticmethod(partial(_own_field, own._meta.formfield_callback))  # noqa: SLF001 - of ModelForm
        attributes["Meta"] = type("Meta", (own.Meta,), {"formfield_callback": field})
    made: Any = type(own)(own.__name__, (WholeRowMixin, own), attributes)
    if resource.form is None:
        names, fields = list(resource.writable_fields), partial(_form_field, bound)
        made = forms.modelform_factory(bound.model, made, fields=names, formfield_callback=fields)
    else:
        made = forms.modelform_factory(bound.model, made)
    made.base_fields = deepcopy(made.base_fields)  # declared fields are shared with the form's class
    for form_field in made.base_fields.values():
        if hasattr(form_field, "input_formats"):
            form_field.input_formats = ()
    return made


def _form_field(bound: BoundResource, field: Any, **options: Any) -> Any:
    if not field.is_relation:
        form_field = field.formfield(**options)
        if isinstance(form_field, forms.CharField):
            form_field.strip = False
        return form_field
    target = bound.on_server(field.related_model)
    form_field = field.formfield(**_callers_rows(field), **options, to_field_name=None)
    words = format_lazy("no {} with {} '%(value)s' found.", target.options.verbose_name, target.lookup_name)  # type: ignore[union-attr]
    form_field.error_messages["invalid_choice"] = words
    return form_field


def _own_field(own: Any, field: Any, **options: Any) -> Any:
    return (own or type(field).formfield)(field, **{**_callers_rows(field), **options})


def _callers_rows(field: Any) -> dict[str, Any]:
    """Return the rows of a relation's form field, if those of the default manager may depend on the caller."""
    if not field.is_relation or is_plain(field.related_model._default_manager):  # noqa: SLF001 - documented API
        return {}
    return {"queryset": PerCallQuerySet(field.related_model)}


class Writer:
    """Creates or, with *change*, updates rows of a model through its form.

    Attributes:
        arguments: the argument name of each form field.
    """

    def __init__(self, bound: BoundResource, *, change: bool) -> None:
        self.bound, self.change = bound, change
        self.arguments = written_arguments(bound, change=change)

    @cached_property
    def source(self) -> FormSource:
        # Making the form may query the database, as default managers of related models do.
        renamed = {name: argument for name, argument in self.arguments.items() if name != argument}
        label, made = self.bound.options.label, row_form(self.bound)
        return FormSource(made, None, MAX_BYTES, label, changes=self.change, renamed=renamed, is_bare=True)

    def schema(self) -> dict[str, Any]:
        schema = self.source.schema(self.bound.server)
        if not self.change:
            return schema
        which = {**json_type(self.bound.lookup), "description": self.bound.lookup_description}
        return add_lookup_argument(schema, self.bound.lookup_name, which)

    def create(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        """Create a row and return it.

        Raises:
            ArgumentError, ToolError: the values are invalid.
        """
        with transaction_for(self.bound.model), translate_errors(self.bound, self.arguments):
            form = self._save(ctx, self.bound.model(), keywords["given"])
            shown = self._shown(ctx, form.instance, NOT_CREATED.format(self.bound.one))
            add_log_entry(ctx, form.instance, ADDED, form)
            return shown

    def update(self, ctx: Context, keywords: Mapping[str, Any]) -> ToolResult[Any]:
        """Update a row and return it.

        Raises:
            ArgumentError, ToolError: the values are invalid, or the row does not exist for the caller or may not be
                changed.
        """
        value, given = self.apart(keywords)
        with transaction_for(self.bound.model), translate_errors(self.bound, self.arguments):
            obj = lock_row(self.bound, ctx, value)
            require_change_permission(self.bound, ctx, obj)
            form = self._save(ctx, obj, given)
            shown = self._shown(ctx, form.instance, NOT_UPDATED.format(self.bound.one))
            add_log_entry(ctx, form.instance, CHANGED, form)
            return shown

    def apart(self, keywords: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Split the arguments into the lookup value, which is required, and the others."""
        given = dict(keywords["given"])
        if self.bound.lookup_name not in given:
            raise ArgumentError([missing_argument([self.bound.lookup_name])])
        return given.pop(self.bound.lookup_name), given

    def bind_form(self, ctx: Context, obj: Any, given: Mapping[str, Any]) -> Any:
        """Return the bound and valid form.

        Raises:
            ArgumentError, ToolError: the arguments are invalid, or there is nothing to update.
        """
        form = self.source.bind_form(ctx, given, obj)
        if self.change and not given:
            raise ToolError(
                f"Nothing to update. Give at least one of: {', '.join(map(repr, self.arguments.values()))}."
            )
        return form

    def _save(self, ctx: Context, obj: Any, given: Mapping[str, Any]) -> Any:
        form = self.bind_form(ctx, obj, given)
        obj = form.save(commit=False)
        if self.change:
            # save_m2m() would write the sets that are not given, too.
            sets = {relation.name for relation in self.bound.options.many_to_many}
            for name in sets - self.source.values_by_field(given).keys():
                form.cleaned_data.pop(name, None)
        assign_modelcluster_sets(form)
        self.bound.resource.save_model(ctx, obj, self.change)
        if not self.change:
            self._require_key(form.instance)
        form.save_m2m()
        commit_modelcluster_sets(form.instance)
        check_deferred_constraints(self.bound.model)
        return form

    def _require_key(self, obj: Any) -> None:
        # The next new row would replace one whose key is an empty text. It is checked once saved, because save of the
        # model or a signal may set the key.
        key = self.bound.options.pk
        if obj.pk in key.empty_values and key.name not in self.arguments:
            raise ValidationError({key.name: ValidationError(key.error_messages["blank"], code="blank")})

    def _shown(self, ctx: Context, obj: Any, words: str) -> ToolResult[Any]:
        """Return the row as the caller now sees it.

        Raises:
            ToolError: with *words*, if the caller cannot see the row after this write, which is then rolled back.
        """
        access = RowAccess(ctx)
        rows = access.get_queryset(self.bound).using(obj._state.db).filter(pk=obj.pk)  # noqa: SLF001
        row = show_row(self.bound, access, rows)
        if row is None:
            raise ToolError(words)
        return ToolResult(row)


def run_delete(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """Delete a row and return its former URI.

    Raises:
        ToolError: the row does not exist for the caller, may not be deleted, or is referred to by protected rows.
    """
    with transaction_for(bound.model), translate_errors(bound, {}):
        obj = lock_row(bound, ctx, given[bound.lookup_name])
        refused = require_delete_permission(bound, ctx, obj)
        # Before the deletion, in which Django clears the key of the instance.
        uri = bound.uri_of(obj)
        add_log_entry(ctx, obj, DELETED)
        bound.resource.delete_model(ctx, obj)
        check_deferred_constraints(bound.model)
        for rows, count in refused:
            if rows.count() < count:
                raise ToolError(_may_not_delete_others(bound, ()))
        return ToolResult({"deleted": uri})


def require_change_permission(bound: BoundResource, ctx: Context, obj: Any) -> None:
    if not bound.resource.has_change_permission(ctx, obj):
        raise ToolError(MAY_NOT_UPDATE.format(bound.one))


def require_delete_permission(bound: BoundResource, ctx: Context, obj: Any) -> list[tuple[QuerySet[Any], int]]:
    """Raise ``ToolError`` unless the caller may delete *obj* and, as in Django's admin, what is deleted with it.

    Returns:
        Rows with their number that the caller may not delete, if the site overrides the deletion, such as with a soft
        delete: whether it deletes them is only known once it has run.
    """
    if not bound.resource.has_delete_permission(ctx, obj):
        raise ToolError(MAY_NOT_DELETE.format(bound.one))
    access, is_own_way = RowAccess(ctx), overrides_deletion(bound)
    refused: list[tuple[QuerySet[Any], int]] = []
    try:
        refused += ((rows, count) for rows in cascade_querysets(obj) if (count := _refused(bound, access, rows)))
    except (ProtectedError, RestrictedError):
        if not is_own_way:
            raise
    if refused and not is_own_way:
        seen = [rows.model for rows, _ in refused if _is_partly_visible(bound, access, rows)]
        raise ToolError(_may_not_delete_others(bound, seen))
    return refused


def overrides_deletion(bound: BoundResource) -> bool:
    is_usual = type(bound.resource).delete_model is ModelResource.delete_model
    return not is_usual or bound.model.delete is not Model.delete


def cascade_querysets(obj: Any) -> Iterator[QuerySet[Any]]:
    """Yield the rows that Django deletes with *obj*, by model; among them the rows of its parents.

    Raises:
        ProtectedError, RestrictedError: protected rows refer to it.
    """
    alias = obj._state.db  # noqa: SLF001 - Django's documented API
    collector = Collector(using=alias, origin=obj)
    collector.collect([obj])
    for model, rows in collector.data.items():
        keys = [row.pk for row in rows if not (type(obj) is model and row.pk == obj.pk)]
        for start in range(0, len(keys), _KEYS):
            yield model._base_manager.using(alias).filter(pk__in=keys[start : start + _KEYS])  # noqa: SLF001
    for queryset in collector.fast_deletes:
        yield cast("QuerySet[Any]", queryset).all()


_KEYS = 500
"""Primary keys in one query."""


def _refused(bound: BoundResource, access: RowAccess, rows: QuerySet[Any]) -> int:
    """Return the number of *rows* if the caller may not delete all of them, else 0."""
    rules, resource = bound.rules_of(rows.model), bound.resource
    if not rules.exist:
        if not isinstance(resource, AdminResource) or not resource.knows_related(rows.model):
            return 0
        return 0 if all(resource.may_delete_related(access.ctx, row) for row in rows) else rows.count()
    count = rows.count()
    if not count:
        return 0
    visible = access.visible_rows(rules)
    if not access.has_permission(rules, "delete") or (
        visible is not None and visible.using(rows.db).filter(pk__in=rows.values("pk")).count() < count
    ):
        return count
    is_each_asked = rules.checks_each_row or any(
        declaration.object_permissions or declaration.has_own_rule("delete") for declaration in rules.resources
    )
    if is_each_asked and not all(
        access.can_view_row(rules, row) and access.has_permission(rules, "delete", row) for row in rows
    ):
        return count
    return 0


def _is_partly_visible(bound: BoundResource, access: RowAccess, rows: QuerySet[Any]) -> bool:
    rules = bound.rules_of(rows.model)
    if not rules.exist:
        return False
    visible = access.visible_rows(rules)
    found = rows if visible is None else visible.using(rows.db).filter(pk__in=rows.values("pk"))
    return any(access.can_view_row(rules, row) for row in found[:_KEYS])


def _may_not_delete_others(bound: BoundResource, kinds: Sequence[Any]) -> str:
    names = dict.fromkeys(str(kind._meta.verbose_name_plural) for kind in kinds)  # noqa: SLF001
    return MAY_NOT_DELETE_OTHERS.format(bound.one, ", ".join(names) or "other rows")


def transaction_for(model: type[Model]) -> AbstractContextManager[None]:
    """Return a transaction on the database of *model*; none on the default one, where a tool already has one."""
    alias = router.db_for_write(model)
    # A nested transaction would prevent the site from using ctx.once.
    return nullcontext() if alias == DEFAULT_DB_ALIAS else transaction.atomic(using=alias)


def check_deferred_constraints(model: type[Model]) -> None:
    # Deferred errors would come after the tool, too late to be reported. Other databases would read whole tables.
    connection = connections[router.db_for_write(model)]
    if connection.vendor == "postgresql":
        connection.check_constraints()
