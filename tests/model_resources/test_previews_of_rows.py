"""Previews of tools that take rows get the rows that the tool would get; and previews of what else makes tools."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_mcp import Context, MCPServer, ModelArgument, ModelResource, ToolError, register, tool
from django_mcp.core import server as registry
from django_mcp.model_resources import registry as registration
from tests.model_resources.library.models import Book, Tag
from tests.model_resources.looking import look


@pytest.fixture
def ann(server: MCPServer, books: list[Book], people: Mapping[str, User]) -> User:
    @register(Book, server=server)
    class Books(ModelResource):
        fields = ("title",)
        title_field = "title"
        lookup_field = "slug"

        def get_queryset(self, ctx: Context) -> Any:
            return Book.objects.exclude(slug="tides")

    assert Books
    return people["ann"]


def test_rows_are_found_through_the_door_of_their_declaration(server: MCPServer, ann: User) -> None:
    def preview(
        books: list[Book], tag: Annotated[Tag, ModelArgument(lambda _: Tag.objects.all())] | None = None
    ) -> Any:
        return {"books": [book.title for book in books], "tag": tag and tag.word}

    @tool(server=server, preview=preview)
    def lend(books: list[Book], tag: Annotated[Tag, ModelArgument(lambda _: Tag.objects.all())] | None = None) -> str:
        raise AssertionError

    sea = Tag.objects.get(word="sea").pk
    assert look(server, ann, "lend", books=["salt", "lanterns"], tag=sea) == {
        "books": ["Salt", "Lanterns"],
        "tag": "sea",
    }
    for slug in ("tides", "nosuch"):
        with pytest.raises(ToolError, match=f"No book with slug {slug!r} found"):
            look(server, ann, "lend", books=["salt", slug])


def test_the_tool_says_which_rows_there_are(server: MCPServer, ann: User) -> None:
    def preview(ctx: Context, tag: Tag) -> str:
        return f"{ctx.user.username} takes {tag.word}"

    @tool(server=server, preview=preview)
    def take(
        tag: Annotated[Tag, ModelArgument(lambda _: Tag.objects.exclude(word="night"), lookup_field="word")],
    ) -> str:
        raise AssertionError

    assert look(server, ann, "take", tag="sea") == {"text": "ann takes sea"}
    with pytest.raises(ToolError, match="No tag with word 'night' found"):
        look(server, ann, "take", tag="night")


def test_without_a_preview_it_is_said_which_rows_are_meant(server: MCPServer, ann: User) -> None:
    @tool(server=server)
    def lend(
        books: list[Book],
        also: Book | None = None,
        tag: Annotated[Tag, ModelArgument(lambda _: Tag.objects.all(), lookup_field="word")] | None = None,
        days: int = 7,
    ) -> str:
        raise AssertionError

    salt = Book.objects.get(slug="salt")
    salt.title = "Salt\nalso: Book Nothing"
    salt.save()
    meant = look(server, ann, "lend", books=["salt", "lanterns"], also="lanterns", tag="sea")
    assert meant == {"text": "books: Book Salt also: Book Nothing, Lanterns\nalso: Book Lanterns"}
    assert look(server, ann, "lend", books=[], days=3) is None


def test_without_a_preview_nobody_is_asked_about_rows_that_are_not_there(server: MCPServer, ann: User) -> None:
    @tool(server=server)
    async def lend(book: Book, tag: Annotated[Tag, ModelArgument(lambda _: Tag.objects.exclude(word="night"))]) -> str:
        raise AssertionError

    sea, night = (Tag.objects.get(word=word).pk for word in ("sea", "night"))
    assert look(server, ann, "lend", book="salt", tag=sea) == {"text": "book: Book Salt"}
    with pytest.raises(ToolError, match=f"No tag with primary key '{night}' found"):
        look(server, ann, "lend", book="salt", tag=night)
    with pytest.raises(ToolError, match="No book with slug 'tides' found"):
        look(server, ann, "lend", book="tides", tag=sea)


def test_a_preview_may_take_what_addresses_a_row(server: MCPServer, ann: User) -> None:
    @tool(server=server, preview=lambda book: {"slug": book})
    def lend(book: Book) -> str:
        raise AssertionError

    assert look(server, ann, "lend", book="salt") == {"slug": "salt"}


def test_a_preview_may_take_a_row_where_the_tool_takes_what_addresses_it(server: MCPServer, ann: User) -> None:
    async def preview(slug: Book) -> str:
        return slug.title

    @tool(server=server, preview=preview)
    def lend(slug: str) -> str:
        raise AssertionError

    assert look(server, ann, "lend", slug="salt") == {"text": "Salt"}


def test_rows_of_which_nothing_says_which_there_are_are_refused(server: MCPServer, ann: User) -> None:
    def preview(tag: Tag) -> str:
        return tag.word

    with pytest.raises(ImproperlyConfigured, match="parameter 'tag'"):

        @tool(server=server, preview=preview)
        def take(tag: int) -> str:
            return "done"


def test_a_name_the_tool_does_not_have_is_refused_where_it_takes_rows_too(server: MCPServer, ann: User) -> None:
    def preview(boook: Book) -> str:
        return boook.title

    with pytest.raises(ImproperlyConfigured, match="preview takes boook, which the tool does not"):

        @tool(server=server, preview=preview)
        def lend(book: Book) -> str:
            return "done"


def test_an_endpoint_that_takes_the_tool_over_has_its_own_rows(
    server: MCPServer, ann: User, make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "is_started", False)

    def preview(book: Book) -> str:
        return book.title

    @tool(server=server, preview=preview)
    def lend(book: Book) -> str:
        raise AssertionError

    @register(Book, server=(other := make_server("other", source=server)))
    class All(ModelResource):
        fields = ("title",)
        lookup_field = "slug"

    assert All
    for each in (server, other):
        registration.build(each)
    assert look(other, ann, "lend", book="tides") == {"text": "Tides"}
    with pytest.raises(ToolError):
        look(server, ann, "lend", book="tides")


def test_models_declared_after_the_tool_are_settled_in_its_preview(server: MCPServer, ann: User) -> None:
    """Each build settles anew what was read, and not what was made of it."""

    def preview(book: Book) -> str:
        return book.title

    @tool(server=server, preview=preview)
    def lend(book: Book) -> str:
        raise AssertionError

    for model in (Tag, User):
        register(model, type("Named", (ModelResource,), {"fields": ("id",)}), server=server)
        assert look(server, ann, "lend", book="salt") == {"text": "Salt"}
