"""Lists of rows, as the admin's changelist has them: columns, search, filters, dates, order and pages."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.contrib.admin.utils import display_for_field, display_for_value, label_for_field, lookup_field
from django.core.exceptions import ObjectDoesNotExist
from django.db import models
from django.db.models.expressions import OrderBy
from django.utils.html import strip_tags
from django.utils.text import slugify

from django_mcp.core.context import Context
from django_mcp.integrations.admin_site.hidden import HIDDEN, reaches_secret
from django_mcp.integrations.admin_site.texts import plain
from django_mcp.integrations.admin_site.visit import Visit, page_url, query_of, visit
from django_mcp.model_resources.schema import to_json_value
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument, unknown_argument

CHECKBOX = "action_checkbox"
KEY = "pk"
"""Member of a row with its key."""
_DATE = re.compile(r"(?P<year>\d{4})(-(?P<month>\d{1,2})(-(?P<day>\d{1,2}))?)?")
MAX_NAMED = 30
"""Choices named in an error."""


def open_changelist(ctx: Context, site: Any, model: type[models.Model], query: Mapping[str, Any]) -> Visit:
    """Return the changelist of a model with the parameters of its page.

    Raises:
        ToolError: the user may not view the model, the page is no changelist, or the parameters do not fit.
    """
    options = model._meta  # noqa: SLF001 - Django's documented API
    page = visit(ctx, page_url(ctx, site, f"{options.app_label}_{options.model_name}_changelist"), query)
    if page.location is not None and query_of(page.location.partition("?")[2]).get("e"):
        raise ToolError("The admin does not accept these filters.")
    if "cl" not in page.context and "adminform" not in page.context:
        raise ToolError(f"The admin has no list of {options.verbose_name_plural}.")
    return page


class Found(NamedTuple):
    """Rows of a changelist.

    Attributes:
        result: for the caller.
        cl: Django's ``ChangeList``; None if a page of the only row takes the place of the list.
        unfiltered: the list without the filters of the call, whose filters have all choices.
    """

    result: dict[str, Any]
    cl: Any = None
    unfiltered: Any = None


def search(
    ctx: Context, site: Any, model: type[models.Model], given: Mapping[str, Any], shown: Collection[str]
) -> Found:
    """Return rows of a changelist. See ``found_list`` for the arguments and errors."""
    page, first = found_list(ctx, site, model, given, shown)
    if (row := page.context.get("original")) is not None and "cl" not in page.context:
        # The only row of its model, whose page takes the place of the list.
        return Found({"rows": [{KEY: to_json_value(row), "title": str(row)}], "total": 1, "page": 1, "pages": 1})
    cl = page.context["cl"]
    result = {
        "rows": [row_of(cl, row, shown) for row in cl.result_list],
        "total": cl.result_count,
        "page": cl.page_num,
        "pages": cl.paginator.num_pages if cl.multi_page and not cl.show_all else 1,
        **({"messages": page.messages} if page.messages else {}),
    }
    return Found(result, cl, first or cl)


def found_list(
    ctx: Context, site: Any, model: type[models.Model], given: Mapping[str, Any], shown: Collection[str]
) -> tuple[Visit, Any]:
    """Return the changelist with what a search finds, and the ``ChangeList`` without its filters, if it has been read.

    Args:
        ctx: the call.
        site: the ``AdminSite``.
        model: one of its models.
        given: arguments ``query``, ``filters``, ``date``, ``order_by`` and ``page``, each optional.
        shown: secret columns that the site opened.

    Raises:
        ArgumentError: an argument does not fit this list.
        ToolError: see ``open_changelist``.
    """
    query: dict[str, Any] = {}
    asks = {name for name in ("filters", "order_by", "date") if given.get(name)}
    first = cl = open_changelist(ctx, site, model, {}).context.get("cl") if asks else None
    if asks and cl is None:
        raise ArgumentError([about_argument([name], "the admin has no list to apply it to.") for name in sorted(asks)])
    if "filters" in asks:
        query |= filter_parameters(cl, given["filters"], shown)
    if "date" in asks:
        query |= _date_parameters(cl, given["date"])
    if "order_by" in asks:
        query["o"] = _order_parameter(cl, given["order_by"], shown)
    if given.get("query"):
        query["q"] = given["query"]
    if given.get("page"):
        query["p"] = given["page"]
    page = open_changelist(ctx, site, model, query)
    if given.get("query") and "cl" in page.context and not page.context["cl"].search_fields:
        raise ArgumentError([about_argument(["query"], "the admin has no search for this list.")])
    return page, first


# Columns


def column_names(cl: Any) -> list[tuple[Any, str]]:
    """Return what ``list_display`` has, each with the name of its member in a row."""
    found: list[tuple[Any, str]] = []
    for column in cl.list_display:
        if column == CHECKBOX:
            continue
        name = column if isinstance(column, str) else getattr(column, "__name__", "")
        name = "title" if name == "__str__" else name if name.isidentifier() else ""
        label = slugify(column_label(cl, column)).replace("-", "_")
        name = name or label or "column"
        taken = {own for _, own in found} | {KEY}
        unique = next(each for each in (name, *(f"{name}_{number}" for number in range(2, 200))) if each not in taken)
        found.append((column, unique))
    return found


def column_label(cl: Any, column: Any) -> str:
    """Return the header of a column."""
    return strip_tags(str(label_for_field(column, cl.model, cl.model_admin)))


def key_of(cl: Any, row: models.Model) -> Any:
    """Return the key by which the admin's pages know a row."""
    return to_json_value(getattr(row, cl.pk_attname))


