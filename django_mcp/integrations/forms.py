"""``form_tool``: forms and formsets as tools."""

import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Annotated, Any, TypeVar, overload

from django import forms
from django.contrib.auth import get_permission_codename
from django.core.exceptions import ImproperlyConfigured, ObjectDoesNotExist, PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.db import models
from django.db.models import Model
from django.dispatch import receiver
from django.forms.utils import pretty_name
from django.http import Http404
from django.utils.text import capfirst
from pydantic_core import to_json

from django_mcp.core.context import Context
from django_mcp.core.database import rolled_back
from django_mcp.core.decorators import register_at
from django_mcp.core.late_tools import LateTool
from django_mcp.core.permissions import Right, right
from django_mcp.core.request import require_same
from django_mcp.core.server import Where
from django_mcp.core.signals import primitive_added
from django_mcp.core.signatures import GIVEN, function, taken_by
from django_mcp.model_resources.access import RowAccess, reload_for_update
from django_mcp.model_resources.arguments import Argument, ModelArgument
from django_mcp.model_resources.bound_resource import rules_at
from django_mcp.model_resources.form_app import FormApp
from django_mcp.model_resources.form_choices import RowLookup, visible_value
from django_mcp.model_resources.form_data import commit_modelcluster_sets
from django_mcp.model_resources.form_errors import InvalidForm
from django_mcp.model_resources.form_schema import editable_fields, foreign_column
from django_mcp.model_resources.form_sources import (
    NOTHING_TO_UPDATE,
    FormArguments,
    FormSetSource,
    FormSource,
    ToolSource,
    add_lookup_argument,
    form_verbose_name,
)
from django_mcp.model_resources.options import ACTIONS, DEFAULT
from django_mcp.model_resources.pagination import show_row
from django_mcp.model_resources.previews import MAX_ROWS, changes_of, unless_secret
from django_mcp.model_resources.schema import column_value, to_json_value
from django_mcp.model_resources.serializers import serialize_link
from django_mcp.model_resources.writes import (
    ADDED,
    CHANGED,
    MAY_NOT_UPDATE,
    add_log_entry,
    check_deferred_constraints,
    transaction_for,
    translate_database_errors,
)
from django_mcp.primitives.base import Primitive, ToolError, check_options, phrase
from django_mcp.primitives.function import EMPTY, Parameter, underlying
from django_mcp.primitives.markers import MAX_BYTES
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import missing_argument

F = TypeVar("F", bound="type[forms.BaseForm | forms.BaseFormSet[Any]]")


def success_result(ctx: Context, done: Any, source: ToolSource, form: Any, *, change: bool) -> Any:
    """Return the tool's result after a form was handled.

    Args:
        done: the handler's result. Rows are returned as their ModelResource shows them, other values unchanged.
        source: the form's class.
        form: the valid form or formset.
        change: True if an existing row was changed.
    """
    filled = source.forms(form)
    verb = "changed" if change else "created"
    if isinstance(done, models.Model):
        words = f"The {done._meta.verbose_name} was {verb}."  # noqa: SLF001 - Django's documented API
        return _told(words, _row(ctx, done, filled[0], source))
    if isinstance(done, list) and any(isinstance(entry, models.Model) for entry in done):
        rows = [_row(ctx, obj, form, source) for obj, form in zip(done, filled, strict=False)]
        options = done[0]._meta  # noqa: SLF001 - Django's documented API
        words = f"1 {options.verbose_name} was" if len(done) == 1 else f"{len(done)} {options.verbose_name_plural} were"
        return _told(f"{words} {verb}.", {"rows": [row for row in rows if row is not None]})
    if done is None:
        return "The form was accepted."
    return done


def _told(words: str, data: dict[str, Any] | None) -> Any:
    return words if data is None else ToolResult(data, text=f"{words}\n{to_json(data).decode()}")


def _row(ctx: Context, obj: Any, form: Any, source: ToolSource) -> dict[str, Any] | None:
    """Return a row as its ModelResource shows it (None if hidden from the caller), or its key and submitted values."""
    bound = ctx.server.model_resources.get(type(obj))
    if bound is None:
        return {"pk": to_json_value(obj), **submitted_values(form, source.field_names(form))}
    access = RowAccess(ctx)
    return show_row(bound, access, access.get_queryset(bound).using(obj._state.db).filter(pk=obj.pk))  # noqa: SLF001


