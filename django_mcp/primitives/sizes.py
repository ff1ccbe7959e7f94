"""How long a result is: characters of what is read, bytes of what is looked at or listened to."""

from collections.abc import Iterable, Mapping
from typing import Any


class OutputTooLarge(Exception):
    """A result is longer than its tool may send.

    Attributes:
        size: of the result.
        limit: what was allowed.
        unit: what both count: ``"characters"`` or ``"bytes of binary content"``.
    """

    def __init__(self, size: int, limit: int, unit: str) -> None:
        super().__init__(f"{size} {unit}; the limit is {limit}")
        self.size = size
        self.limit = limit
        self.unit = unit


def check_size(
    content: Iterable[Mapping[str, Any]], structured: int, most_characters: int | None, most_bytes: int | None
) -> None:
    """Refuse what is too long. A model reads either the text or the structured content, so the longer one counts.

    Args:
        content: blocks, as they go out.
        structured: characters of the structured content's JSON.
        most_characters: None for no limit.
        most_bytes: of images, audio and embedded files; None for no limit.

    Raises:
        OutputTooLarge: it is.
    """
    characters = size = 0
    for block in content:
        held = block.get("resource", block)
        characters += len(held.get("text", ""))
        size += len(held.get("data", held.get("blob", ""))) * 3 // 4  # it is Base64 by now
    characters = max(characters, structured)
    if most_characters is not None and characters > most_characters:
        raise OutputTooLarge(characters, most_characters, "characters")
    if most_bytes is not None and size > most_bytes:
        raise OutputTooLarge(size, most_bytes, "bytes of binary content")
