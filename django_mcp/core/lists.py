"""Lists of tools, resources, resource templates and prompts, in pages."""

import logging
from collections.abc import Callable, Collection, Coroutine, Sequence
from functools import partial
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.db import Error
from django.utils import translation

from django_mcp.conf import settings
from django_mcp.core import tool_search
from django_mcp.core.context import Context
from django_mcp.core.permissions import is_for_everybody, known_of
from django_mcp.core.server import MCPServer, ModelArgument
from django_mcp.primitives.base import Primitive, translate
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import (
    ALWAYS_LOAD,
    MAX_RESULT_SIZE_CHARS,
    MAX_RESULT_SIZE_LIMIT,
    REQUIRES_USER_INTERACTION,
)
from django_mcp.protocol.pagination import decode_cursor, encode_cursor, is_cursor

if TYPE_CHECKING:
    pass

logger = logging.getLogger("django_mcp")


async def page_of(
    context: Context,
    member: str,
    primitives: Collection[Primitive],
    show: Callable[[Any], dict[str, Any]] = attrgetter("definition"),
) -> Result:
    """Return a page of a list: entries after the cursor that the caller may know of.

    A page that is the same for all callers is cached with its encodings, per language if its texts are translated.

    Args:
        context: the call.
        member: name of the list in the result.
        primitives: all entries, by position.
        show: returns the entry of a primitive.

    Raises:
        InvalidParams: invalid cursor.
    """
    server = context.server
    after = decode_cursor(context.params.get("cursor"))
    is_limited = member == "tools" and server.policies.limits_tools(context.principal)
    language = await _language_of(context) if server.is_translated else ""
    apps = context.shows_apps
    pages = server.pages  # replaced on each change, even while a page is made
    kept = None if is_limited else pages.get((member, after, language, apps))
    if kept is not None:
        return kept
    if not apps:
        primitives = [primitive for primitive in primitives if not primitive.for_apps]
    public = not is_limited and is_for_everybody(server, primitives)
    is_searched = member == "tools" and server.search_above > 0  # which counts all that the caller may know of
    entries = [primitive for primitive in primitives if is_searched or primitive.position > after]
    build = partial(
        _build_page, context, member, entries, after, show, language, public=public, is_searched=is_searched
    )
    # One thread hop for all: permissions may query, and so may late definitions.
    is_query = not public or any(entry.is_late for entry in entries)
    page, is_whole = await context.site_runner.checks.sync(build) if is_query else build()
    # Only positions of real cursors are cached, or clients could fill the memory.
    if public and is_whole and after in {-1, *(primitive.position for primitive in primitives)}:
        pages[member, after, language, apps] = page
    return page


async def _language_of(context: Context) -> str:
    if not settings.CALL_CONTEXT_MANAGERS:
        return context.language
    return await context.site_runner.checks.sync(translation.get_language) or context.language


def _build_page(
    context: Context,
    member: str,
    entries: Sequence[Primitive],
    after: int,
    show: Callable[[Any], dict[str, Any]],
    language: str,
    *,
    public: bool,
    is_searched: bool,
) -> tuple[Result, bool]:
    """Return a page, and whether it is complete."""
    server = context.server
    known = entries if public else known_of(context, entries)
    first, known = tool_search.offered(server, known, after) if is_searched else ((), known)
    shown = known[: max(server.page_size - len(first), 1)]
    lacking = [primitive for primitive in shown if primitive in _left_out]
    made = [list_entry(primitive, language, show) for primitive in shown]
    if any(primitive not in _left_out for primitive in lacking):
        _notify_available(server, member)
    definitions = [
        *(translate(first, language) if language else first),
        *(entry for entry in made if entry is not None),
    ]
    fields: dict[str, Any] = {member: definitions}
    if len(known) > len(shown):
        fields["nextCursor"] = encode_cursor(shown[-1].position)
    if None in made:
        return Result(fields, ttl_ms=0), False
    encoded: dict[str, bytes] | None = {} if public else None
    return Result(fields, ttl_ms=server.ttl_ms, public=public and not language, encoded=encoded), True


def _notify_available(server: MCPServer, member: str) -> None:
    try:
        server.notify_list_changed("resources" if member == "resourceTemplates" else member)
    except Error as error:
        logger.warning("could not notify clients that %s left out of a list are available again: %s", member, error)


_left_out: "WeakKeyDictionary[Primitive, str]" = WeakKeyDictionary()
"""Primitives left out of lists -> the logged reason."""


def list_entry(
    primitive: Primitive, language: str, show: Callable[[Any], dict[str, Any]] = attrgetter("definition")
) -> dict[str, Any] | None:
    """Return a primitive's list entry, or None if it cannot be made now. The reason is logged when it changes."""
    failure = primitive.find_failure()
    if failure is None:
        try:
            entry: dict[str, Any] = translate(show(primitive), language) if language else show(primitive)
        except Exception as error:  # noqa: BLE001 - such as a failing lazy text of the site
            failure = error
        else:
            _left_out.pop(primitive, None)
            return entry
    if _left_out.get(primitive) != (reason := repr(failure)):
        _left_out[primitive] = reason
        is_plain = isinstance(failure, Error | ImproperlyConfigured)
        logger.error("%s is left out of lists: %s", primitive.label, failure, exc_info=None if is_plain else failure)
    return None


async def list_resources(context: Context) -> Result:
    """Handle ``resources/list``: registered resources, then rows of models."""
    cursor = context.params.get("cursor")
    rows, show = context.server.rows, methodcaller("entry", context)
    if rows is None:
        return await page_of(context, "resources", context.server.resources.values(), show)
    if not is_cursor(cursor):
        return await context.site_runner.sync(
            partial(_page_with_rows, context, rows, cursor, context.server.page_size, ())
        )
    page = await page_of(context, "resources", context.server.resources.values(), show)
    if "nextCursor" in page.fields:
        return page
    own = page.fields["resources"]
    return await context.site_runner.sync(
        partial(_page_with_rows, context, rows, None, context.server.page_size - len(own), own)
    )


def _page_with_rows(
    context: Context, rows: ModelArgument, cursor: Any, room: int, before: Sequence[dict[str, Any]]
) -> Result:
    entries, following = rows(context, cursor, room)
    fields: dict[str, Any] = {"resources": [*before, *entries]}
    if following is not None:
        fields["nextCursor"] = following
    return Result(fields, ttl_ms=context.server.ttl_ms)


def list_tools(context: Context) -> Coroutine[Any, Any, Result]:
    return page_of(context, "tools", context.server.tools.values(), partial(_tool_entry, context))


def _tool_entry(context: Context, tool: Tool) -> dict[str, Any]:
    definition: dict[str, Any] = tool.app_definition if context.shows_apps else tool.text_definition
    if (schema := tool.schema_for(context)) is not None:
        definition = {**definition, "inputSchema": schema}
    hints: dict[str, Any] = {}
    if context.server.policies.ask_everybody(tool):
        hints[REQUIRES_USER_INTERACTION] = True
    if tool.max_output_chars:
        hints[MAX_RESULT_SIZE_CHARS] = min(tool.max_output_chars, MAX_RESULT_SIZE_LIMIT)
    if tool.always_listed:
        hints[ALWAYS_LOAD] = True
    # The tool's own meta wins.
    return {**definition, "_meta": {**hints, **definition.get("_meta", {})}} if hints else definition


def list_resource_templates(context: Context) -> Coroutine[Any, Any, Result]:
    return page_of(context, "resourceTemplates", context.server.templates.values())


def list_prompts(context: Context) -> Coroutine[Any, Any, Result]:
    return page_of(context, "prompts", context.server.prompts.values())
