"""What a site's own querysets join is shown to nobody for whom it does not exist."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Prefetch

from django_mcp import MCPServer, ModelResource, register
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Publisher

pytestmark = pytest.mark.postgresql


def join_everything(rows: Any) -> Any:
    with warnings.catch_warnings(action="ignore"):  # deprecated since Django 6.1
        return rows.select_related()


SITES_OWN: dict[str, Callable[[Any], Any]] = {
    "a join": lambda rows: rows.select_related("author__publisher"),
    "a join of everything": join_everything,
    "rows fetched before": lambda rows: rows.prefetch_related("author"),
    "rows of its own choice fetched before": lambda rows: rows.prefetch_related(
        Prefetch("author", queryset=Author.objects.all()), "author__publisher"
    ),
    "sets fetched before": lambda rows: rows.prefetch_related("tags", "reviews"),
}


def test_a_row_that_a_queryset_of_the_site_brings_along_is_not_shown(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    @register(Publisher, server=server)
    class Publishers(ModelResource):
        fields = ["name"]
        title_field = "name"

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).none()

    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ["name"]
        title_field = "name"

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).exclude(name="Carl Dahl").select_related("publisher")

    @register(Book, server=server)
    class Books(ModelResource):
        fields = ["title", "author", "author__email", "author__publisher", "author__publisher__name", "tags__word"]
        lookup_field = "slug"

        own = ""

        def get_queryset(self, ctx: Any) -> Any:
            return SITES_OWN[self.own](super().get_queryset(ctx))

    assert [Publishers, Authors]
    for Books.own in SITES_OWN:
        nothing_hidden_is_shown(reader("ann"), Books.own)


def nothing_hidden_is_shown(ann: Reader, own: str) -> None:
    hidden, shown = ann.data("get_book", slug="night-ferry"), ann.data("get_book", slug="salt")
    assert (hidden["author"], hidden["author__email"], hidden["tags__word"]) == (None, None, ["sea", "night"]), own
    assert (shown["author"]["title"], shown["author__email"]) == ("Anna Berg", "author@example.com"), own
    assert (shown["author__publisher"], shown["author__publisher__name"]) == (None, None), own
    rows = ann.data("search_books")["rows"]
    assert [row["author"] and row["author"]["title"] for row in rows] == ["Anna Berg"] * 2 + [None] * 3, own


@pytest.mark.parametrize("attribute", ["select_related", "prefetch_related"])
def test_neither_is_one_that_a_declaration_brings_along(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader], attribute: str
) -> None:
    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ["name"]
        title_field = "name"

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).exclude(name="Carl Dahl")

    declared = {"fields": ["title", "author"], "lookup_field": "slug", attribute: ["author__publisher"]}
    register(Book, type("Books", (ModelResource,), declared), server=server)
    assert Authors
    assert reader("ann").data("get_book", slug="foghorn")["author"] is None
    assert reader("ann").data("get_book", slug="salt")["author"]["title"] == "Anna Berg"


def test_what_a_site_joins_for_its_own_methods_is_joined_still(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader], django_assert_max_num_queries: Any
) -> None:
    @register(Book, server=server)
    class Books(ModelResource):
        fields = ["title", "writer"]

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).select_related("author__publisher")

        def writer(self, obj: Book) -> str:
            return f"{obj.author.name}, {obj.author.publisher and obj.author.publisher.name}"

    assert Books
    with django_assert_max_num_queries(4):  # who calls, their permissions (2), and the books
        (row,) = reader("ann").data("search_books", limit=5)["rows"][:1]
    assert row["writer"] == "Anna Berg, Harbour House"
