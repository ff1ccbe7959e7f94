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


def read_tools(exposed: BoundResource) -> Iterator[Tool]:
    """The read tools that a declaration asks for."""
    wanted, titles = exposed.resource.tools, exposed.titles
    if "search" in wanted:
        finds = "Go through rows"
        if exposed.filters or exposed.search_fields:
            finds = f"Find rows by {'words and ' if exposed.search_fields else ''}filters; all that is given must hold"
        words = f"{finds}. The answer says how to get more, where there are more."
        schema = _page_schema(row_schema(exposed, exposed.list_columns))
        title = phrase("Search {}", titles, lower=True)
        yield _read_tool(
            exposed, f"search_{exposed.plural}", title, words, run_search, _search_parameters(exposed), schema
        )
    if "get" in wanted:
        words = "Gives one row with all that is shown of it."
        title, schema = phrase("Get {}", exposed.options.verbose_name), row_schema(exposed, exposed.columns)
        yield _read_tool(exposed, f"get_{exposed.name}", title, words, run_get, get_parameters(exposed), schema)
    if "aggregate" in wanted and exposed.resource.aggregates is not None:
        words = "Counts rows and adds them up, in groups or all together."
        title = phrase("Add up {}", titles, lower=True)
        parameters, schema = _aggregate_parameters(exposed), _groups_schema(exposed)
        yield _read_tool(exposed, f"aggregate_{exposed.plural}", title, words, run_aggregate, parameters, schema)


