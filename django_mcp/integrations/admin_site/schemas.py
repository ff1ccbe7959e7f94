"""Arguments of the tools as JSON Schema, for one caller: the admin's forms, filters and inlines differ by user."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from django.contrib.admin.utils import NotRelationField, flatten_fieldsets, get_fields_from_path
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.forms.formsets import DEFAULT_MAX_NUM
from django.forms.utils import pretty_name
from django.http import HttpRequest

from django_mcp.core.database import without_effects
from django_mcp.integrations.admin_site.changeform import DELETE, KEY, VERSION, inline_name
from django_mcp.integrations.admin_site.hidden import is_secret
from django_mcp.model_resources.form_schema import editable_fields, form_schema
from django_mcp.primitives.field_schema import choice_schema
from django_mcp.primitives.markers import MAX_BYTES

logger = logging.getLogger("django_mcp")
Schema = dict[str, Any]
KEY_SCHEMA: Schema = {"type": ["integer", "string"], "description": "Key of the row."}
OPEN: Schema = {"type": "object", "additionalProperties": True}


def object_schema(properties: Schema, required: Iterable[str] = ()) -> Schema:
    """Return the schema of an object with these members and no others."""
    needed = list(required)
    made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, "required": needed} if needed else made


def search_schema(admin: Any, request: HttpRequest | None) -> Schema:
    """Return the arguments of a search.

    Args:
        admin: the ``ModelAdmin``.
        request: of the caller; None for what is known without one.
    """
    properties: Schema = {}
    fields = admin.search_fields if request is None else admin.get_search_fields(request)
    if fields:
        words = str(admin.search_help_text or "Words to search for, as in the admin.")
        properties["query"] = {"type": "string", "description": words}
    filters = admin.list_filter if request is None else admin.get_list_filter(request)
    if named := dict(_filters(admin.model, filters)):
        words = "Filters of the admin's list, by name. A wrong value is answered with the choices."
        properties["filters"] = {**object_schema(named), "description": words}
    if admin.date_hierarchy:
        words = f"Year, month or day of {pretty_name(admin.date_hierarchy).lower()}: 2026, 2026-05 or 2026-05-31."
        properties["date"] = {"type": "string", "description": words}
    words = "Column to order by, with - in front for descending; several in a list."
    properties["order_by"] = {
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
        "description": words,
    }
    properties["page"] = {"type": "integer", "minimum": 1, "default": 1}
    return object_schema(properties)


def _filters(model: type[models.Model], declared: Iterable[Any]) -> Iterable[tuple[str, Schema]]:
    label = model._meta.label_lower  # noqa: SLF001 - Django's documented API
    for entry in declared:
        path = entry[0] if isinstance(entry, list | tuple) else entry
        if isinstance(path, str):
            if not is_secret(label, path, ()):
                yield path, _filter_schema(model, path, is_plain=path is entry)
        elif name := getattr(path, "parameter_name", None):
            yield str(name), {"description": str(getattr(path, "title", "") or pretty_name(str(name)))}


def _filter_schema(model: type[models.Model], path: str, *, is_plain: bool) -> Schema:
    try:
        field = get_fields_from_path(model, path)[-1]
    except (FieldDoesNotExist, NotRelationField):
        return {}
    if is_plain and isinstance(field, models.BooleanField):
        return {"type": ["boolean", "null"] if field.null else "boolean"}
    if is_plain and getattr(field, "flatchoices", None):
        return choice_schema(dict.fromkeys(value for value, _ in field.flatchoices))
    return {}


def add_schema(admin: Any, request: HttpRequest) -> Schema:
    """Return the arguments that add a row: those of the caller's form, with its initial values as defaults."""
    initial = admin.get_changeform_initial_data(request)
    form_class = admin.get_form(request, None, change=False)
    form = form_class(initial=initial)
    names = _editable(admin, request, None, form)
    schema = form_schema(form, names, MAX_BYTES)
    derived = {name for name in admin.get_prepopulated_fields(request) if name in names}
    required = [name for name in schema.get("required", ()) if name not in derived]
    return object_schema({**schema["properties"], **_inlines(admin, request, None)}, required)


