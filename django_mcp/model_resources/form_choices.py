"""Rows that form fields choose, and the row to change: lookup and restriction to what the caller may see."""

from collections.abc import Callable, Iterable, Mapping
from copy import copy
from functools import partial
from typing import Any, NamedTuple

from django import forms
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured, ValidationError
from django.db import models
from django.db.models import QuerySet
from django.utils.text import capfirst

from django_mcp.core.context import Context
from django_mcp.core.signatures import taken_by
from django_mcp.model_resources.access import RowAccess, get_for_update, m2m_pks, using_write_db
from django_mcp.model_resources.arguments import finding_hint
from django_mcp.model_resources.bound_resource import TableRules, rules_at
from django_mcp.model_resources.form_data import fail_with, is_modelcluster_set, written_model_fields
from django_mcp.model_resources.form_errors import MAX_NAMED
from django_mcp.model_resources.form_schema import NOTHING, key_column
from django_mcp.model_resources.paths import is_composite, is_unique, lookup_value
from django_mcp.model_resources.schema import MAX_VALUES, json_type
from django_mcp.model_resources.serializers import title_of
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.validation_errors import close_matches, shortened

_MAX_NEAR = 5
_MAX_COMPARED = 500
"""Rows whose labels are compared with a value that is no key."""
_MAX_LABEL = 60


class RowLookup:
    """The argument that identifies the row to change.

    Args:
        name: a unique field or ``"pk"``; also the argument's name.
        rows: a function that takes the context and returns the caller's rows; None for those of the model's
            ``ModelResource``. It gets the parents of the form that it takes by name.
        within: foreign keys of the model that must lead to the parents of the same name.

    Raises:
        ImproperlyConfigured: the field does not exist or is not unique.
    """

    def __init__(
        self,
        model: type[models.Model],
        name: str,
        rows: Callable[..., "QuerySet[Any]"] | None,
        label: str,
        within: Iterable[str] = (),
    ) -> None:
        options = model._meta  # noqa: SLF001 - Django's documented API
        try:
            self.field: Any = options.pk if name == "pk" else options.get_field(name)
        except FieldDoesNotExist:
            msg = f"{label}: lookup {name!r} is not a field of {options.label}."
            raise ImproperlyConfigured(msg) from None
        if is_composite(self.field):
            msg = f"{label}: {options.label} has a composite primary key, so no single value identifies a row."
            raise ImproperlyConfigured(msg)
        if not (self.field.concrete and is_unique(self.field)):
            msg = f"{label}: lookup {name!r} is not unique, so it does not identify a row; use 'pk' or a unique field."
            raise ImproperlyConfigured(msg)
        self.model, self.name, self._rows, self._within = model, name, rows, tuple(within)
        self.called = options.verbose_name
        field: Any = self.field
        key = "Primary key" if field.primary_key else capfirst(str(field.verbose_name))
        self.schema = {**json_type(self.field), "description": f"{key} of the {self.called}."}

    def find(self, ctx: Context, value: Any, parents: Mapping[str, Any] = NOTHING) -> Any:
        """Return the row, locked until the transaction ends.

        Args:
            parents: the parent rows of the form, by name.

        Raises:
            ToolError: it does not exist for the caller.
        """
        access, key = RowAccess(ctx), lookup_value(self.field, value) if isinstance(value, str | int) else None
        obj = None if key is None else get_for_update(self.model, lambda: self._look(access, key, parents))
        if obj is None:
            hint = finding_hint(None if self._rows else ctx.server.model_resources.get(self.model), access)
            raise ToolError(f"No {self.called} with {self.name} {str(value)[:80]!r} found.{hint}")
        return obj

    def _look(self, access: RowAccess, key: Any, parents: Mapping[str, Any]) -> Any:
        bound = None if self._rows is not None else access.ctx.server.model_resources.get(self.model)
        if self._rows is None and bound is None:  # an endpoint that selects the tool without the model
            return None
        if bound is not None:
            rows = access.get_queryset(bound).filter(**{name: parents[name] for name in self._within})
        else:
            assert self._rows is not None  # noqa: S101 - otherwise the rows are those of the ModelResource
            rows = self._rows(access.ctx, **taken_by(self._rows, parents))
        for obj in using_write_db(rows).filter(**{self.field.attname: key})[:1]:
            return obj if bound is None or access.can_view(bound, obj) else None
        return None


