"""``ToolSource`` and its two kinds here: form and formset classes as the arguments of a tool."""

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy, deepcopy
from functools import partial
from typing import Any, Protocol, Self

from django import forms
from django.core.exceptions import ImproperlyConfigured
from django.db import Error
from django.db.models import Model, QuerySet
from django.forms.formsets import DELETION_FIELD_NAME, ORDERING_FIELD_NAME
from django.utils.text import camel_case_to_spaces, slugify

from django_mcp.core.context import Context
from django_mcp.core.database import queries
from django_mcp.core.request import require_same
from django_mcp.model_resources.access import RowAccess, reload_for_update
from django_mcp.model_resources.form_choices import (
    RowChoice,
    limit_choices,
    lookup_columns,
    preserve_hidden_relations,
    resolve_choices,
    row_choices,
    with_primary_keys,
)
from django_mcp.model_resources.form_data import (
    Data,
    bind_values,
    clean_fields,
    fix_value,
    may_prefill,
    preserve_row_values,
    set_form_data,
    written_model_fields,
)
from django_mcp.model_resources.form_errors import (
    About,
    InvalidForm,
    field_error_message,
    form_error_messages,
    non_field_error_message,
    unknown_argument_errors,
)
from django_mcp.model_resources.form_schema import NOTHING, editable_fields, form_schema
from django_mcp.model_resources.schema import MAX_VALUES
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.schema import ArgumentError, Arguments, type_errors
from django_mcp.primitives.validation_errors import (
    MAX_REPORTED,
    about_argument,
    abridged,
    kind_name,
    missing_argument,
    sentences,
)
from django_mcp.protocol.json_schema import alternatives, takes_null

NOTHING_TO_UPDATE = "There is nothing to update for this user."
_NOT_NULL = {
    "string": "string_type",
    "array": "list_type",
    "object": "dict_type",
    "integer": "int_type",
    "number": "float_type",
    "boolean": "bool_type",
}
"""pydantic's error types for null."""


