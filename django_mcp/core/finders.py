"""The tools ``search_tools`` and ``call_tool``, which are made where the first endpoint searches: see ``discovery``."""

from typing import Annotated, Any

from django.utils import translation
from pydantic import Field

from django_mcp.core.context import Context
from django_mcp.core.discovery import Finder, overview, tools_in
from django_mcp.core.permissions import known_of
from django_mcp.core.ranking import best
from django_mcp.primitives.base import spoken
from django_mcp.primitives.output import ToolResult
from django_mcp.protocol.content import TextContent

MOST_FOUND = 20
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
    tools = [each for each in tools_in(known_of(ctx, ctx.server.tools.values())) if each.find_failure() is None]
    language = ctx.language if ctx.server.is_translated else None
    with translation.override(language):
        found = best(tools, query)
        shown = [{key: each.definition[key] for key in SHOWN if key in each.definition} for each in found[:limit]]
    data: dict[str, Any] = {"tools": spoken(shown, language) if language else shown, "total": len(found)}
    if found:
        return ToolResult(data)
    hint = f"No tool has any of these words. {overview(tools)}"
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


SEARCH = Finder(
    search_tools, context_type=Context, title="Search tools", read_only=True, idempotent=True, open_world=False
)
SEARCH.speaks = False
CALL = Finder(call_tool, context_type=Context, title="Call a tool")
