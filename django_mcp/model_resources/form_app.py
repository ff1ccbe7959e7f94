"""Forms as pages of MCP Apps: the form to fill in, with the choices of its caller, and its errors.

Django renders the form, with the site's form templates. Its inputs are such that a page submits what the tool takes,
whatever the language: dates and numbers have the browser's own inputs, and choices have the tool's keys.
"""

import datetime
import json
import logging
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

from django import forms
from django.core.exceptions import NON_FIELD_ERRORS
from django.db import models
from django.forms.utils import ErrorDict, ErrorList, pretty_name, to_current_timezone
from django.forms.widgets import ChoiceWidget, MultipleHiddenInput
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation.trans_null import gettext_noop  # the usual one reads settings
from pydantic_core import to_json

from django_mcp.core.apps import SCHEME, App
from django_mcp.core.context import Context
from django_mcp.core.permissions import rule_for
from django_mcp.core.policies import Decision
from django_mcp.model_resources.access import RowAccess, using_write_db
from django_mcp.model_resources.bound_resource import rules_at
from django_mcp.model_resources.compile import own_fields
from django_mcp.model_resources.form_choices import RowChoice, lookup_columns, row_choices
from django_mcp.model_resources.form_data import clean_fields, written_model_fields
from django_mcp.model_resources.form_errors import CONFLICT_MESSAGE, InvalidForm, names_hidden_fields, plain_message
from django_mcp.model_resources.form_schema import (
    NOTHING,
    editable_fields,
    form_schema,
    initial_value,
    is_array_field,
    key_column,
)
from django_mcp.model_resources.form_sources import FormSource
from django_mcp.model_resources.paths import lookup_value
from django_mcp.model_resources.previews import Fields
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.field_schema import joined
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import size
from django_mcp.protocol.meta import APP_HTML

TEMPLATE = "django_mcp/apps/form.html"
"""Shows a form, or the result of its tool. Its context has ``form``, ``tool``, ``heading``, ``asks`` or ``words``."""
logger = logging.getLogger("django_mcp")

MAX_CHOICES = 500
"""Rows listed in a field that chooses rows."""
ONLY_SOME = gettext_noop("Only the first %(count)s are listed. To choose another one, name it in the conversation.")
MAX_DIGITS = 15
"""Digits of a number that JavaScript represents exactly."""

_MOMENTS: tuple[tuple[Any, Any, str, str], ...] = (
    ((forms.DateTimeField, forms.SplitDateTimeField), forms.DateTimeInput, "datetime-local", "%Y-%m-%dT%H:%M:%S"),
    (forms.DateField, forms.DateInput, "date", "%Y-%m-%d"),
    (forms.TimeField, forms.TimeInput, "time", "%H:%M:%S"),
)
"""Classes of fields, with the widget, the type of input and the format that a browser takes."""


