"""Whatever a function of the site's gives, as JSON that people read: plain, and not too long."""

import json
from typing import Any, NamedTuple

from django.db.models import QuerySet
from pydantic_core import to_jsonable_python

from django_mcp.core.redaction import CUT, declared
from django_mcp.primitives.tool import Tool

MOST = 20_000
"""Characters of a value, as JSON."""
MOST_ROWS = 100
"""Of a queryset."""
SHORTER = ((2000, 200), (400, 50), (100, 20))
"""The most characters of a text and the most entries of a list, tried in turn where a value is too long."""


class Plain(NamedTuple):
    """A value of JSON.

    Attributes:
        value: a text is ``{"text": …}``; None for None.
        is_whole: whether nothing was cut.
    """

    value: Any
    is_whole: bool = True


def as_json(value: Any, tool: Tool) -> Plain:
    """*value* as JSON in about ``MOST`` characters, without what the tool's schema declares as a secret.

    Args:
        value: what a function of the site's returned.
        tool: whose arguments it may repeat.
    """
    if value is None:
        return Plain(None)
    is_whole = True

    def text(value: Any) -> Any:
        """What JSON lacks."""
        nonlocal is_whole
        if not isinstance(value, QuerySet):
            return str(value)
        rows = list(value[: MOST_ROWS + 1])
        is_whole = is_whole and len(rows) <= MOST_ROWS
        return [*map(_row, rows[:MOST_ROWS]), *(["… (there are more)"] if len(rows) > MOST_ROWS else [])]

    plain = to_jsonable_python(value, fallback=text, bytes_mode="base64", inf_nan_mode="null")
    if not isinstance(plain, dict | list):
        plain = {"text": plain if isinstance(plain, str) else json.dumps(plain)}
    if isinstance(plain, dict) and plain.keys() == {"text"} and isinstance(plain["text"], str):
        short = {"text": _cut(plain["text"], MOST)}
        return Plain(short, is_whole and short == plain)
    plain, is_shown = _without_secrets(plain, tool)
    short = bounded(plain)
    return Plain(short, is_whole and is_shown and short is plain)


def _without_secrets(plain: Any, tool: Tool) -> tuple[Any, bool]:
    """Return a value without what the tool's schema declares as a secret, in each object of a list too.

    The second value is False if something of it was cut.
    """
    match plain:
        case dict():
            copied, withheld = declared(tool, plain, longest=None, whole=None)
            return copied, CUT not in withheld.values()
        case list():
            pairs = [_without_secrets(each, tool) for each in plain]
            return [each for each, _ in pairs], all(is_shown for _, is_shown in pairs)
    return plain, True


def bounded(value: Any) -> Any:
    """A value of JSON: itself, or where it is too long with its texts and lists cut; in the last resort as a text."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST:
        return value
    for characters, entries in SHORTER:
        shorter = _shorter(value, characters, entries)
        if len(json.dumps(shorter, ensure_ascii=False)) <= MOST:
            return shorter
    return {"text": _cut(text, MOST)}


def _shorter(value: Any, characters: int, entries: int) -> Any:
    match value:
        case str():
            return _cut(value, characters)
        case list():
            rest = len(value) - entries
            kept = [_shorter(each, characters, entries) for each in value[:entries]]
            return [*kept, f"… ({rest} more)"] if rest > 0 else kept
        case dict():
            return {key: _shorter(each, characters, entries) for key, each in value.items()}
    return value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _row(row: Any) -> Any:
    return row if isinstance(row, dict | tuple) else str(row)
