"""Rows of models that an endpoint of a selection leaves out, and rows that a declaration shows one by one."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db.models import QuerySet

from django_mcp import Context, MCPServer, ModelResource, register, tool, unregister
from tests.clients import MODERN
from tests.model_resources.conftest import ByName, Reader
from tests.model_resources.library.models import Author, Book, Tag


def write(title: str, author: str, **fields: Any) -> Book:
    by, _ = Author.objects.get_or_create(name=author)
    return Book.objects.create(title=title, slug=title.lower(), author=by, **fields)


def test_rows_that_the_source_hides_stay_hidden_where_their_model_is_left_out(
    server: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    @register(Author, server=server)
    class AuthorResource(ModelResource):
        fields = ["name"]
        view_permission = None

        def get_queryset(self, ctx: Context) -> QuerySet[Any]:
            return super().get_queryset(ctx).exclude(name="Secret")

    @register(Tag, server=server)
    class TagResource(ModelResource):
        fields = ["word"]
        view_permission = None

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            return obj is None or obj.word != "secret"

    @register(Book, server=server)
    class BookResource(ModelResource):
        fields = ["title", "author__name", "tags__word"]
        filterset_fields = ["author__name"]
        view_permission = None
        tags = ["shop"]

    shop = make_server("shop", source=server, include_tags=["shop"], authentication=[ByName()])
    write("Known", "Known").tags.set([Tag.objects.create(word="plain"), Tag.objects.create(word="secret")])
    write("Hidden", "Secret")
    for endpoint in (server, shop):
        reader = Reader(endpoint, MODERN, "view")
        rows = {row["title"]: row for row in reader.data("search_books")["rows"]}
        assert rows["Known"]["author__name"] == "Known"
        assert rows["Hidden"]["author__name"] is None, endpoint
        assert reader.data("search_books", author__name="Secret")["rows"] == [], endpoint
        book = reader.data("get_book", pk=Book.objects.get(title="Known").pk)
        assert book["tags__word"] == ["plain"], endpoint


def test_an_endpoint_made_later_takes_tools_whose_arguments_are_rows(
    server: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    @register(Tag, server=server)
    class TagResource(ModelResource):
        fields = ["word"]
        view_permission = None

    @tool(server=server)
    def spell(tag: Tag, loud: bool = False) -> str:
        return tag.word

    sea = Tag.objects.create(word="sea")
    for name, options in (("all", {}), ("some", {"exclude_tags": ["x"]})):
        late = make_server(name, source=server, authentication=[ByName()], **options)
        assert Reader(late, MODERN, "view").call("spell", tag=sea.pk).text == "sea"


def test_what_is_unregistered_is_gone_here_and_where_it_was_taken_over_and_can_be_declared_anew(
    server: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    class Words(ModelResource):
        fields = ["word"]
        view_permission = None

    class OtherWords(Words):
        name, plural = "word", "words"

    register(Author, type("Authors", (Words,), {"fields": ["name"]}), server=server)
    register(Tag, Words, server=server)
    shop = make_server("shop", source=server, exclude_tags=["x"], authentication=[ByName()])
    endpoints = [Reader(each, MODERN, "view") for each in (server, shop)]
    assert all("search_tags" in each.tool_names() for each in endpoints)
    unregister(Tag, server=server)
    for each in endpoints:
        assert each.tool_names() == {"search_authors", "get_author"}
        assert not [row for row in each.list("resources/templates/list") if "tag" in row["uriTemplate"]]
    Tag.objects.create(word="sea")
    register(Tag, OtherWords, server=server)
    for each in endpoints:
        assert each.data("search_words")["rows"][0]["word"] == "sea"


def test_only_what_is_registered_at_an_endpoint_can_be_unregistered_there(
    server: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    for model, name in ((Tag, "word"), (Author, "name")):
        register(model, type("Offered", (ModelResource,), {"fields": [name]}), server=server)
    shop = make_server("shop", source=server, exclude_tags=["x"], authentication=[ByName()])
    with pytest.raises(ImproperlyConfigured, match=r"Book is not registered at .*: library\.Tag, library\.Author\."):
        unregister(Book, server=server)
    with pytest.raises(ImproperlyConfigured, match=r"Tag is not registered at .*shop.*: nothing\."):
        unregister(Tag, server=shop)
    assert Tag in shop.model_resources


def test_an_overridden_permission_is_asked_about_each_row_as_in_model_admin(server: MCPServer) -> None:
    @register(Book, server=server)
    class BookResource(ModelResource):
        fields = ["title"]
        search_fields = ["title"]

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            return obj is None or obj.shelf == "A"

    open_, closed = write("Open", "Known"), write("Closed", "Known", shelf="Z")
    reader = Reader(server, MODERN, "view")
    assert [row["title"] for row in reader.data("search_books")["rows"]] == ["Open"]
    assert reader.data("get_book", pk=open_.pk)["title"] == "Open"
    assert reader.problem("get_book", pk=closed.pk) == reader.problem("get_book", pk=9999).replace(
        "9999", str(closed.pk)
    )
