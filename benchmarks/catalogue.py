"""The fifty tools that every server under test offers, as plain functions.

Two of them are called: a sync and an async addition, because the smallest tool shows the most of the server.
The other forty-eight make the list as long as that of a real site, with parameters of the usual kinds.
"""

from collections.abc import Callable
from typing import Any, Literal

NOUNS = (
    "author",
    "book",
    "branch",
    "copy",
    "event",
    "fine",
    "genre",
    "loan",
    "publisher",
    "reader",
    "review",
    "shelf",
)


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


async def aadd(a: int, b: int) -> int:
    """Add two integers without leaving the event loop."""
    return a + b


def _tools_of(noun: str) -> tuple[Callable[..., Any], ...]:
    """Return the four tools that a site would offer for one kind of thing."""

    def search(query: str, limit: int = 10, order: Literal["newest", "oldest"] = "newest") -> list[str]:
        return [f"{noun} {query} {order}"][:limit]

    def get(pk: int) -> str:
        return f"{noun} {pk}"

    def rename(pk: int, name: str, *, notify: bool = False) -> str:
        return f"{noun} {pk} is now {name}{', and all are told' if notify else ''}"

    def count(tags: list[str] | None = None, minimum: float = 0.0) -> int:
        return len(tags or ()) + int(minimum)

    described = {
        search: f"Find {noun} entries by words in their names.",
        get: f"Return one {noun} by its primary key.",
        rename: f"Give one {noun} a new name and optionally notify its followers.",
        count: f"Count {noun} entries that have all the given tags.",
    }
    for function, description in described.items():
        function.__name__ = function.__qualname__ = f"{function.__name__}_{noun}"
        function.__doc__ = description
    return tuple(described)


TOOLS: tuple[Callable[..., Any], ...] = (add, aadd, *(tool for noun in NOUNS for tool in _tools_of(noun)))
