"""Tools that take or give rows: settled when all models that are exposed beside them are known."""

import functools
import typing
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from django.core.exceptions import ImproperlyConfigured
from django.db.models import Model, QuerySet
from pydantic import WithJsonSchema

from django_mcp.core.concurrency import aside
from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.exposure.columns import row_schema
from django_mcp.exposure.instances import Argument, registered, resolved
from django_mcp.exposure.results import Results, is_shown
from django_mcp.exposure.viewing import Viewer
from django_mcp.primitives.function import (
    COLLECTIONS,
    EMPTY,
    HIDDEN_CONTEXT,
    MAPPINGS,
    Function,
    Parameter,
    is_rows,
    is_union,
    leaves,
    parts,
)
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool

UNSAID = (EMPTY, Any, object, Model, ToolResult, *MAPPINGS, *COLLECTIONS)
"""Return annotations that leave open what is returned: perhaps rows."""
ANY_ROWS = {"type": "array", "items": {"type": "object"}}


def settle(server: MCPServer, tool: Tool) -> None:
    """Let *tool* take and give rows of the models of *server*, if it does.

    Raises:
        ImproperlyConfigured: nothing says what a caller may see of a model, or a class cannot be found.
    """
    tool.bind()
    taken = {name: Argument(each, server, tool) for name, each in _rows_in(tool.read).items()} if tool.is_open else {}
    if tool.is_open:
        tool.settle(_with_rows(server, tool, taken))
    elif server.exposed and _is_unsaid(tool.read.returns):
        tool.function = _around(tool.read, {}, server, tool)
    if taken:
        tool.rows_of = partial(_addressed, taken)
    if tool.read_preview is not None:
        tool.preview = _preview(tool.read_preview, server, tool)
    elif taken:
        tool.preview = _naming(tool, taken)


