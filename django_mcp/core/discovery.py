"""Finding tools instead of reading them all: ``search_tools`` and ``call_tool``, where a caller has very many.

Nothing is hidden by this, and nothing shown: a tool that is not listed can be called, and one that does not exist for
the caller is neither found nor called. ``call_tool`` is no tool of its own but another way to call one, so all that
is true of a call is true of it.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from django.utils.text import camel_case_to_spaces

from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, right
from django_mcp.core.registry import FINDERS, MCPServer
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.tool import Tool

MOST_TAGS = 30
"""Tags named in the description of ``search_tools``."""
_CLOSE = 0.75


class Finder(Tool):
    """No tool of the site: where a client has a list of its own, that says nothing of these."""

    kind = "finder"


@cache
def finders() -> tuple[Tool, Tool]:
    """``search_tools`` and ``call_tool``."""
    from django_mcp.core.finders import CALL, SEARCH  # noqa: PLC0415 - few sites have so many tools

    return SEARCH, CALL


def is_call(tool: Tool | None) -> bool:
    """Whether it is ``call_tool``."""
    return isinstance(tool, Finder) and tool is finders()[1]


def find(server: MCPServer, name: Any) -> Tool | None:
    """``search_tools`` or ``call_tool``, by its name, where an endpoint has them; they are for everybody."""
    if not (server.search_above and isinstance(name, str) and name in FINDERS):
        return None
    return next(each for each in finders() if each.name == name)


def behind(server: MCPServer, params: Mapping[str, Any]) -> Tool | None:
    """What a ``tools/call`` is about whose name is not registered: behind ``call_tool``, the tool that it names."""
    tool = find(server, params.get("name"))
    match params.get("arguments"):
        case {"name": str(name)} if is_call(tool):
            return server.tools.get(name, find(server, name))
    return tool


def misplaced(arguments: Mapping[str, Any]) -> Iterable[str]:
    """What to do with arguments that were given to ``call_tool`` and are those of the tool that it names."""
    own = finders()[1].arguments.names
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
    listed = known if len(known) <= server.search_above else [each for each in tools_in(known) if each.always_listed]
    behind_it = [each for each in listed if each.position > after]
    if listed is known or after >= 0:
        return (), behind_it
    search, call = finders()
    words = f"{search.description}\n\n{overview(tools_in(known))}"
    return ({**search.definition, "description": words}, call.definition), behind_it


def overview(tools: Iterable[Tool]) -> str:
    """How many there are, and of what kind."""
    tools = list(tools)
    counted = Counter(tag for each in tools for tag in each.tags)
    frequent = sorted(counted, key=lambda tag: (-counted[tag], tag))[:MOST_TAGS]
    named = ", ".join(f"{tag} ({counted[tag]})" for tag in sorted(frequent))
    return f"There are {len(tools)} tools" + (f", tagged: {named}." if named else ".")


def tools_in(primitives: Iterable[Primitive]) -> list[Tool]:
    """The tools among them."""
    return [each for each in primitives if isinstance(each, Tool)]
