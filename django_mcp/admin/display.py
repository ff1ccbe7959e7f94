"""Rendering of values, callers and payloads in the admin: shortened, escaped and without credentials."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from django.contrib.auth import get_user_model
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from django_mcp.auth.oauth import has_toolkit
from django_mcp.core.database import keys_of
from django_mcp.core.principal import display_name
from django_mcp.core.redaction import CUT, NAMED, SECRET, bounded, one_line, visible
from django_mcp.models import APIKey, RequestLog
from django_mcp.protocol.meta import APP_HTML

LONGEST_LINE, MAX_LINES = 300, 6
"""Longer values are collapsed."""
OPEN_TEXT, OPEN_TEXT_LINES = 1000, 30
"""Likewise, of the text that a preview is."""
SUMMARY = 80

VALUE = '<pre class="mcp-value" translate="no" dir="ltr">{}</pre>'
NOTHING = "–"
"""The sign of a field without a value, on all pages."""
NONE = format_html('<span class="mcp-none">{}</span>', NOTHING)
WITHHELD = {
    SECRET: gettext_lazy("Hidden: declared as a secret."),
    NAMED: gettext_lazy("Hidden: the name looks like a secret."),
    CUT: gettext_lazy("Shortened: too long to show in full."),
}
VERBS = {
    "create": gettext_lazy("create"),
    "update": gettext_lazy("change"),
    "delete": gettext_lazy("delete"),
    "submit": gettext_lazy("submit"),
}


class Change(NamedTuple):
    """A changed field."""

    name: str
    before: SafeString
    after: SafeString


class Preview(NamedTuple):
    """A preview for templates.

    Attributes:
        kind: ``"none"``, ``"error"``, ``"changes"`` or ``"value"``.
        title: the action and its object.
        also: other effects.
        is_uncounted: True if the number of other rows that a deletion deletes is unknown.
        columns: which of ``"before"`` and ``"after"`` the changes have.
        value: rendered value of kind ``"value"``.
    """

    kind: str
    title: str = ""
    uri: str = ""
    changes: tuple[Change, ...] = ()
    also: tuple[SafeString, ...] = ()
    is_uncounted: bool = False
    columns: tuple[str, ...] = ()
    value: SafeString = mark_safe("")


def line(text: Any, longest: int = 200) -> str:
    return one_line(text, longest)


def shown_value(value: Any) -> SafeString:
    """Render a JSON value. Strings are unquoted unless they could be read as another JSON value."""
    if isinstance(value, str) and not _is_ambiguous(value):
        return _render_text(value)
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return _render_text(
        text if len(text) <= SUMMARY else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    )


def _is_ambiguous(text: str) -> bool:
    if len(text) > SUMMARY or "\n" in text:
        return False
    if text != text.strip() or not text or text[0] in '"{[':
        return True
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _render_text(text: str, longest: int = LONGEST_LINE, most: int = MAX_LINES) -> SafeString:
    characters = len(text)
    shown = visible(text)
    lines = shown.count("\n") + 1
    block = format_html(VALUE, shown)
    if lines <= most and len(shown) <= longest:
        return block
    begin = " ".join(shown[: 2 * SUMMARY].split())[:SUMMARY]
    size = _("%d characters") % characters
    words = (
        '<details class="mcp-long-value"><summary><code translate="no" dir="ltr">{}…</code> ({})</summary>{}</details>'
    )
    return format_html(words, begin, size, block)


def shown_arguments(arguments: Any, withheld: Mapping[str, str]) -> list[tuple[str, SafeString, str]]:
    """Return name, rendered value and the reason for hiding it, for each argument in its original order."""
    if not isinstance(arguments, Mapping):
        return [("", shown_value(arguments), "")]
    words = {name: str(WITHHELD.get(why, why)) for name, why in withheld.items()}
    return [(line(name), shown_value(value), words.get(name, "")) for name, value in arguments.items()]


def preview_of(value: Any) -> Preview:
    """Return a preview of ``approvals.previews`` for templates."""
    match value:
        case None:
            return Preview("none")
        case {"error": _error}:
            return Preview("error")
        case {"text": str() as text} if len(value) == 1:
            return Preview("value", value=_render_text(text, OPEN_TEXT, OPEN_TEXT_LINES))
        case {"verb": str() as verb, "changes": list() as changes}:
            return _changes(value, verb, changes)
    return Preview("value", value=shown_value(value))


def _changes(value: Mapping[str, Any], verb: str, changes: list[Any]) -> Preview:
    title = f"{VERBS.get(verb, line(verb))} {line(value.get('object', ''))}"
    columns = tuple(
        name for name in ("before", "after") if any(isinstance(change, dict) and name in change for change in changes)
    )
    also = value.get("also", [])
    return Preview(
        "changes",
        capfirst(title.strip()),
        line(value.get("uri") or "", 500),
        tuple(_render_change(change) for change in changes),
        (*_render_also(also if isinstance(also, list) else []), *_names(value.get("names"))),
        also is None,
        columns,
    )


def _render_change(change: Any) -> Change:
    if not isinstance(change, dict):  # a line such as "… (3 more)"
        return Change(line(change), NONE, NONE)
    name = line(change.get("label") or change.get("field") or "")
    before, after = change.get("before"), change.get("after")
    are_empty = before in EMPTY and after in EMPTY  # which tells an empty text from no value
    return Change(capfirst(name), *(_render_side(value, is_exact=are_empty) for value in (before, after)))


EMPTY: tuple[Any, ...] = (None, "", [], {})


def _render_side(value: Any, *, is_exact: bool) -> SafeString:
    return NONE if value is None or (value in EMPTY and not is_exact) else shown_value(value)


def _render_also(entries: list[Any]) -> Iterator[SafeString]:
    for entry in entries:
        match entry:
            case {"what": what, "count": int() as count}:
                yield format_html("{} {}", count, line(what))
            case _:
                yield shown_value(entry)


def _names(names: Any) -> Iterator[SafeString]:
    yield from map(shown_value, names if isinstance(names, list) else ())


Caller = tuple[str, str]
"""``Principal.kind`` and ``Principal.id``."""


def names_of(callers: Iterable[Caller]) -> Mapping[Caller, str]:
    """Return a display name for each caller, with at most two queries."""
    callers = set(callers)
    of_keys = [id for kind, id in callers if kind == "api_key"]  # noqa: A001
    keys = APIKey.objects.select_related("user").in_bulk(keys_of(APIKey, of_keys))
    users = get_user_model()._default_manager.in_bulk(  # noqa: SLF001 - Django's documented API
        keys_of(get_user_model(), map(_user_of, callers))
    )
    by_id = {str(pk): key for pk, key in keys.items()}
    by_text = {str(pk): user for pk, user in users.items()}
    found: dict[Caller, str] = {}
    for caller in callers:
        kind, id = caller  # noqa: A001
        found[caller] = kind if id in {"", kind} else f"{kind} {id}"
        if kind == "api_key" and (key := by_id.get(id)) is not None:
            found[caller] = f"{key.user} ({key.name})"
        elif (user := by_text.get(_user_of(caller) or "")) is not None:
            found[caller] = display_name(user)
    return found


def _user_of(caller: Caller) -> str | None:
    # The user's primary key begins the ids of these kinds of callers.
    kind, id = caller  # noqa: A001
    return id.partition(":")[0] if kind in {"session", "oauth"} else None


def client_names(client_ids: Iterable[str]) -> dict[str, str]:
    """Return the name of each OAuth client that registered with this site, by client id. One query at most."""
    wanted = {wanted_id for wanted_id in client_ids if wanted_id}
    if not wanted or not has_toolkit():
        return {}
    from django_mcp.auth.toolkit import get_application_model  # noqa: PLC0415 - where it is installed

    rows = get_application_model().objects.filter(client_id__in=wanted).values_list("client_id", "name")
    return {client_id: line(name) for client_id, name in rows if name and name != client_id}


def client_name(client_id: str) -> str:
    name = client_names([client_id]).get(client_id)
    return f"{name} ({client_id})" if name else client_id


def name_of(row: Any) -> str:
    caller = row.principal_kind, row.principal_id
    return names_of([caller])[caller]


def with_names(rows: Iterable[Any]) -> None:
    """Set the attribute ``person`` of each row to its caller's name."""
    rows = list(rows)
    names = names_of((row.principal_kind, row.principal_id) for row in rows)
    for row in rows:
        row.person = names[row.principal_kind, row.principal_id]


