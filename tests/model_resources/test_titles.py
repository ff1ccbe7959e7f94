"""Titles of rows that are no columns: of a related row, computed by the database, or by a method."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Upper
from django.test.utils import CaptureQueriesContext

from django_mcp import MCPServer, ModelResource, form_tool, register
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Review
from tests.model_resources.looking import look


class Books(ModelResource):
    """Books."""

    fields: Any = ("slug", "author__name", "loud", "words")
    annotations: Mapping[str, Any] = {"loud": Upper("title")}
    view_permission = None
    search_fields = ("slug",)
    connector = True

    def words(self, obj: Book) -> str:
        return f"{obj.title}, {obj.pages} pages"


class Reviews(ModelResource):
    """Reviews, each with a link to its book."""

    fields = ("stars", "book")
    view_permission = None
    aggregates: Mapping[str, Any] = {}
    group_by_fields = ("book",)


class Authors(ModelResource):
    """Authors, of whom one is hidden."""

    fields = ("name", "books")
    view_permission = None

    def get_queryset(self, ctx: Any) -> Any:
        return super().get_queryset(ctx).exclude(name="Carl Dahl")


TITLES = {"author__name": "Anna Berg", "loud": "SALT", "words": "Salt, 210 pages"}


@pytest.mark.parametrize("title", TITLES)
def test_links_groups_lists_and_searches_show_the_title(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], people: Mapping[str, User], title: str
) -> None:
    register(Author, Authors, server=server)
    register(Review, Reviews, server=server)
    register(
        Book,
        type("Own", (Books,), {"title_field": title, "delete_permission": None, "actions": ["delete"]}),
        server=server,
    )
    client = reader()
    assert client.data("search_reviews")["rows"][0]["book"]["title"] == TITLES[title]
    assert client.data("aggregate_reviews", by=["book"])["groups"][0]["book"]["title"] == TITLES[title]
    assert TITLES[title] in [each["title"] for each in client.data("get_author", pk=books[0].author_id)["books"]]
    assert TITLES[title] in [each["title"] for each in client.list("resources/list")]
    assert client.data("search", query="salt")["results"][0]["title"] == TITLES[title]
    assert TITLES[title] in look(server, people["root"], "delete_book", pk=books[0].pk)["object"]


def test_a_title_behind_a_hidden_row_is_the_key(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book]
) -> None:
    Review.objects.create(book=books[2], text="Dark.")
    register(Author, Authors, server=server)
    register(Review, Reviews, server=server)
    register(Book, type("Own", (Books,), {"title_field": "author__name"}), server=server)
    client = reader()
    titles = {row["book"]["title"] for row in client.data("search_reviews")["rows"]}
    assert titles == {"Anna Berg", str(books[2].pk)}
    assert "Carl Dahl" not in {each["title"] for each in client.list("resources/list")}


@pytest.mark.parametrize("title", TITLES)
def test_titles_take_no_query_of_each_row(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], title: str
) -> None:
    register(Author, Authors, server=server)
    register(Review, Reviews, server=server)
    register(Book, type("Own", (Books,), {"title_field": title}), server=server)
    counts = []
    for _ in range(2):
        with CaptureQueriesContext(connection) as queries:
            reader().data("search_reviews")
        counts.append(len(queries))
        for book in books:
            Review.objects.create(book=book, text="More.")
    assert counts[0] == counts[1]


@pytest.mark.parametrize("title", ["author", "books__title", "nosuch", "tags"])
def test_what_is_not_one_plain_value_is_no_title(server: MCPServer, db: None, title: str) -> None:
    register(Author, Authors, server=server)
    register(
        Book, type("Own", (Books,), {"fields": ("slug", "author", "tags__word"), "title_field": title}), server=server
    )
    (problem,) = server.model_resources[Book].problems or ()
    assert "title_field" in problem.msg


def test_without_a_title_field_the_first_text_names_a_row_everywhere(
    server: MCPServer, reader: Callable[..., Reader], books: list[Book], people: Mapping[str, User]
) -> None:
    """Not a value with choices, which names no row."""
    own = {"fields": ("pages", "binding", "title"), "delete_permission": None, "actions": ["delete"]}
    register(Review, Reviews, server=server)
    register(Author, Authors, server=server)
    register(Book, type("Own", (Books,), {**own, "annotations": {}, "search_fields": ["title"]}), server=server)

    @form_tool(server=server, handle=lambda ctx, form: None)
    class ReadForm(forms.Form):
        book = forms.ModelChoiceField(Book.objects.all())

    client, key = reader(), books[0].pk
    assert client.data("search_reviews")["rows"][0]["book"]["title"] == "Salt"
    assert client.data("aggregate_reviews", by=["book"])["groups"][0]["book"]["title"] == "Salt"
    assert "Salt" in [entry["title"] for entry in client.data("get_author", pk=books[0].author_id)["books"]]
    assert client.data("search", query="salt")["results"][0]["title"] == "Salt"
    assert look(server, people["root"], "delete_book", pk=key)["object"] == "Book Salt"
    assert f"{key} (Salt)" in client.problem("read", book=0)