class FormApp(App):
    """The page of a form and of the results of its tool.

    Args:
        template: shows the results; if it extends ``TEMPLATE``, also the form. By default that.
    """

    def __init__(self, template: str | None = None) -> None:
        name = template or TEMPLATE
        super().__init__(f"{SCHEME}{name}", name)

    def view(self, context: Any, result: Any, *, template: str = "", text: str = "", **more: Any) -> str:
        if "form" in more:
            return super().view(context, result, template=template, **more)
        words = text.removesuffix(to_json(result).decode()).strip() if isinstance(result, dict) else text
        is_whole = words != text.strip()
        rows = _shown(result) if isinstance(result, dict) and is_whole else []
        return super().view(context, result, template=template, text=text, words=words, rows=rows)

    def show(
        self,
        ctx: Context,
        source: FormSource,
        tool: Tool,
        given: Mapping[str, Any],
        obj: Any,
        text: str,
        fixed: Mapping[str, Any] = NOTHING,
    ) -> ToolResult[Any]:
        """Return a result that shows the form of a tool, filled in with some arguments; models read *text*.

        Args:
            ctx: the call.
            source: the form.
            tool: the tool that takes the form, as registered at the endpoint.
            given: its known arguments, without that of a lookup.
            obj: the row to change or create, or None.
            text: the text of the result.
            fixed: arguments that the form does not contain.

        Raises:
            ArgumentError: an argument is unknown, or its value is not one of the field.
        """
        form = page_form(source, ctx, given, obj)
        return FormResult(text=text, meta={APP_HTML: self._form_view(ctx, tool, form, fixed)})

    def refuse(
        self,
        ctx: Context,
        source: FormSource,
        tool: Tool,
        given: Mapping[str, Any],
        obj: Any,
        error: InvalidForm,
        fixed: Mapping[str, Any] = NOTHING,
    ) -> Exception:
        """Return the error to raise for an invalid submission: with the form and its errors, if the client shows apps.

        The arguments are those of ``show``.
        """
        if not ctx.shows_apps:
            return error
        try:
            form = page_form(source, ctx, given, obj, error)
            html = self._form_view(ctx, tool, form, fixed)
        except Exception:  # the caller must learn why the form is invalid
            logger.exception("%s could not be rendered; the client gets the text of the errors", self.label)
            return error
        refused = FormRefused(str(error))
        refused.meta = {APP_HTML: html}
        return refused

    def _form_view(self, ctx: Context, tool: Tool, form: forms.BaseForm, fixed: Mapping[str, Any]) -> str:
        policies = ctx.server.policies
        more: dict[str, Any] = {
            "form": form,
            "tool": tool.name,
            "heading": tool.definition.get("title") or pretty_name(tool.name),
            "fixed": json.dumps(fixed) if fixed else "",
            "asks": tool.key in policies.asking and rule_for(ctx, tool).decision is Decision.ASK,
        }
        return self.view(ctx, None, template="" if self.is_whole else TEMPLATE, **more)


class FormResult(ToolResult[Any]):
    """A result that shows a form."""

    is_of_package = True


class FormRefused(ToolError):
    """An invalid submission, with the form and its errors."""

    is_of_package = True


def _shown(result: Mapping[str, Any]) -> list[tuple[str, Any]]:
    plain = {name: value.get("title") if isinstance(value, dict) else value for name, value in result.items()}
    return [
        (pretty_name(name), value)
        for name, value in plain.items()
        if isinstance(value, str | int | float) and value != ""
    ]


def page_form(
    source: FormSource, ctx: Context, given: Mapping[str, Any], obj: Any, invalid: InvalidForm | None = None
) -> forms.BaseForm:
    """Return a form to render, filled in with some arguments, with the choices that the caller has.

    Values of a row that the model's ``ModelResource`` does not let the caller read are left out.

    Args:
        source: the form of a tool.
        ctx: the call.
        given: arguments, without that of a lookup.
        obj: the row to change or create, or None.
        invalid: the error of a submission with these arguments, to be shown with its values.

    Raises:
        ArgumentError: an argument is unknown, or its value is not one of the field.
    """
    own = source.values_by_field(given)
    if invalid is None:
        values = source.prefill_values(ctx, given, obj)
    else:
        values = {**_raw(invalid.form, own), **clean_fields(invalid.form, own)[0]}
    form: Any = source.make_form(ctx, own, obj)
    arguments = source.argument_names(form)
    form.is_bound, form.data, form.files, form.prefix, form._bound_fields_cache = False, {}, {}, None, {}  # noqa: SLF001
    form.add_prefix, form.label_suffix = lambda name: arguments.get(name, name), ""
    access = RowAccess(ctx)
    unreadable = unreadable_fields(form, access) - own.keys()
    form.fields = {name: field for name, field in editable_fields(form).items() if name not in unreadable}
    before = {name: initial_value(form, name) for name in form.fields}
    form.initial = {**form.initial, **before, **values}
    choices = row_choices(form, ctx.server)
    keys = {name: key_column(form.fields[name]) for name in choices}  # form_schema replaces them
    schemas = form_schema(form, form.fields, source.most_bytes, lookup_columns(choices))["properties"]
    for name, field in list(form.fields.items()):
        is_kept = False
        if name in choices:
            initial = form.get_initial_for_field(field, name)
            more = _(ONLY_SOME)
            # One of a field's own may leave only the chosen row, for a script to load the others.
            field.get_bound_field = partial(forms.Field.get_bound_field, field)
            form.initial[name] = list_rows(field, choices[name], access, keys[name], initial, more)
            is_hidden = not form.initial[name] and has_hidden_rows(form, name, choices[name], keys[name], initial)
            is_kept = is_hidden and name not in own
        if is_kept:
            leave_hidden_rows(form, name)
        if name not in form.fields:
            continue
        is_empty = is_kept or (not source.changes and before[name] in field.empty_values)
        prepare_field(field, schemas[name], source.most_bytes, is_empty=is_empty)
    form._errors = ErrorDict(renderer=form.renderer) if invalid is None else _errors(invalid, form, arguments)  # noqa: SLF001
    return form  # type: ignore[no-any-return]


