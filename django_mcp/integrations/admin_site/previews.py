"""What an approver sees of a change: the form of the admin as it would be saved, with the rows that belong to it."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from django import forms
from django.db import models
from django.utils.text import capfirst

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.changeform import FormPage, open_form, save
from django_mcp.integrations.admin_site.changelist import plain
from django_mcp.integrations.admin_site.hidden import is_secret_widget
from django_mcp.model_resources.previews import unless_secret
from django_mcp.model_resources.schema import to_json_value

MASKED = "hidden"


class _Stopped(BaseException):
    """The page is about to be saved. No ``except Exception`` of the site takes it for an error."""

    def __init__(self, form: Any, formsets: list[Any]) -> None:
        super().__init__("stopped")
        self.form, self.formsets = form, formsets


def preview_of_save(
    ctx: Context, site: Any, model: type[models.Model], key: Any, given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the fields and inline rows that a change would leave different.

    The views of the site run up to the point where the row is saved, with a copy of its ``ModelAdmin`` that saves
    nothing. Call it in a transaction that is rolled back.

    Raises:
        ArgumentError, ToolError: the change would fail.
    """
    page = open_form(ctx, site, model, key)
    options = model._meta  # noqa: SLF001 - Django's documented API
    verb, name = (
        ("create", str(options.verbose_name)) if key is None else ("update", f"{options.verbose_name} {page.original}")
    )
    told: dict[str, Any] = {"verb": verb, "object": capfirst(f"{options.verbose_name}{name}")}
    try:
        save(page, given, view=_stopping_view(site, model, key))
    except _Stopped as stopped:
        return {**told, "changes": [*_changes(page, stopped)]}
    # A view of the site's own saved it without asking the ModelAdmin: what was given is all that is known.
    changes = [{"field": name, "label": name, "after": unless_secret(name, value)} for name, value in given.items()]
    return {**told, "changes": changes, "is_whole": False}


def _stopping_view(site: Any, model: type[models.Model], key: Any) -> Any:
    copied = copy.copy(site._registry[model])  # noqa: SLF001 - get_model_admin() is new in Django 5.0

    def stop(request: Any, form: Any, formsets: Any, change: bool) -> None:  # noqa: ARG001 - as ModelAdmin has it
        raise _Stopped(form, list(formsets))

    copied.save_model = lambda request, obj, form, change: None  # noqa: ARG005 - likewise
    copied.save_related = stop
    return site.admin_view(copied.add_view if key is None else copied.change_view)


def _changes(page: FormPage, stopped: _Stopped) -> Iterator[dict[str, Any]]:
    yield from _fields(stopped.form)
    names = {inline.formset.prefix: inline.name for inline in page.inlines}
    for formset in stopped.formsets:
        title = capfirst(str(formset.model._meta.verbose_name))  # noqa: SLF001 - Django's documented API
        name = names.get(formset.prefix, formset.prefix)
        deleted = set(map(id, getattr(formset, "deleted_forms", ())))
        for number, form in enumerate(formset.forms):
            where, is_new = f"{name}[{number}]", form.instance._state.adding  # noqa: SLF001 - documented
            if id(form) in deleted:
                if not is_new:
                    yield {"field": where, "label": f"{title}: deleted", "before": str(form.instance), "after": None}
            elif form.has_changed():
                label = f"{title}: added" if is_new else f"{title} {form.instance}"
                yield from _fields(form, where, label)


def _fields(form: Any, where: str = "", prefix: str = "") -> Iterator[dict[str, Any]]:
    for name in form.changed_data:
        if name not in form.fields or name == "DELETE":
            continue
        bound = form[name]
        secret = is_secret_widget(bound.field.widget)
        label = plain(bound.label) if not prefix else f"{prefix}: {plain(bound.label)}"
        change = {"field": f"{where}.{name}" if where else name, "label": label}
        after = MASKED if secret else unless_secret(name, _told(bound, form.cleaned_data.get(name)))
        if form.instance._state.adding:  # noqa: SLF001 - Django's documented API
            yield {**change, "after": after}
        else:
            before = MASKED if secret else unless_secret(name, _before(bound))
            yield {**change, "before": before, "after": after}


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
