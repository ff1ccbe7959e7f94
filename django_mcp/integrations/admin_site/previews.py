"""Previews for approvers: the fields and inline rows that a change saves, and the rows that a deletion deletes."""

import copy
import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django import forms
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from django_mcp.core.context import Context
from django_mcp.core.policies import OTHER_PERSON
from django_mcp.integrations.admin_site import deletion
from django_mcp.integrations.admin_site.changeform import (
    VERSION,
    FormPage,
    labels_of,
    open_form,
    save,
    values_of,
)
from django_mcp.integrations.admin_site.hidden import is_secret, is_secret_widget
from django_mcp.integrations.admin_site.rights import gained_permissions
from django_mcp.integrations.admin_site.texts import plain
from django_mcp.integrations.admin_site.visit import Visit
from django_mcp.model_resources.schema import to_json_value
from django_mcp.primitives.base import ToolError

MASKED, GAINED = "hidden", "gained"
Row = dict[str, Any]


class _Stopped(BaseException):
    """The page is about to be saved. No ``except Exception`` of the site takes it for an error."""


class _Stop:
    """Stands in for a ``ModelAdmin`` and keeps what it would save."""

    def __init__(self, site: Any, model: type[models.Model]) -> None:
        self.form: Any = None
        self.formsets: list[Any] = []
        self.admin = copy.copy(site._registry[model])  # noqa: SLF001 - get_model_admin() is new in Django 5.0
        self.admin.save_model = lambda request, obj, form, change: None  # noqa: ARG005 - as ModelAdmin has it
        self.admin.save_related = self._stop
        self._site = site

    def view(self, key: Any) -> Any:
        return self._site.admin_view(self.admin.add_view if key is None else self.admin.change_view)

    def _stop(self, request: Any, form: Any, formsets: Any, change: bool) -> None:  # noqa: ARG002 - likewise
        self.form, self.formsets = form, list(formsets)
        raise _Stopped


def preview_of_save(
    ctx: Context,
    site: Any,
    model: type[models.Model],
    key: Any,
    given: Mapping[str, Any],
    opened: Collection[str] = (),
) -> Mapping[str, Any]:
    """Return the fields and inline rows that a change would leave different.

    The views of the site run up to the point where the row is saved, with a copy of its ``ModelAdmin`` that saves
    nothing. Call it in a transaction that is rolled back. The preview is marked as incomplete if the site's own code
    goes on in place of stopping there.

    Args:
        ctx: the call.
        site: the ``AdminSite``.
        model: of the row.
        key: of the row; None to add one.
        given: the arguments.
        opened: secret fields that the site opened.

    Raises:
        ArgumentError, ToolError: the change would fail.
    """
    page = open_form(ctx, site, model, key)
    options, stop = model._meta, _Stop(site, model)  # noqa: SLF001 - Django's documented API
    name = str(options.verbose_name) if key is None else f"{options.verbose_name} {page.original}"
    told: Row = {"verb": "create" if key is None else "update", "object": capfirst(name)}
    try:
        _save(page, given, stop, key)
    except _Stopped:
        return {**told, **_seen(page, stop, opened)}
    if stop.form is not None:  # the stop was caught: what the page saves besides is not known
        return {**told, **_seen(page, stop, opened), "incomplete": True}
    # A view of the site's own saves it without asking the ModelAdmin: what was given is all that is known.
    label = options.label_lower
    values = ((name, MASKED if is_secret(label, name, opened) else value) for name, value in given.items())
    changes = [
        {"field": name, "label": name, "after": value}
        for name, value in values
        if name != VERSION or not page.has_version
    ]
    return {**told, "changes": changes, "incomplete": True}


def _save(page: FormPage, given: Mapping[str, Any], stop: _Stop, key: Any) -> None:
    try:
        save(page, given, view=stop.view(key))
    except Exception:
        # Code that caught the stop goes on with a row that has no key, and fails or answers with a page of its own.
        if stop.form is None:
            raise


def _seen(page: FormPage, stop: _Stop, opened: Collection[str]) -> Row:
    changes = [*_changes(page, stop, opened)]
    # Also on pages whose inlines or fields are only known now.
    gains = any(change["field"] == GAINED for change in changes)
    return {"changes": changes, **({OTHER_PERSON: True} if gains else {})}


