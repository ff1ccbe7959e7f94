"""Words of sentences that models and people read."""

import pytest

from django_mcp.primitives.validation_errors import with_article


def test_a_noun_has_the_article_it_is_spoken_with(subtests: pytest.Subtests) -> None:
    for words in [
        *("a book", "an appointment", "an Owner", "an hour", "a house", "a user", "a unit", "a utility"),
        *("an uncle", "an upload", "a European city", "a one-time code", "an only child"),
    ]:
        with subtests.test(words=words):
            assert with_article(words.partition(" ")[2]) == words