def _raw(form: Any, own: Mapping[str, Any]) -> dict[str, Any]:
    """Return the submitted values that a page can show again, None for others."""
    fields = {name: field for name, field in form.fields.items() if name in own}
    return {
        name: own[name]
        if isinstance(own[name], str | int | float | list) and not isinstance(field, forms.ModelChoiceField)
        else None
        for name, field in fields.items()
        if not isinstance(field, forms.FileField)
    }


def _errors(invalid: InvalidForm, form: Any, arguments: Mapping[str, str]) -> ErrorDict:
    model = getattr(getattr(form, "_meta", None), "model", None)
    found: dict[str, list[str]] = {}
    for sentence in invalid.unknown:
        found.setdefault(NON_FIELD_ERRORS, []).append(sentence)
    for name, errors in invalid.form.errors.as_data().items():
        for error in errors:
            is_rule = model is not None and names_hidden_fields(error, model, arguments)
            place = NON_FIELD_ERRORS if is_rule or name not in form.fields else name
            found.setdefault(place, []).append(CONFLICT_MESSAGE if is_rule else capfirst(plain_message(error)))
    made = ErrorDict(renderer=form.renderer)
    for name, words in found.items():
        is_whole = name == NON_FIELD_ERRORS
        more = {"error_class": "nonfield"} if is_whole else {"field_id": form[name].auto_id}
        made[name] = ErrorList([*dict.fromkeys(words)], renderer=form.renderer, **more)
    return made


def unreadable_fields(form: Any, access: RowAccess) -> set[str]:
    row = getattr(form, "instance", None)
    if not isinstance(row, models.Model) or row._state.adding:  # noqa: SLF001 - Django's documented API
        return set()
    rules = rules_at(access.ctx.server, type(row))
    rows = access.visible_rows(rules) if rules.exist else None
    if rows is not None:
        row = using_write_db(rows).filter(pk=row.pk).first()
    columns = {column.name for column in (*rules.model._meta.concrete_fields, *rules.model._meta.many_to_many)}  # noqa: SLF001
    if row is None or not access.can_view_row(rules, row):
        return {name for name in form.fields if name in columns}
    unreadable: set[str] = set()
    for bounds in rules.declarations:
        shown = [(Fields(bound, access), own_fields(bound)) for bound in bounds]
        unreadable |= {
            name
            for name in form.fields
            if any(name in own for _, own in shown)
            and not any(name in own and fields.shows(own[name]) for fields, own in shown)
        }
    return unreadable


def add_help(field: Any, words: str) -> None:
    """Add a sentence to the help text of a field."""
    field.help_text = joined(field.help_text, words) if field.help_text else words


def has_hidden_rows(form: Any, name: str, choice: RowChoice, key: Any, initial: Any) -> bool:
    """Return True if rows of *initial*, of which none is shown, stay if the field is not given."""
    keys = _initial_keys(form.fields[name], key, initial)
    if not keys:
        return False
    is_change = isinstance(form, forms.ModelForm) and not form.instance._state.adding  # noqa: SLF001 - Django's documented API
    is_stored = is_change and name in written_model_fields(form)
    # Others are those of the form, which accepts none that are gone.
    return is_stored or len(keys) > MAX_CHOICES or choice.rows.filter(**{f"{key.attname}__in": keys}).exists()


