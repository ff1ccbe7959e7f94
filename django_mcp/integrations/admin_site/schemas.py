"""Arguments of the tools as JSON Schema, for one caller: the admin's forms, filters and inlines differ by user."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any

from django.contrib.admin.utils import NotRelationField, flatten_fieldsets, get_fields_from_path
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.forms.formsets import DEFAULT_MAX_NUM
from django.forms.utils import pretty_name
from django.http import HttpRequest
from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from django_mcp.core.database import without_effects
from django_mcp.integrations.admin_site.changeform import DELETE, KEY, TYPE, VERSION, inline_name, type_of_row
from django_mcp.integrations.admin_site.hidden import is_secret, reaches_secret, secret_search_fields
from django_mcp.integrations.admin_site.password import PASSWORD
from django_mcp.model_resources.form_schema import editable_fields, form_schema
from django_mcp.model_resources.form_sources import FormArguments
from django_mcp.primitives.field_schema import choice_schema
from django_mcp.primitives.function import Parameter
from django_mcp.primitives.markers import MAX_BYTES
from django_mcp.primitives.schema import Arguments

logger = logging.getLogger("django_mcp")
Schema = dict[str, Any]
KEY_SCHEMA: Schema = {"type": ["integer", "string"], "description": "Key of the row."}
OPEN: Schema = {"type": "object", "additionalProperties": True}

Scalar = bool | int | float | str | None
Member = Scalar | list[Scalar]


class _Search(TypedDict, total=False):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    query: str
    filters: dict[str, Member | dict[str, Scalar]]
    date: str


_TYPES: Mapping[str, Any] = {
    KEY: int | str,
    "query": str,
    "filters": dict[str, Member | dict[str, Scalar]],  # an object for a filter with several values, as of a range
    "date": str,
    "order_by": str | list[str],
    "page": Annotated[int, Field(ge=1)],
    "pks": list[int | str],
    "search": _Search,
    "values": dict[str, Member],
    "button": str,
    PASSWORD: str,
}
"""The types of the arguments that are no fields of a form. JSON Schemas of them say what is possible for the caller."""


@cache
def _typed(names: frozenset[str]) -> Arguments:
    parameters = [Parameter(name, _TYPES[name], None, None) for name in sorted(names)]
    return Arguments(parameters, "admin_tools", is_json=True)


class AdminArguments(FormArguments):
    """The arguments of a tool of the admin. Fields of a form are validated with their page, all others before.

    Args:
        schema: of the tool, as it is known without a request. If it is open, the other arguments are fields.
    """

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        is_open = schema.get("additionalProperties") is not False
        self._fixed = frozenset(schema["properties"] if is_open else _TYPES)

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return all values under one key; null counts as omitted.

        Raises:
            ArgumentError: one that is no field of a form is of the wrong type.
        """
        fixed = {name: value for name, value in values.items() if name in self._fixed and value is not None}
        _typed(self._fixed).validate(fixed)
        return super().validate(values)


def object_schema(properties: Schema, required: Iterable[str] = ()) -> Schema:
    """Return the schema of an object with these members and no others."""
    needed = list(required)
    made: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**made, "required": needed} if needed else made


def search_schema(admin: Any, request: HttpRequest | None, shown: Collection[str] = ()) -> Schema:
    """Return the arguments of a search.

    Args:
        admin: the ``ModelAdmin``.
        request: of the caller; None for what is known without one.
        shown: secret fields that the site opened. Filters by others are left out, and a search that looks into others.
    """
    properties: Schema = {}
    fields = admin.search_fields if request is None else admin.get_search_fields(request)
    if fields and not secret_search_fields(admin.model, fields, shown):
        words = str(admin.search_help_text or "Words to search for, as in the admin.")
        properties["query"] = {"type": "string", "description": words}
    filters = admin.list_filter if request is None else admin.get_list_filter(request)
    if named := _filters(admin.model, filters, shown):
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


def filter_names(declared: Iterable[Any]) -> Iterable[tuple[str, Any]]:
    """Yield the entries of ``list_filter`` by the names of their arguments."""
    for entry in declared:
        path = entry[0] if isinstance(entry, list | tuple) else entry
        if name := path if isinstance(path, str) else getattr(path, "parameter_name", None):
            yield str(name), entry


