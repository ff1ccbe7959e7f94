"""Values in words, for sentences that models and people read."""

import re
from typing import Any

from pydantic_core import to_json

_VOWEL = re.compile(r"(?!uni|us[ei]|usu|ut[ei]|eu|one\b|once)[aeiou]|hour|honest|heir", re.IGNORECASE)
_NAMES = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}


def kind_name(value: Any) -> str:
    """What a value of JSON is, like ``an array``."""
    return _NAMES.get(type(value), "a number")


def shown(value: Any) -> str:
    """A value in a few characters, as whoever sent JSON wrote it."""
    if isinstance(value, str):
        return shortened(repr(value), 80)
    try:
        return shortened(to_json(value).decode(), 80)
    except ValueError:  # a default of the site's own, say
        return shortened(repr(value), 80)


def shortened(text: str, length: int) -> str:
    """*text*, cut where it has more than *length* characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def sentence(words: str) -> str:
    """*words* with a full stop behind them, cut where they are long: a choice may have thousands of options."""
    words = shortened(words, 500)
    return words if words.endswith((".", "!", "?", "…")) else f"{words}."


def with_article(noun: str) -> str:
    """An English noun with the article it has: ``an author``, ``a user``."""
    return f"{'an' if _VOWEL.match(noun) else 'a'} {noun}"


def size(length: int) -> str:
    """So many bytes, for people: ``1.5 MiB``."""
    for unit, name in ((1024**2, "MiB"), (1024, "KiB")):
        if length >= unit:
            return f"{length / unit:.1f} {name}".replace(".0 ", " ")
    return f"{length} bytes"
