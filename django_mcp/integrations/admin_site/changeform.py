"""Add and change pages of the admin: what they show, and what they send when they are saved."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib.admin.utils import lookup_field, quote, unquote
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import models
from django.urls import Resolver404
from django.utils.text import capfirst

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.controls import TEMPLATE, PageForm, Pair, pairs_of
from django_mcp.integrations.admin_site.hidden import HIDDEN, is_secret, is_secret_widget
from django_mcp.integrations.admin_site.texts import plain
from django_mcp.integrations.admin_site.visit import Visit, page_url, visit
from django_mcp.integrations.requests import resolve_path
from django_mcp.model_resources.form_errors import field_error_message, non_field_error_message
from django_mcp.model_resources.form_schema import read_value
from django_mcp.model_resources.schema import to_json_value
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument, unknown_argument

KEY, DELETE = "pk", "delete"
"""Members of an inline's row: its key, and whether to delete it."""
TYPE = "type"
"""Member of a new row of an inline that has rows of several models, as django-polymorphic's: the model's name."""
VERSION = "version"
"""Argument of a change: what was read."""
READ_ONLY = "cannot be changed here: the admin shows it read-only."


def open_form(ctx: Context, site: Any, model: type[models.Model], key: Any = None) -> "FormPage":
    """Return the page that changes a row, or without *key* the one that adds one.

    Raises:
        ToolError: there is no such row for the user, or the page is refused.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    view, args = ("add", ()) if key is None else ("change", (quote(str(key)),))
    path = page_url(ctx, site, f"{options.app_label}_{options.model_name}_{view}", *args)
    page = visit(ctx, path)
    if page.location is not None:
        # The admin leads back to its index, with a message that has the key.
        raise ToolError(f"There is no {options.verbose_name} {key}." if key is not None else " ".join(page.messages))
    if "adminform" not in page.context:
        raise ToolError("\n".join([f"This page of the admin has no form of a {options.verbose_name}.", *page.messages]))
    return FormPage(ctx, site, model, path, page)


@dataclass(frozen=True)
class Inline:
    """The rows of another model in a page.

    Attributes:
        name: of the argument.
        shown: Django's ``InlineAdminFormSet``.
    """

    name: str
    shown: Any

    @property
    def formset(self) -> Any:
        return self.shown.formset

    @property
    def rows(self) -> list[Any]:
        """The ``InlineAdminForm`` of each row that exists."""
        return [row for row in self.shown if row.original is not None]


class FormPage:
    """An add or change page, visited.

    Args:
        ctx: the call.
        site: the ``AdminSite``.
        model: of the page.
        path: of the page.
        page: the visit.
    """

    def __init__(self, ctx: Context, site: Any, model: type[models.Model], path: str, page: Visit) -> None:
        self.ctx, self.site, self.model, self.path, self.page = ctx, site, model, path, page
        self.options = model._meta  # noqa: SLF001 - Django's documented API
        self.adminform = page.context["adminform"]
        self.form: Any = self.adminform.form
        self.original: Any = page.context.get("original")
        self.inlines = list(_named(page.context.get("inline_admin_formsets", ())))

    # What the page has

    def fields(self) -> Iterator[Any]:
        """Yield the ``AdminField`` and ``AdminReadonlyField`` objects of the page's fieldsets."""
        yield from fields_of(self.adminform)

    @property
    def has_version(self) -> bool:
        """False if a field of the page has the name that the version has elsewhere."""
        return not any(not is_readonly(field) and field.field.name == VERSION for field in self.fields())

    @property
    def may_save(self) -> bool:
        context = self.page.context
        names = ("show_save", "show_save_and_continue")
        return any(context.get(name, True) for name in names) and bool(
            context.get("has_add_permission" if self.original is None else "has_change_permission", True)
        )

    def page_form(self) -> PageForm:
        """Return the form of the rendered page, with what scripts fill in."""
        form = self.page.form(f"{self.options.model_name}_form")
        rows = (row for inline in self.inlines for row in inline.shown)
        fields = (field for fields in (self.fields(), *map(fields_of, rows)) for field in fields)
        bounds = {field.field.html_name: field.field for field in fields if not is_readonly(field)}
        form.pairs, form.templates = with_scripts(form.pairs, bounds), with_scripts(form.templates, bounds)
        return form

    def version(self, form: PageForm) -> str:
        """Return a digest of what the page shows, to notice changes by others."""
        read_only = [[name, str(value)] for name, value in self._read_only()]
        text = json.dumps([form.pairs, read_only], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _read_only(self) -> Iterator[tuple[str, Any]]:
        for field in self.fields():
            if is_readonly(field):
                yield readonly_name(field), readonly_value(field)

    # For people and models

    def shown(self, opened: Collection[str]) -> dict[str, Any]:
        """Return the row as the page shows it to this user.

        Args:
            opened: secret fields that the site opened.
        """
        values, read_only, titles = values_of(self.fields(), self.options.label_lower, opened)
        made: dict[str, Any] = {KEY: to_json_value(self.original), "title": str(self.original), "fields": values}
        if titles:
            made["titles"] = titles
        if read_only:
            made["read_only"] = read_only
        for inline in self.inlines:
            label = inline.formset.model._meta.label_lower  # noqa: SLF001 - Django's documented API
            rows = []
            for row in inline.rows:
                own, _, named = values_of(fields_of(row), label, opened)
                titled = {"titles": named} if named else {}
                rows.append({KEY: to_json_value(row.original), "title": str(row.original), **own, **titled})
            made[inline.name] = rows
        context = self.page.context
        made["may"] = [
            *(["change"] if self.may_save else []),
            *(["delete"] if context.get("has_delete_permission") else []),
        ]
        return {**made, VERSION: self.version(self.page_form())} if self.may_save and self.has_version else made


def _named(shown: Iterable[Any]) -> Iterator[Inline]:
    taken: set[str] = set()
    for formset in shown:
        name = inline_name(formset.formset, formset.opts.opts, taken)
        taken.add(name)
        yield Inline(name, formset)


def inline_name(formset: Any, options: Any, taken: Collection[str]) -> str:
    """Return the name of an inline's argument: that of the relation, or for a generic one that of the model.

    Args:
        formset: its class, or a formset.
        options: the ``_meta`` of its model.
        taken: names of other inlines.
    """
    key = getattr(formset, "fk", None)
    accessor = key.remote_field.get_accessor_name() if key is not None else None
    name = re.sub(r"\W", "_", accessor or str(options.model_name))
    return next(unique for unique in (name, *(f"{name}_{number}" for number in range(2, 100))) if unique not in taken)


# Fields of a page


def fields_of(adminform: Any) -> Iterator[Any]:
    """Yield the fields of the fieldsets of a form or an inline's row."""
    for fieldset in adminform:
        for line in fieldset:
            yield from line


def is_readonly(field: Any) -> bool:
    """Return True for an ``AdminReadonlyField``."""
    return hasattr(field, "contents")


def readonly_name(field: Any) -> str:
    """Return the name of a read-only field."""
    name = field.field["name"]
    return name if isinstance(name, str) else getattr(name, "__name__", "field")


def _readonly_widget(field: Any) -> Any:
    """Return the widget that the form has for a read-only field, or None: the page shows a password's hash with it."""
    name = field.field["field"]
    shown = field.form.fields.get(name) if isinstance(name, str) else None
    return None if shown is None else shown.widget


def readonly_value(field: Any) -> Any:
    """Return the value of a read-only field as JSON: of a column as it is, else the text of the page."""
    name, obj = field.field["field"], field.form.instance
    if getattr(_readonly_widget(field), "read_only", False):
        return plain(field.contents())
    try:
        column, attribute, value = lookup_field(name, obj, field.model_admin)
    except (ObjectDoesNotExist, AttributeError, ValueError):
        return plain(field.contents())
    if column is not None and not column.is_relation and not column.flatchoices:
        return to_json_value(value)
    if column is None and (value is None or isinstance(value, bool | int | float)):
        return value if attribute is not None else plain(field.contents())
    return plain(field.contents())


def values_of(
    fields: Iterable[Any], label: str, opened: Collection[str]
) -> tuple[dict[str, Any], list[str], dict[str, str]]:
    """Return the values of fields by name, the names of those that are read-only, and titles of the rows they name.

    Args:
        fields: of a form or an inline's row.
        label: of the model.
        opened: secret fields that the site opened.
    """
    values: dict[str, Any] = {}
    read_only: list[str] = []
    titles: dict[str, str] = {}
    for field in fields:
        if is_readonly(field):
            name, value = readonly_name(field), readonly_value(field)
            read_only.append(name)
            is_hidden = is_secret(label, name, opened) or is_secret_widget(_readonly_widget(field))
            values[name] = HIDDEN if is_hidden and value not in (None, "") else value
            continue
        bound = field.field
        name, value = bound.name, field_value(bound)
        if is_secret_widget(bound.field.widget) or (value not in (None, "") and is_secret(label, name, opened)):
            values[name] = HIDDEN if value else value
            continue
        values[name] = value
        if isinstance(bound.field, forms.ModelChoiceField) and not isinstance(value, list) and value not in (None, ""):
            title = _title_of(bound)
            if title:
                titles[name] = title
    return values, read_only, titles


def field_value(bound: Any) -> Any:
    """Return the value of a form's field as JSON, such as an argument may have it."""
    if isinstance(bound.field, forms.JSONField):
        return to_json_value(bound.initial)
    if isinstance(bound.field, forms.FileField):
        return to_json_value(bound.value())
    return to_json_value(bound.field.prepare_value(bound.initial))


def _title_of(bound: Any) -> str:
    instance = getattr(bound.form, "instance", None)
    related = getattr(instance, bound.name, None) if instance is not None else None
    return str(related) if isinstance(related, models.Model) else ""


# Saving


def save(page: FormPage, given: Mapping[str, Any], *, view: Any = None) -> "Saved":
    """Send the page with the arguments in place of what its fields have, as a browser would.

    Args:
        page: as it was before.
        given: the arguments, with the ``version`` of a row that was read.
        view: is called in place of the page's view.

    Raises:
        ArgumentError: an argument does not fit, or the admin refuses the values; all problems at once.
        ToolError: the user may not save it, or it was changed since that version.
    """
    if not page.may_save:
        raise ToolError(f"You may not change this {page.options.verbose_name}.")
    form, given = page.page_form(), dict(given)
    takes_version = page.original is not None and page.has_version
    expected = given.pop(VERSION, None) if takes_version else None
    if expected is not None and not isinstance(expected, str):
        raise ArgumentError([about_argument([VERSION], "must be text, as it was read.")])
    if expected is not None and expected != page.version(form):
        raise ToolError(
            f"Somebody has changed this {page.options.verbose_name} since you read it. Read it again, and decide anew."
        )
    filled = Filling(page, form)
    filled.fill(given)
    data = [*filled.pairs, ("_continue", "Save and continue editing")]
    sent = visit(page.ctx, page.path, data=data, files=filled.files, view=view)
    if sent.location is not None:
        return Saved(sent.location, sent.messages)
    if "adminform" in sent.context:
        answered = FormPage(page.ctx, page.site, page.model, page.path, sent)
        if problems := list(_problems(answered, given)):
            raise ArgumentError(problems)
    if sent.has_form:
        raise ToolError(f"The admin answered with a page that asks for something, so nothing was saved:\n\n{sent.text}")
    return Saved("", [*sent.messages, sent.text])  # a page of the site's own, such as of ``response_change``


def key_of(model: type[models.Model], location: str) -> Any:
    """Return the key in the address of a row's page, or None if the admin leads elsewhere."""
    options = model._meta  # noqa: SLF001 - Django's documented API
    try:
        found = resolve_path(location.partition("?")[0])
    except Resolver404:
        return None
    if found.url_name != f"{options.app_label}_{options.model_name}_change" or "object_id" not in found.kwargs:
        return None
    text = unquote(found.kwargs["object_id"])
    return int(text) if isinstance(options.pk, models.IntegerField) and text.isdecimal() else text


@dataclass(frozen=True)
class Saved:
    """A page that was saved: where the admin leads to, and what it says."""

    location: str
    messages: list[str]


class Filling:
    """The data of a page, with arguments in place of what its fields have."""

    def __init__(self, page: FormPage, form: PageForm) -> None:
        self._page, self._form = page, form
        self.pairs: list[Pair] = list(form.pairs)
        self.files: dict[str, Any] = {}
        self._problems: list[str] = []

    def fill(self, given: Mapping[str, Any]) -> None:
        """Put arguments in their places.

        Raises:
            ArgumentError: some do not fit.
        """
        fields = {field.field.name: field.field for field in self._page.fields() if not is_readonly(field)}
        read_only = {readonly_name(field) for field in self._page.fields() if is_readonly(field)}
        inlines = {inline.name: inline for inline in self._page.inlines}
        for name, value in given.items():
            if name in fields:
                self._set(fields[name], value, [name])
            elif name in inlines:
                self._set_rows(inlines[name], value)
            elif name in read_only:
                self._problems.append(about_argument([name], READ_ONLY))
            else:
                self._problems.append(unknown_argument([name], [*fields, *inlines]))
        if self._problems:
            raise ArgumentError(self._problems)

    def _set(self, bound: Any, value: Any, where: Sequence[str]) -> None:
        if bound.field.disabled:
            self._problems.append(about_argument(list(where), READ_ONLY))
            return
        if value == HIDDEN:  # given back as it was read
            self._problems.append(about_argument(list(where), "is hidden. Leave it out to keep its value."))
            return
        try:
            wanted = read_value(bound.field, value)
        except ValidationError as error:
            if error.code == "kind":  # no text that a browser could send
                self._problems += [about_argument(list(where), message) for message in error.messages]
                return
            wanted = value  # the form answers, with its other errors
        self._replace(bound, wanted)

    def _replace(self, bound: Any, wanted: Any) -> None:
        name = bound.html_name
        owned = {own for own, _ in widget_pairs(bound, field_initial(bound))} | {name, f"{name}-clear"}
        if isinstance(bound.field, forms.FileField):
            self.pairs = [pair for pair in self.pairs if pair[0] not in owned]
            if wanted is None:
                self.pairs.append((f"{name}-clear", "on"))
            else:
                self.files[name] = wanted
            return
        made = widget_pairs(bound, wanted) if wanted is not None else empty_pairs(bound)
        owned |= {own for own, _ in made}
        self.pairs = [pair for pair in self.pairs if pair[0] not in owned] + made

    # Inlines

    def _set_rows(self, inline: Inline, given: Any) -> None:
        if not isinstance(given, list) or not all(isinstance(row, dict) for row in given):
            self._problems.append(about_argument([inline.name], "must be an array of objects."))
            return
        known = {str(to_json_value(row.original)): row for row in inline.rows}
        blank = [row for row in inline.shown if row.original is None and TEMPLATE not in row.form.prefix]
        for number, row in enumerate(given):
            where = f"{inline.name}[{number}]"
            key = row.get(KEY)
            rest = {name: value for name, value in row.items() if name not in (KEY, DELETE)}
            if key is not None and str(key) not in known:
                self._problems.append(about_argument([f"{where}.{KEY}"], "is none of the rows of this page."))
            elif key is not None:
                self._change_row(inline, known[str(key)], row, rest, where)
            elif row.get(DELETE):
                self._problems.append(about_argument([f"{where}.{DELETE}"], f"names no row; give its {KEY}."))
            elif blank:
                self._fill_row(blank.pop(0), rest, where)
            else:
                self._add_row(inline, rest, where)

    def _change_row(
        self, inline: Inline, shown: Any, row: Mapping[str, Any], rest: Mapping[str, Any], where: str
    ) -> None:
        if not row.get(DELETE):
            self._fill_row(shown, rest, where)
        elif getattr(inline.formset, "can_delete", False) and getattr(inline.shown, "has_delete_permission", True):
            self.pairs.append((f"{shown.form.prefix}-DELETE", "on"))
        else:
            self._problems.append(about_argument([where], "may not be deleted here."))

    def _fill_row(self, shown: Any, given: Mapping[str, Any], where: str) -> None:
        fields = {field.field.name: field.field for field in fields_of(shown) if not is_readonly(field)}
        read_only = {readonly_name(field) for field in fields_of(shown) if is_readonly(field)}
        for name, value in given.items():
            if name in fields:
                self._set(fields[name], value, [f"{where}.{name}"])
            elif name in read_only:
                self._problems.append(about_argument([f"{where}.{name}"], READ_ONLY))
            else:
                self._problems.append(unknown_argument([where, name], list(fields)))

    def _add_row(self, inline: Inline, given: Mapping[str, Any], where: str) -> None:
        prefix = inline.formset.prefix
        empties = [row for row in inline.shown if row.original is None and TEMPLATE in row.form.prefix]
        template = [pair for pair in self._form.templates if pair[0].startswith(f"{prefix}-{TEMPLATE}")]
        empty = empties[0] if empties else None
        if len(empties) > 1:  # all have the same prefix in the page
            empty, given = self._of_type(empties, dict(given), where)
            if empty is None:
                return
            template = [pair for bound in empty.form for pair in pairs_of(str(bound))]
        total = next((int(value) for name, value in self.pairs if name == f"{prefix}-TOTAL_FORMS"), None)
        most = next((int(value) for name, value in self.pairs if name == f"{prefix}-MAX_NUM_FORMS" and value), None)
        if empty is None or not template or total is None:
            self._problems.append(about_argument([where], "rows cannot be added here."))
            return
        if most is not None and total >= most:
            self._problems.append(about_argument([where], f"at most {most} rows are possible."))
            return
        self.pairs = [pair for pair in self.pairs if pair[0] != f"{prefix}-TOTAL_FORMS"]
        self.pairs.append((f"{prefix}-TOTAL_FORMS", str(total + 1)))
        # Filled as the empty form, then numbered, as the page's script does.
        before, self.pairs = self.pairs, list(template)
        self._fill_row(empty, given, where)
        numbered = [(name.replace(TEMPLATE, str(total)), value) for name, value in self.pairs]
        self.files = {name.replace(TEMPLATE, str(total)): file for name, file in self.files.items()}
        self.pairs = before + numbered

    def _of_type(
        self, empties: Sequence[Any], given: dict[str, Any], where: str
    ) -> tuple[Any | None, Mapping[str, Any]]:
        """Return the empty row of the type that is meant, for rows of several types, and the arguments without it."""
        types = {type_of_row(row.form): row for row in empties}
        named = given.pop(TYPE, None)
        fitting = [row for row in types.values() if set(given) <= set(row.form.fields)]
        if named is None and len(fitting) == 1:
            return fitting[0], given
        if named not in types:
            self._problems.append(about_argument([f"{where}.{TYPE}"], f"must be one of: {', '.join(types)}."))
        return types.get(named), given


def type_of_row(form: Any) -> str:
    """Return the name of the model of a row, for inlines with rows of several models."""
    return str(form._meta.model._meta.model_name)  # noqa: SLF001 - Django's documented API


def field_initial(bound: Any) -> Any:
    """Return what the widget of an unbound field shows."""
    return bound.field.prepare_value(bound.initial)


def with_scripts(pairs: Sequence[Pair], bounds: Mapping[str, Any]) -> list[Pair]:
    """Return what is sent, with the values of fields whose control is empty in the page.

    A script fills them in, as that of django-json-widget. A browser without it would empty the field.
    """
    several = Counter(name for name, _ in pairs)
    return [
        (name, _filled_in(bounds[name]) if not text and name in bounds and several[name] == 1 else text)
        for name, text in pairs
    ]


def _filled_in(bound: Any) -> str:
    """Return the text for a field whose control is empty: its value, unless the control is empty on purpose."""
    widget = getattr(bound.field.widget, "widget", bound.field.widget)
    if bound.form.is_bound or is_secret_widget(widget) or isinstance(widget, (*_CHOSEN, forms.FileInput)):
        return ""
    value = field_initial(bound)
    return "" if value is None or isinstance(value, bool | list | tuple) else str(value)


_CHOSEN = (forms.Select, forms.SelectMultiple, forms.RadioSelect)


def widget_pairs(bound: Any, value: Any) -> list[Pair]:
    """Return what the controls of a field send for a value: as its widget renders it.

    A value that the widget does not render, such as a choice that it does not have or a password, is sent as it is, for
    the form to answer.
    """
    name, widget = bound.html_name, bound.field.widget
    texts, is_chosen = _texts(value), isinstance(getattr(widget, "widget", widget), _CHOSEN)
    try:
        rendered = widget.render(name, value, {"id": bound.auto_id or f"id_{name}"})
    except Exception:
        if not texts:
            raise
        if is_chosen:  # what is no key cannot be searched for
            return [(name, text) for text in texts]
        # It cannot take the value apart, such as a text that is no date and time. A person would type it in each part.
        return [(own, texts[0]) for own, _ in widget_pairs(bound, None)] or [(name, texts[0])]
    made = [pair for pair in pairs_of(rendered) if pair[0]]
    if is_chosen:
        if sorted(own for _, own in made) != sorted(texts):
            return [(name, text) for text in texts]
    elif not made and texts and not isinstance(value, bool):
        return [(name, text) for text in texts]
    elif len(made) == 1 and not made[0][1] and texts and texts != [""]:
        return [(made[0][0], texts[0])]
    return made


def empty_pairs(bound: Any) -> list[Pair]:
    """Return what the controls of a field send for no value."""
    widget = getattr(bound.field.widget, "widget", bound.field.widget)
    if isinstance(widget, forms.CheckboxInput | forms.SelectMultiple | forms.CheckboxSelectMultiple):
        return []
    if isinstance(widget, forms.Select):
        has_empty = any(value in (None, "") for value, _ in widget.choices) if not widget.is_required else False
        return [(bound.html_name, "")] if has_empty else []
    return [(name, "") for name, _ in widget_pairs(bound, None)] or [(bound.html_name, "")]


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list | tuple):
        return [str(entry) for entry in value if entry is not None]
    return [str(value)]


# Errors


def _problems(page: FormPage, given: Mapping[str, Any]) -> Iterator[str]:
    # In the form's own words, as the page shows them to the same person.
    yield from _problems_of(page.form, given)
    for inline in page.inlines:
        yield from (about_argument([inline.name], str(error)) for error in inline.formset.non_form_errors())
        for number, row_form in enumerate(inline.formset.forms):
            yield from _problems_of(row_form, row_form.fields, f"{inline.name}[{number}]")


def _problems_of(form: Any, given: Container[str], where: str = "") -> Iterator[str]:
    if not form.errors:  # the admin gives {}, no ErrorDict, to a row of an inline that the user may only view
        return
    for name, errors in form.errors.as_data().items():
        for error in errors:
            if name in form.fields:
                argument = f"{where}.{name}" if where else name
                yield field_error_message(form.fields[name], error, argument, is_given=name in given)
            else:
                yield non_field_error_message(error, where)


def labels_of(fields: Iterable[Any]) -> dict[str, str]:
    """Return the label of each field by name."""
    return {
        (readonly_name(field) if is_readonly(field) else field.field.name): capfirst(
            plain(field.field["label"] if is_readonly(field) else field.field.label)
        )
        for field in fields
    }
