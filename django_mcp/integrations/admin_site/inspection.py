"""What the tools of an admin give one caller, for ``mcp_inspect --admin``: columns, filters, fields, what is hidden."""

from collections.abc import Iterator
from typing import Any

from django.contrib.admin.utils import flatten_fieldsets
from django.db import models
from django.urls import NoReverseMatch
from django.utils.text import capfirst

from django_mcp.core.context import Context
from django_mcp.core.database import without_effects
from django_mcp.integrations.admin_site import changelist, schemas
from django_mcp.integrations.admin_site.hidden import is_secret_widget, reaches_secret, secret_search_fields
from django_mcp.integrations.admin_site.tools import AdminTools
from django_mcp.integrations.admin_site.visit import page_url

BY_NAME = "its name says that it is a secret"
BY_WIDGET = "its widget shows or takes a password"


def admin_url(ctx: Context, offered: AdminTools) -> str:
    """Return the path of an admin's front page, "" if no URL leads to it."""
    try:
        return page_url(ctx, offered.site, "index")
    except NoReverseMatch:
        return ""


def refusal(ctx: Context, offered: AdminTools) -> str:
    """Return why an admin admits a caller to none of its tools, "" if it does."""
    if offered.admits(ctx):
        return ""
    if getattr(ctx.user, "is_staff", True):
        return "AdminSite.has_permission refuses this user"
    return "this user is not staff"


def describe_model(ctx: Context, offered: AdminTools, model: type[models.Model]) -> dict[str, Any]:
    """Return what a caller gets of a model, as JSON values. Pages are visited, and what they write is rolled back.

    Its members are ``columns``, ``search``, ``filters``, ``order_by`` and ``date`` of the list, ``fields`` of the form,
    ``hidden`` fields with ``where``, ``why`` and what ``opened_by``, and ``failed`` for pages that raise.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    told: dict[str, Any] = {"model": options.label, "title": capfirst(str(options.verbose_name_plural))}
    told |= {"columns": [], "search": [], "filters": [], "order_by": [], "date": None}
    told |= {"fields": [], "hidden": [], "failed": []}
    parts = {"list": _list if offered.may(ctx, model, "search") else None, "form": _form}
    for name, part in parts.items():
        try:
            with without_effects():
                for member, value in part(ctx, offered, model) if part is not None else ():
                    told[member] = told[member] + value if isinstance(value, list) else value
        except Exception as error:  # noqa: BLE001 - the site's own code
            told["failed"].append(f"its {name} fails: {type(error).__name__}: {error}")
    return told


def _list(ctx: Context, offered: AdminTools, model: type[models.Model]) -> Iterator[tuple[str, Any]]:
    opened = offered.opened
    cl = changelist.open_changelist(ctx, offered.site, model, {}).context.get("cl")
    if cl is None:  # the page of the only row
        return
    columns = changelist.column_names(cl)
    secret = secret_search_fields(model, cl.search_fields, opened)
    yield "columns", [name for _, name in columns]
    yield "search", [] if secret else [str(path) for path in cl.search_fields or ()]
    yield "filters", list(changelist.filters_of(cl, opened))
    yield "order_by", list(changelist.orderings(cl, opened))
    yield "date", cl.date_hierarchy
    for column, name in columns:
        if changelist.is_secret_column(cl, column, name, opened):
            yield "hidden", [_hidden(model, name, "column", BY_NAME)]
    for path in secret:
        yield "hidden", [_hidden(model, path.lstrip("^=@"), "search, which is not offered therefore", BY_NAME)]
    for name, _ in schemas.filter_names(cl.list_filter):
        if reaches_secret(model, name, opened):
            yield "hidden", [_hidden(model, name, "filter", BY_NAME)]


def _form(ctx: Context, offered: AdminTools, model: type[models.Model]) -> Iterator[tuple[str, Any]]:
    may_change = offered.may(ctx, model, "change")
    if not may_change and not offered.may(ctx, model, "add"):
        return
    admin, request = offered.admin_of(model), offered.request(ctx)
    fields = schemas.form_fields(admin, request, None, is_new=not may_change)
    yield "fields", list(fields)
    obj = model() if may_change else None
    form = admin.get_form(request, obj, change=may_change)()
    shown = dict.fromkeys(flatten_fieldsets(admin.get_fieldsets(request, obj)))
    owners = {name: inline.model for name, _, inline in schemas.inlines_of(admin, request, obj)}
    for name in {**shown, **dict.fromkeys(fields)}:
        if not isinstance(name, str):
            continue
        inline, _, own = name.rpartition(".")
        owner, field = owners.get(inline, model), fields.get(name) or form.fields.get(name)
        if field is not None and is_secret_widget(field.widget):
            yield "hidden", [_hidden(owner, own, "form", BY_WIDGET)]
        elif reaches_secret(owner, own, offered.opened):
            yield "hidden", [_hidden(owner, own, "form", BY_NAME)]


def _hidden(model: type[models.Model], path: str, where: str, why: str) -> dict[str, str]:
    opener = "" if why == BY_WIDGET else f"{model._meta.label_lower}.{path}"  # noqa: SLF001 - documented
    return {"field": path, "where": where, "why": why, "opened_by": opener}
