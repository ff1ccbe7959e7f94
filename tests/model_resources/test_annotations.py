"""Values that the database works out for each row, declared like columns."""

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import (
    Avg,
    Count,
    DecimalField,
    Exists,
    F,
    IntegerField,
    Max,
    OuterRef,
    Q,
    QuerySet,
    Sum,
    Value,
    Window,
)
from django.db.models.functions import Coalesce, Concat, RowNumber, Upper

from django_mcp import Context, MCPServer, ModelResource, register, tool
from django_mcp.model_resources.checks import found_problems
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Author, Book, Tag

pytestmark = pytest.mark.postgresql

Readers = Callable[..., Reader]


def offer(server: MCPServer, model: Any, **attributes: Any) -> None:
    register(model, type("Offered", (ModelResource,), {"view_permission": None, **attributes}), server=server)


def problems() -> list[str]:
    return [f"{problem.id} {problem.msg}" for problem in found_problems()]


def declared(client: Reader, name: str) -> dict[str, Any]:
    (found,) = [each for each in client.list("tools/list") if each["name"] == name]
    return found


def pages(client: Reader, name: str, column: str, limit: int, **arguments: Any) -> list[Any]:
    """The values of a column in all rows, read page by page."""
    found, following = [], {}
    for _ in range(30):
        page = client.data(name, limit=limit, **following, **arguments)
        found += [row[column] for row in page["rows"]]
        if page["next_cursor"] is None:
            return found
        following = {"cursor": page["next_cursor"]}
    raise AssertionError("the pages do not end")


def test_an_annotation_is_shown_filtered_searched_and_sorted_by_like_a_column(
    server: MCPServer, books: list[Book], reader: Readers
) -> None:
    offer(server, Book, fields=["title"])
    offer(
        server,
        Author,
        fields=["name", "written", "loud"],
        annotations={"written": Count("books"), "loud": Upper("name")},
        filterset_fields=["written", "written__gte", "loud"],
        search_fields=["loud"],
        ordering=["-written"],
        lookup_field="pk",
    )
    assert problems() == []
    author = declared(reader(), "search_authors")
    assert author["outputSchema"]["properties"]["rows"]["items"]["properties"]["written"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}]
    }
    assert set(author["inputSchema"]["properties"]) >= {"query", "written", "written__gte", "loud", "order_by"}
    found = reader().data("search_authors")["rows"]
    assert [(row["name"], row["written"], row["loud"]) for row in found] == [
        ("Carl Dahl", 3, "CARL DAHL"),
        ("Anna Berg", 2, "ANNA BERG"),
    ]
    for arguments in ({"written": 2}, {"loud": "ANNA BERG"}, {"query": "anna BERG"}):
        assert [row["name"] for row in reader().data("search_authors", **arguments)["rows"]] == ["Anna Berg"]
    assert reader().data("search_authors", written__gte=4)["rows"] == []
    assert [row["written"] for row in reader().data("search_authors", order_by="written")["rows"]] == [2, 3]
    anna = Author.objects.get(name="Anna Berg")
    assert reader().data("get_author", pk=anna.pk)["written"] == 2
    assert reader().read(f"library://author/{anna.pk}")["written"] == 2
    assert "2" in reader().contents(f"library://author/{anna.pk}?format=markdown")["text"]


DECIMALS: list[tuple[Any, str]] = [
    (Sum("books__price"), "43.00"),
    (Max("books__price"), "21.00"),
    (Sum("books__price", output_field=DecimalField(max_digits=9, decimal_places=4)), "43.0000"),
    (
        Sum(F("books__price") * Value(Decimal("0.333")), output_field=DecimalField(max_digits=9, decimal_places=2)),
        "14.32",
    ),
    (Avg("books__price", filter=Q(books__slug="foghorn")), "21"),  # a mean has no declared places
    (Sum("books__price") * 100, "4300"),
]


@pytest.mark.parametrize(("expression", "text"), DECIMALS)
def test_a_decimal_has_the_places_of_its_field_on_every_database(
    server: MCPServer, books: list[Book], reader: Readers, expression: Any, text: str
) -> None:
    offer(server, Author, fields=["name", "value"], annotations={"value": expression}, ordering=["value"])
    assert problems() == []
    carl = Author.objects.get(name="Carl Dahl")
    assert reader().data("get_author", pk=carl.pk)["value"] == text
    assert text in [row["value"] for row in reader().data("search_authors")["rows"]]


