"""The generated tools of a model: search, get, aggregate, create, update, delete."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

from django.db import DataError
from django.forms import BaseModelForm
from django.utils.translation import gettext as _
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.late_tools import LateTool
from django_mcp.core.signatures import GIVEN, function, list_of, one_of, optional, shaped
from django_mcp.model_resources import pagination
from django_mcp.model_resources.access import RowAccess, find_row
from django_mcp.model_resources.apps import app_for, view_context
from django_mcp.model_resources.bound_resource import BoundResource
from django_mcp.model_resources.compile import field_problems
from django_mcp.model_resources.form_sources import FormArguments
from django_mcp.model_resources.options import ModelResource, Permitted
from django_mcp.model_resources.pagination import COUNTED, Page, Sorting, count_rows, read_page, show_row
from django_mcp.model_resources.previews import preview_create, preview_delete, preview_update, rows_of
from django_mcp.model_resources.queryset import COUNT, MAX_DIMENSIONS, aggregate, apply_filters, apply_search
from django_mcp.model_resources.schema import input_type
from django_mcp.model_resources.serializers import row_schema
from django_mcp.model_resources.writes import OUT_OF_RANGE, Writer, run_delete
from django_mcp.primitives.base import ToolError, phrase
from django_mcp.primitives.function import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import InvalidParams

DEFAULT_ROWS = 20
MAX_GROUPS = 200
RESERVED = frozenset({"query", "order_by", "limit", "cursor", "measures", "by", "uri"})
"""Argument names of these tools, which filters cannot use."""


def read_tools(bound: BoundResource) -> Iterator[Tool]:
    wanted, titles = bound.resource.tools, bound.titles
    if "search" in wanted:
        ways = ["search terms"] * bool(bound.search_fields) + ["filters"] * bool(bound.filters)
        words = "Returns one page of rows. To get the next page, pass next_cursor as cursor."
        if ways:
            words = f"Search by {' and '.join(ways)}. Returns rows that match all of them, one page at a time."
        schema = _page_schema(row_schema(bound, bound.list_output_fields))
        title = phrase("Search {}", titles, lower=True)
        parameters = _search_parameters(bound)
        yield _read_tool(bound, "search", f"search_{bound.plural}", title, words, run_search, parameters, schema)
    if "get" in wanted:
        words = "Returns one row with all its fields."
        title, schema = phrase("Get {}", bound.singular), row_schema(bound, bound.output_fields)
        yield _read_tool(bound, "get", f"get_{bound.name}", title, words, run_get, get_parameters(bound), schema)
    if "aggregate" in wanted and bound.resource.aggregates is not None:
        words = _aggregate_description(bound)
        title = phrase("Aggregate {}", titles, lower=True)
        parameters, schema = _aggregate_parameters(bound), _groups_schema(bound)
        name = f"aggregate_{bound.plural}"
        yield _read_tool(bound, "aggregate", name, title, words, run_aggregate, parameters, schema)


def _read_tool(
    bound: BoundResource,
    kind: str,
    name: str,
    title: Any,
    words: str,
    run: Callable[..., ToolResult[Any]],
    parameters: list[Parameter],
    schema: dict[str, Any],
) -> Tool:
    resource = bound.resource
    tool = Tool(
        function(partial(run, bound), name, parameters, resource, shaped(schema)),
        context_type=Context,
        name=name,
        title=title,
        description=f"{bound.description}\n\n{words}",
        icons=resource.icons,
        read_only=True,
        idempotent=True,
        open_world=False,
        scopes=resource.scopes,
        visible=Permitted(resource),
        app=app_for(bound, kind),
    )
    tool.view_context = view_context(bound, kind)
    tool.is_interactive = False
    return tool


# Search


def _search_parameters(bound: BoundResource) -> list[Parameter]:
    parameters = [*_narrowing(bound)]
    ways = [way for way in bound.orderings if way]
    if ways:
        words = "Field to sort by. Prefix with '-' for descending order."
        parameters.append(Parameter("order_by", optional(one_of(ways)), None, words))
    most = bound.resource.max_page_size
    limit = Annotated[int, Field(ge=1, le=most)]
    words = f"Maximum number of rows to return, 1 to {most}."
    parameters.append(Parameter("limit", limit, min(DEFAULT_ROWS, most), words))
    words = "next_cursor from the previous page. Keep the other arguments the same."
    parameters.append(Parameter("cursor", optional(Annotated[str, Field(max_length=4096)]), None, words))
    return parameters


def _narrowing(bound: BoundResource) -> Iterator[Parameter]:
    if bound.search_fields:
        names = list(dict.fromkeys(field.path.source.replace("__", " ") for field in bound.search_fields))
        where = names[0] if len(names) == 1 else f"one of: {', '.join(names)}"
        words = f"Search terms. A row matches if every term occurs in {where}. Use double quotes for a phrase."
        yield Parameter("query", optional(Annotated[str, Field(max_length=200)]), None, words)
    for filter_ in bound.filters:
        yield filter_.parameter


def _page_schema(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "rows": {"type": "array", "items": row},
            "total": {
                "type": ["integer", "null"],
                "description": f"Number of matching rows. Null if unknown, for example if there are over {COUNTED}.",
            },
            "next_cursor": {
                "type": ["string", "null"],
                "description": "Cursor of the next page. Null on the last page.",
            },
            "note": {"type": "string", "description": "Number of rows on this page, and how to get the next page."},
        },
        "required": ["rows", "total", "next_cursor", "note"],
        "additionalProperties": False,
    }


def run_search(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    access = RowAccess(ctx)
    question = [bound.options.label, {key: value for key, value in given.items() if key not in {"cursor", "limit"}}]
    sorting = Sorting(bound.orderings[given.get("order_by") or ""], access, bound)
    with readable_errors():
        place = pagination.decode_cursor(ctx, question, given["cursor"]) if given.get("cursor") else None
        rows = narrowed(bound, access, given)
        page = read_page(bound, access, rows, sorting, bound.list_output_fields, given["limit"], place)
        # Only the first page is counted.
        total = count_rows(bound, rows) if place is None and page.place else None
    if place is None and not page.place:
        total = len(page.rows)
    cursor = pagination.encode_cursor(ctx, question, page.place) if page.place else None
    note = _note(page, total, is_first=place is None)
    return ToolResult({"rows": page.rows, "total": total, "next_cursor": cursor, "note": note})


def _note(page: Page, total: int | None, *, is_first: bool) -> str:
    shown = f"{len(page.rows)} row{'' if len(page.rows) == 1 else 's'}"
    if page.place is None:
        return f"{shown}. This is the last page."
    known = f" of {'many' if total is None else total}" if is_first else ""
    cut = " The page was cut because the output is limited." if page.was_cut else ""
    return f"{shown}{known}.{cut} For the next page, repeat the call with cursor set to next_cursor."


def narrowed(bound: BoundResource, access: RowAccess, given: Mapping[str, Any]) -> Any:
    rows = apply_filters(access.get_queryset(bound), given, access, bound)
    return apply_search(rows, given["query"], access, bound) if given.get("query") else rows


# Get


def get_parameters(bound: BoundResource) -> list[Parameter]:
    return [Parameter(bound.lookup_name, input_type(bound.lookup), EMPTY, bound.lookup_description)]


def run_get(bound: BoundResource, ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    access, value = RowAccess(ctx), given[bound.lookup_name]
    row = show_row(bound, access, find_row(bound, access, str(value)))
    if row is None:
        raise bound.missing(value)
    return ToolResult(row)


# Aggregates


def _aggregate_description(bound: BoundResource) -> str:
    functions = list(dict.fromkeys(measure.function for measure in bound.measures.values()))
    what = f"Counts rows and computes {', '.join(functions)} of fields" if functions else "Counts rows"
    return f"{what}, in total{' or by group' if bound.dimensions else ''}."


def _aggregate_parameters(bound: BoundResource) -> list[Parameter]:
    measures = list_of(one_of([COUNT, *bound.measures]), least=1, most=10)
    parameters = [Parameter("measures", measures, [COUNT], "Aggregates to compute.")]
    if bound.dimensions:
        by = list_of(one_of(bound.dimensions), most=MAX_DIMENSIONS)
        parameters.append(Parameter("by", by, [], "Fields to group by. If empty, all rows form one group."))
    return [*parameters, *_narrowing(bound)]


def _groups_schema(bound: BoundResource) -> dict[str, Any]:
    properties: dict[str, Any] = {COUNT: {"type": "integer", "description": "Number of rows."}}
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
    access = RowAccess(ctx)
    measures, by = list(dict.fromkeys(given["measures"])), list(dict.fromkeys(given.get("by", ())))
    with readable_errors():
        groups = aggregate(narrowed(bound, access, given), measures, by, MAX_GROUPS, access, bound)
    shown = groups[:MAX_GROUPS]
    rest = " More groups were left out. Filter rows, or group by fewer fields." if len(groups) > len(shown) else ""
    return ToolResult({"groups": shown, "note": f"{len(shown)} group{'s' * (len(shown) != 1)}.{rest}"})


@contextmanager
def readable_errors() -> Iterator[None]:
    """Raise errors caused by a caller's values as ``ToolError``, so that a model can correct its call."""
    try:
        yield
    except InvalidParams as error:
        raise ToolError(error.message) from None
    except (DataError, ArithmeticError, UnicodeEncodeError):
        raise ToolError(OUT_OF_RANGE) from None


