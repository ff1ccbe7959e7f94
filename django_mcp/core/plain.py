"""Whatever a function of the site's gives, as JSON that people read: plain, without secrets, and not too long."""

import json
from typing import Any

from django.db.models import QuerySet
from pydantic_core import to_jsonable_python

from django_mcp.core.redaction import redacted

MOST = 20_000
"""Characters of a value, as JSON."""
MOST_ROWS = 100
"""Of a queryset."""
SHORTER = ((2000, 200), (400, 50), (100, 20))
"""The most characters of a text and the most entries of a list, tried in turn where a value is too long."""


def as_json(value: Any) -> Any:
    """*value* as JSON, a text as ``{"text": …}``, in about ``MOST`` characters; None for None."""
    if value is None:
        return None
    plain = to_jsonable_python(value, fallback=_text, bytes_mode="base64", inf_nan_mode="null")
    if not isinstance(plain, dict | list):
        plain = {"text": plain if isinstance(plain, str) else json.dumps(plain)}
    plain = redacted(None, plain, longest=None, whole=None)
    if isinstance(plain, dict) and plain.keys() == {"text"} and isinstance(plain["text"], str):
        return {"text": _cut(plain["text"], MOST)}
    return bounded(plain)


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


def _text(value: Any) -> Any:
    """What JSON lacks."""
    if isinstance(value, QuerySet):
        rows = list(value[: MOST_ROWS + 1])
        return [*map(_row, rows[:MOST_ROWS]), *(["… (there are more)"] if len(rows) > MOST_ROWS else [])]
    return str(value)


def _row(row: Any) -> Any:
    return row if isinstance(row, dict | tuple) else str(row)
