"""Pages of lists: what the caller may know of, from where the cursor says."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from django_mcp.core import discovery
from django_mcp.core.context import Context
from django_mcp.core.permissions import is_for_everybody, known_of
from django_mcp.core.registry import Rows
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.translated import spoken
from django_mcp.protocol.cursors import decode_cursor, encode_cursor, is_cursor
from django_mcp.protocol.results import Result


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
    kept = server.pages.get((member, after, language)) if listed is None else None
    if kept is not None:
        return kept
    public = listed is None and is_for_everybody(server, primitives)
    is_searched = member == "tools" and server.search_above > 0  # where all that the caller may know of are counted
    entries: Sequence[Primitive] = [primitive for primitive in primitives if is_searched or primitive.position > after]
    if not public:
        # One hop for all of them: each permission may be a query.
        entries = await context.site_runner.sync(partial(known_of, context, entries))
    first, entries = discovery.offered(server, entries, after) if is_searched else ((), entries)
    shown = entries[: max(server.page_size - len(first), 1)]
    definitions = [*first, *map(show, shown)]
    fields: dict[str, Any] = {member: spoken(definitions, language) if language else definitions}
    if len(entries) > len(shown):
        fields["nextCursor"] = encode_cursor(shown[-1].position)
    page = Result(fields, ttl_ms=server.ttl_ms, public=public and not language, encoded={} if public else None)
    # A position that no cursor of ours has is not worth keeping, or clients could fill the memory.
    if public and after in {-1, *(primitive.position for primitive in primitives)}:
        server.pages[member, after, language] = page
    return page


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