class FormArguments(Arguments):
    """The arguments of a form, which validates them later, when it may query the database.

    Args:
        is_strict: require JSON numbers and booleans, not their text.
    """

    def __init__(self, schema: dict[str, Any], *, is_strict: bool = False) -> None:
        self.schema, self._is_strict = schema, is_strict
        self.names = tuple(schema["properties"])

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values under one key.

        Raises:
            ArgumentError: a value is of the wrong type.
        """
        if self._is_strict:
            nulls = [name for name, value in values.items() if value is None]
            found = [misfit for name in nulls for misfit in self._misfit(name)]
            if details := [*found, *type_errors(dict(values), self.schema, self.schema)]:
                raise ArgumentError(sentences(details, values, self.schema))
        return {"given": dict(values)}

    def _misfit(self, name: str) -> Iterator[dict[str, Any]]:
        schema = self.schema["properties"].get(name, {})
        if not takes_null(schema, self.schema):
            kind = alternatives(schema, self.schema)[0]["type"]
            yield {"type": _NOT_NULL[kind], "loc": (name,), "input": None, "msg": ""}


def add_lookup_argument(schema: dict[str, Any], name: str, described: dict[str, Any]) -> dict[str, Any]:
    return {
        **schema,
        "properties": {name: described, **schema["properties"]},
        "required": [name, *schema.get("required", ())],
    }


FormValues = list[tuple[forms.BaseForm, Mapping[str, Any]]]


class ToolSource(Protocol):
    """The forms of a tool: its arguments, and what it does with those of a call.

    ``form_tool`` makes one of a form or formset class. A module of ``contrib`` for another kind of form, such as a
    wizard with several, implements it and passes it to ``integrations.forms.DeclaredForm``. *form* is always what
    ``bind_form`` returned, *given* the arguments of a call, and *obj* the row to change, or None.

    Attributes:
        noun: the name of a tool that has no other, after ``create_`` or ``update_`` if rows are written.
        model: the model of *obj*, or None if there is none.
        written: the model of the rows that are saved, or None. Unless ``is_many``, *form* then has the row as its
            ``instance``, as a ``ModelForm`` has.
        is_many: a call creates any number of rows, which belong to *obj* if there is one.
        page: what a page shows in clients with MCP Apps, or None if no page can show these forms.
    """

    noun: str
    model: type[Model] | None = None
    written: type[Model] | None = None
    is_many: bool = False

    @property
    def page(self) -> "FormSource | None":
        return None

    def of_call(self, form_kwargs: Callable[[Context], Mapping[str, Any]], rows: Mapping[str, Any]) -> Self:
        """Return this source for a call that names the parent *rows*, whose forms take *form_kwargs*."""

    def schema(self, server: Any) -> dict[str, Any]:
        """Return the JSON Schema of the arguments at an endpoint: an object with properties.

        It is called when the tool is first listed or called there, and may query the database.

        Raises:
            ImproperlyConfigured: the forms cannot be made.
            DatabaseError, InterfaceError: the database is not available.
        """

    def bind_form(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> Any:
        """Return the bound and valid form, or an object that holds the forms and has the method that handles them.

        Raises:
            ArgumentError: arguments are missing, unknown or invalid. ``InvalidForm`` shows them on the ``page``.
            ToolError: the call was approved for other rows than those chosen now.
        """

    def resolve_choices(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        """Return the rows that may later be different ones for the same arguments: an approval holds for these only.

        They are by argument; a row that no argument names is under "".
        """

    def stored_row(self, form: Any) -> Any:  # noqa: ARG002 - for those that override it
        """Return the row that a single *form* changes, or None if it creates one or writes none."""
        return None

    def forms(self, form: Any) -> list[forms.BaseForm]:
        """Return the Django forms in *form*, in the order of the rows that handling it returns."""

    def field_names(self, form: Any) -> list[str]:
        """Return the fields that callers set, of one of ``forms``."""

    def form_values(self, form: Any, given: Mapping[str, Any]) -> "FormValues":
        """Return ``forms``, each with the arguments that are its fields, for approvers."""


class FormSource(ToolSource):
    """A form class as the arguments of a tool.

    Args:
        form_kwargs: a function that takes the context and returns keyword arguments for the class.
        most_bytes: maximum size of a file.
        label: names the tool in configuration errors.
        changes: existing rows are changed and keep values that are not given.
        renamed: argument names of fields, if they differ.
        parents: models of the rows that callers name for the form. A field of the same name has that row.
        is_bare: read the class without calling it, so that it cannot query the database.

    Attributes:
        model: the model of a ``ModelForm``, or None.
        most_bytes, changes: as given.
    """

    def __init__(
        self,
        form_class: Any,
        form_kwargs: Callable[[Context], Mapping[str, Any]] | None,
        most_bytes: int,
        label: str,
        *,
        changes: bool,
        renamed: Mapping[str, str] = NOTHING,
        parents: Mapping[str, type[Model]] = NOTHING,
        is_bare: bool = False,
    ) -> None:
        self._class, self._kwargs, self.most_bytes = form_class, form_kwargs, most_bytes
        self._label, self.changes, self._renamed, self._is_bare = label, changes, renamed, is_bare
        self._parents, self._rows = parents, NOTHING
        self._choices: dict[Any, Mapping[str, RowChoice]] = {}
        self._of_view = form_mixin_kwargs(form_class)
        self.model = self.written = getattr(getattr(form_class, "_meta", None), "model", None)
        self.noun = form_verbose_name(form_class).replace(" ", "_")

    @property
    def page(self) -> "FormSource":
        return self

    def of_call(self, form_kwargs: Callable[[Context], Mapping[str, Any]], rows: Mapping[str, Any]) -> Self:
        made = copy(self)
        made._kwargs, made._rows = form_kwargs, rows  # noqa: SLF001 - of this class
        return made

    def schema(self, server: Any) -> dict[str, Any]:
        if self._is_bare:
            form = form_without_init(self._class)
        else:
            has_arguments = self._kwargs is not None or bool(self._parents)
            form = unbound_form(
                self._class, self._label, self._of_view, has_arguments=has_arguments, has_row=self.changes
            )
        fix_parents(form, self._parents, self._rows, self._label)
        choices = self._choices[server] = row_choices(form, server)
        schema = form_schema(form, editable_fields(form), self.most_bytes, lookup_columns(choices))
        if self.changes and self.model is not None:
            kept = set(written_model_fields(form))
            schema["required"] = [name for name in schema.get("required", ()) if name not in kept]
            for name in kept & schema["properties"].keys():
                schema["properties"][name].pop("default", None)
        called = self.argument_names(form)
        schema["properties"] = {called[name]: part for name, part in schema["properties"].items()}
        return schema

    def argument_names(self, form: Any) -> dict[str, str]:
        return {name: self._renamed.get(name, name) for name in editable_fields(form)}

    def values_by_field(self, given: Mapping[str, Any]) -> dict[str, Any]:
        fields = {argument: name for name, argument in self._renamed.items()}
        return {fields.get(argument, argument): value for argument, value in given.items()}

    def bind_form(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> forms.BaseForm:
        form = self.make_form(ctx, self.values_by_field(given), obj)
        wrong, more = unknown_argument_errors(given, self.argument_names(form).values())
        found = dict.fromkeys([*wrong, *self.validate_form(ctx, form, self.values_by_field(given))])
        if found:
            raise InvalidForm(abridged([*found], more), form, abridged(wrong, more))
        return form

    def prefill_values(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        """Return the values of some fields by field name, to fill in a page. The form as a whole is not validated.

        Raises:
            ArgumentError: an argument is unknown, or its value is not one of the field.
        """
        own = self.values_by_field(given)
        form = self.make_form(ctx, own, obj)
        mine = self.argument_names(form)
        names = [mine[name] for name, field in editable_fields(form).items() if may_prefill(field)]
        found, more = unknown_argument_errors(given, names)
        taken, _ = limit_choices(form, own, RowAccess(ctx))
        bind_values(form, taken, self.most_bytes)
        values, errors = clean_fields(form, own)
        found += [
            field_error_message(form.fields[name], error, mine[name], is_given=True) for name, error in errors.items()
        ]
        if found:
            raise ArgumentError(abridged(found, more))
        return values

    def make_form(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> forms.BaseForm:
        """Return the form of a call, which is bound but not validated."""
        # A copy, as a form may add to its initial values.
        options: dict[str, Any] = {**deepcopy(self._of_view)}

        def read() -> Any:
            options.update({} if self._kwargs is None else self._kwargs(ctx))
            return options.get("instance")

        instance = reload_for_update(read) if obj is None else read()
        if instance is None and options.get("instance") is not None:
            raise ToolError(NOTHING_TO_UPDATE)
        data: Data = Data()
        prefix = self._class.prefix if options.get("prefix") is None else options["prefix"]
        sent = with_primary_keys(self._choices_at(ctx.server), given, RowAccess(ctx))
        for name, value in sent.items():  # some forms read the submitted data to create their fields
            set_form_data(data, f"{prefix}-{name}" if prefix else name, value)
        if obj is not None:
            options["instance"] = obj
        with _asking_managers():
            form: forms.BaseForm = _made(partial(self._class, data=data, files=Data()), options, self._of_view)
        fix_parents(form, self._parents, self._rows, self._label)
        return form

    def validate_form(
        self, ctx: Context, form: Any, given: Mapping[str, Any], *, about: About = about_argument, of_call: bool = True
    ) -> list[str]:
        """Fill in and validate a form that was made with the same values; return its errors.

        Args:
            given: values by field name.
            about: returns the sentence about an argument.
            of_call: the values are arguments of the call, so that an approval holds for the rows that they choose.

        Raises:
            ToolError: the call was approved for other rows than those chosen now.
        """
        access = RowAccess(ctx)
        mine = self.argument_names(form)
        taken, rows = limit_choices(form, given, access)
        for name, chosen in rows.items() if of_call else ():
            require_same(ctx, mine[name], chosen)
        row = self.stored_row(form)
        if row is not None:
            preserve_row_values(form, row, {*given, *self._parents})
        bind_values(form, taken, self.most_bytes)
        found = list(form_error_messages(form, given, mine, about=about))
        if row is not None and not found:
            preserve_hidden_relations(form, row, given, access)
        return found

    def _choices_at(self, server: Any) -> Mapping[str, RowChoice]:
        if server not in self._choices:
            self.schema(server)
        return self._choices[server]

    def resolve_choices(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        # Chosen, or given by form_kwargs: the latter under "".
        own = self.values_by_field(given)
        form: Any = self.make_form(ctx, own, obj)
        called = self.argument_names(form)
        found: dict[str, Any] = {
            called[name]: rows for name, rows in resolve_choices(form, own, RowAccess(ctx)).items()
        }
        return found if obj is not None or (row := self.stored_row(form)) is None else {**found, "": row}

    def stored_row(self, form: Any) -> Any:
        is_change = self.model is not None and not form.instance._state.adding  # noqa: SLF001 - Django's documented API
        return form.instance if is_change else None

    def forms(self, form: Any) -> list[forms.BaseForm]:
        return [form]

    def field_names(self, form: Any) -> list[str]:
        return [*editable_fields(form)]

    def form_values(self, form: Any, given: Mapping[str, Any]) -> FormValues:
        return [(form, given)]


_ASKS_MANAGERS: ContextVar[bool] = ContextVar("asks_managers", default=False)


@contextmanager
def _asking_managers() -> Iterator[None]:
    token = _ASKS_MANAGERS.set(True)
    try:
        yield
    finally:
        _ASKS_MANAGERS.reset(token)


class PerCallQuerySet(QuerySet[Any]):
    """Rows that a form class offers: those that the model's default manager returns when a call makes a form.

    A form class is made once, possibly in the call of one tenant, and must not keep that tenant's rows for the others.
    Where no call makes it, the manager may have no rows at all and raise an error, as that of django-scopes does.
    """

    def all(self) -> Any:
        # Fields call this whenever they are copied into a form.
        return self.model._default_manager.all() if _ASKS_MANAGERS.get() else super().all()  # noqa: SLF001


def form_mixin_kwargs(form_class: Any) -> Mapping[str, Any]:
    """Return the arguments that Django's ``FormMixin`` passes to every form, as far as the class takes them."""
    taken = inspect.signature(form_class).parameters.values()
    takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken)
    names = {parameter.name for parameter in taken}
    return {name: value for name, value in (("initial", {}), ("prefix", None)) if takes_all or name in names}


