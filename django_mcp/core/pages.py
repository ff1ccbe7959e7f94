"""Pages of lists: what the caller may know of, from where the cursor says."""

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.db import Error

from django_mcp.core import discovery
from django_mcp.core.context import Context
from django_mcp.core.permissions import is_for_everybody, known_of
from django_mcp.core.registry import MCPServer, Rows
from django_mcp.primitives.base import Primitive, spoken
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.pagination import decode_cursor, encode_cursor, is_cursor

logger = logging.getLogger("django_mcp")


async def page_of(
    context: Context,
    member: str,
    primitives: Collection[Primitive],
    show: Callable[[Any], dict[str, Any]] = attrgetter("definition"),
) -> Result:
    """One page of a list: entries after the cursor's position that the caller may know of.

    Where no entry depends on the caller the page is the same for everybody: it is kept, encodings and all; where words
    are translated, for each language of the site.

    Args:
        context: of the call.
        member: where in the result the entries are.
        primitives: all that there are, in the order of their positions.
        show: gives the entry of one.

    Raises:
        InvalidParams: the cursor is none of ours.
    """
    server = context.server
    after = decode_cursor(context.params.get("cursor"))
    listed = context.principal.tools if member == "tools" else None
    language = context.language if server.is_translated else ""
    pages = server.pages  # another dict as soon as something changes, while a page is made too
    kept = pages.get((member, after, language)) if listed is None else None
    if kept is not None:
        return kept
    public = listed is None and is_for_everybody(server, primitives)
    is_searched = member == "tools" and server.search_above > 0  # where all that the caller may know of are counted
    entries = [primitive for primitive in primitives if is_searched or primitive.position > after]
    build = partial(_built, context, member, entries, after, show, language, public=public, is_searched=is_searched)
    # One hop for all of them: each permission may be a query, and so may be what a tool is made of.
    is_query = not public or any(each.is_late for each in entries)
    page, is_whole = await context.site_runner.sync(build) if is_query else build()
    # A position that no cursor of ours has is not worth keeping, or clients could fill the memory.
    if public and is_whole and after in {-1, *(primitive.position for primitive in primitives)}:
        pages[member, after, language] = page
    return page


def _built(
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
    """Return a page, and whether it has all that it should have: what is lacking may be there the next time."""
    server = context.server
    known = entries if public else known_of(context, entries)
    first, known = discovery.offered(server, known, after) if is_searched else ((), known)
    shown = known[: max(server.page_size - len(first), 1)]
    lacking = [each for each in shown if each in _left_out]
    made = [entry_of(each, language, show) for each in shown]
    if any(each not in _left_out for each in lacking):
        _tell_of_more(server, member)
    definitions = [*(spoken(first, language) if language else first), *(each for each in made if each is not None)]
    fields: dict[str, Any] = {member: definitions}
    if len(known) > len(shown):
        fields["nextCursor"] = encode_cursor(shown[-1].position)
    if None in made:
        return Result(fields, ttl_ms=0), False
    encoded: dict[str, bytes] | None = {} if public else None
    return Result(fields, ttl_ms=server.ttl_ms, public=public and not language, encoded=encoded), True


def _tell_of_more(server: MCPServer, member: str) -> None:
    """Tell clients that keep a list from which something was left out."""
    try:
        server.notify_list_changed("resources" if member == "resourceTemplates" else member)
    except Error as error:
        logger.warning("clients that listen were not told that %s left out of a list are back: %s", member, error)


_left_out: "WeakKeyDictionary[Primitive, str]" = WeakKeyDictionary()
"""Primitive that is left out of lists -> the reason that was logged."""


def entry_of(
    primitive: Primitive, language: str, show: Callable[[Any], dict[str, Any]] = attrgetter("definition")
) -> dict[str, Any] | None:
    """Return the entry of a primitive in a list; None if it cannot be made now, which keeps no other out of it.

    The reason is logged, once as long as it is the same.
    """
    failure = primitive.find_failure()
    if failure is None:
        try:
            entry: dict[str, Any] = spoken(show(primitive), language) if language else show(primitive)
        except Exception as error:  # noqa: BLE001 - such as a lazy text of the site that fails
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
    """``resources/list``: what was registered, and behind it the rows of models that are resources."""
    cursor = context.params.get("cursor")
    rows = context.server.rows
    if rows is None:
        return await page_of(context, "resources", context.server.resources.values())
    if not is_cursor(cursor):
        return await context.site_runner.sync(partial(_rows, context, rows, cursor, context.server.page_size, ()))
    page = await page_of(context, "resources", context.server.resources.values())
    if "nextCursor" in page.fields:
        return page
    own = page.fields["resources"]
    return await context.site_runner.sync(partial(_rows, context, rows, None, context.server.page_size - len(own), own))


def _rows(context: Context, rows: Rows, cursor: Any, room: int, before: Sequence[dict[str, Any]]) -> Result:
    entries, following = rows(context, cursor, room)
    fields: dict[str, Any] = {"resources": [*before, *entries]}
    if following is not None:
        fields["nextCursor"] = following
    return Result(fields, ttl_ms=context.server.ttl_ms)
