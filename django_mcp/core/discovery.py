"""Finding tools instead of reading them all: ``search_tools`` and ``call_tool``, where a caller has very many.

Nothing is hidden by this, and nothing shown: a tool that is not listed can be called, and one that does not exist for
the caller is neither found nor called. ``call_tool`` is no tool of its own but another way to call one, so all that
is true of a call is true of it.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from django.utils import translation
from django.utils.text import camel_case_to_spaces
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, known_of, right
from django_mcp.core.ranking import best
from django_mcp.core.registry import MCPServer
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.translated import spoken
from django_mcp.protocol.content import TextContent

MOST_FOUND = 20
MOST_TAGS = 30
"""Tags named in the description of ``search_tools``."""
_CLOSE = 0.75
SHOWN = ("name", "title", "description", "inputSchema", "annotations", "_meta")
"""What of a definition is shown to whoever is to call the tool: nothing that is for display."""


def search_tools(
    ctx: Context,
    query: Annotated[str, Field(max_length=500)],
    limit: Annotated[int, Field(ge=1, le=MOST_FOUND)] = 5,
) -> ToolResult[dict[str, Any]]:
    """Find tools by what they do. This server has more than are listed; look here before you say that there is none.

    The answer has the best ones with their input schemas. Call what you found with call_tool.

    Args:
        query: Words for what is to be done, such as "refund an invoice"; also names of tools, tags and arguments.
        limit: The most tools to give.
    """
    tools = _tools(known_of(ctx, ctx.server.tools.values()))
    language = ctx.language if ctx.server.is_translated else None
    with translation.override(language):
        found = best(tools, query)
        shown = [{key: each.definition[key] for key in SHOWN if key in each.definition} for each in found[:limit]]
    data: dict[str, Any] = {"tools": spoken(shown, language) if language else shown, "total": len(found)}
    if found:
        return ToolResult(data)
    hint = f"No tool has any of these words. {_overview(tools)}"
    return ToolResult({**data, "hint": hint}, text=hint)


def call_tool(
    name: Annotated[str, Field(max_length=200)],
    arguments: dict[str, Any] = {},  # noqa: B006 - read by its signature alone
) -> TextContent:
    """Call a tool that search_tools found.

    Args:
        name: Of the tool, as search_tools gave it.
        arguments: As the tool's input schema has them.
    """
    raise NotImplementedError  # methods.call_tool calls what it names


class Finder(Tool):
    """No tool of the site: where a client has a list of its own, that says nothing of these."""

    kind = "finder"


SEARCH = Finder(
    search_tools, context_type=Context, title="Search tools", read_only=True, idempotent=True, open_world=False
)
SEARCH.speaks = False
CALL = Finder(call_tool, context_type=Context, title="Call a tool")
_FINDERS: Mapping[str, Tool] = {each.name: each for each in (SEARCH, CALL)}


def find(server: MCPServer, name: Any) -> Tool | None:
    """``search_tools`` or ``call_tool``, by its name, where an endpoint has them; they are for everybody."""
    return _FINDERS.get(name) if server.search_above and isinstance(name, str) else None


def behind(server: MCPServer, params: Mapping[str, Any]) -> Tool | None:
    """What a ``tools/call`` is about whose name is not registered: behind ``call_tool``, the tool that it names."""
    tool = find(server, params.get("name"))
    match params.get("arguments"):
        case {"name": str(name)} if tool is CALL:
            return server.tools.get(name, find(server, name))
    return tool


def misplaced(arguments: Mapping[str, Any]) -> Iterable[str]:
    """What to do with arguments that were given to ``call_tool`` and are those of the tool that it names."""
    own = CALL.arguments.names
    if any(each not in own and not difflib.get_close_matches(each, own, n=1) for each in arguments):
        yield "Put what the tool itself takes into 'arguments'."


def nearest(context: Context, name: str) -> str | None:
    """The tool that a name was probably meant for, of those that the caller may use. May be queries.

    Names are compared word by word, so that none is suggested that does something else: ``set_price`` for
    ``get_price``.
    """
    usable = (each.name for each in context.server.tools.values() if right(context, each) is Right.USE)
    words = {_words(each): each for each in usable if each != name}
    wanted = _words(name[:100])
    close = difflib.get_close_matches(wanted, words, n=5, cutoff=_CLOSE)
    return next((words[each] for each in close if _is_alike(wanted, each)), None)


def _words(name: str) -> str:
    return camel_case_to_spaces(name).replace("_", " ").replace("-", " ")


def _is_alike(wanted: str, name: str) -> bool:
    ones, others = wanted.split(), name.split()
    return "".join(ones) == "".join(others) or (
        len(ones) == len(others)
        and all(difflib.get_close_matches(one, [other], cutoff=_CLOSE) for one, other in zip(ones, others, strict=True))
    )


def offered(
    server: MCPServer, known: Sequence[Primitive], after: int
) -> tuple[Sequence[dict[str, Any]], Sequence[Primitive]]:
    """What a list has behind a position of the tools that a caller may know of, where there may be too many to list.

    Returns:
        definitions that stand first, and tools. They are for this caller as *known* is: the description of
        ``search_tools`` names the tags of those.
    """
    listed = known if len(known) <= server.search_above else [each for each in _tools(known) if each.always_listed]
    behind_it = [each for each in listed if each.position > after]
    if listed is known or after >= 0:
        return (), behind_it
    words = f"{SEARCH.description}\n\n{_overview(_tools(known))}"
    return ({**SEARCH.definition, "description": words}, CALL.definition), behind_it


def _overview(tools: Iterable[Tool]) -> str:
    """How many there are, and of what kind."""
    tools = list(tools)
    counted = Counter(tag for each in tools for tag in each.tags)
    frequent = sorted(counted, key=lambda tag: (-counted[tag], tag))[:MOST_TAGS]
    named = ", ".join(f"{tag} ({counted[tag]})" for tag in sorted(frequent))
    return f"There are {len(tools)} tools" + (f", tagged: {named}." if named else ".")


def _tools(primitives: Iterable[Primitive]) -> list[Tool]:
    return [each for each in primitives if isinstance(each, Tool)]