MAX_CHARACTERS = 20_000
"""Maximum characters shown of a value."""
OPEN_LINES = 12
"""Longer values are collapsed."""


def as_json(value: Any) -> SafeString:
    return as_text(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True))


def without_view(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result with the number of characters of an app's HTML in its place.

    The HTML repeats the result at length, and the forms in it may have tokens.
    """
    meta = result.get("_meta")
    if not isinstance(meta, Mapping) or APP_HTML not in meta:
        return result
    return {**result, "_meta": {**meta, APP_HTML: _("%d characters") % len(meta[APP_HTML])}}


def as_text(text: str) -> SafeString:
    """Render a text, collapsed if long."""
    shown = cut(text)
    lines = shown.count("\n") + 1
    block = format_html(VALUE, shown)
    if lines <= OPEN_LINES:
        return block
    return format_html("<details><summary>{}</summary>{}</details>", _("%d lines") % lines, block)


def cut(text: str) -> str:
    """Return a text shortened and without credentials or invisible characters."""
    more = len(text) - MAX_CHARACTERS
    shown = bounded(text, MAX_CHARACTERS)
    words = ngettext("… and %d character more.", "… and %d characters more.", more)
    return f"{shown}\n{words % more}" if more > 0 else shown


def lasted(outcome: str, milliseconds: float) -> str:
    """Write how long a request took; of one that waited for a person, how long it waited."""
    words = duration(milliseconds)
    return _("waited %s") % words if outcome == RequestLog.Outcome.WAITING else words


def duration(milliseconds: float | None) -> str:
    """Write milliseconds in the unit that suits them, with two or three digits."""
    if milliseconds is None:
        return NOTHING
    value, unit = (milliseconds, _("%s ms")) if milliseconds < 1000 else (milliseconds / 1000, _("%s s"))  # noqa: PLR2004
    places = 1 if value < 10 else 0  # noqa: PLR2004
    return unit % number_format(round(value, places), places, use_l10n=True, force_grouping=True)
