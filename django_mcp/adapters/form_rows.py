"""Rows behind forms: the one that is changed, and those that can be chosen, as far as the caller may see them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured, ValidationError
from django.db import models
from django.db.models import QuerySet

from django_mcp.adapters.form_filling import refuse
from django_mcp.adapters.form_schema import key_column
from django_mcp.core.context import Context
from django_mcp.model_resources.access import Viewer
from django_mcp.model_resources.arguments import finding_hint
from django_mcp.model_resources.bound_resource import Exposed, address_in, is_composite, rules_at
from django_mcp.model_resources.schema import MOST_VALUES, json_type
from django_mcp.model_resources.writes import linked, locked, on_writer, written_by
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


@dataclass(frozen=True)
class Choice:
    """How a field chooses rows at an endpoint.

    Attributes:
        column: whose value says which row.
        exposed: the model's declaration, which says which rows there are for whom; None where there is none.
        rows: the field's own queryset.
        is_declared: the declaration shows its rows by another column than the field would take.
    """

    column: Any
    exposed: Exposed | None
    rows: "QuerySet[Any]"
    is_declared: bool

    @property
    def may_move(self) -> bool:
        """Return True if a value of the column may come to address another row."""
        return not self.column.primary_key

    def among(self, viewer: Viewer, value: Any) -> dict[Any, Any]:
        """Return the rows that a value, or a list of values, addresses for the caller, by what the column holds."""
        keys = [address_in(self.column, each) for each in _each(value)[:MOST_VALUES]]
        rows = on_writer(self.rows.all() if self.exposed is None else viewer.door(self.exposed)).order_by()
        found = rows.filter(**{f"{self.column.attname}__in": [key for key in keys if key is not None]})
        name = self.column.attname
        return {getattr(row, name): row for row in found if self.exposed is None or viewer.sees(self.exposed, row)}


def choices_of(form: Any, server: Any) -> dict[str, Choice]:
    """Return how the fields of a form choose rows, by name; without those of which only the call knows the rows."""
    return {name: choice for name, field in form.fields.items() if (choice := _choice(field, server)) is not None}


def _choice(field: Any, server: Any) -> Choice | None:
    if not isinstance(field, forms.ModelChoiceField) or field.disabled or field.queryset is None:
        return None
    exposed, own = rules_at(server, field.queryset.model), key_column(field)
    is_declared = exposed is not None and exposed.is_sound and own.primary_key and not exposed.lookup.primary_key
    return Choice(exposed.lookup if is_declared else own, exposed, field.queryset, is_declared)  # type: ignore[union-attr]


def declared(choices: Mapping[str, Choice]) -> dict[str, Any]:
    """Return the columns by which declarations show rows, where fields would take another one."""
    return {name: choice.column for name, choice in choices.items() if choice.is_declared}


def as_sent(choices: Mapping[str, Choice], given: Mapping[str, Any], viewer: Viewer) -> dict[str, Any]:
    """Return what a page would send for *given*: primary keys, and nothing where a row does not exist."""
    sent = dict(given)
    for name, choice in choices.items():
        if choice.is_declared and name in given and _is_key(given[name]):
            keys, lacking = _keys(choice, given[name], choice.among(viewer, given[name]))
            sent[name] = keys
            if lacking is not None:
                del sent[name]
    return sent


def narrow(
    form: forms.BaseForm, given: Mapping[str, Any], viewer: Viewer
) -> tuple[dict[str, Any], dict[str, set[Any]]]:
    """Leave of the rows that were chosen only those that exist for the caller; the rest is none of the form's choices.

    Where a row's model has no declaration, it is the form alone that says which there are.

    Returns:
        *given*, with the primary keys that the form wants in place of what the declarations show; and the rows that
        ``chosen`` gives, as far as they were looked up here: all of an approved call.
    """
    taken, found = dict(given), {}
    for name, choice in choices_of(form, viewer.ctx.server).items():
        is_bound = choice.may_move and viewer.ctx.admission is not None
        if name not in given or (choice.exposed is None and not is_bound):
            continue
        field: Any = form.fields[name]
        rows = choice.among(viewer, given[name])
        if choice.may_move:
            found[name] = set(rows.values())
        field.queryset = field.queryset.filter(pk__in=[row.pk for row in rows.values()])
        if choice.is_declared and _is_key(given[name]):
            there = set(field.queryset.values_list("pk", flat=True))
            taken[name], lacking = _keys(
                choice, given[name], {key: row for key, row in rows.items() if row.pk in there}
            )
            field.mcp_given = given[name]
            if lacking is not None:
                words = field.error_messages["invalid_choice"]
                refuse(field, ValidationError(words, code="invalid_choice", params={"value": lacking}))
    return taken, found


def _is_key(value: Any) -> bool:
    """Return True if *value* addresses rows, so that it is not empty, and of a kind that a field does not refuse."""
    if isinstance(value, list):
        return 0 < len(value) <= MOST_VALUES and all(type(each) in (str, int) for each in value)
    return type(value) in (str, int) and value != ""


def _keys(choice: Choice, value: Any, rows: Mapping[Any, Any]) -> tuple[Any, Any]:
    """Return the primary keys of the rows that *value* addresses, and the first value that addresses none, or None."""
    keys: list[Any] = []
    for each in _each(value):
        row = rows.get(address_in(choice.column, each))
        if row is None:
            return None, each
        keys.append(row.pk if type(row.pk) is int else str(row.pk))
    return (keys if isinstance(value, list) else keys[0]), None


def chosen(form: Any, given: Mapping[str, Any], viewer: Viewer) -> dict[str, set[Any]]:
    """Return the rows that arguments of a form address which may come to address others, by argument."""
    choices = choices_of(form, viewer.ctx.server).items()
    found = {name: choice for name, choice in choices if name in given and choice.may_move}
    return {name: set(choice.among(viewer, given[name]).values()) for name, choice in found.items()}


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