ORDERS: dict[str, Any] = {
    "a count": Count("tags"),
    "a sum of more than its column holds": Sum(F("pages") * 1000),
    "a sum of decimals": Sum("price"),
    "a mean with more places than its column": Avg(F("price") / 3),
    "nothing for some": Max("tags__word"),
    "a text longer than its columns": Concat("title", Value("-" * 300), "title"),
    "a date": Max("published"),
    "a truth": Exists(Book.tags.through.objects.filter(book=OuterRef("pk"))),
    "a default": Coalesce(Sum("tags__pk"), 0),
}


@pytest.mark.parametrize("order", ["value", "-value"])
@pytest.mark.parametrize("kind", ORDERS)
def test_pages_in_the_order_of_an_annotation_have_every_row_once(
    server: MCPServer, books: list[Book], reader: Readers, kind: str, order: str
) -> None:
    words = [Tag.objects.create(word=word) for word in ("fish", "ice", "moon")]
    for at, book in enumerate(books):
        book.tags.set(words[: at % 4])
        Book.objects.filter(pk=book.pk).update(published=datetime.date(2026, 1, 1 + at % 2) if at else None)
    for name, column in (("title", "title"), ("value", "value")):
        with registering(server):
            offer(server, Book, fields=["title", "value"], annotations={"value": ORDERS[kind]}, ordering=[order])
            assert problems() == []
            whole = [row[column] for row in reader().data("search_books", limit=50)["rows"]]
            assert len(whole) == 5
            assert [pages(reader(), "search_books", column, limit) for limit in (1, 2, 3)] == [whole] * 3, name


def test_groups_are_those_of_the_rows_that_a_filter_by_an_annotation_leaves(
    server: MCPServer, books: list[Book], reader: Readers
) -> None:
    books[1].tags.set(Tag.objects.all())
    offer(
        server,
        Book,
        fields=["title", "shelf", "price", "words"],
        annotations={"words": Count("tags")},
        filterset_fields=["words__gte"],
        aggregates={"price": ["sum"]},
        group_by_fields=["shelf"],
    )
    found = reader().data("aggregate_books", measures=["count", "sum_price"], by=["shelf"], words__gte=2)
    assert found["groups"] == [
        {"shelf": "B", "count": 2, "sum_price": "24.90"},
    ]


def test_what_get_queryset_annotates_for_the_caller_is_taken_by_its_declared_type(
    server: MCPServer, books: list[Book], reader: Readers
) -> None:
    class Authors(ModelResource):
        fields = ("name", "mine")
        annotations = {"mine": IntegerField()}
        ordering = ("-mine",)
        filterset_fields = ("mine",)
        view_permission = None

        def get_queryset(self, ctx: Context) -> QuerySet[Any]:
            owned = Q(books__owner=ctx.user if ctx.user.is_authenticated else None)
            return super().get_queryset(ctx).annotate(mine=Count("books", filter=owned))

    register(Author, Authors, server=server)
    assert problems() == []
    rows = reader("ann").data("search_authors")["rows"]
    assert [(row["name"], row["mine"]) for row in rows] == [("Anna Berg", 1), ("Carl Dahl", 0)]
    assert [row["name"] for row in reader("ann").data("search_authors", mine=0)["rows"]] == ["Carl Dahl"]
    assert pages(reader("ann"), "search_authors", "name", 1) == ["Anna Berg", "Carl Dahl"]


def test_what_is_declared_to_be_annotated_and_is_not_is_a_fault_of_the_site_and_named_in_its_log(
    server: MCPServer, books: list[Book], reader: Readers, caplog: pytest.LogCaptureFixture
) -> None:
    offer(server, Author, fields=["name", "mine"], annotations={"mine": IntegerField()})
    assert "Internal server error" in reader().problem("search_authors")
    assert "get_queryset does not annotate 'mine'" in caplog.text