def leave_hidden_rows(form: Any, name: str) -> None:
    """Let people leave a field empty that has an initial row which is hidden from them."""
    field = form.fields[name]
    if isinstance(field, forms.ModelMultipleChoiceField):
        del form.fields[name]  # an empty set would replace the rows
        return
    field.required = False
    add_help(field, _("Leave empty to keep the present value."))


def _initial_keys(field: Any, key: Any, initial: Any) -> list[Any]:
    is_many = isinstance(field, forms.ModelMultipleChoiceField)
    first = list(initial) if is_many and initial is not None else [initial]
    wanted = [row.serializable_value(key.attname) if hasattr(row, "_meta") else row for row in first]
    found = [lookup_value(key, value) for value in wanted if value not in field.empty_values]
    return [address for address in found if address is not None]


def list_rows(field: Any, choice: RowChoice, access: RowAccess, key: Any, initial: Any, more: str) -> Any:
    """Limit a field to rows that the caller may see, and to ``MAX_CHOICES``, labelled for them.

    Args:
        key: the column of the field's own values.
        more: help text if there are more rows, with ``%(count)s``.

    Returns:
        The rows of *initial*, or None if they are hidden from the caller, or too many.
    """
    rows = choice.offered_rows(access)

    def seen(found: Any) -> list[Any]:
        return [row for row in found if access.can_view_row(choice.rules, row)]

    is_many = isinstance(field, forms.ModelMultipleChoiceField)
    wanted = _initial_keys(field, key, initial)
    is_listed = 0 < len(wanted) <= MAX_CHOICES
    chosen = seen(rows.filter(**{f"{key.attname}__in": wanted})) if is_listed else []
    listed = list(rows[: MAX_CHOICES + 1])
    if len(listed) > MAX_CHOICES:
        add_help(field, more % {"count": MAX_CHOICES})
    shown = [*seen(listed[:MAX_CHOICES]), *chosen]
    if not is_many and not chosen and field.empty_label is None:
        field.empty_label = "---------"
    field.label_from_instance = choice.label(field, access, shown)
    field.queryset = field.queryset.filter(pk__in=[row.pk for row in shown])
    if is_many:
        return chosen
    return chosen[0] if chosen else None


def prepare_field(field: Any, schema: Mapping[str, Any], most_bytes: int, *, is_empty: bool) -> None:
    """Give a field an input whose value is what the tool takes.

    Args:
        schema: the argument.
        is_empty: True if the tool takes an empty field for one that is not given.
    """
    field.show_hidden_initial = False
    before = field.widget
    widget = field.widget = _widget(field)
    widget.is_required = field.required
    widget.is_localized = field.localize = False
    if widget is not before:
        widget.attrs.update(field.widget_attrs(widget))
        if isinstance(widget, ChoiceWidget):
            widget.choices = field.choices
    field.prepare_value = partial(_prepared, field, field.prepare_value)
    attrs, kinds, items = widget.attrs, _kinds(schema), _kinds(schema.get("items", {}))
    if isinstance(field, forms.FileField):
        add_help(field, _("At most %(size)s.") % {"size": size(most_bytes)})
    elif _is_list(field):
        kinds = items
        attrs["data-mcp-list"] = ","
    elif isinstance(widget, forms.CheckboxSelectMultiple | MultipleHiddenInput | forms.MultiWidget):
        kinds = items
        attrs["data-mcp-list"] = True
    elif isinstance(widget, forms.SelectMultiple):
        kinds = items
    if not (is_empty or "data-mcp-list" in attrs or isinstance(widget, forms.SelectMultiple | forms.CheckboxInput)):
        # An argument that is not given has its initial value, or that of the row.
        attrs["data-mcp-empty"] = '""' if "string" in kinds and "null" not in kinds else "null"
    has_type = isinstance(widget, forms.CheckboxInput | forms.NumberInput | forms.MultiWidget | forms.FileInput)
    is_text = isinstance(field, forms.BooleanField) and not isinstance(widget, forms.NullBooleanSelect)
    if isinstance(field, forms.JSONField) or (kinds and "string" not in kinds and not has_type and not is_text):
        attrs["data-mcp-json"] = True


def _is_list(field: Any) -> bool:
    # They are typed with commas. An array of arrays or ranges is JSON.
    return is_array_field(field) and not (
        is_array_field(field.base_field) or isinstance(field.base_field, forms.MultiValueField)
    )


