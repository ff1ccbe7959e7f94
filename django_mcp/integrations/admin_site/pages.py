"""Lists and forms of the admin in clients with MCP Apps: the table and the inputs that other apps have.

A table is made of the rows of the result, so what is hidden there is not in it. A form has inputs for what the caller
may change and the tools may show; whatever else the admin's page has is text, or left out.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from django import forms
from django.contrib.admin.utils import NotRelationField, get_fields_from_path
from django.contrib.admin.widgets import AutocompleteMixin, ForeignKeyRawIdWidget
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.forms.utils import pretty_name
from django.utils.choices import flatten_choices
from django.utils.safestring import mark_safe
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_mcp.core.apps import SCHEME, App
from django_mcp.core.context import Context
from django_mcp.core.permissions import rule_for
from django_mcp.core.policies import Decision
from django_mcp.integrations.admin_site.changeform import (
    DELETE,
    KEY,
    VERSION,
    FormPage,
    Inline,
    fields_of,
    is_readonly,
    labels_of,
    readonly_name,
    values_of,
)
from django_mcp.integrations.admin_site.changelist import (
    Found,
    choices_of,
    chosen_parameters,
    column_label,
    column_names,
    filters_of,
    orderings,
)
from django_mcp.integrations.admin_site.choices import field_choices
from django_mcp.integrations.admin_site.controls import TEMPLATE
from django_mcp.integrations.admin_site.hidden import HIDDEN, is_secret, is_secret_widget
from django_mcp.integrations.admin_site.texts import plain
from django_mcp.model_resources.apps import (
    MAX_SELECT_CHOICES,
    TABLE,
    DisplayColumn,
    DisplayValue,
    as_arguments,
    counted,
    is_number_column,
    short_cell,
    value_of,
)
from django_mcp.model_resources.form_app import MAX_CHOICES, ONLY_SOME, FormResult, add_help, prepare_field
from django_mcp.model_resources.form_schema import form_schema
from django_mcp.model_resources.schema import json_type, to_json_value
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.markers import MAX_BYTES
from django_mcp.primitives.output import ToolResult
from django_mcp.protocol.meta import APP_HTML

FORM = "django_mcp/apps/admin_form.html"
TEMPLATES = {"search": TABLE, "get": FORM, "change": FORM}
"""Templates by what a tool does."""
IN_FILTERS = "filters"
"""Argument of a search with the values of filters."""


class AdminApp(App):
    """The page of lists or forms of an admin, whose tools make the HTML together with the result."""

    def viewed(self, ctx: Context, result: ToolResult[Any], values: Callable[[], Mapping[str, Any]]) -> ToolResult[Any]:
        """Return the result with its HTML. If it cannot be made, the client shows the text.

        Args:
            ctx: the call.
            result: of the tool.
            values: returns the variables of the template.
        """
        fields: dict[str, Any] = {}
        super().add_view(ctx, fields, result.structured, result.text or "", lambda *_: values())
        if APP_HTML not in fields.get("_meta", {}):
            return result
        return FormResult(result.structured, text=result.text, meta=fields["_meta"])

    def add_view(self, *args: Any, **options: Any) -> None:
        """Do nothing: results that have a view came with it."""


@cache
def app_of(verb: str) -> AdminApp:
    """Return the app of the tools that do this; those with one template share it."""
    template = TEMPLATES[verb]
    return _app(template)


@cache
def _app(template: str) -> AdminApp:
    return AdminApp(f"{SCHEME}django_mcp/admin/{'list' if template == TABLE else 'form'}", template)


# Lists


def table(tool: Any, ctx: Context, given: Mapping[str, Any], found: Found) -> dict[str, Any]:
    """Return the variables of a list's template, as ``ModelResource`` has them.

    Args:
        tool: the ``AdminTool`` that searches.
        ctx: the call.
        given: its arguments.
        found: the rows.
    """
    cl, result, opened = found.cl, found.result, tool.offered.opened
    if cl is None:
        raise ToolError("The admin has no list to show.")
    options = cl.model._meta  # noqa: SLF001 - Django's documented API
    rows = result["rows"]

    def call(**changes: Any) -> str:
        changed = {**given, "page": None, **changes}
        return as_arguments({name: value for name, value in changed.items() if value not in (None, {})})

    columns = list(_columns(cl, opened, rows, call))
    links = cl.list_display_links or ()
    by_name = {name: column for column, name in column_names(cl)}
    head = next((column for column in columns if by_name[column.name] in links), columns[0])
    opener = tool.offered.usable(ctx, cl.model, "get") if links else None
    others = [column for column in columns if column is not head]
    page, pages = result["page"], result["pages"]
    return {
        "table": {
            "title": capfirst(str(options.verbose_name_plural)),
            "tool": tool.name,
            "columns": [head, *others],
            "rows": [
                {
                    "head": _opens(opener, head.read(row[head.name]).text or "–", row[KEY]),
                    "cells": [(column, short_cell(column.read(row[column.name]))) for column in others],
                }
                for row in rows
            ],
            "count": len(rows),
            "total": result["total"],
            "counted": counted(options.verbose_name, options.verbose_name_plural, len(rows), result["total"]),
            "search": _search(cl, found.unfiltered, given, opened, call),
            "filters": list(_chips(found.unfiltered, given, opened, call)),
            "first": call() if page > 1 else "",
            "next": call(page=page + 1) if page < pages else "",
            "again": as_arguments(given),
        }
    }


def _opens(opener: Any, text: str, key: Any) -> DisplayValue:
    if opener is None or opener.app is None:
        return DisplayValue("text", text)
    return DisplayValue("row", text, tool=opener.name, arguments=as_arguments({KEY: key}))


def _columns(cl: Any, opened: Any, rows: list[dict[str, Any]], call: Callable[..., str]) -> Iterator[DisplayColumn]:
    sortable = orderings(cl, opened)
    first = next(iter(cl.get_ordering_field_columns().items()), (None, ""))
    for column, name in column_names(cl):
        field = _field_of(cl, column)
        schema: Mapping[str, Any] = {} if field is None else json_type(field)
        values = [row[name] for row in rows if row[name] is not None]
        are_numbers = bool(values) and all(type(value) in {int, float} for value in values)
        order = ""
        if sortable.get(name) == str(first[0]):
            order = "descending" if first[1] == "desc" else "ascending"
        yield DisplayColumn(
            name,
            capfirst(column_label(cl, column)),
            partial(value_of, schema=schema, field=field),
            is_number_column(schema, field) if field is not None else are_numbers,
            order,
            call(order_by=f"-{name}" if order == "ascending" else name) if name in sortable else "",
        )


def _field_of(cl: Any, column: Any) -> Any:
    """Return the field whose values a column has as JSON, None for texts that the admin made."""
    if not isinstance(column, str):
        return None
    try:
        field: Any = get_fields_from_path(cl.model, column)[-1]
    except (FieldDoesNotExist, NotRelationField):
        return None
    is_text = getattr(field, "is_relation", True) or field.auto_created or field.flatchoices
    return None if is_text else field


def _search(
    cl: Any, unfiltered: Any, given: Mapping[str, Any], opened: Any, call: Callable[..., str]
) -> dict[str, Any] | None:
    active = given.get(IN_FILTERS) or {}
    selects, kept = [], []
    for name, (spec, *more) in filters_of(unfiltered, opened).items():
        choices = choices_of(unfiltered, [spec, *more])
        if not 0 < len(choices) <= MAX_SELECT_CHOICES:
            kept += [{"name": name, "value": as_arguments(active[name])}] if name in active else []
            continue
        chosen = chosen_parameters(choices, active[name]) if name in active else None
        listed = [
            {"value": as_arguments(value), "label": text, "chosen": chosen is not None and chosen == added}
            for value, text, added in choices
        ]
        selects.append({"name": name, "label": capfirst(str(spec.title)), "choices": listed})
    date = None
    if cl.date_hierarchy:
        date = {"label": capfirst(pretty_name(cl.date_hierarchy)), "value": given.get("date") or ""}
    if not (cl.search_fields or selects or date):
        return None
    return {
        "has_query": bool(cl.search_fields),
        "query": given.get("query") or "",
        "selects": selects,
        "into": IN_FILTERS,
        "kept": kept,
        "date": date,
        "arguments": call(query=None, date=None, filters=None),
    }


def _chips(
    unfiltered: Any, given: Mapping[str, Any], opened: Any, call: Callable[..., str]
) -> Iterator[dict[str, str]]:
    active = given.get(IN_FILTERS) or {}
    for name, (spec, *more) in filters_of(unfiltered, opened).items():
        if name not in active:
            continue
        choices = choices_of(unfiltered, [spec, *more])
        if 0 < len(choices) <= MAX_SELECT_CHOICES:
            continue
        chosen = chosen_parameters(choices, active[name])
        text = next((text for _, text, added in choices if added == chosen), str(active[name]))
        others = {other: value for other, value in active.items() if other != name}
        yield {"text": f"{capfirst(str(spec.title))}: {text}", "arguments": call(filters=others)}


# Forms


def form(tool: Any, ctx: Context, page: FormPage, message: str = "") -> dict[str, Any]:
    """Return the variables of a form's template.

    Args:
        tool: the ``AdminTool`` that shows it.
        ctx: the call.
        page: the admin's page.
        message: what was done.
    """
    change = tool.offered.usable(ctx, tool.model, "change")
    is_open = change is not None and page.may_save and page.original is not None
    key = to_json_value(page.original)
    fixed: dict[str, Any] = {KEY: key}
    if is_open and page.has_version:
        fixed[VERSION] = page.version(page.page_form())  # before its fields get inputs of their own
    parts = _Parts(ctx, tool.offered.site, tool.offered.opened, is_open=is_open)
    policies = ctx.server.policies
    return {
        "page": {
            "kind": capfirst(str(page.options.verbose_name)),
            "title": str(page.original),
            "message": message,
            "tool": change.name if change is not None and is_open else "",
            "fixed": as_arguments(fixed),
            "asks": change is not None
            and change.key in policies.asking
            and rule_for(ctx, change).decision is Decision.ASK,
            "fieldsets": list(parts.fieldsets(page.adminform, page.form, page.options.label_lower, "")),
            "inlines": [part for part in map(parts.inline, page.inlines) if part["rows"] or part["blank"]],
        }
    }


class _Parts:
    """Parts of a form for one caller.

    Args:
        ctx: the call.
        site: the ``AdminSite``.
        opened: secret fields that the site opened.
        is_open: the caller may change something.
    """

    def __init__(self, ctx: Context, site: Any, opened: Any, *, is_open: bool) -> None:
        self._ctx, self._site, self._opened, self._is_open = ctx, site, opened, is_open

    def inline(self, inline: Inline) -> dict[str, Any]:
        shown, label = inline.shown, inline.formset.model._meta.label_lower  # noqa: SLF001 - documented
        may_delete = bool(self._is_open and inline.formset.can_delete and getattr(shown, "has_delete_permission", True))
        blank = next((row for row in shown if row.original is None and TEMPLATE in row.form.prefix), None)
        may_add = self._is_open and blank is not None and getattr(shown, "has_add_permission", True)
        return {
            "name": inline.name,
            "label": capfirst(plain(shown.opts.verbose_name_plural)),
            "one": plain(shown.opts.verbose_name),
            "rows": [self._row(row, label, may_delete=may_delete) for row in inline.rows],
            "blank": list(self.fieldsets(blank, blank.form, label, blank.form.prefix)) if may_add and blank else [],
        }

    def _row(self, row: Any, label: str, *, may_delete: bool) -> dict[str, Any]:
        fieldsets = list(self.fieldsets(row, row.form, label, row.form.prefix))
        return {
            "key": as_arguments(to_json_value(row.original)),
            "title": str(row.original),
            "fieldsets": fieldsets,
            "delete": f"mcp-{row.form.prefix}-{DELETE}" if may_delete else "",
            "is_open": may_delete or any("input" in field for part in fieldsets for field in part["fields"]),
        }

    def fieldsets(self, shown: Any, form: Any, label: str, prefix: str) -> Iterator[dict[str, Any]]:
        """Yield the fieldsets of a form with inputs or texts.

        Args:
            shown: Django's ``AdminForm``, or the ``InlineAdminForm`` of a row.
            form: its form.
            label: of the model.
            prefix: of the form.
        """
        every = list(fields_of(shown))
        values, _names, titles = values_of(every, label, self._opened)
        labels = labels_of(every)
        names = [field.field.name for field in every if not is_readonly(field) and self._takes(field.field, label)]
        inputs = self._inputs(form, names, titles, prefix) if names else {}
        for fieldset in shown:
            fields = [
                self._field(field, values, titles, labels, inputs)
                for line in fieldset
                for field in line
                if is_readonly(field) or not field.field.is_hidden or field.field.name in inputs
            ]
            if fields:
                description = plain(mark_safe(getattr(fieldset, "description", "") or ""))  # noqa: S308 - words of it
                yield {"name": str(fieldset.name or ""), "description": description, "fields": fields}

    def _takes(self, bound: Any, label: str) -> bool:
        # Also if there is no value: the choices of such a field may be the secrets of other rows.
        is_hidden = is_secret(label, bound.name, self._opened) or is_secret_widget(bound.field.widget)
        return self._is_open and not bound.field.disabled and not is_hidden

    def _inputs(self, form: Any, names: list[str], titles: Mapping[str, str], prefix: str) -> dict[str, Any]:
        """Return the bound fields of a form, with the inputs of an app and the names of arguments."""
        chosen = {name: form[name] for name in names}
        for name, bound in chosen.items():
            self._limit_choices(bound, titles.get(name, ""))
        schemas = form_schema(form, names, MAX_BYTES)["properties"]
        form.add_prefix, form.label_suffix = lambda name: name, ""
        form.auto_id, form._bound_fields_cache = f"mcp-{prefix}-%s" if prefix else "mcp-%s", {}  # noqa: SLF001
        for name in names:
            prepare_field(form.fields[name], schemas[name], MAX_BYTES, is_empty=False)
        return {name: form[name] for name in names}

    def _limit_choices(self, bound: Any, title: str) -> None:
        """Give a field that chooses rows a list of those that the admin's page offers."""
        field = bound.field
        if not isinstance(field, forms.ModelChoiceField) or field.queryset is None:
            return
        widget: Any = getattr(field.widget, "widget", field.widget)  # of RelatedFieldWidgetWrapper
        is_many = isinstance(field, forms.ModelMultipleChoiceField)
        if isinstance(widget, AutocompleteMixin | ForeignKeyRawIdWidget):
            listed = self._searched(bound.name, field)
            is_whole = len(listed) >= field.queryset.count()
        else:
            rows = list(field.queryset[: MAX_CHOICES + 1])
            is_whole = len(rows) <= MAX_CHOICES
            listed = [(field.prepare_value(row), field.label_from_instance(row)) for row in rows[:MAX_CHOICES]]
        present = self._present(bound, title, is_many=is_many)
        known = {str(to_json_value(value)) for value, _ in listed}
        options = [*(pair for pair in present if str(to_json_value(pair[0])) not in known), *listed]
        if not is_whole and listed:
            add_help(field, _(ONLY_SOME) % {"count": len(listed)})
        if not is_many and (not field.required or not present):
            options.insert(0, ("", str(field.empty_label or "---------")))
        attrs = {name: value for name, value in widget.attrs.items() if not name.startswith("data-")}
        attrs.pop("class", None)
        field.widget = (forms.SelectMultiple if is_many else forms.Select)(attrs, options)

    def _searched(self, name: str, field: Any) -> list[tuple[Any, str]]:
        try:
            found = field_choices(self._ctx, self._site, {name: field}, name, "")
        except ToolError:  # the caller may not view those rows: the present one is on the page all the same
            return []
        return [(choice["value"], choice["text"]) for choice in found]

    def _present(self, bound: Any, title: str, *, is_many: bool) -> list[tuple[Any, str]]:
        initial, field = bound.initial, bound.field
        if initial in (None, ""):
            return []
        if is_many:
            rows = [row for row in initial if isinstance(row, models.Model)]
            return [(field.prepare_value(row), field.label_from_instance(row)) for row in rows]
        value = field.prepare_value(initial)
        return [(value, title or str(value))]

    def _field(
        self,
        field: Any,
        values: Mapping[str, Any],
        titles: Mapping[str, str],
        labels: Mapping[str, str],
        inputs: Mapping[str, Any],
    ) -> dict[str, Any]:
        name = readonly_name(field) if is_readonly(field) else field.field.name
        bound = inputs.get(name)
        if bound is None:
            return {"label": labels[name], "value": self._text(field, values[name], titles.get(name, ""))}
        return {
            "label": labels[name],
            "input": bound,
            "help": plain(bound.help_text),
            "is_checkbox": getattr(bound.field.widget, "input_type", "") == "checkbox",
        }

    @staticmethod
    def _text(field: Any, value: Any, title: str) -> DisplayValue:
        if title or value == HIDDEN:
            return DisplayValue("text", title or HIDDEN)
        if is_readonly(field):
            column = _column(field.form.instance, readonly_name(field))
            return value_of(value, {} if column is None else json_type(column), column)
        formed = field.field.field
        if isinstance(formed, forms.ModelMultipleChoiceField):
            rows = field.field.initial or ()
            return value_of([str(row) for row in rows if isinstance(row, models.Model)], {})
        column = _column(field.field.form.instance, field.field.name)
        pairs: Any = flatten_choices(getattr(formed, "choices", ()))
        labels = {key: str(label) for key, label in pairs}
        return value_of(value, {} if column is None else json_type(column), column, labels)


def _column(row: Any, name: str) -> Any:
    try:
        column = row._meta.get_field(name)  # noqa: SLF001 - Django's documented API
    except FieldDoesNotExist:
        return None
    return None if column.is_relation or column.flatchoices else column