def _addressed(arguments: dict[str, Argument], context: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The rows that the arguments of a call address."""
    given = {name: value for name, value in keywords.items() if name in arguments}
    return resolved(arguments, given, Viewer(context))


def _naming(tool: Tool, arguments: dict[str, Argument]) -> Function:
    """The preview of a tool that takes rows and has none of its own: which rows a call means.

    Where one does not exist for the caller it fails as the call would, so that nobody is asked about it.
    """

    def name_rows(**keywords: Any) -> str | None:
        found = resolved(arguments, keywords, Viewer(keywords[HIDDEN_CONTEXT]))
        return "\n".join(filter(None, (each.named(found.get(name)) for name, each in arguments.items()))) or None

    parameters = tuple(each.parameter for each in arguments.values())
    return Function(
        name_rows,
        tool.name,
        is_async=False,
        parameters=parameters,
        context=HIDDEN_CONTEXT,
        returns=EMPTY,
        description=None,
    )


def _preview(function: Function, server: MCPServer, tool: Tool) -> Function:
    """*function*, a preview, that gets the rows which the tool gets."""
    taken, own = _rows_in(function), _rows_in(tool.read)
    # Which rows there are says the tool, where it takes them itself.
    arguments = {name: Argument(own.get(name, each), server, tool) for name, each in taken.items()}
    return _around(function, arguments, server, tool, gives_rows=False) if arguments else function


def _rows_in(function: Function) -> dict[str, Parameter]:
    """The parameters that mean rows."""
    return {each.name: each for each in function.parameters if any(map(is_rows, leaves(each.annotation)))}


def _is_unsaid(returns: Any) -> bool:
    """Whether an annotation leaves open, in some place, what is returned."""
    origin, arguments = typing.get_origin(returns), typing.get_args(returns)
    if origin in (ToolResult, *MAPPINGS, *COLLECTIONS) or is_union(returns):
        return any(map(_is_unsaid, arguments))
    return returns in UNSAID


def _with_rows(server: MCPServer, tool: Tool, arguments: dict[str, Argument]) -> Function:
    function = tool.read
    parameters = [arguments[each.name].parameter if each.name in arguments else each for each in function.parameters]
    returns = _returns(function.returns, server, tool)
    gives_rows = returns is not function.returns or _is_unsaid(function.returns)
    made = _around(function, arguments, server, tool, gives_rows=gives_rows)
    return replace(made, parameters=tuple(parameters), returns=returns)


def _returns(returns: Any, server: MCPServer, tool: Tool) -> Any:
    """The annotation of what rows become; others as they are."""
    if typing.get_origin(returns) and not any(map(is_rows, leaves(returns))):
        return _inside(returns, server, tool)
    kinds = [leaf for leaf in leaves(returns) if is_rows(leaf)]
    if not kinds:
        return returns
    if returns is Model:
        return EMPTY
    if len(kinds) > 1:
        msg = f"{tool.label}: its result, {returns}, is of several models; return one, or a dict."
        raise ImproperlyConfigured(msg)
    if issubclass(kinds[0], QuerySet):  # which model's is not known at run time
        return Annotated[list[Any], WithJsonSchema(ANY_ROWS)]
    exposed = registered(kinds[0], server, f"{tool.label}: its result")
    if kinds[0] in _alone(returns):
        schema: dict[str, Any] = row_schema(exposed, exposed.columns)
    else:
        schema = {"type": "array", "items": row_schema(exposed, exposed.list_columns)}
    row: Any = Annotated[dict[str, Any] if schema["type"] == "object" else list[Any], WithJsonSchema(schema)]
    return row | None if _may_be_none(returns) else row


def _inside(returns: Any, server: MCPServer, tool: Tool) -> Any:
    """The same of what holds rows inside of it: in a dict, a ``ToolResult``, a list of dicts; or None."""
    if not any(map(is_rows, parts(returns))):
        return returns
    origin, inner = typing.get_origin(returns), typing.get_args(returns)
    if _may_be_none(returns) and len(inner) == 2:  # noqa: PLR2004 - something, or None
        (one,) = (each for each in inner if each is not type(None))
        return _returns(one, server, tool) | None
    if origin not in (ToolResult, *MAPPINGS, *COLLECTIONS) or any(map(is_rows, inner[:-1])) or inner[-1] is Ellipsis:
        msg = f"{tool.label}: its result, {returns}, is not understood; return rows alone, in a list or in a dict."
        raise ImproperlyConfigured(msg)
    shown = _returns(inner[-1], server, tool)
    return origin[(*inner[:-1], Any if shown is EMPTY else shown)]


def _alone(returns: Any) -> Iterable[Any]:
    """What is returned itself, not in a list."""
    return typing.get_args(returns) if is_union(returns) else (returns,)


def _may_be_none(returns: Any) -> bool:
    return is_union(returns) and type(None) in typing.get_args(returns)


def _around(
    function: Function, arguments: dict[str, Argument], server: MCPServer, tool: Tool, *, gives_rows: bool = True
) -> Function:
    """*function* that gets rows for what addresses them, and whose rows are shown."""
    name, call = function.context or HIDDEN_CONTEXT, function.call

    def take(keywords: dict[str, Any]) -> dict[str, Any]:
        return function.own(resolved(arguments, keywords, Viewer(keywords[name])) if arguments else keywords)

    def show(context: Context, value: Any) -> Any:
        return Results(server, context, tool.label).shown(value)

    def run(**keywords: Any) -> Any:
        value = call(**take(keywords))
        return show(keywords[name], value) if gives_rows and is_shown(value) else value

    async def arun(**keywords: Any) -> Any:
        context = keywords[name]
        runner = context.site_runner
        own = await aside(runner, partial(take, keywords)) if arguments else take(keywords)
        value = await call(**own)
        return await aside(runner, partial(show, context, value)) if gives_rows and is_shown(value) else value

    made = functools.wraps(call)(arun if function.is_async else run)
    return replace(function, call=made, context=name)
