"""Tool search: ``search_tools``, the tools that call what it finds, and ranking by text (BM25).

Search does not affect permissions: unlisted tools can be called directly, and tools that do not exist for the caller
are not found. ``call_read_tool``, ``call_write_tool`` and ``call_destructive_tool``, the relays, run another tool's
call, with all its checks. There is one for each kind of risk, so that a client's rules for tools keep their meaning.
Word rarity is computed among the caller's tools, so that scores do not reveal others.
"""

import logging
import math
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import Annotated, Any
from weakref import WeakKeyDictionary

from django.utils.text import camel_case_to_spaces
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.permissions import Right, known_of, right
from django_mcp.core.server import FINDERS, MCPServer
from django_mcp.primitives.base import Primitive, translated
from django_mcp.primitives.output import ToolResult
from django_mcp.primitives.tool import Tool
from django_mcp.primitives.validation_errors import close_matches
from django_mcp.protocol.content import TextContent
from django_mcp.protocol.meta import ALWAYS_LOAD

logger = logging.getLogger("django_mcp")

MAX_MISPLACED = 20
"""Arguments of a relay that are looked at for one that belongs to the tool it calls."""
MAX_TAGS = 30
"""Tags listed in the description of ``search_tools``."""
_CLOSE = 0.75


class Finder(Tool):
    """A tool of the package. A client's list of allowed tools does not apply to it."""

    kind = "finder"


def is_relay(tool: Tool | None) -> bool:
    return isinstance(tool, Finder) and tool is not finders()[0]


def relay_for(tool: Tool) -> Tool:
    """Return the relay for a tool, by its hints. Without hints a tool is destructive (2026-07-28, ToolAnnotations)."""
    _, read, write, destructive = finders()
    if tool.read_only:
        return read
    return write if tool.annotations.get("destructiveHint") is False else destructive


def find(server: MCPServer, name: Any) -> Tool | None:
    if not (server.search_above and isinstance(name, str) and name in FINDERS):
        return None
    return next(finder for finder in finders() if finder.name == name)


def called_tool(server: MCPServer, params: Mapping[str, Any]) -> Tool | None:
    """Return the tool of a ``tools/call``; for a relay, the tool that it names."""
    name = params.get("name")
    if isinstance(name, str) and (registered := server.tools.get(name)) is not None:
        return registered
    tool = find(server, name)
    match params.get("arguments"):
        case {"name": str(name)} if is_relay(tool):
            return server.tools.get(name, find(server, name))
    return tool


def misplaced_arguments(arguments: Mapping[str, Any]) -> Iterable[str]:
    own = finders()[1].arguments.names
    if any(name not in own and not close_matches(name, own) for name in islice(arguments, MAX_MISPLACED)):
        yield "Put the arguments of the tool itself into 'arguments'."


def is_for_model(context: Context, tool: Tool | None) -> bool:
    return tool is None or tool.is_for_model(shows_apps=context.shows_apps)


def nearest(context: Context, name: str) -> str | None:
    """Return the tool that an unknown name probably means, of those that the caller may use. May query.

    Names are compared word by word, so that ``set_price`` is never suggested for ``get_price``.
    """
    usable = (tool.name for tool in context.server.tools.values() if right(context, tool) is Right.USE)
    words = {_words(usable_name): usable_name for usable_name in usable if usable_name != name}
    wanted = _words(name[:100])
    close = close_matches(wanted, words, n=5, cutoff=_CLOSE)
    return next((words[key] for key in close if _is_alike(wanted, key)), None)


def _words(name: str) -> str:
    return camel_case_to_spaces(name).replace("_", " ").replace("-", " ")


def _is_alike(wanted: str, name: str) -> bool:
    ones, others = wanted.split(), name.split()
    return "".join(ones) == "".join(others) or (
        len(ones) == len(others)
        and all(close_matches(one, [other], cutoff=_CLOSE) for one, other in zip(ones, others, strict=True))
    )


def offered(
    server: MCPServer, known: Sequence[Primitive], after: int
) -> tuple[Sequence[dict[str, Any]], Sequence[Primitive]]:
    """Return a page of a tool list that may be replaced by search: definitions to put first, and tools.

    The definitions depend on the caller if *known* does: the description of ``search_tools`` lists tags.
    """
    listed = known if len(known) <= server.search_above else [tool for tool in tools_in(known) if tool.always_listed]
    behind_it = [tool for tool in listed if tool.position > after]
    if listed is known or after >= 0:
        return (), behind_it
    search, *relays = finders()
    words = f"{search.description}\n\n{overview(tools_in(known))}"
    return ({**search.definition, "description": words}, *(relay.definition for relay in relays)), behind_it


def overview(tools: Iterable[Tool]) -> str:
    tools = list(tools)
    counted = Counter(tag for tool in tools for tag in tool.tags)
    frequent = sorted(counted, key=lambda tag: (-counted[tag], tag))[:MAX_TAGS]
    named = ", ".join(f"{tag} ({counted[tag]})" for tag in sorted(frequent))
    number = "is 1 tool" if len(tools) == 1 else f"are {len(tools)} tools"
    return f"There {number}" + (f", tagged: {named}." if named else ".")


def tools_in(primitives: Iterable[Primitive]) -> list[Tool]:
    return [primitive for primitive in primitives if isinstance(primitive, Tool)]


