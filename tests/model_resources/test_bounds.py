"""Answers have a size: so many rows, so many characters; and what is left out is said, with the way to it."""

import json
from typing import Any

import pytest

from django_mcp import ModelResource, register
from django_mcp.model_resources import pagination
from tests.model_resources.library.models import Author, Book, Review, Tag


def offer(server, **attributes: Any) -> None:
    declared = {"fields": ["title", "summary", "shelf"], "ordering": ["pk"], "view_permission": None, **attributes}
    register(Book, type("Books", (ModelResource,), declared), server=server)


def pages_of(reader, **arguments):
    """All pages of a search."""
    found = [reader.data("search_books", **arguments)]
    while cursor := found[-1]["next_cursor"]:
        found.append(reader.data("search_books", cursor=cursor, **arguments))
    return found


def titles(page):
    return [row["title"] for row in page["rows"]]


EVERYTHING = ["Salt", "Tides", "Night Ferry", "Lanterns", "Foghorn"]


# Rows


def test_a_page_has_twenty_rows_where_the_caller_does_not_say(server, reader, books):
    offer(server)
    for at in range(20):
        Book.objects.create(title=f"{at}", slug=f"more-{at}", author=books[0].author)
    assert [len(page["rows"]) for page in pages_of(reader())] == [20, 5]


def test_a_page_has_no_more_rows_than_the_caller_wants(server, reader, books):
    offer(server)
    assert [titles(page) for page in pages_of(reader(), limit=2)] == [EVERYTHING[:2], EVERYTHING[2:4], EVERYTHING[4:]]


def test_a_page_that_is_just_full_is_the_last_where_no_row_follows(server, reader, books):
    offer(server)
    assert [len(page["rows"]) for page in pages_of(reader(), limit=5)] == [5]


def test_no_more_rows_can_be_wanted_than_the_site_allows(server, reader, books):
    offer(server, max_page_size=3)
    assert len(reader().data("search_books")["rows"]) == 3
    assert "3" in reader().problem("search_books", limit=4)
    assert "1" in reader().problem("search_books", limit=0)


def test_the_list_resource_has_no_more_rows_than_the_site_allows(server, reader, books):
    offer(server, max_page_size=3)
    page = reader().read("library://book")
    assert titles(page) == EVERYTHING[:3]
    following = reader().read(page["next"])
    assert (titles(following), following["next"]) == (EVERYTHING[3:], None)


# Characters


def test_a_page_that_is_too_long_is_cut_and_goes_on_with_the_very_next_row(server, reader, books):
    offer(server, max_output_chars=1000)
    Book.objects.update(summary="x" * 300)
    first, *others = pages_of(reader(), limit=5)
    assert len(first["rows"]) == 2
    assert first["note"] == (
        "2 rows of 5. The page was cut because the output is limited. "
        "For the next page, repeat the call with cursor set to next_cursor."
    )
    assert [title for page in (first, *others) for title in titles(page)] == EVERYTHING
    assert all(len(json.dumps(page["rows"])) <= 1000 for page in (first, *others))


def test_the_list_resource_is_cut_likewise(server, reader, books):
    offer(server, max_output_chars=1000)
    Book.objects.update(summary="x" * 300)
    page, found = reader().read("library://book"), []
    while page:
        found += titles(page)
        assert len(page["rows"]) <= 2
        page = page["next"] and reader().read(page["next"])
    assert found == EVERYTHING


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_row_that_is_too_long_by_itself_comes_alone_with_its_texts_cut(server, reader, books, at):
    offer(server, max_output_chars=600, fields=["title", "summary", "text", "internal"])
    Book.objects.filter(pk=books[at].pk).update(summary="x" * 1000, text="y" * 1000)
    found = pages_of(reader(), limit=5)
    assert [title for page in found for title in titles(page)] == EVERYTHING
    (page,) = [page for page in found if books[at].title in titles(page)]
    row = page["rows"][0] if titles(page)[0] == books[at].title else page["rows"][-1]
    assert row["summary"] == f"{'x' * 100}… (900 more characters: library://book/{books[at].pk}/summary)"
    assert len(json.dumps(page["rows"], ensure_ascii=False)) <= 700


def test_a_list_or_object_that_is_too_long_is_cut(server, reader, books):
    class Books(ModelResource):
        fields = ("title", "extra", "lines")
        ordering = ("pk",)
        view_permission = None
        max_output_chars = 2000

        def lines(self, obj) -> list[str]:
            return ["line"] * 10_000

    register(Book, Books, server=server)
    Book.objects.filter(pk=books[0].pk).update(extra={"key": "v" * 50_000})
    page = reader().data("search_books", limit=5)
    assert len(json.dumps(page["rows"])) <= 2500
    assert page["rows"][0]["extra"].endswith("more characters)")
    assert set(page["rows"][0]["lines"]) == {"line"}
    assert [title for page in pages_of(reader()) for title in titles(page)] == EVERYTHING
    assert len(json.dumps(reader().data("get_book", pk=books[0].pk))) <= 2500
    assert len(json.dumps(reader().read(f"library://book/{books[0].pk}"))) <= 2500


def test_a_row_in_full_is_cut_where_it_is_too_long_for_an_answer(server, reader, books):
    offer(server, fields=["title", "summary", "text"], max_output_chars=5000)
    Book.objects.update(summary="x" * 10_000, text="y" * 10_000)
    row = reader().data("get_book", pk=books[0].pk)
    assert row["text"] == f"{'y' * 1000}… (9000 more characters: library://book/{books[0].pk}/text)"


# Texts