def _read_tool(
    exposed: BoundResource,
    name: str,
    title: Any,
    words: str,
    run: Callable[..., ToolResult[Any]],
    parameters: list[Parameter],
    schema: dict[str, Any],
) -> Tool:
    resource = exposed.resource
    words = f"{exposed.description}\n\n{words}"
    tool = Tool(
        function(partial(run, exposed), name, words, parameters, resource, shaped(schema)),
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


def _search_parameters(exposed: BoundResource) -> list[Parameter]:
    parameters = [*_narrowing(exposed)]
    ways = [way for way in exposed.sortings if way]
    if ways:
        words = "What to sort by; with a minus the largest first."
        parameters.append(Parameter("order_by", optional(one_of(ways)), None, words))
    most = exposed.resource.max_page_size
    limit = Annotated[int, Field(ge=1, le=most)]
    parameters.append(Parameter("limit", limit, min(DEFAULT_ROWS, most), f"The most rows to give, up to {most}."))
    words = "next_cursor of the page before, with the same other arguments."
    parameters.append(Parameter("cursor", optional(Annotated[str, Field(max_length=4096)]), None, words))
    return parameters


def _narrowing(exposed: BoundResource) -> Iterator[Parameter]:
    """The arguments that say which rows."""
    if exposed.search_fields:
        where = ", ".join(dict.fromkeys(field.path.source.replace("__", " ") for field in exposed.search_fields))
        words = f"Words, all of which must occur in: {where}."
        yield Parameter("query", optional(Annotated[str, Field(max_length=200)]), None, words)
    for each in exposed.filters:
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


def run_search(exposed: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """A page of rows.

    Raises:
        ToolError: the words, a filter or the cursor cannot be used.
    """
    viewer = RowAccess(ctx)
    question = [exposed.options.label, {key: value for key, value in given.items() if key not in {"cursor", "limit"}}]
    sorting = Sorting(exposed.sortings[given.get("order_by") or ""], viewer, exposed)
    with readable_errors():
        place = pagination.decode(ctx, question, given["cursor"]) if given.get("cursor") else None
        rows = narrowed(exposed, viewer, given)
        page = read_page(exposed, viewer, rows, sorting, exposed.list_columns, given["limit"], place)
        # Counted where it is asked for the first time; from then on it is known.
        total = count(exposed, rows) if place is None and page.place else None
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


def narrowed(exposed: BoundResource, viewer: RowAccess, given: Mapping[str, Any]) -> Any:
    """The rows that exist for the caller and fit what is given.

    Raises:
        ToolError: the words cannot be searched for.
    """
    rows = filtered(viewer.get_queryset(exposed), given, viewer, exposed)
    return searched(rows, given["query"], viewer, exposed) if given.get("query") else rows


# Getting


def get_parameters(exposed: BoundResource) -> list[Parameter]:
    """The one argument that says which row."""
    words = "Of which row, as search and URIs show it."
    return [Parameter(exposed.lookup_name, input_type(exposed.lookup), EMPTY, words)]


def run_get(exposed: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """One row in full.

    Raises:
        ToolError: there is none, for this caller.
    """
    viewer, value = RowAccess(ctx), given[exposed.lookup_name]
    row = show_row(exposed, viewer, find_row(exposed, viewer, str(value)))
    if row is None:
        raise exposed.missing(value)
    return ToolResult(row)


# Adding up


def _aggregate_parameters(exposed: BoundResource) -> list[Parameter]:
    measures = list_of(one_of([COUNT, *exposed.measures]), least=1, most=10)
    parameters = [Parameter("measures", measures, [COUNT], "What to work out.")]
    if exposed.dimensions:
        by = list_of(one_of(exposed.dimensions), most=MAX_DIMENSIONS)
        parameters.append(Parameter("by", by, [], "What to group rows by; nothing: all rows together."))
    return [*parameters, *_narrowing(exposed)]


def _groups_schema(exposed: BoundResource) -> dict[str, Any]:
    properties: dict[str, Any] = {COUNT: {"type": "integer", "description": "How many rows."}}
    properties |= {name: measure.schema for name, measure in exposed.measures.items()}
    properties |= {name: dimension.schema for name, dimension in exposed.dimensions.items()}
    group = {"type": "object", "properties": properties, "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"groups": {"type": "array", "items": group}, "note": {"type": "string"}},
        "required": ["groups", "note"],
        "additionalProperties": False,
    }


def run_aggregate(exposed: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """Groups of rows, and what was worked out of them.

    Raises:
        ToolError: the words or a filter cannot be used.
    """
    viewer = RowAccess(ctx)
    measures, by = list(dict.fromkeys(given["measures"])), list(dict.fromkeys(given.get("by", ())))
    with readable_errors():
        groups = aggregated(narrowed(exposed, viewer, given), measures, by, MAX_GROUPS, viewer, exposed)
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


def writing_tools(exposed: BoundResource) -> Iterator[Tool]:
    """The tools for the verbs that a declaration opts in to."""
    verbs = exposed.resource.actions
    row = shaped(row_schema(exposed, exposed.columns))
    if "create" in verbs:
        words = "Creates one row, and gives it with all that is shown of it."
        writer = Writer(exposed, change=False)
        look = partial(preview_create, writer)
        yield _write_tool(
            exposed, "create", writer.create, look, words, [], row, writer, destructive=False, idempotent=False
        )
    if "update" in verbs:
        words = "Changes one row: what is given, and nothing else. Gives it with all that is shown of it."
        writer = Writer(exposed, change=True)
        yield _write_tool(exposed, "update", writer.update, partial(preview_update, writer), words, [], row, writer)
    if "delete" in verbs:
        words = "Deletes one row, and what there cannot be without it."
        call, look = partial(run_delete, exposed), partial(preview_delete, exposed)
        yield _write_tool(exposed, "delete", call, look, words, get_parameters(exposed), shaped(_DELETED))


def _write_tool(
    exposed: BoundResource,
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
    resource, name = exposed.resource, f"{verb}_{exposed.name}"
    tool = Tool(
        function(call, name, f"{exposed.description}\n\n{words}", parameters, resource, returns),
        context_type=Context,
        arguments=None if writer is None else FormArguments(writer.schema(), is_strict=True),
        name=name,
        title=phrase(f"{verb.capitalize()} {{}}", exposed.options.verbose_name),
        icons=resource.icons,
        read_only=False,
        destructive=destructive,
        idempotent=idempotent,
        open_world=False,
        scopes=(*resource.scopes, *resource.write_scopes),
        visible=Permitted(resource, verb),
        preview=function(look, f"preview_{name}", "", parameters if writer is None else [GIVEN], resource),
    )
    tool.rows_of = partial(rows_of, exposed, writer)
    # Only what the site wrote itself can ask the person at the client.
    hook = "delete_model" if verb == "delete" else "save_model"
    tool.is_interactive = getattr(type(resource), hook) is not getattr(ModelResource, hook)
    return tool


# Problems


def writing_problems(exposed: BoundResource) -> Iterator[tuple[str, str]]:
    """What is wrong with how a declaration lets callers write, and what would be right."""
    resource = exposed.resource
    if isinstance(resource.actions, str) or not {"create", "update"} & {*resource.actions}:
        return
    wrong = _wrong_fields(resource) if resource.form is None else _wrong_form(exposed)
    if wrong is None:
        yield from field_problems(exposed)
    else:
        yield wrong


def _wrong_fields(resource: ModelResource) -> tuple[str, str] | None:
    if not resource.writable_fields:
        verbs = _(" and ").join(repr(verb) for verb in resource.actions if verb != "delete")
        text = _("actions has %(actions)s, and there is nothing to write") % {"actions": verbs}
        return text, _("Name the fields: writable_fields = [...], or a form.")
    return None


def _wrong_form(exposed: BoundResource) -> tuple[str, str] | None:
    resource, form = exposed.resource, exposed.resource.form
    if not (isinstance(form, type) and issubclass(form, BaseModelForm) and form._meta.model):  # noqa: SLF001
        return _("form is %(form)r") % {"form": form}, _("Give a subclass of ModelForm that has a Meta with a model.")
    if not issubclass(exposed.model, form._meta.model):  # noqa: SLF001 - of ModelForm
        text = _("form is of %(model)s") % {"model": form._meta.model._meta.label}  # noqa: SLF001
        return text, _("Give one of %(model)s.") % {"model": exposed.options.label}
    if form._meta.fields is None:  # noqa: SLF001 - of ModelForm
        hint = _("Name them in its Meta.fields, so that new columns cannot be written by themselves.")
        return _("form %(form)s does not say which fields it has") % {"form": form.__name__}, hint
    if resource.writable_fields:
        return _("both writable_fields and form are declared"), _("Keep one of them.")
    return None