_DELETED = {
    "type": "object",
    "properties": {"deleted": {"type": "string", "description": "URI of the deleted row."}},
    "required": ["deleted"],
    "additionalProperties": False,
}


def writing_tools(bound: BoundResource) -> Iterator[Tool]:
    verbs = bound.resource.actions
    row = shaped(row_schema(bound, bound.output_fields))
    if "create" in verbs:
        words = "Creates one row and returns it with all its fields."
        writer = Writer(bound, change=False)
        look = partial(preview_create, writer)
        yield _write_tool(
            bound, "create", writer.create, look, words, [], row, writer, destructive=False, idempotent=False
        )
    if "update" in verbs:
        words = "Updates one row: fields that are not given keep their values. Returns the row with all its fields."
        writer = Writer(bound, change=True)
        yield _write_tool(bound, "update", writer.update, partial(preview_update, writer), words, [], row, writer)
    if "delete" in verbs:
        words = "Deletes one row, and related rows that cannot exist without it."
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
    make = partial(Tool, context_type=Context) if writer is None else partial(WriteTool, writer)
    tool: Tool = make(
        function(call, name, parameters, resource, returns),
        name=name,
        title=phrase(f"{verb.capitalize()} {{}}", bound.singular),
        description=f"{bound.description}\n\n{words}",
        icons=resource.icons,
        read_only=False,
        destructive=destructive,
        idempotent=idempotent,
        open_world=False,
        scopes=(*resource.scopes, *resource.write_scopes),
        visible=Permitted(resource, verb),
        preview=function(look, f"preview_{name}", parameters if writer is None else [GIVEN], resource),
        app=None if writer is None else app_for(bound, "get"),
    )
    tool.view_context = view_context(bound, "get")
    tool.rows_of = partial(rows_of, bound, writer)
    # Only the site's own code can request elicitation.
    hook = "delete_model" if verb == "delete" else "save_model"
    tool.is_interactive = getattr(type(resource), hook) is not getattr(ModelResource, hook)
    return tool