def form_preview(
    ctx: Context, verb: str, name: str, filled: Sequence[tuple[forms.BaseForm, Mapping[str, Any]]]
) -> dict[str, Any]:
    """Return a preview of the submitted values with their labels.

    Stored values are added by ``changes_of``, if a ModelResource lets the caller view them.

    Args:
        verb: ``"create"``, ``"update"``, or ``"submit"`` for a form without a row.
        filled: valid forms, each with its arguments.
    """
    changes = []
    for place, (form, given) in enumerate(filled, 1):
        fields, numbered = editable_fields(form), f" ({place})" if len(filled) > 1 else ""
        for field, value in _with_titles(ctx, form, fields).items():
            if field in given:
                label = capfirst(str(fields[field].label or pretty_name(field)))
                entry = {"field": field, "label": label + numbered, "after": unless_secret(field, value)}
                changes.append({**entry, "hidden": True} if verb == "update" else entry)
    return {"verb": verb, "object": capfirst(name), "changes": changes}


def _with_titles(ctx: Context, form: Any, names: Iterable[str]) -> dict[str, Any]:
    values = submitted_values(form, names)
    for name in values:
        value = visible_value(form, name)
        is_many = isinstance(value, models.QuerySet | list) and value and isinstance(value[0], models.Model)
        if is_many:
            values[name] = _links(ctx, value[:MAX_ROWS])
        elif isinstance(value, models.Model):
            (values[name],) = _links(ctx, [value])
    return values


def _links(ctx: Context, rows: Iterable[Any]) -> list[Any]:
    """Return a link for each row of one model, or its key if no registered class shows it to the caller."""
    rows, access = list(rows), RowAccess(ctx)
    declared = access.as_declared(rules_at(ctx.server, type(rows[0])), rows)
    links = []
    for row in rows:
        bound, shown = declared.get(row.pk, (None, None))
        link = serialize_link(bound, shown, access) if bound is not None and bound.is_sound else None
        links.append(to_json_value(row) if link is None else link)
    return links


