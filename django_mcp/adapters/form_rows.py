"""Rows behind forms: the one that is changed, and those that can be chosen, as far as the caller may see them."""

from collections.abc import Callable, Mapping
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import models
from django.db.models import QuerySet

from django_mcp.adapters.form_schema import key_column
from django_mcp.core.context import Context
from django_mcp.exposure.exposed import address_in, rules_at
from django_mcp.exposure.field_types import json_type
from django_mcp.exposure.instances import finding_hint
from django_mcp.exposure.paths import is_composite
from django_mcp.exposure.viewing import Viewer
from django_mcp.exposure.write_forms import written_by
from django_mcp.exposure.write_rows import linked, locked, on_writer
from django_mcp.exposure.write_types import MOST_VALUES
from django_mcp.primitives.tool import ToolError


class Lookup:
    """Finds the row to change by an argument.

    Args:
        model: of the row.
        name: of a unique field, or ``"pk"``; the argument is called so.
        rows: takes the context, gives the rows that there are for the caller; None for those that the model's
            declaration at the endpoint lets them see.

    Raises:
        ImproperlyConfigured: there is no such field, or several rows may have the same value.
    """

    def __init__(
        self, model: type[models.Model], name: str, rows: Callable[[Context], "QuerySet[Any]"] | None, label: str
    ) -> None:
        options = model._meta  # noqa: SLF001 - Django's documented API
        try:
            self.field: Any = options.pk if name == "pk" else options.get_field(name)
        except FieldDoesNotExist:
            msg = f"{label}: lookup {name!r} is no field of {options.label}."
            raise ImproperlyConfigured(msg) from None
        if is_composite(self.field):
            msg = f"{label}: {options.label} has a composite primary key, so no single value says which row."
            raise ImproperlyConfigured(msg)
        if not getattr(self.field, "unique", False):
            msg = f"{label}: lookup {name!r} is not unique, so it does not say which row; use 'pk'."
            raise ImproperlyConfigured(msg)
        self.model, self.name, self._rows = model, name, rows
        self.called = options.verbose_name
        self.schema = {**json_type(self.field), "description": f"Of which {self.called}."}

    def find(self, ctx: Context, value: Any) -> Any:
        """The row, locked until the transaction ends.

        Raises:
            ToolError: there is none for the caller.
        """
        viewer, key = Viewer(ctx), address_in(self.field, value) if isinstance(value, str | int) else None
        obj = None if key is None else locked(self.model, lambda: self._look(viewer, key))
        if obj is None:
            hint = finding_hint(None if self._rows else ctx.server.exposed.get(self.model), viewer)
            raise ToolError(f"There is no {self.called} with {self.name} {str(value)[:80]!r}.{hint}")
        return obj

    def _look(self, viewer: Viewer, key: Any) -> Any:
        exposed = None if self._rows is not None else viewer.ctx.server.exposed.get(self.model)
        if self._rows is None and exposed is None:  # an endpoint that took the tool over without the model
            return None
        rows = viewer.door(exposed) if exposed is not None else self._rows(viewer.ctx)  # type: ignore[misc]
        for obj in on_writer(rows).filter(**{self.field.attname: key})[:1]:
            return obj if exposed is None or viewer.sees(exposed, obj) else None
        return None


def narrow(form: forms.BaseForm, given: Mapping[str, Any], viewer: Viewer) -> None:
    """Leave of the rows that were chosen only those that exist for the caller; the rest is none of the form's choices.

    Where a row's model has no declaration, it is the form alone that says which there are.
    """
    for name, field in form.fields.items():
        if name not in given or field.disabled or not isinstance(field, forms.ModelChoiceField):
            continue
        if field.queryset is not None and (exposed := rules_at(viewer.ctx.server, field.queryset.model)):
            column = key_column(field)
            keys = [address_in(column, each) for each in _each(given[name])[:MOST_VALUES]]
            rows = on_writer(viewer.door(exposed)).order_by().filter(**{f"{column.attname}__in": keys})
            field.queryset = field.queryset.filter(pk__in=[row.pk for row in rows if viewer.sees(exposed, row)])


def _each(value: Any) -> list[str | int]:
    return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str | int)]


def keep_hidden(form: Any, obj: Any, given: Mapping[str, Any], viewer: Viewer) -> None:
    """Have rows stay in a set that was given anew, where the caller cannot see them."""
    for name in written_by(form):
        field = obj._meta.get_field(name)  # noqa: SLF001 - Django's documented API
        exposed = rules_at(viewer.ctx.server, field.related_model) if field.many_to_many else None
        if exposed is None or name not in given:
            continue
        there = list(linked(obj, field))
        rows = on_writer(viewer.door(exposed)).order_by().filter(pk__in=there)
        seen = {row.pk for row in rows if viewer.sees(exposed, row)}
        form.cleaned_data[name] = [*form.cleaned_data[name], *(key for key in there if key not in seen)]