def test_a_caller_who_may_not_view_the_rows_that_are_counted_reads_no_count(
    server: MCPServer, books: list[Book], reader: Readers
) -> None:
    offer(server, Book, fields=["title"], view_permission="library.view_book")
    offer(
        server,
        Author,
        fields=["name", "written"],
        annotations={"written": Count("books")},
        filterset_fields=["written__gte"],
        ordering=["-written"],
    )
    assert [row["written"] for row in reader("ann").data("search_authors")["rows"]] == [3, 2]
    hidden = reader("bob")
    assert [(row["name"], row["written"]) for row in hidden.data("search_authors")["rows"]] == [
        ("Carl Dahl", None),
        ("Anna Berg", None),
    ]
    assert hidden.data("search_authors", written__gte=0)["rows"] == []
    assert pages(hidden, "search_authors", "name", 1) == ["Carl Dahl", "Anna Berg"]


class Hiding(ModelResource):
    fields = ("title",)

    def get_queryset(self, ctx: Context) -> QuerySet[Any]:
        return super().get_queryset(ctx).filter(owner=ctx.user)


@pytest.mark.parametrize(
    ("annotations", "more", "words"),
    [
        ({"n": Count("nosuch")}, {}, "E022 .*annotations: 'n' cannot be computed: Cannot resolve keyword 'nosuch'"),
        ({"n": 5}, {}, "E022 .*'n' cannot be computed: .*non-expression"),
        ({"n": Sum("born") + Sum("name")}, {}, "E022 .*'n' cannot be computed: "),
        ({"name": Count("pk")}, {}, "E022 .*'name' contains '__', or is already an attribute of library.Author"),
        ({"n__x": Count("pk")}, {}, "E022 .*'n__x' contains '__', or is already an attribute"),
        ({"n": F("books__raw")}, {}, "E022 .*'n' is a BinaryField, which is not supported"),
        ({"n": Window(RowNumber())}, {}, "E022 .*'n' is a Window, which is not supported"),
        ({"n": Max("born")}, {"modified_field": "n"}, "E072 .*modified_field 'n' must be a column of the model"),
        ({"n": Count("pk")}, {"aggregates": {}, "group_by_fields": ["n"]}, "E022 .*has no field 'n'"),
        ({"n": Count("pk")}, {"fields": ["name"], "ordering": ["n"]}, "E024 .*'n' in ordering is not in fields"),
        ({"n": Count("books")}, {}, "E074 .*'n' in annotations would reveal hidden rows of library.Book"),
    ],
)
def test_an_annotation_that_cannot_be_is_found_at_the_start(
    server: MCPServer, annotations: Any, more: dict[str, Any], words: str
) -> None:
    register(Book, Hiding, server=server)
    offer(server, Author, **{"fields": ["name", "n"], "annotations": annotations, **more})
    (problem,) = problems()
    assert re.search(words, problem), problem


def test_the_hint_for_an_annotation_that_would_reveal_rows_names_its_type(server: MCPServer) -> None:
    register(Book, Hiding, server=server)
    offer(server, Author, fields=["name", "n"], annotations={"n": Max("books__published")})
    (problem,) = found_problems()
    assert problem.hint is not None
    assert problem.hint.endswith("annotations = {'n': models.DateField()}.")


def test_a_row_with_an_annotation_is_written_linked_and_given_by_tools(
    server: MCPServer, books: list[Book], reader: Readers
) -> None:
    offer(
        server,
        Author,
        fields=["name", "written"],
        title_field="name",
        annotations={"written": Count("books")},
        actions=["create", "update", "delete"],
        writable_fields=["name"],
        add_permission=None,
        change_permission=None,
        delete_permission=None,
    )
    offer(server, Book, fields=["title", "author"])

    @tool(server=server, read_only=True)
    def busiest() -> Author:
        """The author of most books."""
        return Author.objects.get(name="Carl Dahl")

    ann = reader("ann")
    assert ann.data("busiest")["written"] == 3
    assert ann.data("search_books", limit=1)["rows"][0]["author"]["title"] == "Anna Berg"
    made = ann.data("create_author", name="New")
    assert (made["name"], made["written"]) == ("New", 0)
    assert ann.data("update_author", pk=made["pk"], name="Newer")["written"] == 0
    assert "deleted" in ann.data("delete_author", pk=made["pk"])