def _filters(model: type[models.Model], declared: Iterable[Any], shown: Collection[str]) -> dict[str, Schema]:
    found: dict[str, Schema] = {}
    for name, entry in filter_names(declared):
        if reaches_secret(model, name, shown):
            continue
        if isinstance(entry, list | tuple | str):
            schema = _filter_schema(model, name, is_plain=name is entry)
        else:
            schema = {"description": str(getattr(entry, "title", "") or pretty_name(name))}
        found[name] = {} if name in found else schema  # two filters of one name have different choices
    return found


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


def try_form(admin: Any, request: HttpRequest) -> Exception | None:
    """Return the error with which the form of a ``ModelAdmin`` cannot be described without a row, or None."""
    try:
        with without_effects():
            add_schema(admin, request)
            change_schema(admin, request)
    except Exception as error:  # noqa: BLE001 - the site's own code
        return error
    return None


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
    for name, formset, inline in inlines_of(admin, request, obj):
        forms, formset_class = _forms_of_row(formset), type(formset)
        fields: Schema = {}
        for form in forms:
            read_only, editable = set(inline.get_readonly_fields(request, obj)), editable_fields(form)
            shown = flatten_fieldsets(inline.get_fieldsets(request, obj)) if len(forms) == 1 else [*editable]
            names = [name for name in shown if name not in read_only and name in editable]
            described = form_schema(form, names, MAX_BYTES)["properties"]
            fields |= {name: _without_default(part) for name, part in described.items()}
        if len(forms) > 1:
            fields[TYPE] = {"enum": [*map(type_of_row, forms)], "description": "Type of a row to add."}
        if obj is not None:
            fields = {KEY: KEY_SCHEMA, **fields}
            if formset_class.can_delete:
                fields[DELETE] = {"type": "boolean", "description": "Delete this row."}
        most = {"maxItems": formset_class.max_num} if formset_class.max_num < DEFAULT_MAX_NUM else {}
        words = f"{inline.verbose_name_plural}. A row with its key is changed, one without is added."
        properties[name] = {"type": "array", "items": object_schema(fields), **most, "description": str(words)}
    return properties


def _forms_of_row(formset: Any) -> list[Any]:
    """Return the form of a new row, or one for each type that rows can be of, as with django-polymorphic."""
    several = getattr(formset, "empty_forms", None)
    return [formset.empty_form] if several is None else [*several]


def form_fields(admin: Any, request: HttpRequest, opened: Collection[str] | None, *, is_new: bool) -> dict[str, Any]:
    """Return the fields whose choices the caller may know; those of inlines as ``lines.product``.

    Args:
        admin: the ``ModelAdmin``.
        request: of the caller.
        opened: secret fields that the site opened, as choices of others may be secrets too; None for all fields.
        is_new: True for the form that adds a row.
    """
    label = admin.model._meta.label_lower  # noqa: SLF001 - Django's documented API
    obj = None if is_new else admin.model()
    form = admin.get_form(request, obj, change=not is_new)()
    names = _editable(admin, request, obj, form)
    found = {name: form.fields[name] for name in names if opened is None or not is_secret(label, name, opened)}
    for name, formset, inline in inlines_of(admin, request, obj):
        own = inline.opts.label_lower
        fields = {key: field for form in _forms_of_row(formset) for key, field in editable_fields(form).items()}
        known = [field for field in fields if opened is None or not is_secret(own, field, opened)]
        found |= {f"{name}.{field}": fields[field] for field in known}
    return found


def inlines_of(admin: Any, request: HttpRequest, obj: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the inlines that the caller has: the name of the argument, a formset, and the ``InlineModelAdmin``.

    Args:
        admin: the ``ModelAdmin``.
        request: of the caller.
        obj: the row; None for a new one.
    """
    taken: set[str] = set()
    for formset_class, inline in admin.get_formsets_with_inlines(request, obj):
        name = inline_name(formset_class, inline.opts, taken)
        taken.add(name)
        yield name, formset_class(**admin.get_formset_kwargs(request, obj or admin.model(), inline, "form")), inline


def _without_default(schema: Mapping[str, Any]) -> Schema:
    return {key: value for key, value in schema.items() if key != "default"}
