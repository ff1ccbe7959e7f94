"""``search_tools`` and ``call_tool``: find tools by text (BM25) where an endpoint has many.

Nothing is hidden by this, and nothing shown: a tool that is not listed can be called, and one that does not exist for
the caller is neither found nor called. ``call_tool`` is no tool of its own but another way to call one, so all that
is true of a call is true of it.

How rare a word is counts among the tools that the caller may see, so that no score tells of others.
"""

import difflib
import logging
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from django.utils import translation
from django.utils.text import camel_case_to_spaces
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, known_of, right
from django_mcp.core.server import FINDERS, MCPServer
from django_mcp.primitives.base import Primitive, spoken
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.content import TextContent

MAX_TAGS = 30
"""Tags named in the description of ``search_tools``."""
_CLOSE = 0.75


class Finder(Tool):
    """No tool of the site: where a client has a list of its own, that says nothing of these."""

    kind = "finder"


def is_call(tool: Tool | None) -> bool:
    """Whether it is ``call_tool``."""
    return isinstance(tool, Finder) and tool is finders()[1]


def find(server: MCPServer, name: Any) -> Tool | None:
    """``search_tools`` or ``call_tool``, by its name, where an endpoint has them; they are for everybody."""
    if not (server.search_above and isinstance(name, str) and name in FINDERS):
        return None
    return next(each for each in finders() if each.name == name)


def called_tool(server: MCPServer, params: Mapping[str, Any]) -> Tool | None:
    """Return the tool that a ``tools/call`` is about: behind ``call_tool`` the one that it names."""
    name = params.get("name")
    if isinstance(name, str) and (registered := server.tools.get(name)) is not None:
        return registered
    tool = find(server, name)
    match params.get("arguments"):
        case {"name": str(name)} if is_call(tool):
            return server.tools.get(name, find(server, name))
    return tool


def misplaced(arguments: Mapping[str, Any]) -> Iterable[str]:
    """What to do with arguments that were given to ``call_tool`` and are those of the tool that it names."""
    own = finders()[1].arguments.names
    if any(each not in own and not difflib.get_close_matches(each, own, n=1) for each in arguments):
        yield "Put the arguments of the tool itself into 'arguments'."


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
    frequent = sorted(counted, key=lambda tag: (-counted[tag], tag))[:MAX_TAGS]
    named = ", ".join(f"{tag} ({counted[tag]})" for tag in sorted(frequent))
    return f"There are {len(tools)} tools" + (f", tagged: {named}." if named else ".")


def tools_in(primitives: Iterable[Primitive]) -> list[Tool]:
    """The tools among them."""
    return [each for each in primitives if isinstance(each, Tool)]


NAME, TITLE, TAGS, DESCRIPTION, ARGUMENT, ABOUT_ARGUMENT = 5.0, 4.0, 4.0, 2.0, 1.5, 1.0
"""What a word counts, by where it stands."""
SATURATION = 1.5
"""How little a word counts more where it stands more often (BM25's k1)."""
PART = 0.5
"""What it counts that one of two words begins with the other, ``refund`` and ``refunds``."""
LEAST = 3
"""Characters that a beginning must have for that."""
MAX_WORDS = 30
"""Words of a query that are looked for; each costs a look at every word of every tool."""

logger = logging.getLogger("django_mcp")

_words_of: WeakKeyDictionary[Tool, Mapping[str, float]] = WeakKeyDictionary()


def words(text: str) -> list[str]:
    """The words of a text or name, ``camelCase`` and ``snake_case`` taken apart, in lower case without accents."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    plain = "".join(each for each in unicodedata.normalize("NFKD", apart) if not unicodedata.combining(each))
    return re.findall(r"[^\W_]+", plain.casefold())


def best(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Those of *tools* that have a word of *query*, the best first; of equals the one that stands first."""
    wanted = list(dict.fromkeys(words(query)))[:MAX_WORDS]
    hits = [{each: _hit(weights, each) for each in wanted} for weights in map(_weights, tools)]
    rarity = {each: _rarity(sum(hit[each] > 0 for hit in hits), len(tools)) for each in wanted}
    scores = [sum(rarity[each] * found / (found + SATURATION) for each, found in hit.items()) for hit in hits]
    order = sorted(range(len(tools)), key=lambda place: -scores[place])
    return [tools[place] for place in order if scores[place] > 0]


