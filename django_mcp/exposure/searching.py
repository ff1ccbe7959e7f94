"""Looking for words in the declared paths of a model."""

from collections.abc import Sequence
from typing import Any

from django.db import connections
from django.db.models import F, Q, QuerySet
from django.utils.text import smart_split, unescape_string_literal

from django_mcp.exposure.exposed import Exposed, SearchField
from django_mcp.exposure.guards import rows_with, seen_through
from django_mcp.exposure.paths import Path
from django_mcp.exposure.viewing import Viewer
from django_mcp.primitives.tool import ToolError

MOST_WORDS = 10
FEW = 1000
"""Up to so many rows are looked up by their primary keys."""


def words_of(text: str) -> list[str]:
    """The words of a search, each once; what stands in quotes is one of them."""
    bits = [unescape_string_literal(bit) if _is_quoted(bit) else bit for bit in smart_split(text.replace("\0", " "))]
    return [word for word in dict.fromkeys(bit.strip() for bit in bits) if word]


def _is_quoted(bit: str) -> bool:
    return len(bit) > 1 and bit[0] == bit[-1] and bit[0] in "\"'"


def searched(rows: QuerySet[Any], text: str, viewer: Viewer, exposed: Exposed) -> QuerySet[Any]:
    """Those of *rows* in which every word of *text* is found in some path, or that full-text search finds for it.

    Raises:
        ToolError: there are no words, or too many.
    """
    words = words_of(text)
    if not 0 < len(words) <= MOST_WORDS:
        raise ToolError(f"Give 1 to {MOST_WORDS} words to look for; it takes rows in which all of them occur.")
    fields: Sequence[SearchField] = exposed.search_fields
    whole = [each for each in fields if each.lookup == "search"] if _has_full_text(rows) else []
    apart = [each for each in fields if each not in whole and not each.is_vector]
    found = Q(pk__in=())
    for field in whole:
        found |= _as_seen(field.path, _in_full_text(field, text, exposed.resource.search_config), viewer, exposed)
    if apart:
        found |= Q(*(_anywhere(apart, word, viewer, exposed) for word in words))
    return rows.filter(found) if apart else _by_key(rows, found)


def _by_key(rows: QuerySet[Any], found: Q) -> QuerySet[Any]:
    """Those of *rows* that full-text search finds; by their primary keys, where they are few.

    PostgreSQL holds rare words to be more frequent than they are. For the first rows in some order it would then go
    through the table in that order, most of it, instead of looking into the index over the words.
    """
    keys = list(rows.filter(found).order_by().values_list("pk", flat=True)[: FEW + 1])
    return rows.filter(found) if len(keys) > FEW else rows.filter(pk__in=keys)


def _has_full_text(rows: QuerySet[Any]) -> bool:
    return connections[rows.db].vendor == "postgresql"


def _anywhere(fields: Sequence[SearchField], word: str, viewer: Viewer, exposed: Exposed) -> Q:
    anywhere = Q(pk__in=())
    for field in fields:
        lookup = "icontains" if field.lookup == "search" else field.lookup
        condition = Q(**{f"{field.path.column}__{lookup}": word})
        anywhere |= _as_seen(field.path, condition, viewer, exposed)
    return anywhere


def _in_full_text(field: SearchField, text: str, config: str | None) -> Q:
    """PostgreSQL's: an index on the vector, or on ``SearchVector(path, config=…)``, makes it fast."""
    from django.contrib.postgres.search import (  # noqa: PLC0415 - they need psycopg
        SearchQuery,
        SearchVector,
        SearchVectorExact,
    )

    vector = F(field.path.source) if field.is_vector else SearchVector(field.path.source, config=config)
    query = SearchQuery(text.replace("\0", " "), config=config, search_type="websearch")
    return Q(SearchVectorExact(vector, query))


def _as_seen(path: Path, condition: Q, viewer: Viewer, exposed: Exposed) -> Q:
    seen = seen_through(path, viewer, exposed)
    whole = condition if seen is None else seen & condition
    return Q(pk__in=rows_with(exposed, whole)) if path.is_many else whole