NAME, TITLE, TAGS, DESCRIPTION, ARGUMENT, ABOUT_ARGUMENT = 5.0, 4.0, 4.0, 2.0, 1.5, 1.0
"""Weight of a word, by its place."""
SATURATION = 1.5
"""BM25's k1: how little repetition of a word adds."""
PART = 0.5
"""Factor for common prefixes, such as ``refund`` and ``refunds``."""
MIN_PREFIX = 3
"""Minimum length of such a prefix."""
MAX_WORDS = 30
"""Words used of a query. Each is compared with every word of every tool."""


_words_of: WeakKeyDictionary[Tool, Mapping[str, float]] = WeakKeyDictionary()


def words(text: str) -> list[str]:
    """Return the words of a text or name in lower case without accents. ``camelCase`` and ``snake_case`` are split."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    plain = "".join(
        character for character in unicodedata.normalize("NFKD", apart) if not unicodedata.combining(character)
    )
    return re.findall(r"[^\W_]+", plain.casefold())


def best(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Return the *tools* that match a word of *query*, best first; ties keep their order."""
    wanted = list(dict.fromkeys(words(query)))[:MAX_WORDS]
    hits = [{word: _hit(weights, word) for word in wanted} for weights in map(_weights, tools)]
    rarity = {word: _rarity(sum(hit[word] > 0 for hit in hits), len(tools)) for word in wanted}
    scores = [sum(rarity[word] * found / (found + SATURATION) for word, found in hit.items()) for hit in hits]
    order = sorted(range(len(tools)), key=lambda place: -scores[place])
    return [tools[place] for place in order if scores[place] > 0]


def _rarity(having: int, of: int) -> float:
    return math.log(1 + (of - having + 0.5) / (having + 0.5))


def _hit(weights: Mapping[str, float], wanted: str) -> float:
    exact = weights.get(wanted, 0.0)
    parts = (weight * PART for word, weight in weights.items() if _begin_alike(word, wanted))
    return max(exact, max(parts, default=0.0))


def _begin_alike(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= MIN_PREFIX and (one.startswith(other) or other.startswith(one))


def _weights(tool: Tool) -> Mapping[str, float]:
    found = _words_of.get(tool)
    if found is None:
        try:
            found = _read(tool)
        except Exception:  # such as a failing lazy text of the site
            logger.exception("%s cannot be found because its texts cannot be read", tool.label)
            return {}
        if not tool.is_translated:  # else words depend on the language
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
        if isinstance(schema, Mapping):  # a schema may also be true
            yield f"{schema.get('title', '')} {schema.get('description', '')}", ABOUT_ARGUMENT


MAX_FOUND = 20
SHOWN = ("name", "title", "description", "inputSchema", "annotations", "_meta")
"""Members of a definition that callers need; those for display are left out."""


def search_tools(
    ctx: Context,
    query: Annotated[str, Field(max_length=500)],
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = 5,
) -> ToolResult[dict[str, Any]]:
    """Search this server's tools by what they do. Not all tools are listed: search before you conclude that one is
    missing.

    Returns the best matches with their input schemas. Call a match with the tool named in its "call".

    Args:
        query: Search terms for the task, such as "refund an invoice". Names of tools, tags and arguments match too.
        limit: Maximum number of tools to return.
    """
    known = tools_in(known_of(ctx, ctx.server.tools.values()))
    tools = [tool for tool in known if is_for_model(ctx, tool) and tool.find_failure() is None]
    found = best(tools, query)
    shown = [_shown(ctx, tool) for tool in found[:limit]]
    data: dict[str, Any] = {"tools": translated(shown) if ctx.server.is_translated else shown, "total": len(found)}
    if found:
        return ToolResult(data)
    hint = f"No tool matches any of these words. {overview(tools)}"
    return ToolResult({**data, "hint": hint}, text=hint)


def _shown(ctx: Context, tool: Tool) -> dict[str, Any]:
    definition = {key: tool.definition[key] for key in SHOWN if key in tool.definition}
    if (schema := tool.schema_for(ctx)) is not None:
        definition["inputSchema"] = schema
    return {**definition, "call": relay_for(tool).name}


def _relay(
    name: Annotated[str, Field(max_length=200)],
    arguments: dict[str, Any] = {},  # noqa: B006 - read by its signature alone
) -> TextContent:
    """Call a tool returned by search_tools.

    Args:
        name: Name of the tool, as returned by search_tools.
        arguments: Arguments of the tool, as described by its input schema.
    """
    raise NotImplementedError  # dispatch.call_tool calls the named tool


@cache
def finders() -> tuple[Tool, Tool, Tool, Tool]:
    """Return ``search_tools`` and the relays for tools that read, write and destroy.

    Only endpoints that search need them.
    """
    search = Finder(
        search_tools,
        context_type=Context,
        title="Search tools",
        read_only=True,
        idempotent=True,
        open_world=False,
        meta={ALWAYS_LOAD: True},
    )
    search.is_interactive = False
    read, write, destructive = (
        Finder(
            _relay,
            context_type=Context,
            name=f"call_{risk}_tool",
            title=title,
            description=f'Call a tool that search_tools returned with "call": "call_{risk}_tool". {words}',
            read_only=risk == "read",
            destructive=None if risk == "read" else risk == "destructive",
            meta={ALWAYS_LOAD: True},
        )
        for risk, title, words in (
            ("read", "Call a tool that reads", "Such a tool changes nothing."),
            ("write", "Call a tool that writes", "Such a tool adds data, but deletes and overwrites nothing."),
            ("destructive", "Call a tool that may destroy", "Such a tool may delete or overwrite data."),
        )
    )
    return search, read, write, destructive
