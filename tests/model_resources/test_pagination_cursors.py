"""A cursor tells nothing, and is good for one caller, one endpoint and one question."""

import base64

import pytest
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_mcp import ModelResource, register
from tests.clients import MODERN
from tests.model_resources.conftest import ByName, Reader
from tests.model_resources.library.models import Author, Book, Tag

WORDS = (
    "Invalid cursor. A cursor works only for the same caller and the same arguments. "
    "Repeat the request without a cursor to start from the first page."
)
INVALID_PARAMS = -32602
OLD, NEW = "the old key " * 5, "the new key " * 5


class Books(ModelResource):
    """Books of the library."""

    fields = ("title", "price", "shelf")
    ordering = ("title",)
    search_fields = ("title",)
    ordering_fields = ("price",)
    filterset_fields = ("shelf", "price__lte")
    max_page_size = 2


class Tags(ModelResource):
    fields = ("word",)


@pytest.fixture
def ann(server, reader, books):
    """A client of Ann, who may view all five books, two to a page."""
    register(Book, Books, server=server)
    register(Tag, Tags, server=server)
    server.page_size = 4
    return reader("ann")


def next_of(reader, **arguments):
    return reader.data("search_books", **{"limit": 2, **arguments})["next_cursor"]


def list_cursor(reader):
    """Of ``resources/list``, behind the first of the rows."""
    params = {}
    while True:
        result = reader.request("resources/list", params).result
        params = {"cursor": result["nextCursor"]}
        if any(entry["uri"].startswith("library://book/") for entry in result["resources"]):
            return result["nextCursor"]


def refused(reader, cursor):
    """The error of ``resources/list``."""
    error = reader.request("resources/list", {"cursor": cursor}).error
    assert error["code"] == INVALID_PARAMS
    return error["message"]


def test_a_cursor_goes_on_where_the_page_ended(ann):
    cursor = next_of(ann)
    assert [row["title"] for row in ann.data("search_books", cursor=cursor)["rows"]] == [
        "Night Ferry",
        "Salt",
        "Tides",
    ][:2]


def test_a_cursor_may_be_used_twice_and_with_another_limit(ann):
    cursor = next_of(ann)
    assert (
        ann.data("search_books", cursor=cursor, limit=1)["rows"] == ann.data("search_books", cursor=cursor)["rows"][:1]
    )


def test_neither_a_value_of_a_row_nor_its_length_can_be_read_from_a_cursor(ann):
    lengths = set()
    for title in ("Aaa", "A" * 23):
        Book.objects.filter(slug="salt").update(title=title)
        cursor = next_of(ann, limit=1)
        raw = b"".join(base64.urlsafe_b64decode(part + "===") for part in cursor.split("."))
        for word in (title, "library"):
            assert word.encode() not in raw
            assert word not in cursor
        lengths.add(len(cursor))
    assert len(lengths) == 1


def test_a_cursor_differs_each_time_it_is_given(ann):
    assert next_of(ann) != next_of(ann)


def test_a_cursor_is_good_for_its_caller_alone(ann, reader, people):
    cursor, listed = next_of(ann), list_cursor(ann)
    assert reader("root").problem("search_books", cursor=cursor) == WORDS
    assert refused(reader("root"), listed) == WORDS
    following = ann.read("library://book")["next"]
    assert reader("root").request("resources/read", {"uri": following}).code == INVALID_PARAMS


def test_a_cursor_is_good_for_its_endpoint_alone(ann, make_server, version):
    other = make_server("other", authentication=[ByName()])
    register(Book, Books, server=other)
    elsewhere = Reader(other, version, "view")
    elsewhere.user = "ann"
    assert elsewhere.problem("search_books", cursor=next_of(ann)) == WORDS
    assert refused(elsewhere, list_cursor(ann)) == WORDS


def test_a_cursor_is_good_for_its_question_alone(ann):
    cursor = next_of(ann)
    for changed in (
        {"order_by": "price"},
        {"order_by": "-title"},
        {"shelf": "B"},
        {"price__lte": "9"},
        {"query": "lanterns"},
    ):
        assert ann.problem("search_books", cursor=cursor, **changed) == WORDS, changed


def test_a_cursor_of_a_filtered_search_needs_the_same_filter(ann):
    cursor = next_of(ann, price__lte="20", limit=1)
    assert ann.data("search_books", cursor=cursor, price__lte="20")["rows"]
    assert ann.problem("search_books", cursor=cursor) == WORDS


