"""Words of sentences that models and people read."""

import pytest
from django.utils import translation
from django.utils.translation import gettext_lazy

from django_mcp.primitives.field_schema import plain_text
from django_mcp.primitives.validation_errors import with_article


def test_a_noun_has_the_article_it_is_spoken_with(subtests: pytest.Subtests) -> None:
    for words in [
        *("a book", "an appointment", "an Owner", "an hour", "a house", "a user", "a unit", "a utility"),
        *("an uncle", "an upload", "a European city", "a one-time code", "an only child"),
    ]:
        with subtests.test(words=words):
            assert with_article(words.partition(" ")[2]) == words


def test_texts_are_joined_with_a_full_stop_where_one_lacks(subtests: pytest.Subtests) -> None:
    for notes, text in [
        (("GPS coordinate", "At most 8 digits."), "GPS coordinate. At most 8 digits."),
        (("In metres (m)", "At most 8 digits."), "In metres (m). At most 8 digits."),
        (("<b>Bold</b> ", "Rule."), "Bold. Rule."),
        (("说明", "规则。"), "说明. 规则。"),
        (("说明。", "规则"), "说明。 规则"),
        (("Really?", "Yes!", "One of:", "a"), "Really? Yes! One of: a"),
        (("Label",), "Label"),
    ]:
        with subtests.test(notes=notes):
            assert plain_text(*notes) == text
            with translation.override("de"):
                assert plain_text(gettext_lazy("Yes"), "Rule.") == "Ja. Rule."