class WriteTool(LateTool):
    """A tool that writes rows through a form, completed when first listed or called.

    Forms, default managers and choices of columns may query the database.
    """

    reads_database = True

    def __init__(self, writer: Writer, call: Any, **options: Any) -> None:
        self._writer, self._call, self._options = writer, call, options
        super().__init__(call, **options)
        self.complete_now()

    def made(self) -> Tool:
        arguments = FormArguments(self._writer.schema(), is_strict=True)
        return Tool(self._call, context_type=Context, arguments=arguments, **self._options)


# Checks


def writing_problems(bound: BoundResource) -> Iterator[tuple[str, str]]:
    """Yield each error, with a hint, in how a declaration lets callers write."""
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
        text = _("actions has %(actions)s, but no field is writable") % {"actions": verbs}
        return text, _("Set writable_fields or form.")
    return None


def _wrong_form(bound: BoundResource) -> tuple[str, str] | None:
    resource, form = bound.resource, bound.resource.form
    if not (isinstance(form, type) and issubclass(form, BaseModelForm) and form._meta.model):  # noqa: SLF001
        return _("form is %(form)r, not a ModelForm with a model") % {"form": form}, _(
            "Use a subclass of ModelForm with Meta.model."
        )
    if not issubclass(bound.model, form._meta.model):  # noqa: SLF001 - of ModelForm
        text = _("form is for %(model)s") % {"model": form._meta.model._meta.label}  # noqa: SLF001
        return text, _("Use a form for %(model)s.") % {"model": bound.options.label}
    if form._meta.fields is None:  # noqa: SLF001 - of ModelForm
        hint = _("List the fields in Meta.fields, so that new columns do not become writable automatically.")
        return _("form %(form)s does not declare Meta.fields") % {"form": form.__name__}, hint
    if resource.writable_fields:
        return _("both writable_fields and form are declared"), _("Remove one of them.")
    return None