def _plain(field: Any, value: Any) -> Any:
    if is_array_field(field) and isinstance(value, list):
        return [_plain(field.base_field, part) for part in value]
    return field.prepare_value(value)


def _prepared(field: Any, usual: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(field, forms.JSONField) and value is None:
        return ""
    if isinstance(field, forms.SplitDateTimeField) and isinstance(value, datetime.datetime):
        return to_current_timezone(value)
    if is_array_field(field) and not isinstance(value, str):
        if not _is_list(field):
            return "" if value is None else to_json(_plain(field, value)).decode()
        return ",".join(str(field.base_field.prepare_value(part)) for part in value or ())
    return usual(value)


def _widget(field: Any) -> Any:
    """Return the input of a field: its own, or that of a browser in place of one that is localized or has scripts."""
    widget: Any = _usual(field)
    attrs = {name: value for name, value in widget.attrs.items() if name != "type"}
    moment = next((kind for kind in _MOMENTS if isinstance(field, kind[0])), None)
    if widget.is_hidden:
        return widget if isinstance(widget, forms.HiddenInput) else forms.HiddenInput(attrs)
    if isinstance(widget, forms.NullBooleanSelect):
        widget.choices = [("", label) if value == "unknown" else (value, label) for value, label in widget.choices]
    if isinstance(widget, ChoiceWidget):
        return widget
    if moment is not None:
        _, made, kind, format_ = moment
        return made({**attrs, "type": kind}, format_)
    if is_array_field(field):
        return forms.TextInput(attrs)
    if isinstance(field, forms.IntegerField) and not isinstance(widget, forms.NumberInput):
        is_exact = (getattr(field, "max_digits", None) or 0) <= MAX_DIGITS
        return forms.NumberInput(attrs) if is_exact else forms.TextInput({**attrs, "inputmode": "decimal"})
    if isinstance(widget, forms.PasswordInput):
        widget.render_value = False
    if isinstance(widget, forms.MultiWidget):
        widget.widgets_names = [""] * len(widget.widgets)  # type: ignore[attr-defined] # a list of values with one name
    return widget


def _usual(field: Any) -> Any:
    """Return the widget of a field, or the usual one of its class in place of one that needs scripts."""
    widget = field.widget
    if isinstance(field, forms.FileField):  # one without a checkbox to clear the file
        return forms.FileInput({name: value for name, value in widget.attrs.items() if name != "type"})
    if getattr(field, "queryset", field) is None:  # the form sets it only when it is submitted
        return forms.TextInput(widget.attrs)
    if widget.is_hidden or _is_of_forms(field, widget):
        return widget
    usual = forms.PasswordInput if getattr(widget, "input_type", "") == "password" else type(field).widget
    if isinstance(usual, type):
        usual = usual()  # without arguments, as a field does: the first of a site's own may be another than attrs
        usual.attrs.update(widget.attrs)
    else:
        usual = deepcopy(usual)
    if _is_of_forms(field, usual):
        return usual
    if isinstance(field, forms.ModelMultipleChoiceField | forms.MultipleChoiceField):
        return forms.SelectMultiple(widget.attrs)
    is_choice = isinstance(field, forms.ModelChoiceField | forms.ChoiceField)
    return (forms.Select if is_choice else forms.TextInput)(widget.attrs)


def _is_of_forms(field: Any, widget: Any) -> bool:
    """Return True for widgets of ``django.forms``, and others that read the same input and need no scripts.

    A list that makes its options itself, as those of django-select2 do, gets them with a script, and so may one of rows
    with a template or a script of its own.
    """
    if isinstance(field, forms.ModelChoiceField) and (
        widget.media._js or not str(widget.template_name).startswith("django/forms/widgets/")  # noqa: SLF001
    ):
        return False
    own = [type(widget).value_from_datadict, getattr(type(widget), "optgroups", forms.Select.optgroups)]
    is_usual = all(class_.__module__.startswith("django.forms.") for class_ in own)
    module = type(widget).__module__
    return is_usual and (module.startswith("django.contrib.postgres.") or not module.startswith("django.contrib."))


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)
