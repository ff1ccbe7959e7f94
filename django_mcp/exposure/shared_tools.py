"""One set of read tools for many models, where each having its own would be too many for a model to choose from.

What they take and give is the same for every caller, so that nothing in it tells which models there are.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.generated import function, list_of, optional, shaped
from django_mcp.exposure.aggregates import COUNT, MOST_DIMENSIONS
from django_mcp.exposure.describing import describe, schema_uri
from django_mcp.exposure.exposed import Exposed
from django_mcp.exposure.shared_models import SharedModel, find
from django_mcp.exposure.tools import groups_schema, page_schema
from django_mcp.exposure.viewing import Viewer
from django_mcp.primitives.functions import EMPTY, Parameter
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool

Call = Callable[[Context, Mapping[str, Any]], ToolResult[Any]]

ANY_OBJECT: dict[str, Any] = {"type": "object"}

SEARCH_WORDS = """Find rows of a model by words and filters; all that is given must hold.

The answer says how to get more, where there are more. describe_model says what a model can be searched, filtered and
sorted by."""
GET_WORDS = "Gives one row of a model with all that is shown of it."
AGGREGATE_WORDS = """Counts rows of a model and adds them up, in groups or all together.

describe_model says what there is to work out, and to group by."""
DESCRIBE_WORDS = """Begin here: which models there are, and what one of them is made of and can be asked.

Without a model, it names them all. With one, it says what is shown of a row, and what it can be searched, filtered,
sorted and grouped by."""


def shared_tools(models: Sequence[Exposed]) -> Iterator[Tool]:
    """The tools of all models that ask for the shared set."""
    shared = [SharedModel(each) for each in models if each.resource.tools == "shared"]
    added_up = [each for each in shared if each.exposed.resource.aggregates is not None]
    if shared:
        yield _search(shared)
        yield _get(shared)
        yield _describe(shared)
    if added_up:
        yield _aggregate(added_up)


def _search(models: Sequence[SharedModel]) -> Tool:
    cursor = "next_cursor of the page before, with the same other arguments."
    parameters = [
        _model(),
        *_narrowing(),
        Parameter("order_by", optional(_text()), None, "What to sort by; with a minus the largest first."),
        Parameter("limit", optional(Annotated[int, Field(ge=1)]), None, "The most rows to give."),
        Parameter("cursor", optional(_text(4096)), None, cursor),
    ]
    call = partial(_run, models, SharedModel.search)
    return _tool(models, call, "search_records", "Search records", SEARCH_WORDS, parameters, page_schema(ANY_OBJECT))


def _get(models: Sequence[SharedModel]) -> Tool:
    parameters = [_model(), Parameter("lookup", _text() | int, EMPTY, "Of which row: a value of the model's lookup.")]
    call = partial(_run, models, SharedModel.get)
    return _tool(models, call, "get_record", "Get a record", GET_WORDS, parameters, ANY_OBJECT)


def _aggregate(models: Sequence[SharedModel]) -> Tool:
    measures, by = list_of(_text(), least=1, most=10), list_of(_text(), most=MOST_DIMENSIONS)
    parameters = [
        _model(),
        Parameter("measures", measures, [COUNT], "What to work out, of the model's aggregates."),
        Parameter("by", by, [], "Which of its dimensions to group rows by; nothing: all rows together."),
        *_narrowing(),
    ]
    call = partial(_run, models, SharedModel.aggregate)
    schema = groups_schema(ANY_OBJECT)
    return _tool(models, call, "aggregate_records", "Add up records", AGGREGATE_WORDS, parameters, schema)


def _describe(models: Sequence[SharedModel]) -> Tool:
    parameter = Parameter("model", optional(_text()), None, "Which one, like 'app.Model'; nothing: what there is.")
    call = partial(_described, models)
    return _tool(models, call, "describe_model", "Describe a model", DESCRIBE_WORDS, [parameter], ANY_OBJECT)


def _text(most: int = 200) -> Any:
    return Annotated[str, Field(max_length=most)]


def _model() -> Parameter:
    return Parameter("model", _text(), EMPTY, "Which one, as describe_model names it.")


def _narrowing() -> Iterator[Parameter]:
    """The arguments that say which rows."""
    words = "Words, all of which must occur in what is searched of the model."
    yield Parameter("query", optional(_text()), None, words)
    filters = "The model's filters and their values, all of which must hold."
    yield Parameter("filters", optional(dict[str, Any]), None, filters)


def _tool(
    models: Sequence[SharedModel],
    call: Call,
    name: str,
    title: str,
    words: str,
    parameters: Sequence[Parameter],
    schema: dict[str, Any],
) -> Tool:
    tool = Tool(
        function(call, name, words, parameters, models[0].exposed.resource, shaped(schema)),
        context_type=Context,
        name=name,
        title=title,
        read_only=True,
        idempotent=True,
        open_world=False,
        # Who lacks what every one of the models needs can use none of them.
        scopes=sorted(frozenset.intersection(*(each.scopes for each in models))),
        visible=lambda ctx: any(each.is_for_user(ctx.user) for each in models),
    )
    tool.speaks = False
    return tool


def _run(
    models: Sequence[SharedModel],
    run: Callable[[SharedModel, Context, Mapping[str, Any]], ToolResult[Any]],
    ctx: Context,
    given: Mapping[str, Any],
) -> ToolResult[Any]:
    return run(find(models, ctx, given["model"]), ctx, given)


def _described(models: Sequence[SharedModel], ctx: Context, given: Mapping[str, Any]) -> ToolResult[Any]:
    """What there is, or what one model is made of, as far as the caller may know."""
    if given["model"] is not None:
        return ToolResult(describe(find(models, ctx, given["model"]).exposed, Viewer(ctx)))
    return ToolResult({"models": [_entry(each.exposed) for each in models if each.is_for(ctx)]})


def _entry(exposed: Exposed) -> dict[str, Any]:
    return {
        "model": exposed.options.label,
        "title": exposed.title,
        "description": exposed.description,
        "schema": schema_uri(exposed),
    }