def test_cursors_of_the_tool_the_list_and_all_resources_are_not_the_same(ann):
    tool, listed = next_of(ann), list_cursor(ann)
    of_list = ann.read("library://book")["next"].partition("cursor=")[2]
    for cursor in (listed, of_list):
        assert ann.problem("search_books", cursor=cursor) == WORDS
    assert ann.problem("search_tags", cursor=tool) == WORDS
    for cursor in (tool, of_list):
        assert refused(ann, cursor) == WORDS
    for cursor in (tool, listed):
        error = ann.request("resources/read", {"uri": f"library://book?cursor={cursor}"}).error
        assert (error["code"], error["message"]) == (INVALID_PARAMS, WORDS)


def test_a_cursor_outlives_a_new_key_as_long_as_the_old_one_is_a_fallback(ann):
    with override_settings(SECRET_KEY=OLD):
        cursor, listed = next_of(ann), list_cursor(ann)
    with override_settings(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=[OLD]):
        assert ann.data("search_books", cursor=cursor)["rows"]
        assert ann.request("resources/list", {"cursor": listed}).result["resources"]
    with override_settings(SECRET_KEY=NEW, SECRET_KEY_FALLBACKS=[]):
        assert ann.problem("search_books", cursor=cursor) == WORDS
        assert refused(ann, listed) == WORDS


def test_a_cursor_from_before_the_site_declared_another_order_is_refused(server, ann):
    of_tool, of_list = next_of(ann), ann.read("library://book")["next"]
    bound = server.model_resources[Book]
    bound.orderings = {**bound.orderings, "": bound.orderings["price"]}
    assert ann.problem("search_books", cursor=of_tool) == WORDS
    error = ann.request("resources/read", {"uri": of_list}).error
    assert (error["code"], error["message"]) == (INVALID_PARAMS, WORDS)


def test_a_cursor_for_rows_that_are_not_listed_any_more_is_refused(server, ann):
    cursor = list_cursor(ann)
    server.model_resources[Book].resource.max_list_size = 0
    assert refused(ann, cursor) == WORDS


def test_nonsense_is_refused_in_the_same_words(ann):
    own = next_of(ann)
    changed = (own[:-1], own[:20], own * 2)
    for cursor in (
        *changed,
        "nonsense",
        "x",
        "a.b.c",
        "....",
        "ü",
        "x" * 4096,
        "%00",
        "\x00",
        "{}",
        "bnVsbA",
        "eyJhIjoxfQ",
    ):
        assert ann.problem("search_books", cursor=cursor) == WORDS, cursor
        assert refused(ann, cursor) == WORDS, cursor
        answer = ann.request("resources/read", {"uri": f"library://book?cursor={cursor}"})
        if cursor in {"ü", "\x00"}:  # which no header holds as they are
            assert answer.error, cursor
        else:
            assert (answer.error["code"], answer.error["message"]) == (INVALID_PARAMS, WORDS), cursor


def test_a_cursor_that_is_no_text_is_refused(ann):
    for cursor in (1, ["a"], {"a": 1}, True):
        assert "cursor" in refused(ann, cursor)
        assert "cursor" in ann.problem("search_books", cursor=cursor)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_an_altered_cursor_is_refused(server, books, data):
    if Book not in server.model_resources:
        register(Book, Books, server=server)
    ann = Reader(server, MODERN, "view")
    ann.user = "ann"
    cursor = next_of(ann)
    at = data.draw(st.integers(0, len(cursor) - 1))
    altered = cursor[:at] + data.draw(st.sampled_from("Az09-_.")) + cursor[at + 1 :]
    # The last letter of a part may have bits to spare, so that another one says the same.
    if altered != cursor and cursor[at + 1 : at + 2] not in {"", "."}:
        assert ann.problem("search_books", cursor=altered) == WORDS


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=1), min_size=1))
def test_the_longest_text_fits_into_a_cursor(server, books, letters):
    """A cursor goes into a URI, and that into a header."""
    if Book not in server.model_resources:
        declared = {"fields": ["title", "summary", "author__name"], "ordering": ["summary", "title", "author__name"]}
        register(Book, type("Long", (ModelResource,), declared), server=server)
    ann = Reader(server, MODERN, "view")
    ann.user = "ann"
    text = ("".join(letters) * 1000)[:1000] or "a"
    Book.objects.update(summary=text, title=text[:200])
    Author.objects.update(name=text[:100])
    cursor = next_of(ann)
    assert len(cursor) <= 4096
    assert len(ann.data("search_books", cursor=cursor)["rows"]) == 3