def submitted_values(form: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the cleaned values of some fields, without passwords. Rows are represented by argument or key."""
    fields = {name: form.fields[name] for name in names}
    return {
        name: field.mcp_given if hasattr(field, "mcp_given") else _plain(form, name)
        for name, field in fields.items()
        if name in form.cleaned_data and getattr(field.widget, "input_type", None) != "password"
    }


def _plain(form: Any, name: str) -> Any:
    value = visible_value(form, name)
    if (column := foreign_column(form, name)) is not None:
        return column_value(column, value)
    return value.name if isinstance(value, UploadedFile) else to_json_value(value)


Handle = Callable[..., Any]
Kwargs = Callable[..., Mapping[str, Any]]


@overload
def form_tool(
    form_class: F,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    handle: Handle | str | None = None,
    result: Handle | None = None,
    form_kwargs: Kwargs | None = None,
    parents: Mapping[str, Any] | None = None,
    instance: Callable[..., Any] | None = None,
    lookup: str | None = None,
    queryset: Callable[..., Any] | None = None,
    argument: str | None = None,
    max_file_bytes: int = MAX_BYTES,
    app: bool | str = False,
    permission: str | Sequence[str] | None = DEFAULT,
    server: Where = None,
    **options: Any,
) -> F: ...
@overload
def form_tool(
    *,
    name: str | None = None,
    description: str | None = None,
    handle: Handle | str | None = None,
    result: Handle | None = None,
    form_kwargs: Kwargs | None = None,
    parents: Mapping[str, Any] | None = None,
    instance: Callable[..., Any] | None = None,
    lookup: str | None = None,
    queryset: Callable[..., Any] | None = None,
    argument: str | None = None,
    max_file_bytes: int = MAX_BYTES,
    app: bool | str = False,
    permission: str | Sequence[str] | None = DEFAULT,
    server: Where = None,
    **options: Any,
) -> Callable[[F], F]: ...
def form_tool(form_class: Any = None, /, *, server: Where = None, **options: Any) -> Any:
    """Offer a form as a tool: ``form_tool(BookingForm)``, or as decorator of the class, with or without options.

    Returns the class unchanged. Its fields are the arguments; a formset is one array argument. A ModelForm requires the
    same permissions and approval as the same write through ``ModelResource``. Any other form needs ``permission=``,
    ``groups=``, ``scopes=`` or ``visible=``, as its view does.

    Args:
        form_class: a ``Form``, a ``ModelForm``, or a formset class, such as ``formset_factory`` makes.
        name: tool name. Default: from the class name; for a ModelForm ``create_booking`` or ``update_booking``.
        description: description for the model. Default: the docstring of the class.
        handle: ``handle(ctx, form)`` processes the valid form; or the name of a method of the form. Default:
            ``"save"``. It returns the result of the tool. Rows are shown as their ModelResource at the endpoint shows
            them, or otherwise with their submitted values.
        result: ``result(ctx, returned)`` converts the return value of ``handle``. Its return annotation defines the
            output schema.
        form_kwargs: ``form_kwargs(ctx)`` returns additional arguments of the form class, such as ``{"user":
            ctx.user}``; for a formset, of each form. An ``instance`` among them is a new object with initial values.
        parents: rows that the form belongs to, which callers name with further arguments and the class takes as keyword
            arguments: ``{"project": Project}``. Callers name them as in tools that take a model, among the rows that
            its ModelResource lets them view, or with ``Annotated[Project, ModelArgument(…)]``. ``handle``,
            ``form_kwargs``, ``instance`` and ``queryset`` get those that they take by name, after their own parameters.
            If ``form_kwargs`` takes one, the class gets only what it returns. A field with the name of a parent has its
            row.
        instance: ``instance(ctx)`` returns the row to change.
        lookup: unique field, such as ``"pk"``, with which callers select the row to change.
        queryset: ``queryset(ctx)`` returns the rows for ``lookup``. Default: the rows that the model's ModelResource at
            the endpoint lets the caller view, and whose foreign keys lead to the parents of the same names.
        argument: name of a formset's array argument. Default: from the model or the form.
        max_file_bytes: maximum size of a file in bytes.
        app: True to show the form in clients with MCP Apps: their models call a second tool, named like the form's with
            ``_form``, and the user fills the form in and submits it. The name of a template to show the result with.
        permission: permission such as ``"library.add_book"``, a list of them, or None for none. Default for a
            ModelForm: the permissions and scopes that the model's ModelResource requires, or otherwise Django's add or
            change permission; for an inline formset, change on the parent and add on its rows. Default for other forms:
            none.
        server: one or several endpoints or namespaces to register at. Default: ``django_mcp.server``.
        **options: options of ``tool``: ``title``, ``groups``, ``scopes``, ``atomic``, ``rate_limit``, …. Without
            ``preview``, approvers see the submitted values of a valid form.

    Raises:
        ImproperlyConfigured: nothing would process the form, it cannot be created, or an option does not apply.
    """

    def register(made: F) -> F:
        register_at(server, lambda target: DeclaredForm(made, getattr(target, "server", target), **options).tools)
        return made

    return register if form_class is None else register(form_class)


class WritePermission:
    """A ``visible`` predicate that checks write permissions by ModelResource, or else by Django's permissions.

    Args:
        writes: pairs of a model and the action on its rows, ``"create"`` or ``"update"``.

    Attributes:
        also: an additional predicate, or None.
    """

    def __init__(self, *writes: tuple[type[Model], str]) -> None:
        self._writes = writes
        self.also: Callable[[Context], Any] | None = None

    def __call__(self, ctx: Context) -> bool:
        if not all(_allows(ctx, model, verb) for model, verb in self._writes):
            return False
        return self.also is None or bool(self.also(ctx))

    def require(self, ctx: Context, obj: Any) -> None:
        """Raise ToolError unless the caller may create or update this row."""
        options, is_new = obj._meta, obj._state.adding  # noqa: SLF001 - Django's documented API
        if not _allows(ctx, type(obj), "create" if is_new else "update"):
            words = f"add {options.verbose_name_plural}" if is_new else f"update this {options.verbose_name}"
            raise ToolError(f"You do not have permission to {words}.")
        if not is_new and not RowAccess(ctx).has_permission(rules_at(ctx.server, type(obj)), "update", obj):
            raise ToolError(MAY_NOT_UPDATE.format(options.verbose_name))

    @property
    def words(self) -> str:
        return "requires the permission " + " and ".join(_permission(model, verb) for model, verb in self._writes)


def is_predicate(given: object) -> bool:
    return callable(given) and not inspect.iscoroutinefunction(given)


def _allows(ctx: Context, model: type[Model], verb: str) -> bool:
    rules = rules_at(ctx.server, model)
    if rules.own is None and (ctx.user is None or not ctx.user.has_perm(_permission(model, verb))):
        return False
    return RowAccess(ctx).has_permission(rules, verb)


def _permission(model: type[Model], verb: str) -> str:
    options = model._meta  # noqa: SLF001 - Django's documented API
    return f"{options.app_label}.{get_permission_codename(ACTIONS[verb], options)}"


OF_FORMS = inspect.signature(forms.BaseModelForm).parameters.keys()
"""Names of the keyword arguments of Django's own form classes."""


class FormParents:
    """The rows that a form belongs to, which callers name.

    Args:
        declared: models by the names of their arguments, possibly annotated with a ``ModelArgument``.
        label: names the tool in configuration errors.

    Attributes:
        models: the models by name.
        calls_site: True if a function of the site selects rows.

    Raises:
        ImproperlyConfigured: the declaration is no such mapping.
    """

    def __init__(self, declared: Any, label: str) -> None:
        if not isinstance(declared, Mapping) or not declared:
            msg = f'{label}: parents must be a dict of models, such as {{"project": Project}}, not {declared!r}.'
            raise ImproperlyConfigured(msg)
        self._declared, self._label, self.models = dict(declared), label, {}
        for name, annotation in declared.items():
            origin: Any = typing.get_origin(annotation)
            is_marked = origin is Annotated
            model = typing.get_args(annotation)[0] if is_marked else annotation
            if not (isinstance(name, str) and name.isidentifier()):
                msg = f"{label}: parents: {name!r} cannot be the name of a keyword argument."
                raise ImproperlyConfigured(msg)
            if name in OF_FORMS:
                msg = f"{label}: parents: {name!r} is an argument of every form; choose another name."
                raise ImproperlyConfigured(msg)
            if not (isinstance(model, type) and issubclass(model, Model)) or model._meta.abstract:  # noqa: SLF001
                msg = f"{label}: parents: {name!r} must be a model, not {model!r}."
                raise ImproperlyConfigured(msg)
            self.models[name] = model
        marks = [mark for annotation in declared.values() for mark in typing.get_args(annotation)[1:]]
        self.calls_site = any(isinstance(mark, ModelArgument) for mark in marks)
        self._arguments: dict[Any, dict[str, Argument]] = {}

    def _arguments_at(self, server: Any) -> dict[str, Argument]:
        if server not in self._arguments:
            self.schemas(server)
        return self._arguments[server]

    def schemas(self, server: Any) -> dict[str, dict[str, Any]]:
        """Return the JSON Schemas of the arguments at an endpoint.

        Raises:
            ImproperlyConfigured: a model is neither registered there nor has a ``ModelArgument``.
        """
        arguments = self._arguments[server] = {
            name: Argument(Parameter(name, annotation, EMPTY, None), server, self._label)
            for name, annotation in self._declared.items()
        }
        return {name: argument.schema for name, argument in arguments.items()}

    def find(self, ctx: Context, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rows that a call names.

        Raises:
            ToolError: a row does not exist for the caller, or the call was approved for a different one.
        """
        access, found = RowAccess(ctx), dict[str, Any]()
        for name, argument in self._arguments_at(ctx.server).items():
            found[name] = argument.find(given[name], access, found)
            require_same(ctx, name, found[name])
        return found

    def keys_of(self, model: type[Model]) -> list[str]:
        """Return the foreign keys of a model to the parents, which have their names.

        Raises:
            ImproperlyConfigured: there is none for one of the parents.
        """
        columns = {field.name: field for field in model._meta.concrete_fields}  # noqa: SLF001 - documented API
        for name, parent in self.models.items():
            of_key: Any = getattr(columns.get(name), "related_model", None)
            if of_key is None or of_key._meta.concrete_model is not parent._meta.concrete_model:  # noqa: SLF001
                msg = (
                    f"{self._label}: {model.__name__} has no foreign key {name!r} to {parent.__name__}, so the rows to "
                    f"change of one are unknown; set queryset=lambda ctx, {name}: …."
                )
                raise ImproperlyConfigured(msg)
        return [*self.models]


class FormCall(typing.NamedTuple):
    """The rows and values of one call of a form tool.

    Attributes:
        source: the form, with its parents.
        parents: the rows that the form belongs to, by name.
        obj: the row to change, or None.
        given: the arguments that are fields of the form.
        fixed: the other arguments.
    """

    source: ToolSource
    parents: Mapping[str, Any]
    obj: Any
    given: Mapping[str, Any]
    fixed: Mapping[str, Any]


class DeclaredForm:
    """A form class with the options of ``form_tool``, and the resulting ``tools``.

    Args:
        form_class: names, describes and handles the forms.
        server: the endpoint.
        source: the forms, if *form_class* is neither a form nor a formset class.
    """

    def __init__(
        self,
        form_class: Any,
        server: Any,
        source: ToolSource | None = None,
        *,
        handle: Handle | str | None = None,
        result: Handle | None = None,
        form_kwargs: Kwargs | None = None,
        parents: Mapping[str, Any] | None = None,
        instance: Callable[..., Any] | None = None,
        lookup: str | None = None,
        queryset: Callable[..., Any] | None = None,
        argument: str | None = None,
        max_file_bytes: int = MAX_BYTES,
        app: bool | str = False,
        permission: str | Sequence[str] | None = DEFAULT,
        **options: Any,
    ) -> None:
        named = form_class.__name__ if isinstance(form_class, type) else f"a {type(form_class).__name__}"
        self._label, self.form_class = f"form_tool({named})", form_class
        check_options(self._label, options, DeclaredForm.__init__, Tool.__init__, Primitive.__init__)
        self._is_set = isinstance(form_class, type) and issubclass(form_class, forms.BaseFormSet)
        is_form = isinstance(form_class, type) and issubclass(form_class, forms.BaseForm)
        if source is None and not self._is_set and not is_form:
            raise self._wrong("expected a form class, or a class made by formset_factory")
        changes = instance is not None or lookup is not None
        self._parents = None if parents is None else FormParents(parents, self._label)
        models_ = {} if self._parents is None else self._parents.models
        self._source: ToolSource = source or (
            FormSetSource(form_class, form_kwargs, max_file_bytes, argument, self._label, parents=models_)
            if self._is_set
            else FormSource(form_class, form_kwargs, max_file_bytes, self._label, changes=changes, parents=models_)
        )
        self._kwargs = form_kwargs
        self._is_set, self._written = self._source.is_many, self._source.written
        self._changes, self._saves = changes and not self._is_set, handle is None
        self._handle, self._result, self._instance = self._handling(form_class, handle), result, instance
        self._is_saved = handle is None or handle == "save"
        self._check_instance(changes, queryset, lookup)
        self._check_parents([form_kwargs, instance, queryset], handle, lookup)
        self._lookup = None if lookup is None else self._looking(server, lookup, queryset)
        call = self.function(_returns(result, handle))
        if self._written is not None:
            options = {**self._hints(options, handle), **options}
        self._permission = self._permitted(permission)
        if self._permission is not None:
            self._permission.also = options.get("visible")
            if self._permission.also is None or is_predicate(self._permission.also):  # the tool rejects other values
                options["visible"] = self._permission
        options.setdefault("description", self._words(form_class))
        is_previewed = options.get("preview") is not None
        if not is_previewed:
            options["preview"] = function(self._preview, f"preview_{call.__name__}", [GIVEN], self)
        options["permission"] = None if permission == DEFAULT else permission
        self.tool = FormTool(call, self, server, **options)
        self.tool.waives_permission = self._written is not None and permission is None
        self.tool.rows_of = self._rows_of
        self.tool.check_call = self._preview if is_previewed else None
        site_functions = (handle, result, form_kwargs, instance, queryset)
        selects = self._parents is not None and self._parents.calls_site
        self.tool.is_interactive = selects or any(map(callable, site_functions))
        self.tools = [self.tool]
        self._app = self._app_of(app)
        if self._app is not None:
            self.tools.append(self._page(server, options))

    def _wrong(self, words: str) -> ImproperlyConfigured:
        return ImproperlyConfigured(f"{self._label}: {words}.")

    def _hints(self, options: Mapping[str, Any], handle: Any) -> dict[str, Any]:
        # The same as of ModelResource, so that the same approval rules apply.
        if options.get("read_only"):
            return {}
        if self._changes:
            return {"read_only": False, "destructive": True, **({"idempotent": True} if handle is None else {})}
        return {"read_only": False, **({"destructive": False, "idempotent": False} if handle is None else {})}

    def _permitted(self, permission: Any) -> "WritePermission | None":
        if permission != DEFAULT or self._written is None:
            return None
        if self._changes:
            return WritePermission((self._written, "update"))
        parent = self._source.model if self._is_set else None
        return WritePermission((self._written, "create"), *([] if parent is None else [(parent, "update")]))

    @property
    def site_code(self) -> Any:
        # Of a formset that formset_factory made, the form in it.
        is_made = self._is_set and self.form_class.__module__.startswith("django.")
        return self.form_class.form if is_made else self.form_class

    def _handling(self, form_class: Any, handle: Handle | str | None) -> Handle:
        if callable(handle):
            if inspect.iscoroutinefunction(handle):
                raise self._wrong("handle must be a synchronous function, because forms are synchronous")
            return handle
        method = "save" if handle is None else handle
        if not callable(getattr(form_class, method, None)):
            raise self._wrong(
                f"the class has no method {method!r}, so nothing would process the submitted form; set "
                "handle=lambda ctx, form: …, or handle= to the name of a method"
            )
        return lambda _, form: getattr(form, method)()

    def _check_parents(self, functions: Sequence[Any], handle: Any, lookup: str | None) -> None:
        if self._parents is None:
            return
        taken = {name for call in functions if call is not None for name in taken_by(call, self._parents.models)}
        taken |= taken_by(handle, self._parents.models, after=2).keys() if callable(handle) else set()
        unused = self._parents.models.keys() - taken - self._of_class().keys()
        if unused:
            names = ", ".join(sorted(map(repr, unused)))
            raise self._wrong(f"neither the class nor a function of form_tool takes the parent {names}")
        if self._is_set and self._source.noun in self._parents.models:
            raise self._wrong(f"{self._source.noun!r} is a parent and also the array of forms; set argument=…")
        if lookup in self._parents.models:
            raise self._wrong(f"{lookup!r} is a parent and also the lookup; rename the parent")

    def _of_class(self) -> dict[str, Any]:
        """Return the parents that the form class gets without ``form_kwargs``."""
        assert self._parents is not None  # noqa: S101 - asked of forms with parents
        made = self.form_class.form if self._is_set else self.form_class
        models_ = self._parents.models
        of_function = {} if self._kwargs is None else taken_by(self._kwargs, models_)
        return {name: model for name, model in taken_by(made, models_, after=0).items() if name not in of_function}

    def _check_instance(self, changes: bool, queryset: Any, lookup: str | None) -> None:
        model, is_inline = self._source.model, self._is_set and self._source.model is not None
        if changes and model is None:
            raise self._wrong("instance and lookup require a ModelForm or an inline formset")
        if is_inline and not changes:
            raise self._wrong("an inline formset belongs to a row; select it with lookup or instance")
        if queryset is not None and lookup is None:
            raise self._wrong("queryset requires lookup; add lookup='pk'")

    def _looking(self, server: Any, name: str, queryset: Callable[[Context], Any] | None) -> RowLookup:
        model: Any = self._source.model
        if queryset is None and model not in server.model_resources:
            raise self._wrong(
                f"{model.__name__} is not registered at {server!r}, so the rows that callers may change are "
                "unknown; register it first, or set queryset=lambda ctx: …"
            )
        within = [] if queryset is not None or self._parents is None else self._parents.keys_of(model)
        return RowLookup(model, name, queryset, self._label, within)

    def _app_of(self, app: Any) -> FormApp | None:
        if app is False or app is None:
            return None
        if app is not True and not isinstance(app, str):
            raise self._wrong(f"app must be True or the name of a template, not {app!r}")
        if self._source.page is None:
            raise self._wrong("app is for forms; a formset has no page")
        return FormApp(None if app is True else app)

    def _page(self, server: Any, options: Mapping[str, Any]) -> "FormPage":
        # In clients that show apps, only the page calls the form's own tool.
        self.tool.app, self.tool.visibility = self._app, frozenset({"app"})
        name = f"{options.get('name') or self.tool.function.name}_form"
        shared = {name: options[name] for name in PAGE_OPTIONS if name in options}
        title, described = options.get("title"), options["description"]
        shared["description"] = phrase(SHOW_FORM, described)
        if title is not None:
            shared["title"] = phrase("{} (form)", title)
        shared |= {"name": name, "app": self._app, "read_only": True, "open_world": False}
        page = FormPage(self.shown(), self, server, **shared)
        page.for_apps = True
        page.is_interactive = self.tool.is_interactive
        return page

    # Definition

    def page_schema(self, server: Any) -> dict[str, Any]:
        """Return the JSON Schema of the arguments that fill in the page: those of the tool, which are optional."""
        schema = self.schema(server)
        shown = {name: part for name, part in schema["properties"].items() if not _is_secret_or_file(part)}
        names = [*self._fixed({})]
        required = {"required": names} if names else {}
        return {"type": "object", "properties": shown, "additionalProperties": False, **required}

    def schema(self, server: Any) -> dict[str, Any]:
        """Return the JSON Schema of the arguments at an endpoint. Creates the form, which may query the database."""
        schema = self._source.schema(server)
        if self._lookup is not None:
            if self._lookup.name in schema["properties"]:
                raise self._wrong(f"lookup {self._lookup.name!r} is also a field of the form; use lookup='pk'")
            schema = add_lookup_argument(schema, self._lookup.name, self._lookup.schema)
        if self._parents is not None:
            for name, described in reversed(self._parents.schemas(server).items()):
                schema = add_lookup_argument(schema, name, described)
        return schema

    def function(self, returns: Any = EMPTY) -> Callable[..., Any]:
        call = function(self._run, self._name(), [], self, returns)
        call.__module__ = self.form_class.__module__
        return call

    def shown(self) -> Callable[..., Any]:
        call = function(self._show, f"{self.tool.name}_form", [], self)
        call.__module__ = self.form_class.__module__
        return call

    def _name(self) -> str:
        words = self._source.noun
        return f"{'update' if self._changes else 'create'}_{words}" if self._written else words

    def _words(self, form_class: type) -> str:
        own = inspect.cleandoc(form_class.__doc__) if form_class.__doc__ else ""
        if self._written is None:
            return own or f"{form_verbose_name(form_class).capitalize()}."
        options = self._written._meta  # noqa: SLF001 - Django's documented API
        if self._changes:
            more = "Omitted fields keep their values."
            return f"{own}\n\n{more}" if own else f"Changes one {options.verbose_name}. {more}"
        many = options.verbose_name_plural if self._is_set else f"one {options.verbose_name}"
        return own or f"Creates {many}."

    # A call

    def _run(self, ctx: Context, keywords: dict[str, Any]) -> Any:
        with self._database(), translate_database_errors(self._label):
            call, form = self._filled(ctx, keywords["given"])
            obj = call.obj
            is_change = not self._is_set and self._written is not None and not _is_new(form)
            done = self._handle(ctx, form, **taken_by(self._handle, call.parents, after=2))
            if self._written is not None:
                written: list[Any] = self._source.forms(form) if self._is_saved else []
                for name in written:
                    commit_modelcluster_sets(name.instance)
                check_deferred_constraints(self._written)
                self._note(ctx, obj, form, done, change=is_change)
            if self._result is not None:
                return self._result(ctx, done)
            return success_result(ctx, done, self._source, form, change=is_change)

    def _note(self, ctx: Context, obj: Any, form: Any, done: Any, *, change: bool) -> None:
        # What a handler of the site saves is known by the row that it returns, or by a row that is new no more.
        if self.tool.read_only:
            return
        if self._is_set:
            saved = [row_form for row_form in self._source.forms(form) if not _is_new(row_form)]
            if obj is not None and saved:
                add_log_entry(ctx, obj, CHANGED, formset=form)
            added: list[Any] = saved if obj is None else []
            for row in added:
                add_log_entry(ctx, row.instance, ADDED, row)
        elif change and (self._saves or done is form.instance):
            add_log_entry(ctx, form.instance, CHANGED, form)
        elif not change and not _is_new(form):
            add_log_entry(ctx, form.instance, ADDED, form)

    def _preview(self, ctx: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
        with self._database(), translate_database_errors(self._label):
            call, form = self._filled(ctx, keywords["given"])
            shown = self._preview_of(ctx, form, call)
            belongs = [
                {"field": name, "label": pretty_name(name), "after": _links(ctx, [row])[0], "parent": True}
                for name, row in call.parents.items()
            ]
            if shown["verb"] == "update":
                belongs = [{**entry, "before": entry["after"]} for entry in belongs]
            return {**shown, "changes": [*belongs, *shown["changes"]]}

    def _preview_of(self, ctx: Context, form: Any, call: "FormCall") -> dict[str, Any]:
        filled = self._source.form_values(form, call.given)
        if self._written is None:
            return form_preview(ctx, "submit", form_verbose_name(self.form_class), filled)
        options = self._written._meta  # noqa: SLF001 - Django's documented API
        if self._is_set or _is_new(form):
            name = options.verbose_name_plural if self._is_set else options.verbose_name
            return form_preview(ctx, "create", str(name), filled)
        shown = form_preview(ctx, "update", f"{options.verbose_name} {form.instance.pk}", filled)
        if (bound := ctx.server.model_resources.get(self._written)) is not None:
            shown["changes"] = changes_of(bound, ctx, form, call.given, shown["changes"])
        return shown

    def _filled(self, ctx: Context, arguments: Mapping[str, Any]) -> tuple["FormCall", Any]:
        """Return the call with its rows, and the bound, valid form."""
        call = self._call(ctx, arguments)
        source, obj = call.source, call.obj
        if self._permission is not None and obj is not None:
            self._permission.require(ctx, obj)
        try:
            form: Any = source.bind_form(ctx, call.given, obj)
        except InvalidForm as error:
            if self._app is None or (page := source.page) is None:
                raise
            raise self._app.refuse(ctx, page, self.tool, call.given, obj, error, call.fixed) from None
        if obj is None and not self._is_set:  # form_kwargs may have given a row
            if self._permission is not None:
                self._permission.require(ctx, form.instance)
            if (row := source.stored_row(form)) is not None:
                require_same(ctx, "", row)
        return call, form

    def _fixed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        # Rows that the form is made with, and the row that it changes: arguments that are no fields of the form.
        names = [] if self._parents is None else [*self._parents.models]
        return {name: given.get(name) for name in [*names, *([] if self._lookup is None else [self._lookup.name])]}

    def _call(self, ctx: Context, arguments: Mapping[str, Any]) -> "FormCall":
        """Return a call with the rows that its arguments name.

        Raises:
            ArgumentError: such an argument is missing.
            ToolError: a row does not exist for the caller, or the call was approved for a different one.
        """
        fixed = self._fixed(arguments)
        if missing := [name for name in fixed if name not in arguments]:
            raise ArgumentError([missing_argument([name]) for name in missing])
        parents = {} if self._parents is None else self._parents.find(ctx, arguments)
        source = self._source if self._parents is None else self._source.of_call(self._kwargs_with(parents), parents)
        given = {name: value for name, value in arguments.items() if name not in fixed}
        return FormCall(source, parents, self._row(ctx, fixed, parents), given, fixed)

    def _kwargs_with(self, parents: Mapping[str, Any]) -> Callable[[Context], Mapping[str, Any]]:
        own, of_site = {name: parents[name] for name in self._of_class()}, self._kwargs
        if of_site is None:
            return lambda _: own
        taken = taken_by(of_site, parents)
        return lambda ctx: {**own, **of_site(ctx, **taken)}

    def _show(self, ctx: Context, keywords: dict[str, Any]) -> Any:
        tool, app = ctx.server.tools.get(self.tool.name), self._app
        if tool is None or app is None or right(ctx, tool) is not Right.USE:
            raise PermissionDenied

        def show() -> Any:
            call = self._call(ctx, keywords["given"])
            source, given, obj = call.source.page, call.given, call.obj
            if source is None:
                raise PermissionDenied
            if self._permission is not None and obj is not None:
                self._permission.require(ctx, obj)
            return app.show(ctx, source, tool, given, obj, shown_text(tool, given), call.fixed)

        # Looking a row up locks it, as for the tool itself.
        return show() if self._lookup is None else rolled_back(show)

    def _rows_of(self, ctx: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
        """Return the rows that arguments refer to: the one to change, and those chosen in fields."""

        def look() -> dict[str, Any]:
            call = self._call(ctx, keywords["given"])
            obj = call.obj
            rows = {**call.source.resolve_choices(ctx, call.given, obj), **call.parents}
            if self._lookup is not None:
                return {**rows, self._lookup.name: obj}
            return rows if obj is None or obj.pk is None else {**rows, "": obj}

        return rolled_back(look)

    def _database(self) -> AbstractContextManager[None]:
        return nullcontext() if self._written is None else transaction_for(self._written)

    def _row(self, ctx: Context, fixed: Mapping[str, Any], parents: Mapping[str, Any]) -> Any:
        """Return the row to change, or None if the form creates one or has none."""
        if self._lookup is not None:
            obj = self._lookup.find(ctx, fixed[self._lookup.name], parents)
            require_same(ctx, self._lookup.name, obj)
            return obj
        read = None if self._instance is None else partial(self._instance, ctx, **taken_by(self._instance, parents))
        try:
            obj = None if read is None else reload_for_update(read)
        except (ObjectDoesNotExist, Http404):
            obj = None
        if obj is None and self._instance is not None:
            raise ToolError(NOTHING_TO_UPDATE)
        if obj is not None and obj.pk is not None:
            require_same(ctx, "", obj)
        return obj


def _is_new(form: Any) -> bool:
    is_new: bool = form.instance._state.adding  # noqa: SLF001 - Django's documented API
    return is_new


class FormTool(LateTool):
    """A form tool, completed when first listed or called, because creating some forms queries the database.

    Attributes:
        server: the endpoint that offers the tool, whose ModelResources define how rows are selected.
    """

    reads_database = True

    def __init__(self, call: Callable[..., Any], declared: DeclaredForm, server: Any, **options: Any) -> None:
        self._declared, self._options, self.server = declared, options, server
        super().__init__(call, **options)
        self.complete_now()

    def bind(self) -> None:
        # The endpoint's models may have changed.
        super().bind()
        self.forget()

    def made(self) -> Tool:
        arguments = FormArguments(self._declared.schema(self.server))
        return Tool(self._declared.function(), context_type=Context, arguments=arguments, **self._options)


class FormPage(FormTool):
    """A tool that shows the form of a form tool to the user, in clients with MCP Apps."""

    @property
    def opens(self) -> str:  # type: ignore[override]
        return self._declared.tool.key

    def made(self) -> Tool:
        arguments = FormArguments(self._declared.page_schema(self.server))
        return Tool(self._declared.shown(), context_type=Context, arguments=arguments, **self._options)


PAGE_OPTIONS = ("icons", "permission", "groups", "scopes", "visible", "tags", "namespace", "always_listed")
"""Options of a form tool that its page has too."""
SHOW_FORM = (
    "Shows the user a form for this, filled in with the arguments that are known: {}\n\n"
    "The user completes and submits it; nothing happens before."
)


def shown_text(tool: Tool, given: Mapping[str, Any]) -> str:
    filled = f", filled in with {', '.join(given)}" if given else ""
    return (
        f"The user now sees the form of {tool.name}{filled}. Nothing is submitted yet. The user completes and submits "
        "the form; do not ask for the same values."
    )


def _is_secret_or_file(schema: Mapping[str, Any]) -> bool:
    return schema.get("format") == "password" or "content" in schema.get("properties", {})


@receiver(primitive_added)
def set_server(*, sender: Any, primitive: Primitive, **_: Any) -> None:
    # The tool may have been taken over from another endpoint.
    if isinstance(primitive, FormTool):
        primitive.server = sender


def _returns(*calls: Any) -> Any:
    for call in calls:
        if call is None or isinstance(call, str):
            continue
        found = typing.get_type_hints(underlying(call), include_extras=True).get("return", EMPTY)
        if found not in (None, type(None), EMPTY) and not (isinstance(found, type) and issubclass(found, Model)):
            return found
        return EMPTY
    return EMPTY