def row_of(cl: Any, row: models.Model, shown: Collection[str]) -> dict[str, Any]:
    """Return a row: its key, and its columns as values if they are of fields, else as text."""
    made = {KEY: key_of(cl, row)}
    for column, name in column_names(cl):
        value = cell(cl, row, column)
        made[name] = HIDDEN if is_secret_column(cl, column, name, shown) and value not in (None, "") else value
    return made


def is_secret_column(cl: Any, column: Any, name: str, shown: Collection[str]) -> bool:
    """Return True if a column is hidden, by its path or by its name in rows."""
    return reaches_secret(cl.model, column if isinstance(column, str) else name, shown)


def cell(cl: Any, row: models.Model, column: Any) -> Any:
    """Return a cell as JSON: numbers, booleans and dates of fields, else the text that the page shows."""
    empty = cl.model_admin.get_empty_value_display()
    try:
        column_field, attribute, value = lookup_field(column, row, cl.model_admin)
    except ObjectDoesNotExist:
        return None
    if column_field is None or column_field.auto_created:
        if getattr(attribute, "boolean", False):
            return None if value is None else bool(value)
        return display(value, getattr(attribute, "empty_value_display", empty))
    if isinstance(column_field.remote_field, models.ManyToOneRel):
        related = getattr(row, column_field.name)
        return None if related is None else str(related)
    if column_field.flatchoices:
        shown = display_for_field(value, column_field, empty)
        has_text = value in dict(column_field.flatchoices)  # no value may have one too, such as "Unknown"
        return plain(shown) if has_text or value not in column_field.empty_values else None
    return to_json_value(value)