def test_a_long_text_in_a_list_is_cut_and_says_where_the_rest_is(server, reader, books):
    offer(server)
    Book.objects.update(summary="s" * 1234)
    row = reader().data("search_books")["rows"][0]
    assert row["summary"] == f"{'s' * 400}… (834 more characters: {row['uri']}/summary)"
    assert reader().contents(f"{row['uri']}/summary")["text"] == "s" * 1234
    assert reader().read(row["uri"])["summary"] == "s" * 1234


@pytest.mark.parametrize("length", [399, 400])
def test_a_text_that_fits_is_not_cut(server, reader, books, length):
    offer(server)
    Book.objects.update(summary="s" * length)
    assert reader().data("search_books")["rows"][0]["summary"] == "s" * length


def test_a_long_text_of_another_row_and_of_a_function_is_cut_and_says_where_it_is_whole(server, reader, books):
    class Books(ModelResource):
        fields = ("title", "author__name", "loud")
        view_permission = None

        def loud(self, obj) -> str:
            return "L" * 500

    register(Book, Books, server=server)
    Author.objects.update(name="n" * 100)
    row = reader().data("search_books")["rows"][0]
    assert row["author__name"] == "n" * 100
    assert row["loud"] == f"{'L' * 400}… (100 more characters: {row['uri']})"
    assert reader().read(row["uri"])["loud"] == "L" * 500


def test_long_texts_of_related_rows_are_cut(server, reader, books):
    register(Review, type("R", (ModelResource,), {"fields": ["stars"], "view_permission": None}), server=server)
    offer(server, fields=["title", "reviews__text"], list_fields=["title", "reviews__text"])
    Review.objects.update(text="r" * 1000)
    row = reader().data("search_books")["rows"][0]
    assert row["reviews__text"] == [f"{'r' * 400}… (600 more characters: {row['uri']})"] * 2


# Related rows


def test_no_more_related_rows_are_shown_than_the_site_allows(server, reader, books, django_assert_num_queries):
    register(Tag, type("Tags", (ModelResource,), {"fields": ["word"], "view_permission": None}), server=server)
    offer(server, fields=["title", "tags", "tags__word"], list_fields=["tags", "tags__word"], max_related=3)
    words = [Tag.objects.create(word=f"word-{at:02}") for at in range(30)]
    for book in books:
        book.tags.set(words)
    with django_assert_num_queries(2):
        rows = reader().data("search_books")["rows"]
    for row in rows:
        assert row["tags__word"] == ["word-00", "word-01", "word-02"]
        assert len(row["tags"]) == 3


def test_no_more_related_rows_are_shown_where_each_is_asked_about(server, reader, books):
    def has_view_permission(self: Any, ctx: Any, obj: Any = None) -> bool:
        return obj is None or obj.word != "word-01"

    options = {"object_permissions": True, "has_view_permission": has_view_permission}
    register(Tag, type("Tags", (ModelResource,), {"fields": ["word"], "title_field": "word", **options}), server=server)
    offer(server, fields=["title", "tags"], list_fields=["tags"], max_related=3)
    books[1].tags.set([Tag.objects.create(word=f"word-{at:02}") for at in range(30)])
    row = reader().data("search_books")["rows"][1]
    assert [link["title"] for link in row["tags"]] == ["word-00", "word-02", "word-03"]


# What is said


def test_the_note_counts_in_the_singular_and_in_the_plural(server, reader, books):
    offer(server, filterset_fields=["shelf"])
    said = [page["note"] for page in pages_of(reader(), limit=4)]
    following = "For the next page, repeat the call with cursor set to next_cursor."
    assert said == [f"4 rows of 5. {following}", "1 row. This is the last page."]
    assert reader().data("search_books", shelf="A")["note"] == "1 row. This is the last page."
    assert reader().data("search_books", shelf="none")["note"] == "0 rows. This is the last page."
    assert reader().data("search_books", limit=1)["note"] == f"1 row of 5. {following}"


def test_the_total_is_told_with_the_first_page(server, reader, books):
    offer(server)
    assert [page["total"] for page in pages_of(reader(), limit=2)] == [5, None, None]
    assert reader().data("search_books")["total"] == 5


def test_rows_are_not_counted_beyond_a_thousand(server, reader, books, monkeypatch):
    offer(server)
    monkeypatch.setattr(pagination, "COUNTED", 5)
    assert reader().data("search_books", limit=2)["total"] == 5
    monkeypatch.setattr(pagination, "COUNTED", 4)
    page = reader().data("search_books", limit=2)
    assert page["total"] is None
    assert page["note"].startswith("2 rows of many. ")


def test_rows_that_have_to_be_asked_about_are_not_counted(server, reader, books):
    def has_view_permission(self: Any, ctx: Any, obj: Any = None) -> bool:
        return obj is None or obj.shelf != "B"

    offer(server, object_permissions=True, has_view_permission=has_view_permission)
    page = reader().data("search_books", limit=2)
    assert (titles(page), page["total"]) == (["Salt", "Lanterns"], None)
    assert page["note"].startswith("2 rows of many. ")
    assert reader().data("search_books")["total"] == 3


def test_no_more_than_a_thousand_rows_are_asked_about_in_one_call(server, reader, books, monkeypatch):
    monkeypatch.setattr(pagination, "BATCH", 2)
    monkeypatch.setattr(pagination, "MAX_LOOKED_AT", 4)
    asked = []

    def has_view_permission(self: Any, ctx: Any, obj: Any = None) -> bool:
        if obj is not None:
            asked.append(obj.title)
        return obj is None or obj.title == "Foghorn"

    offer(server, object_permissions=True, has_view_permission=has_view_permission)
    page = reader().data("search_books")
    assert (titles(page), len(asked)) == ([], 4)
    assert titles(reader().data("search_books", cursor=page["next_cursor"])) == ["Foghorn"]
