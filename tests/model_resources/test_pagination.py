"""The order of rows, and going on behind one of them; ``test_pagination_properties`` has all the rest."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import F, QuerySet
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_mcp import ModelResource, register
from tests.model_resources.conftest import registering
from tests.model_resources.library.models import Author, Book, Publisher

pytestmark = pytest.mark.postgresql


def offer(server, **attributes: Any) -> None:
    declared = {"fields": ["title", "slug"], "view_permission": None, "filter_only_fields": FINDABLE, **attributes}
    register(Book, type("Books", (ModelResource,), declared), server=server)


PK_ORDER = ["Salt", "Tides", "Night Ferry", "Lanterns", "Foghorn"]
FINDABLE = ["author", "author__name", "author__born", "price", "weight", "published", "added", "summary", "shelf"]


def titles(reader, limit=1, **arguments):
    """Of all rows, read page by page."""
    found, following = [], {}
    for _ in range(30):
        page = reader.data("search_books", limit=limit, **following, **arguments)
        found += [row["title"] for row in page["rows"]]
        if page["next_cursor"] is None:
            return found
        following = {"cursor": page["next_cursor"]}
    raise AssertionError("the pages do not end")


def give(books, name, values):
    for book, value in zip(books, values, strict=True):
        Book.objects.filter(pk=book.pk).update(**{name: value})


def test_rows_with_nothing_come_last_and_with_the_largest_first_they_come_first(server, reader, books):
    give(books, "published", ["2026-03-01", "2026-01-01", None, None, "2026-02-01"])
    orders = [
        (["published"], ["Tides", "Foghorn", "Salt", "Night Ferry", "Lanterns"]),
        (["-published"], ["Lanterns", "Night Ferry", "Salt", "Foghorn", "Tides"]),
        (["-published", "pk"], ["Night Ferry", "Lanterns", "Salt", "Foghorn", "Tides"]),
    ]
    for order, expected in orders:
        with registering(server):
            offer(server, ordering=order)
            assert [titles(reader(), limit) for limit in (1, 2, 5)] == [expected] * 3, order


def test_several_keys_may_go_in_different_directions(server, reader, books):
    offer(server, ordering=["-shelf", "price"])
    expected = ["Lanterns", "Foghorn", "Tides", "Night Ferry", "Salt"]
    assert [titles(reader(), limit) for limit in (1, 2, 5)] == [expected] * 3


@pytest.mark.parametrize(
    ("ordering", "declared", "expected"),
    [
        (["-shelf", "title"], {}, ["Foghorn", "Lanterns", "Night Ferry", "Tides", "Salt"]),
        (["-title"], {"ordering": ["title"]}, ["Foghorn", "Lanterns", "Night Ferry", "Salt", "Tides"]),
        # What is not shown, or no column of the model, decides nothing.
        (["internal"], {}, PK_ORDER),
        (["-author", "title"], {}, PK_ORDER),
        ([F("title").desc()], {}, PK_ORDER),
        (["?"], {}, PK_ORDER),
    ],
)
def test_the_models_own_ordering_is_the_default(server, reader, books, monkeypatch, ordering, declared, expected):
    give(books, "shelf", ["A", "B", "B", "C", "C"])
    give(books, "internal", ["5", "4", "3", "2", "1"])
    monkeypatch.setattr(Book._meta, "ordering", ordering)
    offer(server, **declared)
    assert [titles(reader(), limit) for limit in (1, 2, 5)] == [expected] * 3
    assert [row["title"] for row in reader().read("library://book")["rows"]] == expected


def test_a_row_that_is_inserted_before_the_place_is_not_given_and_moves_none(server, reader, books):
    offer(server, ordering=["title"])
    page = reader().data("search_books", limit=2)
    Book.objects.create(title="Aground", slug="aground", author=books[0].author)
    Book.objects.create(title="Zinc", slug="zinc", author=books[0].author)
    rest = reader().data("search_books", cursor=page["next_cursor"])
    assert [row["title"] for row in rest["rows"]] == ["Night Ferry", "Salt", "Tides", "Zinc"]


def test_the_row_a_cursor_stands_behind_may_be_deleted(server, reader, books):
    offer(server, ordering=["title"])
    page = reader().data("search_books", limit=2)
    Book.objects.filter(title="Lanterns").delete()
    rest = reader().data("search_books", cursor=page["next_cursor"])
    assert [row["title"] for row in rest["rows"]] == ["Night Ferry", "Salt", "Tides"]


@pytest.mark.parametrize("order", ["price", "-price"])
def test_a_price_with_more_digits_than_its_column_shows_comes_once(server, reader, books, order):
    """SQLite keeps what an expression gives, and Django rounds it when it is read."""
    offer(server, ordering=[order])
    Book.objects.update(price=F("price") * Decimal("1.0375"))
    assert sorted(titles(reader())) == sorted(book.title for book in books)


@pytest.mark.parametrize("order", ["weight", "-weight"])
def test_a_weight_without_end_comes_once(server, reader, books, order):
    offer(server, ordering=[order])
    give(books, "weight", [math.inf, -math.inf, 1.0, math.inf, 0.1 + 2**-55])
    found = titles(reader())
    ascending = ["Tides", "Foghorn", "Night Ferry", "Salt", "Lanterns"]
    assert found == (ascending if order == "weight" else ascending[::-1])


def test_texts_too_long_for_a_cursor_are_sorted_by_how_they_begin(server, reader, books):
    offer(server, ordering=["summary"])
    give(books, "summary", ["b" * 5000, "a" * 5000, "a" * 5000 + "b", "c" * 5000, "a" * 5000])
    assert titles(reader()) == ["Tides", "Night Ferry", "Foghorn", "Salt", "Lanterns"]


@pytest.mark.parametrize("order", ["added", "-added"])
@pytest.mark.parametrize("is_aware", [True, False])
def test_moments_of_the_hour_that_comes_twice_are_told_apart(server, reader, books, order, is_aware):
    offer(server, ordering=[order])
    first = datetime.datetime(2026, 10, 25, 0, 30, tzinfo=datetime.UTC)
    moments = [first + datetime.timedelta(minutes=20 * at) for at in range(5)]
    give(books, "added", moments)
    with override_settings(TIME_ZONE="Europe/Berlin", USE_TZ=is_aware):
        found = titles(reader())
    assert found == [book.title for book in (books if order == "added" else books[::-1])]


def test_where_a_row_stands_tells_nothing_of_an_author_who_is_hidden(server, reader, books):
    class Authors(ModelResource):
        fields = ("name",)
        view_permission = None

        def get_queryset(self, ctx):
            return Author.objects.exclude(name="Anna Berg")

    register(Author, Authors, server=server)
    offer(server, ordering_fields=["author__name", "author"])
    for way in ("author__name", "author"):
        before = titles(reader(), order_by=way)
        assert before[-2:] == ["Salt", "Tides"]
        assert titles(reader(), order_by=f"-{way}")[:2] == ["Tides", "Salt"]


def test_a_row_that_a_join_repeats_is_shown_and_counted_once(server, reader, books):
    def get_queryset(self: Any, ctx: Any) -> Any:
        return Book.objects.filter(tags__word__in=["sea", "night"])

    offer(server, get_queryset=get_queryset)
    page = reader().data("search_books")
    assert ([row["title"] for row in page["rows"]], page["total"]) == (["Salt", "Night Ferry"], 2)
    assert [row["title"] for row in reader().read("library://book")["rows"]] == ["Salt", "Night Ferry"]


def test_a_site_may_cut_its_rows(server, reader, books):
    def get_queryset(self: Any, ctx: Any) -> Any:
        return Book.objects.order_by("-price")[:3]

    offer(server, get_queryset=get_queryset, ordering=["title"])
    assert titles(reader()) == ["Foghorn", "Night Ferry", "Salt"]


def reading(queries):
    """What reads books."""
    return [query["sql"] for query in queries if 'FROM "library_book"' in query["sql"] and "COUNT(" not in query["sql"]]


def test_a_deep_page_reads_no_more_rows_than_the_first(server, reader, books):
    offer(server, ordering=["slug"])
    following = {}
    for _ in range(4):
        with CaptureQueriesContext(connection) as queries:
            page = reader().data("search_books", limit=1, **following)
        assert 1 <= len(reading(queries)) <= 2, "one for each key at most"
        for sql in reading(queries):
            assert int(sql.rpartition("LIMIT ")[2]) <= 2
            assert "OFFSET" not in sql
        following = {"cursor": page["next_cursor"]}


@pytest.mark.parametrize("order", ["slug", "-slug"])
def test_a_place_is_found_with_an_index(server, reader, books, order):
    offer(server, ordering_fields=["slug"])
    author = books[0].author
    Book.objects.bulk_create(Book(title=f"{at}", slug=f"more-{at:03}", author=author) for at in range(300))
    page = reader().data("search_books", limit=20, order_by=order)
    with CaptureQueriesContext(connection) as queries:
        reader().data("search_books", limit=20, order_by=order, cursor=page["next_cursor"])
    for sql in reading(queries):
        with connection.cursor() as cursor:
            if connection.vendor == "sqlite":
                cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
                plan = str(cursor.fetchall())
                assert "SEARCH library_book USING INDEX" in plan
                assert "slug" in plan
            else:
                cursor.execute("SET LOCAL enable_seqscan = off")
                cursor.execute("SET LOCAL enable_bitmapscan = off")
                cursor.execute(f"EXPLAIN {sql}")
                plan = str(cursor.fetchall())
                assert "slug" in plan.partition("Index Cond")[2].partition("Filter")[0]


def test_paging_over_a_relation_takes_as_many_queries_however_many_rows_there_are(server, reader, books):
    house = Publisher.objects.create(name="Other")
    Author.objects.filter(publisher=None).update(publisher=house)
    offer(server, fields=["title", "slug", "author__publisher__name"], ordering=["author__publisher__name"])
    taken = []
    for _ in range(2):
        cursor = reader().data("search_books", limit=2)["next_cursor"]
        with CaptureQueriesContext(connection) as queries:
            assert len(reader().data("search_books", limit=2, cursor=cursor)["rows"]) == 2
        taken.append(len(queries))
        for at in range(30):
            author = books[at % 5].author
            Book.objects.create(title=f"{at}", slug=f"more-{len(taken)}-{at}", author=author)
    assert taken[1] <= taken[0] <= 3


class OldPolymorphic(QuerySet):
    """Reads filters as django-polymorphic 4.1 does, which knows names and ``Q`` in them, and no expressions."""

    def _filter_or_exclude(self, negate: bool, args: Any, kwargs: Any) -> Any:
        def look(condition: Any) -> None:
            for child in condition.children:
                if not isinstance(child, tuple):
                    look(child)

        for condition in args:
            look(condition)
        return super()._filter_or_exclude(negate, args, kwargs)


@pytest.mark.parametrize("order", ["price", "-price", "published", "-published", "author__name"])
def test_querysets_that_know_no_expressions_in_filters_are_read_to_the_end(server, reader, books, order):
    offer(
        server,
        get_queryset=lambda self, ctx: OldPolymorphic(Book),
        ordering_fields=["price", "published", "author__name"],
        ordering=["price", "title"],
    )
    assert sorted(titles(reader(), order_by=order)) == sorted(PK_ORDER)
