"""What is asked of both tables."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.shelf.rows import RARE, slug_of

LIMIT = 20
SHORT = 1_000
"""Rows of the short table."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question.

    Attributes:
        name: what is asked.
        method: of the protocol.
        ask: its parameters.
        order: what rows are sorted by, where the question is for a page deep in a table.
        depth: how deep: behind this share of the rows.
        endpoint: which declaration is asked.
        scans: every row has to be looked at.
    """

    name: str
    method: str
    ask: Callable[[], dict[str, Any]]
    order: str = ""
    depth: float = 0
    endpoint: str = "plain"
    scans: bool = False


def search(**arguments: Any) -> Callable[[], dict[str, Any]]:
    """A call of the search tool."""
    return lambda: {"name": "search_books", "arguments": {"limit": LIMIT, **arguments}}


def some_slug() -> str:
    """One that both tables have."""
    return slug_of(random.randrange(SHORT))


def completion() -> dict[str, Any]:
    """What begins as some slug does."""
    ref = {"type": "ref/resource", "uri": "shelf://books/{slug}{?format}"}
    return {"ref": ref, "argument": {"name": "slug", "value": some_slug()[:5]}}


def aggregate(*by: str) -> Callable[[], dict[str, Any]]:
    """A call of the tool that adds up."""
    return lambda: {"name": "aggregate_books", "arguments": {"measures": ["count"], "by": list(by)}}


CALL = "tools/call"
CASES = (
    Case("resources/list, first page", "resources/list", dict),
    Case("resources/list, deep", "resources/list", dict, "", 0.9),
    Case("search, first page", CALL, search()),
    Case("search, deep", CALL, search(), "", 0.9),
    *(
        Case(f"search by {order}, {where}", CALL, search(order_by=order), order if depth else "", depth)
        for order in ("published", "-published", "lent", "-lent")
        for where, depth in (("first page", 0), ("deep", 0.9))
    ),
    Case("search by lent, deep among nulls", CALL, search(order_by="lent"), "lent", 0.97),
    Case("search by stars, of which there are five, deep", CALL, search(order_by="stars"), "stars", 0.9),
    Case("search by publisher, deep", CALL, search(order_by="publisher"), "publisher", 0.9),
    Case("filter by a day", CALL, search(published="1990-01-01")),
    Case("filter by publisher", CALL, search(publisher=7)),
    Case("filter from a day on, by published", CALL, search(published__gte="1990-01-01", order_by="published")),
    Case("a frequent word, icontains", CALL, search(query="w7")),
    Case("a rare word, icontains", CALL, search(query=RARE), scans=True),
    Case("get, by slug", CALL, lambda: {"name": "get_book", "arguments": {"slug": some_slug()}}),
    Case("resources/read, by slug", "resources/read", lambda: {"uri": f"shelf://books/{some_slug()}"}),
    Case("completion of a slug, 5 characters", "completion/complete", completion),
    Case("completion of a slug, 1 character", "completion/complete", lambda: _with_value(completion(), "0")),
    Case("count by stars", CALL, aggregate("stars"), scans=True),
    Case("count by year", CALL, aggregate("published__year"), scans=True),
)
IN_FULL_TEXT = tuple(
    Case(f"a {often} word, {how}", CALL, search(query=word), endpoint=endpoint)
    for endpoint, how in (("vector", "SearchVectorField"), ("text", "@text"))
    for often, word in (("frequent", "w7"), ("rare", RARE))
)


def _with_value(params: dict[str, Any], value: str) -> dict[str, Any]:
    return {**params, "argument": {**params["argument"], "value": value}}