def _made(form_class: Callable[..., Any], options: Mapping[str, Any], usual: Collection[str]) -> Any:
    """Return a form, without those of the *usual* arguments that its class sets itself.

    Such as ``super().__init__(*args, initial={…}, **kwargs)``, which works in a site's own view.
    """
    failed: TypeError
    try:
        return form_class(**options)
    except TypeError as error:
        failed = error
    own = [
        name for name in usual if name in options and f"multiple values for keyword argument {name!r}" in str(failed)
    ]
    if not own:
        raise failed
    # Outside of the handler, in which Python words a second such error differently.
    return _made(form_class, {name: option for name, option in options.items() if name not in own}, usual)


def fix_parents(form: Any, parents: Mapping[str, type[Model]], rows: Mapping[str, Any], label: str) -> None:
    """Give the fields that are named like a parent its row. Many forms have them, hidden.

    Raises:
        ImproperlyConfigured: such a field is for something else.
    """
    for name, model in parents.items():
        if (field := form.fields.get(name)) is None:
            continue
        is_many = isinstance(field, forms.ModelMultipleChoiceField)
        is_row = isinstance(field, forms.ModelChoiceField) and not is_many
        if is_row and field.queryset is not None:
            is_row = field.queryset.model._meta.concrete_model is model._meta.concrete_model  # noqa: SLF001
        if is_many or not (is_row or field.widget.is_hidden):
            msg = f"{label}: {name!r} is a parent and also a field of the form; rename one of them."
            raise ImproperlyConfigured(msg)
        row = rows.get(name)
        fix_value(field, row if is_row or row is None else row.pk)


