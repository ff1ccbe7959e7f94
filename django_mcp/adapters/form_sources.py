"""Forms as tools see them: one form whose fields are arguments, or a set of forms that is an array."""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import ImproperlyConfigured
from django.db import Error
from django.utils.text import camel_case_to_spaces

from django_mcp.adapters.form_filling import Data, fill, problems, put, unknown
from django_mcp.adapters.form_rows import Choice, as_sent, choices_of, chosen, declared, keep_hidden, narrow
from django_mcp.adapters.form_schema import asked, form_schema
from django_mcp.adapters.late_tools import queries
from django_mcp.core.context import Context
from django_mcp.core.request import require_same
from django_mcp.model_resources.access import Viewer
from django_mcp.model_resources.writes import keep, written_by
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import abridged

Filled = list[tuple[forms.BaseForm, Mapping[str, Any]]]
"""Forms, and the arguments of each."""


class FormSource:
    """A form class.

    Args:
        form_class: the class.
        form_kwargs: takes the context, gives further arguments of the class.
        most_bytes: how large a file may be.
        changes: rows that are there are changed: what is not given stays.
        label: for messages to the site's owner.

    Attributes:
        model: whose rows it writes, or None.
    """

    def __init__(
        self,
        form_class: Any,
        form_kwargs: Callable[[Context], Mapping[str, Any]] | None,
        most_bytes: int,
        label: str,
        *,
        changes: bool,
    ) -> None:
        self._class, self._kwargs, self._most_bytes = form_class, form_kwargs, most_bytes
        self._label, self._changes = label, changes
        self._choices: dict[Any, Mapping[str, Choice]] = {}
        self.model = getattr(getattr(form_class, "_meta", None), "model", None)

    def schema(self, server: Any) -> dict[str, Any]:
        """Return the JSON Schema of its arguments at an endpoint. It makes the form, which may query the database.

        Raises:
            ImproperlyConfigured: it cannot be made.
            DatabaseError, InterfaceError: it cannot be made without the database.
        """
        form = unbound(self._class, self._label, has_arguments=self._kwargs is not None)
        choices = self._choices[server] = choices_of(form, server)
        schema = form_schema(form, asked(form), self._most_bytes, declared(choices))
        if self._changes and self.model is not None:
            kept = set(written_by(form))
            schema["required"] = [name for name in schema.get("required", ()) if name not in kept]
        return schema

    def bound(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> forms.BaseForm:
        """The form, filled in and valid.

        Args:
            ctx: the call.
            given: the arguments.
            obj: the row it is about, new or there already; None for a form that makes its own, or has none.

        Raises:
            ArgumentError: the arguments do not fit, or the form says no.
            ToolError: the call was approved for other rows than it chooses now.
        """
        form = self._made(ctx, given, obj)
        found = [*unknown(given, asked(form)), *self._problems(ctx, form, given)]
        if found:
            raise ArgumentError(abridged(found))
        return form

    def _made(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> forms.BaseForm:
        options = {} if self._kwargs is None else dict(self._kwargs(ctx))
        data: Data = Data()
        prefix = options.get("prefix", self._class.prefix)
        sent = as_sent(self._choices_at(ctx.server), given, Viewer(ctx))
        for name, value in sent.items():  # some forms look what was chosen before they make their fields
            put(data, f"{prefix}-{name}" if prefix else name, value)
        if obj is not None:
            options["instance"] = obj
        form: forms.BaseForm = self._class(data=data, files=Data(), **options)
        return form

    def _problems(self, ctx: Context, form: Any, given: Mapping[str, Any]) -> Iterable[str]:
        viewer = Viewer(ctx)
        is_change = self.model is not None and not form.instance._state.adding  # noqa: SLF001 - Django's documented API
        mine = asked(form)
        taken, rows = narrow(form, given, viewer)
        for name, each in rows.items():
            require_same(ctx, name, each)
        if is_change:
            keep(form, form.instance, given)
        fill(form, taken, self._most_bytes)
        found = list(problems(form, given, mine))
        if is_change and not found:
            keep_hidden(form, form.instance, given, viewer)
        return found

    def _choices_at(self, server: Any) -> Mapping[str, Choice]:
        if server not in self._choices:
            self.schema(server)
        return self._choices[server]

    def chosen(self, ctx: Context, given: Mapping[str, Any], obj: Any) -> dict[str, Any]:
        """Return the rows that arguments address which may come to address others, by argument.

        Args:
            ctx: the call.
            given: the arguments.
            obj: see ``bound``.
        """
        return dict(chosen(self._made(ctx, given, obj), given, Viewer(ctx)))

    def forms(self, form: Any) -> list[forms.BaseForm]:
        """The forms that were filled in."""
        return [form]

    def filled(self, form: Any, given: Mapping[str, Any]) -> Filled:
        """The same, each with its arguments."""
        return [(form, given)]


def unbound(form_class: Any, label: str, *, has_arguments: bool) -> Any:
    """Return a form without data, to read its fields. A class that takes arguments is read without being called.

    Raises:
        ImproperlyConfigured: it cannot be made.
        DatabaseError, InterfaceError: it cannot be made without the database.
    """
    with queries() as asked:
        try:
            form = form_class()
        except Error:
            raise
        except Exception as error:
            if not has_arguments:
                msg = f"{label}: the form cannot be made without arguments ({error!r}); give them with form_kwargs."
                raise ImproperlyConfigured(msg) from error
        else:
            if asked:
                _leave_rows_open(form, form_class.base_fields)
            return form
    base = forms.BaseModelForm if issubclass(form_class, forms.BaseModelForm) else forms.BaseForm
    return type(form_class)("Bare", (form_class,), {"__init__": base.__init__})()


def _leave_rows_open(form: Any, declared: Mapping[str, forms.Field]) -> None:
    """Have choices and initial values that a form read from the database be known to each call alone.

    In a schema they would be those of one moment, and those of one caller for all.
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


def words_of(form_class: type) -> str:
    """``send invoice`` of ``SendInvoiceForm``."""
    return re.sub(r"(\s*\bform(\s?set)?)+$", "", camel_case_to_spaces(form_class.__name__)) or "form"
