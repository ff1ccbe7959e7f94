"""What to write in place of a value that does not fit, where that can be told."""

import difflib
import re
from typing import Any

from pydantic_core import from_json, to_json

_LONGEST = 60
_PLAIN = re.compile(r"[\w .,:+-]+")
"""Text that looks in JSON as it does outside."""
_NAMED = re.compile(r"'((?:[^'\\]|\\.)*)'")


def hint(wanted: str, value: Any, *, is_optional: bool) -> str:
    """The end of a sentence, from behind the value on, and what it suggests.

    Args:
        wanted: what the value must, like ``be an array``.
        value: what was sent.
        is_optional: whether it may be left out.
    """
    if value is None:
        return "; leave it out instead." if is_optional else "."
    if isinstance(value, str) and ("be an array" in wanted or "be an object" in wanted) and _is_json(value):
        return "; send the JSON itself, not a string that holds it."
    if (mended := _mended(wanted, value)) is not None:
        return f"; write {mended}." if len(mended) < _LONGEST else "."
    if isinstance(value, str) and (named := _NAMED.findall(wanted)):
        folded = {each.casefold(): each for each in named}
        close = difflib.get_close_matches(value.casefold(), folded, n=1)
        return f". Did you mean {folded[close[0]]!r}?" if close else "."
    return "."


def _mended(wanted: str, value: Any) -> str | None:
    """The JSON of what was meant: one thing where several are wanted, or a number where a string is."""
    if wanted == "be an array" and (not isinstance(value, str) or _PLAIN.fullmatch(value)):
        return to_json([value]).decode()
    if wanted == "be a string" and isinstance(value, int | float):
        return f'"{to_json(value).decode()}"'
    return None


def _is_json(text: str) -> bool:
    try:
        return text.lstrip()[:1] in {"{", "["} and from_json(text) is not None
    except ValueError:
        return False