def change_schema(admin: Any, request: HttpRequest) -> Schema:
    """Return the arguments that change a row, all optional but its key: those of the caller's form for some row."""
    blank = admin.model()
    form = admin.get_form(request, blank, change=True)(instance=blank)
    schema = form_schema(form, _editable(admin, request, blank, form), MAX_BYTES)
    fields = {name: _without_default(part) for name, part in schema["properties"].items()}
    version = {"type": "string", "description": "The version that get_… returned. Refused if it was changed since."}
    # A field of that name comes first.
    own = {VERSION: version, KEY: KEY_SCHEMA, **fields, **_inlines(admin, request, blank)}
    return object_schema(own, [KEY])


def made_or_open(make: Callable[[], Schema], label: str) -> Schema:
    """Return what *make* returns, or an open object if the site's admin raises an error for a row that is not saved."""
    try:
        with without_effects():
            return make()
    except Exception:
        logger.warning("The form of %s cannot be described without a row", label, exc_info=True)
        return OPEN


def _editable(admin: Any, request: HttpRequest, obj: Any, form: Any) -> list[str]:
    read_only, editable = set(admin.get_readonly_fields(request, obj)), editable_fields(form)
    shown = flatten_fieldsets(admin.get_fieldsets(request, obj))
    return [name for name in shown if name not in read_only and name in editable]


def _inlines(admin: Any, request: HttpRequest, obj: Any) -> Schema:
    properties: Schema = {}
    for formset_class, inline in admin.get_formsets_with_inlines(request, obj):
        made = formset_class(**admin.get_formset_kwargs(request, obj or admin.model(), inline, "form"))
        form = made.empty_form
        read_only, editable = set(inline.get_readonly_fields(request, obj)), editable_fields(form)
        shown = flatten_fieldsets(inline.get_fieldsets(request, obj))
        names = [name for name in shown if name not in read_only and name in editable]
        described = form_schema(form, names, MAX_BYTES)["properties"]
        fields = {name: _without_default(part) for name, part in described.items()}
        if obj is not None:
            fields = {KEY: KEY_SCHEMA, **fields}
            if formset_class.can_delete:
                fields[DELETE] = {"type": "boolean", "description": "Delete this row."}
        most = {"maxItems": formset_class.max_num} if formset_class.max_num < DEFAULT_MAX_NUM else {}
        words = f"{inline.verbose_name_plural}. A row with its key is changed, one without is added."
        name = inline_name(formset_class, inline.opts, properties)
        properties[name] = {"type": "array", "items": object_schema(fields), **most, "description": str(words)}
    return properties


def form_fields(admin: Any, request: HttpRequest, opened: Collection[str], *, is_new: bool) -> dict[str, Any]:
    """Return the fields whose choices the caller may know; those of inlines as ``lines.product``.

    Args:
        admin: the ``ModelAdmin``.
        request: of the caller.
        opened: secret fields that the site opened; choices of others may be secrets too.
        is_new: True for the form that adds a row.
    """
    label = admin.model._meta.label_lower  # noqa: SLF001 - Django's documented API
    obj = None if is_new else admin.model()
    form = admin.get_form(request, obj, change=not is_new)()
    names = [name for name in _editable(admin, request, obj, form) if not is_secret(label, name, opened)]
    found = {name: form.fields[name] for name in names}
    taken: set[str] = set()
    for formset_class, inline in admin.get_formsets_with_inlines(request, obj):
        made = formset_class(**admin.get_formset_kwargs(request, obj or admin.model(), inline, "form"))
        name = inline_name(formset_class, inline.opts, taken)
        taken.add(name)
        fields, own = editable_fields(made.empty_form), inline.opts.label_lower
        found |= {f"{name}.{field}": fields[field] for field in fields if not is_secret(own, field, opened)}
    return found


def _without_default(schema: Mapping[str, Any]) -> Schema:
    return {key: value for key, value in schema.items() if key != "default"}
