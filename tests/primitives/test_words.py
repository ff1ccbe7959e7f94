"""Words of sentences that models and people read."""

import pytest

from django_mcp.primitives.words import with_article


@pytest.mark.parametrize(
    "words",
    [
        *("a book", "an appointment", "an Owner", "an hour", "a house", "a user", "a unit", "a utility"),
        *("an uncle", "an upload", "a European city", "a one-time code", "an only child"),
    ],
)
def test_a_noun_has_the_article_it_is_spoken_with(words: str) -> None:
    assert with_article(words.partition(" ")[2]) == words
