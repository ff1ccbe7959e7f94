"""Tools of a model: search, get, aggregate, create, update and delete."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

from django.db import DataError
from django.forms import BaseModelForm
from django.utils.translation import gettext as _
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.signatures import function, list_of, one_of, optional, shaped
from django_mcp.model_resources import pagination
from django_mcp.model_resources.access import RowAccess, find_row
from django_mcp.model_resources.bound_resource import BoundResource
from django_mcp.model_resources.compile import field_problems
from django_mcp.model_resources.form_binding import GIVEN, FormArguments
from django_mcp.model_resources.options import ModelResource, Permitted
from django_mcp.model_resources.pagination import COUNTED, Page, Sorting, count, read_page, show_row
from django_mcp.model_resources.previews import preview_create, preview_delete, preview_update, rows_of
from django_mcp.model_resources.queryset import COUNT, MAX_DIMENSIONS, aggregated, filtered, searched
from django_mcp.model_resources.schema import input_type
from django_mcp.model_resources.serializers import row_schema
from django_mcp.model_resources.writes import Writer, run_delete
from django_mcp.primitives.base import ToolError, phrase
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InvalidParams

DEFAULT_ROWS = 20
MAX_GROUPS = 200
RESERVED = frozenset({"ctx", "query", "order_by", "limit", "cursor", "measures", "by", "uri"})
"""Arguments of these tools that no filter can be called after."""


def read_tools(bound: BoundResource) -> Iterator[Tool]:
    """The read tools that a declaration asks for."""
    wanted, titles = bound.resource.tools, bound.titles
    if "search" in wanted:
        finds = "Go through rows"
        if bound.filters or bound.search_fields:
            finds = f"Find rows by {'words and ' if bound.search_fields else ''}filters; all that is given must hold"
        words = f"{finds}. The answer says how to get more, where there are more."
        schema = _page_schema(row_schema(bound, bound.list_columns))
        title = phrase("Search {}", titles, lower=True)
        yield _read_tool(bound, f"search_{bound.plural}", title, words, run_search, _search_parameters(bound), schema)
    if "get" in wanted:
        words = "Gives one row with all that is shown of it."
        title, schema = phrase("Get {}", bound.options.verbose_name), row_schema(bound, bound.columns)
        yield _read_tool(bound, f"get_{bound.name}", title, words, run_get, get_parameters(bound), schema)
    if "aggregate" in wanted and bound.resource.aggregates is not None:
        words = "Counts rows and adds them up, in groups or all together."
        title = phrase("Add up {}", titles, lower=True)
        parameters, schema = _aggregate_parameters(bound), _groups_schema(bound)
        yield _read_tool(bound, f"aggregate_{bound.plural}", title, words, run_aggregate, parameters, schema)


def _read_tool(
    bound: BoundResource,
    name: str,
    title: Any,
    words: str,
    run: Callable[..., ToolResult[Any]],
    parameters: list[Parameter],
    schema: dict[str, Any],
) -> Tool:
    resource = bound.resource
    words = f"{bound.description}\n\n{words}"
    tool = Tool(
        function(partial(run, bound), name, words, parameters, resource, shaped(schema)),
        context_type=Context,
        name=name,
        title=title,
        icons=resource.icons,
        read_only=True,
        idempotent=True,
        open_world=False,
        scopes=resource.scopes,
        visible=Permitted(resource),
    )
    tool.is_interactive = False
    return tool


# Searching


def _search_parameters(bound: BoundResource) -> list[Parameter]:
    parameters = [*_narrowing(bound)]
    ways = [way for way in bound.sortings if way]
    if ways:
        words = "What to sort by; with a minus the largest first."
        parameters.append(Parameter("order_by", optional(one_of(ways)), None, words))
    most = bound.resource.max_page_size
    limit = Annotated[int, Field(ge=1, le=most)]
    parameters.append(Parameter("limit", limit, min(DEFAULT_ROWS, most), f"The most rows to give, up to {most}."))
    words = "next_cursor of the page before, with the same other arguments."
    parameters.append(Parameter("cursor", optional(Annotated[str, Field(max_length=4096)]), None, words))
    return parameters


def _narrowing(bound: BoundResource) -> Iterator[Parameter]:
    """The arguments that say which rows."""
    if bound.search_fields:
        where = ", ".join(dict.fromkeys(field.path.source.replace("__", " ") for field in bound.search_fields))
        words = f"Words, all of which must occur in: {where}."
        yield Parameter("query", optional(Annotated[str, Field(max_length=200)]), None, words)
    for each in bound.filters:
        yield each.parameter


def _page_schema(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": row},
            "total": {"type": ["integer", "null"], "description": f"How many rows match; null if over {COUNTED}."},
            "next_cursor": {"type": ["string", "null"], "description": "For the rows behind these; null at the end."},
            "note": {"type": "string", "description": "What this is a part of, and how to get the rest."},
        },
        "required": ["rows", "total", "next_cursor", "note"],
        "additionalProperties": False,
    }


def run_search(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """A page of rows.

    Raises:
        ToolError: the words, a filter or the cursor cannot be used.
    """
    access = RowAccess(ctx)
    question = [bound.options.label, {key: value for key, value in given.items() if key not in {"cursor", "limit"}}]
    sorting = Sorting(bound.sortings[given.get("order_by") or ""], access, bound)
    with readable_errors():
        place = pagination.decode(ctx, question, given["cursor"]) if given.get("cursor") else None
        rows = narrowed(bound, access, given)
        page = read_page(bound, access, rows, sorting, bound.list_columns, given["limit"], place)
        # Counted where it is asked for the first time; from then on it is known.
        total = count(bound, rows) if place is None and page.place else None
    if place is None and not page.place:
        total = len(page.rows)
    cursor = pagination.encode(ctx, question, page.place) if page.place else None
    note = _note(page, total, is_first=place is None)
    return ToolResult({"rows": page.rows, "total": total, "next_cursor": cursor, "note": note})


def _note(page: Page, total: int | None, *, is_first: bool) -> str:
    shown = f"{len(page.rows)} row{'' if len(page.rows) == 1 else 's'}"
    if page.place is None:
        return f"{shown}; there are no more."
    known = f" of {'many' if total is None else total}" if is_first else ""
    cut = " More would be too long for one answer." if page.was_cut else ""
    return f"{shown}{known}.{cut} For the next ones call again with the same arguments and cursor=next_cursor."


def narrowed(bound: BoundResource, access: RowAccess, given: Mapping[str, Any]) -> Any:
    """The rows that exist for the caller and fit what is given.

    Raises:
        ToolError: the words cannot be searched for.
    """
    rows = filtered(access.get_queryset(bound), given, access, bound)
    return searched(rows, given["query"], access, bound) if given.get("query") else rows


# Getting


def get_parameters(bound: BoundResource) -> list[Parameter]:
    """The one argument that says which row."""
    words = "Of which row, as search and URIs show it."
    return [Parameter(bound.lookup_name, input_type(bound.lookup), EMPTY, words)]


def run_get(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """One row in full.

    Raises:
        ToolError: there is none, for this caller.
    """
    access, value = RowAccess(ctx), given[bound.lookup_name]
    row = show_row(bound, access, find_row(bound, access, str(value)))
    if row is None:
        raise bound.missing(value)
    return ToolResult(row)


# Adding up


def _aggregate_parameters(bound: BoundResource) -> list[Parameter]:
    measures = list_of(one_of([COUNT, *bound.measures]), least=1, most=10)
    parameters = [Parameter("measures", measures, [COUNT], "What to work out.")]
    if bound.dimensions:
        by = list_of(one_of(bound.dimensions), most=MAX_DIMENSIONS)
        parameters.append(Parameter("by", by, [], "What to group rows by; nothing: all rows together."))
    return [*parameters, *_narrowing(bound)]


def _groups_schema(bound: BoundResource) -> dict[str, Any]:
    properties: dict[str, Any] = {COUNT: {"type": "integer", "description": "How many rows."}}
    properties |= {name: measure.schema for name, measure in bound.measures.items()}
    properties |= {name: dimension.schema for name, dimension in bound.dimensions.items()}
    group = {"type": "object", "properties": properties, "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"groups": {"type": "array", "items": group}, "note": {"type": "string"}},
        "required": ["groups", "note"],
        "additionalProperties": False,
    }


def run_aggregate(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """Groups of rows, and what was worked out of them.

    Raises:
        ToolError: the words or a filter cannot be used.
    """
    access = RowAccess(ctx)
    measures, by = list(dict.fromkeys(given["measures"])), list(dict.fromkeys(given.get("by", ())))
    with readable_errors():
        groups = aggregated(narrowed(bound, access, given), measures, by, MAX_GROUPS, access, bound)
    shown = groups[:MAX_GROUPS]
    rest = " There are more: filter, or group by less." if len(groups) > len(shown) else ""
    return ToolResult({"groups": shown, "note": f"{len(shown)} group{'s' * (len(shown) != 1)}.{rest}"})


@contextmanager
def readable_errors() -> Iterator[None]:
    """What cannot be asked of the database, in words from which a model can mend its call.

    Raises:
        ToolError: in place of what a caller's values led to.
    """
    try:
        yield
    except InvalidParams as error:
        raise ToolError(error.message) from None
    except (DataError, ArithmeticError, UnicodeEncodeError):
        raise ToolError("A value is outside of what the database holds. Use another one.") from None


_DELETED = {
    "type": "object",
    "properties": {"deleted": {"type": "string", "description": "The URI that the row had."}},
    "required": ["deleted"],
    "additionalProperties": False,
}


def writing_tools(bound: BoundResource) -> Iterator[Tool]:
    """The tools for the verbs that a declaration opts in to."""
    verbs = bound.resource.actions
    row = shaped(row_schema(bound, bound.columns))
    if "create" in verbs:
        words = "Creates one row, and gives it with all that is shown of it."
        writer = Writer(bound, change=False)
        look = partial(preview_create, writer)
        yield _write_tool(
            bound, "create", writer.create, look, words, [], row, writer, destructive=False, idempotent=False
        )
    if "update" in verbs:
        words = "Changes one row: what is given, and nothing else. Gives it with all that is shown of it."
        writer = Writer(bound, change=True)
        yield _write_tool(bound, "update", writer.update, partial(preview_update, writer), words, [], row, writer)
    if "delete" in verbs:
        words = "Deletes one row, and what there cannot be without it."
        call, look = partial(run_delete, bound), partial(preview_delete, bound)
        yield _write_tool(bound, "delete", call, look, words, get_parameters(bound), shaped(_DELETED))


def _write_tool(
    bound: BoundResource,
    verb: str,
    call: Callable[[Context, Mapping[str, Any]], Any],
    look: Callable[[Context, Mapping[str, Any]], Any],
    words: str,
    parameters: list[Parameter],
    returns: Any,
    writer: Writer | None = None,
    *,
    destructive: bool = True,
    idempotent: bool = True,
) -> Tool:
    resource, name = bound.resource, f"{verb}_{bound.name}"
    tool = Tool(
        function(call, name, f"{bound.description}\n\n{words}", parameters, resource, returns),
        context_type=Context,
        arguments=None if writer is None else FormArguments(writer.schema(), is_strict=True),
        name=name,
        title=phrase(f"{verb.capitalize()} {{}}", bound.options.verbose_name),
        icons=resource.icons,
        read_only=False,
        destructive=destructive,
        idempotent=idempotent,
        open_world=False,
        scopes=(*resource.scopes, *resource.write_scopes),
        visible=Permitted(resource, verb),
        preview=function(look, f"preview_{name}", "", parameters if writer is None else [GIVEN], resource),
    )
    tool.rows_of = partial(rows_of, bound, writer)
    # Only what the site wrote itself can ask the person at the client.
    hook = "delete_model" if verb == "delete" else "save_model"
    tool.is_interactive = getattr(type(resource), hook) is not getattr(ModelResource, hook)
    return tool


# Problems


def writing_problems(bound: BoundResource) -> Iterator[tuple[str, str]]:
    """What is wrong with how a declaration lets callers write, and what would be right."""
    resource = bound.resource
    if isinstance(resource.actions, str) or not {"create", "update"} & {*resource.actions}:
        return
    wrong = _wrong_fields(resource) if resource.form is None else _wrong_form(bound)
    if wrong is None:
        yield from field_problems(bound)
    else:
        yield wrong


def _wrong_fields(resource: ModelResource) -> tuple[str, str] | None:
    if not resource.writable_fields:
        verbs = _(" and ").join(repr(verb) for verb in resource.actions if verb != "delete")
        text = _("actions has %(actions)s, and there is nothing to write") % {"actions": verbs}
        return text, _("Name the fields: writable_fields = [...], or a form.")
    return None


def _wrong_form(bound: BoundResource) -> tuple[str, str] | None:
    resource, form = bound.resource, bound.resource.form
    if not (isinstance(form, type) and issubclass(form, BaseModelForm) and form._meta.model):  # noqa: SLF001
        return _("form is %(form)r") % {"form": form}, _("Give a subclass of ModelForm that has a Meta with a model.")
    if not issubclass(bound.model, form._meta.model):  # noqa: SLF001 - of ModelForm
        text = _("form is of %(model)s") % {"model": form._meta.model._meta.label}  # noqa: SLF001
        return text, _("Give one of %(model)s.") % {"model": bound.options.label}
    if form._meta.fields is None:  # noqa: SLF001 - of ModelForm
        hint = _("Name them in its Meta.fields, so that new columns cannot be written by themselves.")
        return _("form %(form)s does not say which fields it has") % {"form": form.__name__}, hint
    if resource.writable_fields:
        return _("both writable_fields and form are declared"), _("Keep one of them.")
    return None
