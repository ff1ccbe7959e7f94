"""Searching documents."""

import datetime

import pytest

from demo_project.travel import documents
from demo_project.travel.models import Document

pytestmark = [pytest.mark.usefixtures("travel"), pytest.mark.postgresql]


def titles(keyword: str, page_index: int = 1) -> list[str]:
    return [hit.document.title for hit in documents.search(keyword, page_index).hits]


def test_a_word_of_the_text_is_enough():
    assert "Cancellation and refund policy" in titles("refund")


def test_every_word_must_occur():
    both = set(titles("ski helicopter"))

    assert both == {"Insurance for skiing, hiking and diving"}
    assert len(titles("helicopter")) <= documents.search("ski").total


def test_case_accents_and_repetition_do_not_matter():
    found = titles("Reykjavík")

    assert "Reykjavík and the road beyond" in found
    assert [titles(each) for each in ("reykjavik", "REYKJAVÍK", "  reykjavík  reykjavik ")] == [found] * 3


def test_pages_have_ten_and_do_not_overlap():
    first, second = documents.search("the", 1), documents.search("the", 2)

    assert len(first.hits) == len(second.hits) == 10
    assert first.total == second.total == Document.objects.count()
    assert first.pages == 5
    assert not {hit.document.pk for hit in first.hits} & {hit.document.pk for hit in second.hits}


def test_all_pages_together_are_everything():
    found = [title for page in range(1, 11) for title in titles("the", page)]

    assert found == list(Document.objects.values_list("title", flat=True))


def test_a_page_beyond_the_last_is_empty():
    page = documents.search("refund", 10)

    assert page.hits == []
    assert page.total > 0


def test_other_pages_do_not_exist():
    for page_index in (0, 11, -1):
        with pytest.raises(ValueError, match="from 1 to 10"):
            documents.search("the", page_index)


def test_nothing_is_not_searched_for():
    for keyword in ("", "   ", "\n\t", "\0"):
        with pytest.raises(ValueError, match="at least one search term"):
            documents.search(keyword)


def test_too_many_words_are_refused():
    with pytest.raises(ValueError, match="at most 10 search terms"):
        documents.search(" ".join(f"word{number}" for number in range(11)))


@pytest.mark.parametrize("keyword", ["%", "_", "100%_", "\\", "'; DROP TABLE travel_document; --"])
def test_signs_of_sql_are_just_signs(keyword):
    for hit in documents.search(keyword).hits:
        assert all(word.casefold() in hit.document.text.casefold() for word in keyword.split())


def test_the_snippet_shows_what_was_looked_for():
    for hit in documents.search("visa").hits:
        assert "visa" in hit.snippet.casefold() or "visa" in hit.document.title.casefold()
        assert len(hit.snippet.split()) <= 45


def test_a_hit_in_the_title_shows_the_beginning():
    document = Document(title="Zeppelin", text="First words.\n\nSecond words.")

    assert documents.snippet(document, ["zeppelin"]) == "First words."


def test_a_changed_document_is_found_by_its_new_words():
    document = Document.objects.create(
        title="New", slug="new", text="About Zürich", category="guide", updated=datetime.date(2026, 1, 1)
    )
    document.text = "About zeppelins"
    document.save(update_fields=["text"])

    assert titles("zeppelins") == ["New"]


def test_texts_are_long_and_all_different():
    texts = [document.text for document in Document.objects.all()]
    paragraphs = [paragraph for text in texts for paragraph in text.split("\n\n")]

    assert all(text.count("\n\n") >= 2 and len(text.split()) >= 120 for text in texts)
    assert len(set(paragraphs)) == len(paragraphs)
