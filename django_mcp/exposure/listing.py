"""Rows in ``resources/list``: those the caller may see, page by page, and never a whole table at once."""

import datetime
import logging
from typing import Any

from django.utils import timezone

from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer
from django_mcp.exposure import cursors
from django_mcp.exposure.exposed import Exposed, Key
from django_mcp.exposure.field_types import to_json_value
from django_mcp.exposure.ordering import Sorting
from django_mcp.exposure.pages import Found, objects, with_columns
from django_mcp.exposure.paths import read_path
from django_mcp.exposure.viewing import Viewer
from django_mcp.protocol.errors import InvalidParams, ProtocolError

QUESTION = "resources/list"

logger = logging.getLogger("django_mcp")


def listed_models(server: MCPServer) -> list[Exposed]:
    """Models whose rows are listed, in the order in which they were registered."""
    return [each for each in server.exposed.values() if each.is_sound and each.resource.max_listed != 0]


def list_rows(ctx: Context, cursor: str | None, room: int) -> tuple[list[dict[str, Any]], str | None]:
    """Resources, *room* at most, and the cursor for those behind them.

    Raises:
        InvalidParams: the cursor is none of ours.
    """
    viewer = Viewer(ctx)
    models = listed_models(ctx.server)
    label, place, before = _decode(ctx, cursor)
    at = _position(models, label)
    entries: list[dict[str, Any]] = []
    for exposed in models[at:]:
        if _may_view(exposed, viewer):
            if len(entries) == room:
                return entries, _encode(ctx, exposed, None, 0)
            # A cursor stays good where its caller may not view its model any more: it goes on with the next one.
            shown, following = _entries(exposed, viewer, place, room - len(entries), before)
            entries += shown
            if following is not None:
                return entries, _encode(ctx, exposed, following, before + len(shown))
        place, before = None, 0
    return entries, None


def _may_view(exposed: Exposed, viewer: Viewer) -> bool:
    try:
        return viewer.may_view(exposed)
    except Exception:
        logger.exception("Rows of %s are left out of resources/list: has_view_permission failed", exposed.options.label)
        return False


def _entries(exposed: Exposed, viewer: Viewer, place: Any, room: int, before: int) -> tuple[list[dict[str, Any]], Any]:
    """Entries of one model, and the place of the last one if there are more; nothing where reading them fails."""
    try:
        found = _rows(exposed, viewer, place, room, before)
        return [entry(exposed, obj) for obj in found.objects], found.place
    except ProtocolError:  # the client's cursor is wrong
        raise
    except Exception:
        logger.exception("Rows of %s are left out of resources/list: reading them failed", exposed.options.label)
        return [], None


def _encode(ctx: Context, exposed: Exposed, place: Any, before: int) -> str:
    return cursors.encode(ctx, QUESTION, [exposed.options.label, place, before])


def _position(models: list[Exposed], label: str | None) -> int:
    """Where the model called *label* is among *models*; of None the first."""
    labels = [each.options.label for each in models]
    if label is None:
        return 0
    if label not in labels:  # the site does not list it any more
        raise cursors.invalid()
    return labels.index(label)


def _decode(ctx: Context, cursor: str | None) -> tuple[str | None, Any, int]:
    if cursor is None:
        return None, None, 0
    if not isinstance(cursor, str):
        raise InvalidParams('"params.cursor" must be a string.')
    label, place, before = cursors.decode(ctx, QUESTION, cursor)
    return label, place, before


def _rows(exposed: Exposed, viewer: Viewer, place: Any, room: int, before: int) -> Found:
    most = exposed.resource.max_listed
    limit = room if most is None else min(room, most - before)
    if limit <= 0:
        return Found([], None)
    sorting = Sorting([Key(read_path(exposed.model, "pk"))], viewer, exposed)
    found = objects(exposed, viewer, with_columns(exposed, viewer, viewer.door(exposed), []), sorting, limit, place)
    is_enough = most is not None and before + len(found.objects) >= most
    return Found(found.objects, None if is_enough else found.place)


def entry(exposed: Exposed, obj: Any) -> dict[str, Any]:
    """A row as ``resources/list`` shows it (2026-07-28, Resources, Resource)."""
    name = f"{exposed.name}-{getattr(obj, exposed.lookup.attname)}"
    made: dict[str, Any] = {"uri": exposed.uri_of(obj), "name": name, "title": exposed.title_of(obj)}
    made["mimeType"] = "application/json"
    if exposed.resource.icons:
        made["icons"] = [icon.to_wire() for icon in exposed.resource.icons]
    modified = getattr(obj, exposed.resource.modified_field) if exposed.resource.modified_field else None
    if modified is not None:
        made["annotations"] = {"lastModified": _moment(modified)}
    return made


def _moment(value: datetime.date) -> str:
    """A moment with its offset, as clients compare it; of a date its beginning."""
    moment = value if isinstance(value, datetime.datetime) else datetime.datetime.combine(value, datetime.time())
    return str(to_json_value(timezone.make_aware(moment) if timezone.is_naive(moment) else moment))
