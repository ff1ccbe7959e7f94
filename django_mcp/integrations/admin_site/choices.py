"""Choices for a field of a page or a filter of a list, as the admin offers them."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from django import forms
from django.contrib.admin.widgets import AutocompleteMixin, ForeignKeyRawIdWidget
from django.db import models
from django.utils.choices import flatten_choices

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.changelist import choices_of, filters_of, key_of, open_changelist
from django_mcp.integrations.admin_site.hidden import require_open_search
from django_mcp.integrations.admin_site.visit import page_url, visit
from django_mcp.integrations.requests import Call, site_request
from django_mcp.model_resources.schema import to_json_value
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument

MAX_CHOICES = 50
Choice = dict[str, Any]
"""An object with ``value``, which an argument takes, and ``text``."""


def filter_choices(
    ctx: Context, site: Any, model: type[models.Model], name: str, query: str, shown: Collection[str] = ()
) -> list[Choice]:
    """Return the choices of a filter of a list. *shown* are secret fields that the site opened.

    Raises:
        ArgumentError: the list has no such filter.
    """
    cl = open_changelist(ctx, site, model, {}).context["cl"]
    known = filters_of(cl, shown)
    if name not in known:
        raise ArgumentError([about_argument(["argument"], _one_of(f"filters.{known_name}" for known_name in known))])
    return list(_found(((value, text) for value, text, _ in choices_of(cl, known[name])), query))


def field_choices(
    ctx: Context, site: Any, fields: Mapping[str, forms.Field], name: str, query: str, shown: Collection[str] = ()
) -> list[Choice]:
    """Return the choices of a field of a form.

    Args:
        ctx: the call.
        site: the ``AdminSite``.
        fields: of the caller's form, those of inlines with the inline in front.
        name: of one of them.
        query: words that choices contain.
        shown: secret fields that the site opened.

    Raises:
        ArgumentError: the form has no such field, it takes anything, or the search for its choices looks into hidden
            fields.
    """
    field: Any = fields.get(name)
    if not hasattr(field, "choices"):
        chosen = [known for known, candidate in fields.items() if hasattr(candidate, "choices")]
        raise ArgumentError([about_argument(["argument"], _one_of(chosen))])
    widget = getattr(field.widget, "widget", field.widget)  # of RelatedFieldWidgetWrapper
    if isinstance(widget, AutocompleteMixin | ForeignKeyRawIdWidget) and query:
        _require_open_search(ctx, site, widget, shown)
    if isinstance(widget, AutocompleteMixin):
        return _autocompleted(ctx, site, widget, query)
    if isinstance(widget, ForeignKeyRawIdWidget):
        return _searched(ctx, site, widget, query)
    return list(_found(flatten_choices(field.choices), query))


def _require_open_search(ctx: Context, site: Any, widget: Any, shown: Collection[str]) -> None:
    related = widget.rel.model if isinstance(widget, ForeignKeyRawIdWidget) else widget.field.remote_field.model
    admin = site._registry.get(related)  # noqa: SLF001 - get_model_admin() is new in Django 5.0
    if admin is not None:
        require_open_search(admin, site_request(ctx, Call("GET", "/")), shown)


def _autocompleted(ctx: Context, site: Any, widget: Any, query: str) -> list[Choice]:
    options = widget.field.model._meta  # noqa: SLF001 - Django's documented API
    asked = {
        "app_label": options.app_label,
        "model_name": options.model_name,
        "field_name": widget.field.name,
        "term": query,
    }
    response: Any = visit(ctx, page_url(ctx, site, "autocomplete"), asked).response
    return [{"value": row["id"], "text": row["text"]} for row in json.loads(response.content)["results"]]


def _searched(ctx: Context, site: Any, widget: Any, query: str) -> list[Choice]:
    parameters = {**widget.url_parameters(), **({"q": query} if query else {})}
    cl = open_changelist(ctx, site, widget.rel.model, parameters).context["cl"]
    return [{"value": key_of(cl, row), "text": str(row)} for row in list(cl.result_list)[:MAX_CHOICES]]


def _found(choices: Any, query: str) -> Iterator[Choice]:
    number = 0
    for value, text in choices:
        if value not in (None, "") and query.casefold() in str(text).casefold():
            number += 1
            if number > MAX_CHOICES:
                return
            yield {"value": to_json_value(getattr(value, "value", value)), "text": str(text)}


def _one_of(names: Any) -> str:
    return f"must be one of: {', '.join(names) or 'none'}."