def _rarity(having: int, of: int) -> float:
    return math.log(1 + (of - having + 0.5) / (having + 0.5))


def _hit(weights: Mapping[str, float], wanted: str) -> float:
    """What a word counts in a tool: the best of the words there that are it or begin alike."""
    exact = weights.get(wanted, 0.0)
    parts = (weight * PART for word, weight in weights.items() if _begin_alike(word, wanted))
    return max(exact, max(parts, default=0.0))


def _begin_alike(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= LEAST and (one.startswith(other) or other.startswith(one))


def _weights(tool: Tool) -> Mapping[str, float]:
    found = _words_of.get(tool)
    if found is None:
        try:
            found = _read(tool)
        except Exception:  # such as a lazy text of the site that fails
            logger.exception("%s cannot be found, for its words cannot be read", tool.label)
            return {}
        if not tool.is_translated:  # else they are others in another language
            _words_of[tool] = found
    return found


def _read(tool: Tool) -> Mapping[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for text, weight in _fields(tool):
        for word in words(text):
            found[word] += weight
    return found


def _fields(tool: Tool) -> Iterator[tuple[str, float]]:
    yield tool.name, NAME
    yield str(tool.definition.get("title", "")), TITLE
    yield " ".join(sorted(tool.tags)), TAGS
    yield str(tool.definition.get("description", "")), DESCRIPTION
    properties: Mapping[str, Any] = tool.definition["inputSchema"].get("properties", {})
    for name, schema in properties.items():
        yield name, ARGUMENT
        if isinstance(schema, Mapping):  # a schema may also be true, for anything
            yield f"{schema.get('title', '')} {schema.get('description', '')}", ABOUT_ARGUMENT


MAX_FOUND = 20
SHOWN = ("name", "title", "description", "inputSchema", "annotations", "_meta")
"""What of a definition is shown to whoever is to call the tool: nothing that is for display."""


def search_tools(
    ctx: Context,
    query: Annotated[str, Field(max_length=500)],
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = 5,
) -> ToolResult[dict[str, Any]]:
    """Search this server's tools by what they do. Not all tools are listed: search before you conclude that one is
    missing.

    Returns the best matches with their input schemas. Call a match with call_tool.

    Args:
        query: Search terms for the task, such as "refund an invoice". Names of tools, tags and arguments match too.
        limit: Maximum number of tools to return.
    """
    tools = [each for each in tools_in(known_of(ctx, ctx.server.tools.values())) if each.find_failure() is None]
    language = ctx.language if ctx.server.is_translated else None
    with translation.override(language):
        found = best(tools, query)
        shown = [{key: each.definition[key] for key in SHOWN if key in each.definition} for each in found[:limit]]
    data: dict[str, Any] = {"tools": spoken(shown, language) if language else shown, "total": len(found)}
    if found:
        return ToolResult(data)
    hint = f"No tool matches any of these words. {overview(tools)}"
    return ToolResult({**data, "hint": hint}, text=hint)


def call_tool(
    name: Annotated[str, Field(max_length=200)],
    arguments: dict[str, Any] = {},  # noqa: B006 - read by its signature alone
) -> TextContent:
    """Call a tool returned by search_tools.

    Args:
        name: Name of the tool, as returned by search_tools.
        arguments: Arguments of the tool, as described by its input schema.
    """
    raise NotImplementedError  # methods.call_tool calls what it names


@cache
def finders() -> tuple[Tool, Tool]:
    """Return ``search_tools`` and ``call_tool``, which only endpoints that search need."""
    search = Finder(
        search_tools, context_type=Context, title="Search tools", read_only=True, idempotent=True, open_world=False
    )
    search.is_interactive = False
    return search, Finder(call_tool, context_type=Context, title="Call a tool")