def unbound_form(
    form_class: Any, label: str, given: Mapping[str, Any], *, has_arguments: bool, has_row: bool = False
) -> Any:
    """Return an unbound form to read fields from. A class that needs further arguments, or its row, is not called.

    Args:
        given: the keyword arguments that every form gets.
        has_arguments: calls give further ones.
        has_row: calls give the row to change.

    Raises:
        ImproperlyConfigured: it cannot be instantiated.
        DatabaseError, InterfaceError: the database is not available.
    """
    with queries() as executed:
        try:
            form = _made(form_class, deepcopy(given), given)
        except Error:
            raise
        except Exception as error:
            if not has_arguments and not (has_row and _takes_row(form_class, given)):
                msg = (
                    f"{label}: the form cannot be created without arguments ({error!r}); pass them with form_kwargs, "
                    "or with parents if callers name them."
                )
                raise ImproperlyConfigured(msg) from error
        else:
            if executed:
                _leave_rows_open(form, form_class.base_fields)
            return form
    return form_without_init(form_class)


def _takes_row(form_class: Any, given: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(form_class).bind(**given, data=None, files=None, instance=None)
    except TypeError:
        return False
    return True


def form_without_init(form_class: Any) -> Any:
    """Return an unbound form without calling the ``__init__`` of its class, or making a row of its model.

    The latter calls the defaults of all columns, which may query the database or change rows.
    """
    return type(form_class)("Bare", (form_class,), {"__init__": forms.BaseForm.__init__})()


def _leave_rows_open(form: Any, declared: Mapping[str, forms.Field]) -> None:
    """Leave choices and initial values that came from the database out of the schema.

    They are those of one moment, and possibly of one caller.
    """
    for name, field in form.fields.items():
        before: Any = declared.get(name)
        choices, initial = getattr(field, "choices", None), form.initial.pop(name, field.initial)
        if isinstance(choices, list) and choices != getattr(before, "choices", None):
            field.choices = partial(list, choices)
        is_empty = not callable(initial) and initial in field.empty_values
        if not is_empty and (before is None or initial != before.initial):
            field.initial = partial(_same, initial)


def _same(value: Any) -> Any:
    return value


def form_verbose_name(form_class: type) -> str:
    """Return ``send invoice`` for ``SendInvoiceForm``."""
    words = camel_case_to_spaces(form_class.__name__).split()
    while words[-1:] in (["form"], ["formset"]) or words[-2:] == ["form", "set"]:
        del words[-2 if words[-1] == "set" else -1 :]
    return " ".join(words) or "form"


_COUNTS = ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS", "MAX_NUM_FORMS")


class FormSetSource(ToolSource):
    """A formset class as the arguments of a tool. It creates rows and leaves existing ones unchanged.

    Args:
        form_kwargs: a function that takes the context and returns keyword arguments for each form.
        most_bytes: maximum size of a file.
        argument: name of the array; by default derived from the model or form.
        label: names the tool in configuration errors.
        parents: models of the rows that callers name for each form.

    Attributes:
        model: the parent model of an inline formset, or None.
    """

    is_many = True

    def __init__(
        self,
        formset_class: Any,
        form_kwargs: Callable[[Context], Mapping[str, Any]] | None,
        most_bytes: int,
        argument: str | None,
        label: str,
        *,
        parents: Mapping[str, type[Model]] = NOTHING,
    ) -> None:
        self._class, self._kwargs, self._most_bytes = formset_class, form_kwargs, most_bytes
        self._parents, self._rows = parents, NOTHING
        self._is_inline = issubclass(formset_class, forms.BaseInlineFormSet)
        self.model = formset_class.fk.remote_field.model if self._is_inline else None
        self.written = getattr(formset_class, "model", None)
        self.argument = self.noun = argument or _plural(formset_class)
        self._label = label
        self._choices: dict[Any, Mapping[str, RowChoice]] = {}
        self._least = formset_class.min_num if formset_class.validate_min else 0
        most = formset_class.max_num if formset_class.validate_max else formset_class.absolute_max
        self._most = min(most, MAX_VALUES)

    def of_call(self, form_kwargs: Callable[[Context], Mapping[str, Any]], rows: Mapping[str, Any]) -> Self:
        made = copy(self)
        made._kwargs, made._rows = form_kwargs, rows  # noqa: SLF001 - of this class
        return made

    def schema(self, server: Any) -> dict[str, Any]:
        prefix = {"prefix": f"{self._class.get_default_prefix()}-0"}
        has_arguments = self._kwargs is not None or bool(self._parents)
        form = unbound_form(self._class.form, self._label, prefix, has_arguments=has_arguments)
        fix_parents(form, self._parents, self._rows, self._label)
        self._class().add_fields(form, None)
        choices = self._choices[server] = row_choices(form, server)
        item = form_schema(form, self.field_names(form), self._most_bytes, lookup_columns(choices))
        array = {"type": "array", "items": item, "minItems": self._least, "maxItems": self._most}
        schema: dict[str, Any] = {"type": "object", "properties": {self.argument: array}}
        return {**schema, "required": [self.argument], "additionalProperties": False}

    def field_names(self, form: Any) -> list[str]:
        """Return the names of the fields of a bound form that callers set, without those that the set adds."""
        added = {DELETION_FIELD_NAME, ORDERING_FIELD_NAME}
        if issubclass(self._class, forms.BaseModelFormSet):
            added.add(self._class.model._meta.pk.name)  # noqa: SLF001 - Django's documented API
        if self._is_inline:
            added.add(self._class.fk.name)
        return [name for name in editable_fields(form) if name not in added or name in form.base_fields]

    def bind_form(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> Any:
        items: Any = given.get(self.argument)
        found, more = unknown_argument_errors(given, [self.argument])
        found += self._misfits(items, self.argument in given)
        if self._fits(items):
            formset = self._filled(ctx, items, obj)
            more += self._add_problems(found, formset, items)
        if found:
            raise ArgumentError(abridged(found, more))
        return formset

    def _misfits(self, items: Any, is_given: bool) -> Iterator[str]:
        if not is_given:
            yield missing_argument([self.argument])
        elif not isinstance(items, list):
            yield f"Argument {self.argument!r} must be an array of objects, not {kind_name(items)}."
        elif len(items) > self._most:
            yield f"Argument {self.argument!r} must have at most {self._most} items, not {len(items)}."
        else:
            for place, item in enumerate(items):
                if not isinstance(item, dict):
                    yield f"Argument {self._place(place)!r} must be an object, not {kind_name(item)}."

    def _fits(self, items: Any) -> bool:
        return isinstance(items, list) and len(items) <= self._most and all(isinstance(item, dict) for item in items)

    def _own(self, form: Any, item: Mapping[str, Any]) -> dict[str, Any]:
        names = self.field_names(form)
        return {name: value for name, value in item.items() if name in names}

    def _place(self, place: int) -> str:
        return f"{self.argument}[{place}]"

    def _made(self, ctx: Context, items: Sequence[Mapping[str, Any]], obj: Any) -> Any:
        prefix = self._class.get_default_prefix()
        counts = (len(items), 0, self._class.min_num, self._class.max_num)
        access, choices = RowAccess(ctx), self._choices_at(ctx.server)
        data: Data = Data({f"{prefix}-{name}": [count] for name, count in zip(_COUNTS, counts, strict=True)})
        for place, item in enumerate(items):
            for name, value in with_primary_keys(choices, item, access).items():
                set_form_data(data, f"{prefix}-{place}-{name}", value)
        options: dict[str, Any] = {} if obj is None else {"instance": obj}
        if self._kwargs is not None:
            options["form_kwargs"] = dict(self._kwargs(ctx))
        formset = self._class(data=data, files=Data(), prefix=prefix, **options)
        for form in formset.forms:
            fix_parents(form, self._parents, self._rows, self._label)
        return formset

    def _filled(self, ctx: Context, items: Sequence[Mapping[str, Any]], obj: Any) -> Any:
        formset, access = self._made(ctx, items, obj), RowAccess(ctx)
        chosen_rows: list[dict[str, Any]] = []
        for place, (form, item) in enumerate(zip(formset.forms, items, strict=True)):
            own = self._own(form, item)
            for name in item.keys() - own.keys():  # unknown keys must not reach fields of the formset
                formset.data.pop(f"{formset.prefix}-{place}-{name}", None)
            taken, rows = limit_choices(form, own, access)
            chosen_rows.append(rows)
            bind_values(form, taken, self._most_bytes)
            form.empty_permitted = False
            # Save a given form even if it equals its initial values.
            form.has_changed = lambda: True
            if ORDERING_FIELD_NAME in form.fields:
                form.data[form.add_prefix(ORDERING_FIELD_NAME)] = place + 1
        if any(chosen_rows):
            require_same(ctx, self.argument, chosen_rows)
        return formset

    def _add_problems(self, found: list[str], formset: Any, items: Sequence[Mapping[str, Any]]) -> int:
        others = 0
        for place, (form, item) in enumerate(zip(formset.forms, items, strict=True)):
            names = {name: name for name in self.field_names(form)}
            wrong, more = unknown_argument_errors(item, names, self._place(place), room=MAX_REPORTED - len(found))
            found += [*wrong, *form_error_messages(form, item, names, self._place(place))]
            others += more
        found += (non_field_error_message(error, self.argument) for error in formset.non_form_errors().as_data())
        return others

    def _choices_at(self, server: Any) -> Mapping[str, RowChoice]:
        if server not in self._choices:
            self.schema(server)
        return self._choices[server]

    def resolve_choices(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        # obj is the parent row of an inline formset, or None.
        items: Any = given.get(self.argument)
        if not self._fits(items):
            return {}
        forms_and_items = zip(self._made(ctx, items, obj).forms, items, strict=True)
        found = [resolve_choices(form, self._own(form, item), RowAccess(ctx)) for form, item in forms_and_items]
        return {self.argument: found} if any(found) else {}

    def forms(self, formset: Any) -> list[forms.BaseForm]:
        found: list[forms.BaseForm] = formset.forms
        return found

    def form_values(self, formset: Any, given: Mapping[str, Any]) -> FormValues:
        return list(zip(self.forms(formset), given[self.argument], strict=False))


def _plural(formset_class: Any) -> str:
    model = getattr(formset_class, "model", None)
    words = model._meta.verbose_name_plural if model is not None else f"{form_verbose_name(formset_class.form)}s"  # noqa: SLF001
    return slugify(words).replace("-", "_") or "items"