class RowChoice(NamedTuple):
    """How a field chooses rows at an endpoint.

    Attributes:
        column: the column whose value identifies a row.
        rules: the model's access rules.
        is_declared: True if *column* is the lookup field of the model's ``ModelResource``, not the field's own column.
    """

    column: Any
    rules: TableRules
    rows: "QuerySet[Any]"
    is_declared: bool

    @property
    def may_identify_other_row(self) -> bool:
        return not self.column.primary_key

    def find_rows(self, access: RowAccess, value: Any) -> dict[Any, Any]:
        """Return the visible rows that a value or a list of values identifies, by column value."""
        keys = [lookup_value(self.column, entry) for entry in _each(value)[:MAX_VALUES]]
        name = self.column.attname
        named = {f"{name}__in": [key for key in keys if key is not None]}
        return {getattr(row, name): row for row in list_visible_rows(self.rules, self.rows.all(), access, **named)}

    def offered_rows(self, access: RowAccess) -> "QuerySet[Any]":
        """Return the rows of the field that the caller may see, before ``RowAccess.can_view_row``."""
        rows = using_write_db(self.rows.all())
        shown = access.visible_rows(self.rules) if self.rules.exist else None
        return rows if shown is None else rows.filter(pk__in=using_write_db(shown).order_by().values("pk"))

    def label(self, field: Any, access: RowAccess, rows: Iterable[Any]) -> Callable[[Any], str]:
        """Return the function for the label of a row, one of *rows*.

        That of the site's own field class; otherwise, of a model with access rules, not ``str(row)``, which could
        reveal undeclared fields.
        """
        is_usual = type(field).label_from_instance is forms.ModelChoiceField.label_from_instance
        usual: Callable[[Any], str] = field.label_from_instance
        if not self.rules.exist or not is_usual:
            return usual
        declared = access.as_declared(self.rules, rows)

        def label(row: Any) -> str:
            if row.pk in declared:
                return title_of(*declared[row.pk], access)
            # Of a model of which only multi-table children are registered, this row is none of those.
            return str(row.pk) if self.rules.declarations else usual(row)

        return label


def _offer_rows(choice: RowChoice, access: RowAccess, field: Any, value: str) -> str:
    offered = choice.offered_rows(access)[: _MAX_COMPARED + 1]
    rows = [row for row in offered if access.can_view_row(choice.rules, row)]
    label, column = choice.label(field, access, rows[:_MAX_COMPARED]), choice.column.attname
    named = [(shortened(str(label(row)), _MAX_LABEL), row) for row in rows[:_MAX_COMPARED]]
    is_whole = len(rows) <= MAX_NAMED
    if not is_whole:
        folded = {words.casefold(): (words, row) for words, row in named}
        named = [folded[words] for words in close_matches(value.casefold(), folded, _MAX_NEAR)]
    shown = [f"{getattr(row, column)} ({words})" for words, row in named]
    offer = f" {'Choose one of:' if is_whole else 'The nearest are:'} {', '.join(shown)}." if shown else ""
    search = finding_hint(access.ctx.server.model_resources.get(choice.rows.model), access)
    return offer + search


def list_visible_rows(rules: TableRules, every: "QuerySet[Any]", access: RowAccess, **named: Any) -> list[Any]:
    """Return the rows with the values *named* that the caller may see; those of *every* if the model has no rules."""
    rows = access.visible_rows(rules) if rules.exist else every
    if rows is None:
        rows = rules.model._default_manager.all()  # noqa: SLF001 - Django's documented API
    return [row for row in using_write_db(rows).order_by().filter(**named) if access.can_view_row(rules, row)]


def row_choices(form: Any, server: Any) -> dict[str, RowChoice]:
    # Fields that get their rows only in a call have none.
    return {name: choice for name, field in form.fields.items() if (choice := _choice(field, server)) is not None}


def _choice(field: Any, server: Any) -> RowChoice | None:
    if not isinstance(field, forms.ModelChoiceField) or field.disabled or field.queryset is None:
        return None
    rules, own = rules_at(server, field.queryset.model), key_column(field)
    bound = rules.own
    is_declared = bound is not None and bound.is_sound and own.primary_key and not bound.lookup.primary_key
    return RowChoice(bound.lookup if is_declared else own, rules, field.queryset, is_declared)  # type: ignore[union-attr]