def _changes(page: FormPage, stop: _Stop, opened: Collection[str]) -> Iterator[Row]:
    yield from _fields(stop.form, page.options.label_lower, opened)
    names = {inline.formset.prefix: inline.name for inline in page.inlines}
    kept = [stop.form]
    for formset in stop.formsets:
        options = formset.model._meta  # noqa: SLF001 - Django's documented API
        title, name = capfirst(str(options.verbose_name)), names.get(formset.prefix, formset.prefix)
        deleted = set(map(id, getattr(formset, "deleted_forms", ())))
        for number, form in enumerate(formset.forms):
            where, is_new = f"{name}[{number}]", form.instance._state.adding  # noqa: SLF001 - documented
            if id(form) in deleted:
                if not is_new:
                    label = _("%(model)s: deleted") % {"model": title}
                    yield {"field": where, "label": label, "before": str(form.instance), "after": None}
                continue
            kept.append(form)
            if form.has_changed():
                label = _("%(model)s: added") % {"model": title} if is_new else f"{title} {form.instance}"
                yield from _fields(form, options.label_lower, opened, where, label)
    if gained := gained_permissions(kept):
        yield {"field": GAINED, "label": _("Permissions gained"), "after": gained, "computed": True}


def _fields(form: Any, model: str, opened: Collection[str], where: str = "", prefix: str = "") -> Iterator[Row]:
    for name in form.changed_data:
        if name not in form.fields or name == "DELETE":
            continue
        bound = form[name]
        is_masked = is_secret_widget(bound.field.widget) or is_secret(model, name, opened)
        label = plain(bound.label) if not prefix else f"{prefix}: {plain(bound.label)}"
        change = {"field": f"{where}.{name}" if where else name, "label": label, **_if_computed(form.instance, name)}
        after = MASKED if is_masked else _told(bound, form.cleaned_data.get(name))
        if form.instance._state.adding:  # noqa: SLF001 - Django's documented API
            yield {**change, "after": after}
        else:
            yield {**change, "before": MASKED if is_masked else _before(bound), "after": after}


def _before(bound: Any) -> Any:
    if isinstance(bound.field, forms.ModelMultipleChoiceField):
        return [str(row) for row in bound.initial or ()]
    if isinstance(bound.field, forms.ModelChoiceField):
        key = bound.initial
        if key in (None, ""):
            return None
        rows: Any = bound.field.queryset
        row = rows.filter(**{bound.field.to_field_name or "pk": key}).first()
        return str(row) if row is not None else str(key)
    return _told(bound, bound.initial)


def _told(bound: Any, value: Any) -> Any:
    if isinstance(value, models.Model):
        return str(value)
    if isinstance(value, models.QuerySet):
        return [str(row) for row in value]
    choices = dict(getattr(bound.field, "choices", ())) if isinstance(bound.field, forms.TypedChoiceField) else {}
    if choices and value in choices:
        return str(choices[value])
    return to_json_value(value) if not hasattr(value, "name") else str(value.name)


# Deletions


def preview_of_deletion(
    ctx: Context, site: Any, model: type[models.Model], key: Any, opened: Collection[str] = ()
) -> Mapping[str, Any]:
    """Return the row that a deletion deletes, and how many rows of which models go along, with their names.

    Raises:
        ToolError: it would fail.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    page = deletion.open_deletion(ctx, site, model, key)[1]
    deletion.require_deletable(page, options)
    texts = deletion.names_in(page.context.get("deleted_objects") or ())[1:]  # the first is the row itself
    told: Row = {
        "verb": "delete",
        "object": f"{options.verbose_name} {page.context.get('object')}",
        "changes": [*_shown(ctx, site, model, key, opened)],
    }
    return {**told, **going_along(page, options, 1, texts)}


def going_along(page: Visit, options: Any, own: int, texts: list[str]) -> Row:
    """Return what a preview tells of the rows that are deleted with others.

    Args:
        page: the admin's page that asks for a confirmation.
        options: the ``_meta`` of the model.
        own: number of rows to delete.
        texts: of the rows that go along.
    """
    also = Counter(deletion.counts(page))
    also[str(options.verbose_name_plural)] -= own
    counted = [{"what": name, "count": count} for name, count in also.items() if count > 0]
    told: Row = {"also": counted, "names": deletion.shortened(texts)}
    # Which rows these are counts, also beyond those that are named.
    return {**told, "also_digest": hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()} if texts else told


def _shown(ctx: Context, site: Any, model: type[models.Model], key: Any, opened: Collection[str]) -> Iterator[Row]:
    try:
        page = open_form(ctx, site, model, key)
    except ToolError:  # who may delete a row need not see its page
        return
    fields = list(page.fields())
    labels = labels_of(fields)
    values, _read_only, titles = values_of(fields, page.options.label_lower, opened)
    for name, value in values.items():
        computed = _if_computed(model, name)
        yield {"field": name, "label": labels[name], "before": titles.get(name, value), **computed}


def _if_computed(model: Any, name: str) -> Row:
    """Return the mark of values that the site's code makes: if they differ later, the row need not have changed."""
    try:
        model._meta.get_field(name)  # noqa: SLF001 - Django's documented API
    except FieldDoesNotExist:
        return {"computed": True}
    return {}
