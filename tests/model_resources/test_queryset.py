"""Each call makes a number of queries that is known, and the same however many rows there are.

All of them are counted: of the user, of what the user may do, of the rows and of what is shown of other models.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp import Context, MCPServer, ModelResource, register
from django_mcp.model_resources import queryset
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Publisher, Review, Tag

pytestmark = pytest.mark.postgresql
CALLER = 3
"""Queries to learn who calls and what they may do: the user, their permissions, those of their groups."""
ROW = "library://book/book-00"


class Call(NamedTuple):
    """A call, and its queries besides those to learn who calls."""

    queries: int
    make: Callable[[Reader], Any]


def complete(reader: Reader) -> list[str]:
    ref = {"type": "ref/resource", "uri": "library://book/{slug}{?format}"}
    params = {"ref": ref, "argument": {"name": "slug", "value": "book"}}
    return reader.request("completion/complete", params).result["completion"]["values"]


def found(reader: Reader, **arguments: Any) -> list[dict[str, Any]]:
    return reader.data("search_books", **{"limit": 50, **arguments})["rows"]


CALLS: Mapping[str, Call] = {
    # Rows with their authors and owners; and one query each for their tags, reviews and publishers.
    "resources/read of a row": Call(4, lambda reader: reader.read(ROW)),
    "resources/read as Markdown": Call(4, lambda reader: reader.contents(f"{ROW}?format=markdown")),
    "get": Call(4, lambda reader: reader.data("get_book", slug="book-00")),
    "resources/read of a list": Call(4, lambda reader: reader.read("library://book")),
    "search without anything": Call(4, found),
    "search by words in a set": Call(4, lambda reader: found(reader, query="tag")),
    "search by a guarded path": Call(4, lambda reader: found(reader, author__publisher__name="House")),
    "search by a guarded set": Call(4, lambda reader: found(reader, reviews__stars=4)),
    "search in a guarded order": Call(4, lambda reader: found(reader, order_by="author__publisher__name")),
    "resources/read of a text": Call(1, lambda reader: reader.contents(f"{ROW}/text")),
    "aggregate": Call(1, lambda reader: reader.data("aggregate_books", measures=["count", "avg_price"])),
    "aggregate by a guarded path": Call(
        1, lambda reader: reader.data("aggregate_books", by=["author__publisher__name", "binding"])
    ),
    "completion": Call(1, complete),
    "resources/list": Call(5, lambda reader: reader.request("resources/list").result),
    "resources/read of the schema": Call(0, lambda reader: reader.read("schema://library/book")),
    "tools/list": Call(0, lambda reader: reader.list("tools/list")),
    "resources/templates/list": Call(0, lambda reader: reader.list("resources/templates/list")),
}


def declare(server: MCPServer) -> None:
    """Books with relations of every kind: to rows that all exist, to guarded ones, and to a model that is not shown."""

    @register(Publisher, server=server)
    class Publishers(ModelResource):
        fields = ["name"]

        def get_queryset(self, ctx):
            return super().get_queryset(ctx).exclude(name="Hidden House")

    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ["name", "publisher"]
        title_field = "name"

    @register(Tag, server=server)
    class Tags(ModelResource):
        fields = ["word"]

    @register(Review, server=server)
    class Reviews(ModelResource):
        fields = ["text", "stars"]

        def get_queryset(self, ctx):
            return super().get_queryset(ctx).filter(is_public=True)

    @register(Book, server=server)
    class Books(ModelResource):
        fields = [
            "title", "text", "price", "binding", "author", "author__name", "author__publisher", "owner__username",
            "author__publisher__name", "tags", "tags__word", "reviews", "reviews__stars",
        ]  # fmt: skip
        list_fields = fields
        lookup_field = "slug"
        title_field = "title"
        content_fields = {"text": "text/markdown"}
        search_fields = ["title", "author__publisher__name", "tags__word"]
        filterset_fields = ["author__publisher__name", "reviews__stars", "binding"]
        ordering_fields = ["author__publisher__name", "price"]
        aggregates = {"price": ["avg"]}
        group_by_fields = ["author__publisher__name", "binding"]


def write(numbers: range, owner: User) -> None:
    """Books with authors, publishers, tags and reviews of their own, some of which are not to be seen."""
    for number in numbers:
        house = Publisher.objects.create(name="Hidden House" if number % 3 == 1 else "House")
        author = Author.objects.create(name=f"Author {number}", publisher=house)
        slug = f"book-{number:02}"
        book = Book.objects.create(title=f"Book {number}", slug=slug, author=author, owner=owner, text="Once.")
        book.tags.set([Tag.objects.create(word=f"tag-{number}-{at}") for at in range(2)])
        Review.objects.bulk_create(Review(book=book, text="Fine.", stars=4, is_public=at > 0) for at in range(3))


def queries(make: Callable[[Reader], Any], reader: Reader) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        make(reader)
    return [each["sql"] for each in captured.captured_queries]


def test_a_call_makes_as_many_queries_for_one_row_as_for_thirty(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    declare(server)
    ann = reader("ann")
    write(range(1), people["ann"])
    of_one = {name: len(queries(call.make, ann)) for name, call in CALLS.items()}
    write(range(1, 30), people["ann"])
    of_thirty = {name: queries(call.make, ann) for name, call in CALLS.items()}
    assert of_one == {name: CALLER + call.queries for name, call in CALLS.items()}
    wrong = {name: made for name, made in of_thirty.items() if len(made) != of_one[name]}
    assert wrong == {}


def test_only_the_first_page_of_a_search_counts_what_there_is_and_only_where_there_are_more_pages(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    declare(server)
    ann = reader("ann")
    write(range(30), people["ann"])
    first = ann.data("search_books", limit=10)
    assert first["total"] == 30
    second = ann.data("search_books", limit=10, cursor=first["next_cursor"])

    def page(**arguments: Any) -> int:
        return len(queries(lambda reader: reader.data("search_books", limit=10, **arguments), ann))

    assert page() == CALLER + 5
    assert page(cursor=first["next_cursor"]) == CALLER + 4
    assert page(cursor=second["next_cursor"]) == CALLER + 4


def test_a_page_may_take_one_query_more_where_rows_with_a_value_end_and_one_where_those_without_begin(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    declare(server)
    ann = reader("ann")
    write(range(30), people["ann"])
    for order, more in (("price", 1), ("-price", 1), ("author__publisher__name", 2)):
        arguments = {"limit": 7, "order_by": order}
        made = []
        while cursor := ann.data("search_books", **arguments)["next_cursor"]:
            arguments["cursor"] = cursor
            made.append(len(queries(lambda reader, given=arguments: reader.data("search_books", **given), ann)))
        assert len(made) == 4, order
        assert min(made) == CALLER + 4, order
        assert max(made) <= CALLER + 4 + more, order


def test_asking_about_each_row_takes_no_query_more_for_thirty_rows(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ["name", "books"]
        object_permissions = True

        def has_view_permission(self, ctx, obj=None):
            return obj is None or obj.pk % 2 == 1

    @register(Book, server=server)
    class Books(ModelResource):
        fields = ["title", "author"]
        object_permissions = True

        def has_view_permission(self, ctx, obj=None):
            return obj is None or obj.pk % 2 == 1

    ann, user = reader("ann"), 1
    for numbers in (range(1), range(1, 30)):
        write(numbers, people["ann"])
        assert len(queries(lambda reader: reader.data("search_books", limit=50), ann)) == user + 2
        assert len(queries(lambda reader: reader.data("search_authors", limit=50), ann)) == user + 1
        assert len(queries(lambda reader: reader.request("resources/list").result, ann)) == user + 2
    assert len(ann.data("search_books", limit=50)["rows"]) == 15


def test_a_question_about_each_row_that_follows_a_declared_relation_takes_no_query_of_its_own(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    @register(Book, server=server)
    class Books(ModelResource):
        fields = ["title"]
        select_related = ["author"]

        def has_view_permission(self, ctx, obj=None):
            return obj is None or obj.author.name != ""

    ann, counts = reader("ann"), []
    for numbers in (range(1), range(1, 30)):
        write(numbers, people["ann"])
        counts.append(
            [
                len(queries(lambda reader: reader.data("search_books", limit=50), ann)),
                len(queries(lambda reader: reader.request("resources/list").result, ann)),
            ]
        )
    assert counts[0] == counts[1]


def plans(statements: list[str], table: str) -> list[str]:
    """How the database goes about those of *statements* that read *table*, in words of its own."""
    explain = "EXPLAIN QUERY PLAN" if connection.vendor == "sqlite" else "EXPLAIN"
    found = []
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET LOCAL enable_seqscan = off")  # or a table as short as this would not need an index
        for statement in statements:
            if f'FROM "{table}"' in statement:
                cursor.execute(f"{explain} {statement.replace('%', '%%')}", [])
                found.append("\n".join(str(row[-1]) for row in cursor.fetchall()))
    return found


INDEXED = {"sqlite": r"SEARCH library_book USING .*\({0}[=>]", "postgresql": r"Index Cond: \(.*{0}.* ~?>"}


def is_found_in_index(plan: str, column: str) -> bool:
    """Whether rows are looked up, instead of going through an index from its beginning, or through the table."""
    return re.search(INDEXED[connection.vendor].format(column), plan) is not None


def test_a_page_far_down_begins_at_a_place_in_the_index(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    @register(Book, server=server)
    class Books(ModelResource):
        fields = ["title", "slug", "owner"]
        ordering_fields = ["slug", "owner"]

    ann = reader("ann")
    write(range(30), people["ann"])
    for order, column in (("slug", "slug"), ("owner", "owner_id"), (None, "(id|rowid)")):
        given = {"limit": 10, "order_by": order}
        given["cursor"] = ann.data("search_books", **given)["next_cursor"]
        made = queries(lambda reader, given=given: reader.data("search_books", **given), ann)
        read = plans(made, "library_book")
        assert read, order
        assert all(is_found_in_index(plan, column) for plan in read), (order, read)


def test_completing_looks_into_the_index(
    server: MCPServer, reader: Callable[..., Reader], people: Mapping[str, User]
) -> None:
    declare(server)
    write(range(30), people["ann"])
    (plan,) = plans(queries(complete, reader("ann")), "library_book")
    assert is_found_in_index(plan, "slug"), plan


@pytest.mark.parametrize("most", [1000, 1])
def test_full_text_search_finds_the_same_whether_it_takes_rows_by_their_keys_or_not(
    most: int,
    server: MCPServer,
    reader: Callable[..., Reader],
    people: Mapping[str, User],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(queryset, "FEW", most)

    @register(Book, server=server)
    class Books(ModelResource):
        fields = ["title", "summary"]
        search_fields = ["@summary"]
        search_config = "english"

        def get_queryset(self, ctx):
            return super().get_queryset(ctx).exclude(title="Book 3")

    write(range(7), people["ann"])
    Book.objects.filter(title__in=["Book 1", "Book 3", "Book 4", "Book 6"]).update(summary="Ships and the sea")
    ann = reader("ann")
    first = ann.data("search_books", query="sea ships", limit=2)
    assert [row["title"] for row in first["rows"]] == ["Book 1", "Book 4"]
    assert first["total"] == 3
    second = ann.data("search_books", query="sea ships", limit=2, cursor=first["next_cursor"])
    assert [row["title"] for row in second["rows"]] == ["Book 6"]
    assert ann.data("search_books", query="mountains")["rows"] == []


@pytest.mark.parametrize("narrowed", [False, True])
def test_of_linked_rows_nothing_is_read_but_what_is_shown(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], narrowed: bool
) -> None:
    def authors(self: Any, ctx: Context) -> Any:
        return Author.objects.exclude(name="nobody")

    who = {"fields": ["name", "books", "books__pages"], "title_field": "name", "view_permission": None}
    what = {"fields": ["title", "author", "author__publisher__name", "owner"], "view_permission": None}
    if narrowed:
        who["get_queryset"] = authors
    register(Author, type("Authors", (ModelResource,), who), server=server)
    register(Book, type("Books", (ModelResource,), {**what, "title_field": "title"}), server=server)
    with CaptureQueriesContext(connection) as searching_books:
        row = reader().data("search_books")["rows"][0]
    with CaptureQueriesContext(connection) as getting_author:
        shown = reader().data("get_author", pk=books[0].author_id)
    assert row["author"]["title"] == "Anna Berg"
    assert row["author__publisher__name"] == "Harbour House"
    assert shown["books__pages"] == [210, 90]
    assert [each["title"] for each in shown["books"]] == ["Salt", "Tides"]
    read = " ".join(each["sql"].partition(" FROM ")[0] for each in searching_books)
    assert '"library_author"."name"' in read
    assert '"library_author"."email"' not in read
    assert '"library_publisher"."secret_terms"' not in read
    assert '"library_book"."internal"' not in " ".join(each["sql"].partition(" FROM ")[0] for each in getting_author)
    assert len([each for each in searching_books if "library_" in each["sql"]]) == 1 + 2 * narrowed


def test_a_page_in_which_nothing_is_visible_asks_about_no_more_rows_than_a_page_may_have_twice(
    server: MCPServer, reader: Callable[..., Reader], db: None
) -> None:
    Tag.objects.bulk_create([Tag(word=f"tag-{number}") for number in range(450)])
    asked: list[int] = []

    def none_of_them(self: Any, ctx: Any, obj: Any = None) -> bool:
        if obj is not None:
            asked.append(obj.pk)
        return obj is None or obj.word == "tag-449"

    attributes = {"fields": ["word"], "has_view_permission": none_of_them, "max_list_size": 0}
    register(Tag, type("Tags", (ModelResource,), attributes), server=server)
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        before = len(asked)
        page = reader().data("search_tags", **({} if cursor is None else {"cursor": cursor}))
        assert len(asked) - before <= 200
        found += page["rows"]
        if (cursor := page["next_cursor"]) is None:
            break
    assert [row["word"] for row in found] == ["tag-449"]
    assert len(asked) == 450