def display(value: Any, empty: str) -> Any:
    """Return a computed value as JSON: numbers and booleans stay, markup becomes text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return plain(display_for_value(value, empty))


# Filters


def filters_of(cl: Any, shown: Collection[str] = ()) -> dict[str, list[Any]]:
    """Return the filters of a list by name, without those of secret columns.

    A package may add one of the same name as a field's. A value then is of whichever has it.
    """
    found: dict[str, list[Any]] = {}
    for spec in cl.filter_specs:
        name = getattr(spec, "parameter_name", None) or getattr(spec, "field_path", None)
        name = str(name or slugify(str(spec.title)).replace("-", "_"))
        if not reaches_secret(cl.model, name, shown):
            found.setdefault(name, []).append(spec)
    return found


def choices_of(cl: Any, specs: Iterable[Any]) -> list[tuple[str, str, dict[str, str]]]:
    """Return the choices of filters, but those of all rows: value, text and the parameters that choose it."""
    found = []
    base = query_of(cl.get_query_string())
    for choice in (choice for spec in specs for choice in spec.choices(cl)):
        parameters = query_of(str(choice.get("query_string", "")))
        added = {name: value for name, value in parameters.items() if base.get(name) != value}
        if added and "query_string" in choice:
            value = next(iter(added.values())) if len(added) == 1 else slugify(str(choice["display"])).replace("-", "_")
            text = strip_tags(str(choice["display"]))
            found.append((value, text, added))
    return found


def filter_parameters(cl: Any, given: Mapping[str, Any], shown: Collection[str]) -> dict[str, str]:
    """Return the parameters of a changelist for filters by name.

    A filter without choices has a form of its own, as of a range: it takes a value, or an object of its parameters.

    Raises:
        ArgumentError: a filter is unknown, or a value is none of its choices.
    """
    known, problems, made = filters_of(cl, shown), [], dict[str, str]()
    for name, value in given.items():
        if name not in known:
            problems.append(unknown_argument(["filters", name], list(known)))
            continue
        choices = choices_of(cl, known[name])
        parameters = [parameter for spec in known[name] for parameter in spec.expected_parameters() if parameter]
        found = chosen_parameters(choices, value) if choices else _typed_in(parameters, value)
        if found is not None:
            made |= found
        elif choices:
            named = ", ".join(f"{value} ({text})" if text != value else value for value, text, _ in choices[:MAX_NAMED])
            problems.append(about_argument(["filters", name], f"must be one of: {named}."))
        else:
            words = f"must be an object with some of: {', '.join(parameters)}."
            problems.append(about_argument(["filters", name], words))
    if problems:
        raise ArgumentError(problems)
    return made


def _typed_in(parameters: Sequence[str], value: Any) -> dict[str, str] | None:
    if isinstance(value, dict):
        return {name: str(own) for name, own in value.items()} if value.keys() <= set(parameters) else None
    is_one = len(parameters) == 1 and value is not None and not isinstance(value, list)
    return {parameters[0]: str(value)} if is_one else None


def chosen_parameters(choices: Sequence[tuple[str, str, dict[str, str]]], value: Any) -> dict[str, str] | None:
    """Return the parameters of the choice that a value names, or None."""
    if isinstance(value, list | dict):
        return None
    wanted = {True: ("1", "true"), False: ("0", "false")}.get(value, (str(value),))
    if value is None:  # the choice of rows that have none
        return next((added for _, _, added in choices if any(name.endswith("__isnull") for name in added)), None)
    for word in wanted:
        for own, text, added in choices:
            if word in {own, text} or word.lower() in {own.lower(), text.lower()}:
                return added
    return None


def _date_parameters(cl: Any, given: str) -> dict[str, str]:
    if not cl.date_hierarchy:
        raise ArgumentError([about_argument(["date"], "the admin does not divide this list by dates.")])
    found = _DATE.fullmatch(str(given))
    if found is None:
        raise ArgumentError(
            [about_argument(["date"], "must be a year, month or day, such as 2026, 2026-05 or 2026-05-31.")]
        )
    return {f"{cl.date_hierarchy}__{part}": str(int(value)) for part, value in found.groupdict().items() if value}


# Order


def orderings(cl: Any, shown: Collection[str] = ()) -> dict[str, str]:
    """Return the columns that the list can be ordered by: name to number in the page's parameter."""
    names = {id(column): name for column, name in column_names(cl)}
    return {
        names[id(column)]: str(number)
        for number, column in enumerate(cl.list_display)
        if id(column) in names
        and (cl.sortable_by is None or column in cl.sortable_by)
        and (ordering := cl.get_ordering_field(column))
        and not is_secret_column(cl, column, names[id(column)], shown)
        and not reaches_secret(cl.model, _path_of(ordering), shown)
    }


def _path_of(ordering: Any) -> str:
    """Return the path by which a column is ordered, "" if it is computed."""
    if isinstance(ordering, OrderBy):
        ordering = ordering.expression
    name = getattr(ordering, "name", "") if isinstance(ordering, models.F) else ordering
    return name.lstrip("-") if isinstance(name, str) else ""


def _order_parameter(cl: Any, given: Any, shown: Collection[str]) -> str:
    known, parts = orderings(cl, shown), []
    for name in [given] if isinstance(given, str) else given:
        sign, bare = ("-", name[1:]) if str(name).startswith("-") else ("", str(name))
        if bare not in known:
            named = ", ".join(known) or "none"
            raise ArgumentError([about_argument(["order_by"], f"columns that this list can be ordered by: {named}.")])
        parts.append(f"{sign}{known[bare]}")
    return ".".join(parts)