def lookup_columns(choices: Mapping[str, RowChoice]) -> dict[str, Any]:
    return {name: choice.column for name, choice in choices.items() if choice.is_declared}


def with_primary_keys(choices: Mapping[str, RowChoice], given: Mapping[str, Any], access: RowAccess) -> dict[str, Any]:
    """Return *given* with primary keys in place of lookup values; values without a row are dropped."""
    sent = dict(given)
    for name, choice in choices.items():
        if choice.is_declared and name in given and _is_key(given[name]):
            keys, lacking = _keys(choice, given[name], choice.find_rows(access, given[name]))
            sent[name] = keys
            if lacking is not None:
                del sent[name]
    return sent


def limit_choices(
    form: forms.BaseForm, given: Mapping[str, Any], access: RowAccess
) -> tuple[dict[str, Any], dict[str, set[Any]]]:
    """Restrict the choices of a form to rows that the caller may see.

    Returns:
        *given* with primary keys in place of lookup values; and the rows that ``resolve_choices`` returns, which
        include models without access rules only in an approved call.
    """
    taken, found = dict(given), {}
    for name, choice in row_choices(form, access.ctx.server).items():
        is_bound = choice.may_identify_other_row and access.ctx.grant is not None
        if name not in given:
            continue
        field: Any = form.fields[name]
        field.mcp_offer = partial(_offer_rows, choice, access, copy(field))  # for the error, before it is narrowed
        if not choice.rules.exist and not is_bound:
            continue
        rows = choice.find_rows(access, given[name])
        if choice.may_identify_other_row:
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
                fail_with(field, ValidationError(words, code="invalid_choice", params={"value": lacking}))
    return taken, found


def _is_key(value: Any) -> bool:
    if isinstance(value, list):
        return 0 < len(value) <= MAX_VALUES and all(type(entry) in (str, int) for entry in value)
    return type(value) in (str, int) and value != ""


def _keys(choice: RowChoice, value: Any, rows: Mapping[Any, Any]) -> tuple[Any, Any]:
    """Return the primary keys of the rows, or else the first value without a row."""
    keys: list[Any] = []
    for entry in _each(value):
        row = rows.get(lookup_value(choice.column, entry))
        if row is None:
            return None, entry
        keys.append(row.pk if type(row.pk) is int else str(row.pk))
    return (keys if isinstance(value, list) else keys[0]), None


def resolve_choices(form: Any, given: Mapping[str, Any], access: RowAccess) -> dict[str, set[Any]]:
    """Return the chosen rows of fields whose values may later identify different rows."""
    choices = row_choices(form, access.ctx.server).items()
    found = {name: choice for name, choice in choices if name in given and choice.may_identify_other_row}
    return {name: set(choice.find_rows(access, given[name]).values()) for name, choice in found.items()}


def _each(value: Any) -> list[str | int]:
    return [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, str | int)]


def preserve_hidden_relations(form: Any, obj: Any, given: Mapping[str, Any], access: RowAccess) -> None:
    """Keep rows that the caller may not see in many-to-many sets that are replaced."""
    for name in written_model_fields(form):
        field = obj._meta.get_field(name)  # noqa: SLF001 - Django's documented API
        rules = rules_at(access.ctx.server, field.related_model) if field.many_to_many else None
        if rules is None or not rules.exist or name not in given:
            continue
        there = list(m2m_pks(obj, field))
        every = field.related_model._base_manager.all()  # noqa: SLF001 - Django's documented API
        seen = {row.pk for row in list_visible_rows(rules, every, access, pk__in=there)}
        hidden: list[Any] = [key for key in there if key not in seen]
        form.fields[name].mcp_hidden = frozenset(hidden)
        if is_modelcluster_set(field):  # it takes instances alone
            hidden = list(field.related_model._base_manager.filter(pk__in=hidden))  # noqa: SLF001 - documented API
        form.cleaned_data[name] = [*form.cleaned_data[name], *hidden]


def visible_value(form: Any, name: str) -> Any:
    """Return the cleaned value of a field, without the rows that ``preserve_hidden_relations`` adds."""
    value, hidden = form.cleaned_data[name], getattr(form.fields.get(name), "mcp_hidden", ())
    return [row for row in value if getattr(row, "pk", row) not in hidden] if hidden else value
