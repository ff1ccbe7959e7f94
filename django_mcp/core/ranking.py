"""Finding tools by words: BM25 over their fields, in memory, without regard to case and accents.

How rare a word is counts among the tools that the caller may see, so that no score tells of others.
"""

import logging
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from django_mcp.primitives.tool import Tool

NAME, TITLE, TAGS, DESCRIPTION, ARGUMENT, ABOUT_ARGUMENT = 5.0, 4.0, 4.0, 2.0, 1.5, 1.0
"""What a word counts, by where it stands."""
SATURATION = 1.5
"""How little a word counts more where it stands more often (BM25's k1)."""
PART = 0.5
"""What it counts that one of two words begins with the other, ``refund`` and ``refunds``."""
LEAST = 3
"""Characters that a beginning must have for that."""
MOST_WORDS = 30
"""Words of a query that are looked for; each costs a look at every word of every tool."""

logger = logging.getLogger("django_mcp")

_words_of: WeakKeyDictionary[Tool, Mapping[str, float]] = WeakKeyDictionary()


def words(text: str) -> list[str]:
    """The words of a text or name, ``camelCase`` and ``snake_case`` taken apart, in lower case without accents."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    plain = "".join(each for each in unicodedata.normalize("NFKD", apart) if not unicodedata.combining(each))
    return re.findall(r"[^\W_]+", plain.casefold())


def best(tools: Sequence[Tool], query: str) -> list[Tool]:
    """Those of *tools* that have a word of *query*, the best first; of equals the one that stands first."""
    wanted = list(dict.fromkeys(words(query)))[:MOST_WORDS]
    hits = [{each: _hit(weights, each) for each in wanted} for weights in map(_weights, tools)]
    rarity = {each: _rarity(sum(hit[each] > 0 for hit in hits), len(tools)) for each in wanted}
    scores = [sum(rarity[each] * found / (found + SATURATION) for each, found in hit.items()) for hit in hits]
    order = sorted(range(len(tools)), key=lambda place: -scores[place])
    return [tools[place] for place in order if scores[place] > 0]


def _rarity(having: int, of: int) -> float:
    return math.log(1 + (of - having + 0.5) / (having + 0.5))


def _hit(weights: Mapping[str, float], wanted: str) -> float:
    """What a word counts in a tool: the best of the words there that are it or begin alike."""
    exact = weights.get(wanted, 0.0)
    parts = (weight * PART for word, weight in weights.items() if _begin_alike(word, wanted))
    return max(exact, max(parts, default=0.0))


def _begin_alike(one: str, other: str) -> bool:
    return min(len(one), len(other)) >= LEAST and (one.startswith(other) or other.startswith(one))


def _weights(tool: Tool) -> Mapping[str, float]:
    found = _words_of.get(tool)
    if found is None:
        try:
            found = _read(tool)
        except Exception:  # such as a lazy text of the site that fails
            logger.exception("%s cannot be found, for its words cannot be read", tool.label)
            return {}
        if not tool.is_translated:  # else they are others in another language
            _words_of[tool] = found
    return found


def _read(tool: Tool) -> Mapping[str, float]:
    found: defaultdict[str, float] = defaultdict(float)
    for text, weight in _fields(tool):
        for word in words(text):
            found[word] += weight
    return found


def _fields(tool: Tool) -> Iterator[tuple[str, float]]:
    yield tool.name, NAME
    yield str(tool.definition.get("title", "")), TITLE
    yield " ".join(sorted(tool.tags)), TAGS
    yield str(tool.definition.get("description", "")), DESCRIPTION
    properties: Mapping[str, Any] = tool.definition["inputSchema"].get("properties", {})
    for name, schema in properties.items():
        yield name, ARGUMENT
        if isinstance(schema, Mapping):  # a schema may also be true, for anything
            yield f"{schema.get('title', '')} {schema.get('description', '')}", ABOUT_ARGUMENT
