"""``book: Book`` takes what addresses a row, and the function gets the row, if it exists for the caller."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from pydantic import Field

from django_mcp import Context, MCPServer, ModelArgument, ModelResource, prompt, register, resource, tool
from django_mcp.core import server as registry
from django_mcp.model_resources import registry as registration
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Review, Tag, Ticket

MakeReader = Callable[..., Reader]


class BookResource(ModelResource):
    """Books on shelf A and B; those on C are not for everybody."""

    fields = ("title", "slug", "author__name")
    lookup_field = "slug"

    def get_queryset(self, ctx: Context) -> models.QuerySet[Any]:
        rows = Book.objects.all()
        return rows if ctx.user.is_superuser else rows.exclude(shelf="C")


class AuthorResource(ModelResource):
    """Authors."""

    fields = ("name",)


@pytest.fixture
def bound(server: MCPServer, books: list[Book]) -> list[Book]:
    register(Book, BookResource, server=server)
    register(Author, AuthorResource, server=server)
    return books


def argument(reader: Reader, tool_name: str, name: str) -> dict[str, Any]:
    (listed,) = [each for each in reader.list("tools/list") if each["name"] == tool_name]
    return listed["inputSchema"]["properties"][name]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_row_is_given_by_the_lookup_that_was_declared(
    server: MCPServer, bound: list[Book], reader: MakeReader, colour: str
) -> None:
    def describe(book: Book, loud: bool = False) -> str:
        """Say what a book is.

        Args:
            book: The one to describe.
            loud: In capitals.
        """
        assert isinstance(book, Book)
        return book.title.upper() if loud else book.title

    async def describe_async(book: Book, loud: bool = False) -> str:
        return describe(book, loud)

    describe_async.__doc__ = describe.__doc__
    tool(server=server, name="describe")(describe if colour == "sync" else describe_async)
    ann = reader("ann")
    assert ann.call("describe", book="salt", loud=True).text == "SALT"
    told = argument(ann, "describe", "book")
    assert told == {"type": "string", "maxLength": 200, "description": "The one to describe. Slug of the book."}


def test_a_row_is_given_by_its_key_where_no_lookup_was_declared(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    @tool(server=server)
    def email(author: Author) -> str:
        """Say where to write to."""
        return author.email

    anna = bound[0].author
    assert argument(reader("ann"), "email", "author") == {
        "type": "integer",
        "description": "Primary key of the author.",
    }
    for given in (anna.pk, str(anna.pk)):
        assert reader("ann").call("email", author=given).text == anna.email
    assert "Argument 'author' must be " in reader("ann").problem("email", author=True)
    words = reader("ann").problem("email", author="Anna")
    assert (
        words == "Argument 'author' must be the primary key of an author, not 'Anna'. Use search_authors to find one."
    )


def test_who_finds_no_rows_reads_what_is_wanted_all_the_same(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    @tool(server=server)
    def describe(book: Book) -> str:
        """Say what a book is."""
        return book.title

    assert reader("bob").problem("describe", book=1) == "Argument 'book' must be the slug of a book, not 1."


def test_an_argument_that_filters_by_a_row_says_by_what(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    register(
        Review, type("Reviews", (AuthorResource,), {"fields": ["book"], "filterset_fields": ["book"]}), server=server
    )
    told = argument(reader("ann"), "search_reviews", "book")
    assert told["description"] == "Filter: book, by slug: equals this value."
    words = reader("ann").problem("search_reviews", book=1)
    assert words == "Argument 'book' must be the slug of a book (received 1)."


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"include_tags": ["shop"]}, r"Give its ModelResource one of the tags \['shop'\]\."),
        ({"exclude_tags": ["books"]}, r"Give its ModelResource none of the tags \['books'\]\."),
        ({"select": lambda each: True}, r"select= takes no models: register it there too, with server=…\."),
    ],
)
def test_an_endpoint_that_takes_a_tool_but_not_its_model_says_what_helps(
    server: MCPServer, make_server: Callable[..., MCPServer], choice: dict[str, Any], words: str
) -> None:
    register(Book, type("Books", (BookResource,), {"tags": ["books"]}), server=server)

    @tool(server=server, tags=["shop"])
    def describe(book: Book) -> str:
        """Say what a book is."""
        return book.title

    with pytest.raises(ImproperlyConfigured, match=rf"library\.Book is registered at .* select it\. {words}"):
        make_server("chosen", source=server, **choice)


@pytest.mark.parametrize("value", ["foghorn", "no-such-book", "a\0b", "x" * 200])
def test_a_hidden_row_and_none_at_all_get_the_same_words(
    server: MCPServer, bound: list[Book], reader: MakeReader, value: str
) -> None:
    ran = []

    @tool(server=server)
    def describe(book: Book) -> str:
        ran.append(book)
        return book.title

    if "\0" in value:
        assert reader("ann").problem("describe", book=value).startswith("Argument 'book' must not contain NUL")
    else:
        words = reader("ann").problem("describe", book=value)
        assert words == f"No book with slug {value[:80]!r} found. Use search_books to find one."
    assert ran == []


def test_who_may_not_view_the_model_finds_no_row_and_no_hint(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    @tool(server=server)
    def describe(book: Book) -> str:
        return book.title

    assert reader("bob").problem("describe", book="salt") == "No book with slug 'salt' found."
    assert reader("root").call("describe", book="foghorn").text == "Foghorn"


def test_many_rows_are_found_in_one_query(
    server: MCPServer, bound: list[Book], reader: MakeReader, django_assert_num_queries: Any
) -> None:
    class LeaseHeartbeat:
        """Takes books, in the order in which they are given."""

        def keep(self, books: Annotated[list[Book], Field(min_length=1)]) -> list[str]:
            """Keep."""
            return [book.title for book in books]

        def keep_set(self, books: set[Author] | None = None) -> int:
            """Keep."""
            return -1 if books is None else len(books)

    tool(server=server, read_only=True)(LeaseHeartbeat().keep)
    tool(server=server, read_only=True)(LeaseHeartbeat().keep_set)
    root = reader("root")
    with django_assert_num_queries(2):  # who calls, and the books
        kept = root.data("keep", books=["tides", "salt", "foghorn", "tides"])
    assert kept == root.as_sent(["Tides", "Salt", "Foghorn", "Tides"])
    assert argument(root, "keep", "books")["minItems"] == 1
    words = reader("ann").problem("keep", books=["salt", "foghorn", "none", "foghorn"])
    assert words == "No book with slug 'foghorn', 'none' found. Use search_books to find one."
    assert root.problem("keep", books=[]) == "Argument 'books' must not be empty."
    assert root.problem("keep", books=["salt"] * 201) == "Argument 'books' must have at most 200 items, not 201."
    assert root.data("keep_set") == root.as_sent(-1)
    assert root.data("keep_set", books=[bound[0].author_id]) == root.as_sent(1)


def test_a_row_may_be_left_out(server: MCPServer, bound: list[Book], reader: MakeReader) -> None:
    @tool(server=server)
    def describe(book: Book | None = None) -> str:
        return "nothing" if book is None else book.title

    assert reader("ann").call("describe").text == "nothing"
    assert reader("ann").call("describe", book=None).text == "nothing"
    assert reader("ann").call("describe", book="salt").text == "Salt"
    assert "No book with slug 'gone' found" in reader("ann").problem("describe", book="gone")


def own_books(ctx: Context) -> models.QuerySet[Any]:
    return Book.objects.filter(owner=ctx.user)


def test_an_annotation_may_say_which_rows_there_are(
    server: MCPServer, books: list[Book], reader: MakeReader, people: Mapping[str, User]
) -> None:
    @tool(server=server)
    def price(ctx: Context, book: Annotated[Book, ModelArgument(own_books, lookup_field="slug")]) -> str:
        """Say what a book of yours costs."""
        return f"{ctx.user}: {book.price}"

    @tool(server=server)
    def borrow(tags: list[Annotated[Tag, ModelArgument(lambda ctx: Tag.objects)]]) -> int:
        return len(tags)

    assert reader("ann").call("price", book="salt").text == "ann: 12.50"
    assert reader("ann").problem("price", book="tides") == "No book with slug 'tides' found."
    assert reader("bob").call("price", book="tides").text == "bob: 9.90"
    assert argument(reader("ann"), "price", "book")["description"] == "Slug of the book."
    assert reader("bob").data("borrow", tags=[tag.pk for tag in Tag.objects.all()]) == reader("bob").as_sent(2)


def test_an_address_of_several_rows_is_the_fault_of_the_site(
    server: MCPServer, books: list[Book], reader: MakeReader, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(server=server)
    def price(book: Annotated[Book, ModelArgument(lambda ctx: Book.objects, lookup_field="shelf")]) -> str:
        return str(book.price)

    assert "Internal server error" in reader("ann").problem("price", book="B")
    assert "several rows with shelf 'B'" in caplog.text
    assert reader("ann").call("price", book="A").text == "12.50"


def test_keys_of_every_kind_address_rows(server: MCPServer, people: Any, reader: MakeReader) -> None:
    ticket = Ticket.objects.create(holder="Ann")

    @tool(server=server)
    def holder(ticket: Annotated[Ticket, ModelArgument(lambda ctx: Ticket.objects)]) -> str:
        return ticket.holder

    assert reader("ann").call("holder", ticket=str(ticket.pk)).text == "Ann"
    assert argument(reader("ann"), "holder", "ticket")["format"] == "uuid"
    assert "must be a UUID" in reader("ann").problem("holder", ticket="7")


def test_a_model_of_which_nothing_is_said_stops_the_start(server: MCPServer) -> None:
    def describe(book: Book) -> str:
        return book.title

    with pytest.raises(ImproperlyConfigured) as caught:
        tool(server=server)(describe)
    assert str(caught.value) == (
        "tool 'describe' (tests.model_resources.test_arguments.describe): parameter 'book': library.Book is "
        "not registered at <MCPServer 'test' at 'test/mcp'>, so the rows that a caller may see are unknown. Register "
        "it with a ModelResource or, for an argument, use Annotated[…, ModelArgument(…)]."
    )
    assert server.tools == {}


@pytest.mark.parametrize(
    "annotation", [Book | str, dict[str, Book], list[Book | Author], models.Model, "QuerySet", list[list[Book]]]
)
def test_an_annotation_that_says_no_single_model_stops_the_start(
    server: MCPServer, bound: list[Book], annotation: Any
) -> None:
    def describe(book: Any) -> str:
        return str(book)

    describe.__annotations__["book"] = models.QuerySet if annotation == "QuerySet" else annotation
    with pytest.raises(ImproperlyConfigured, match="describe"):
        tool(server=server)(describe)


def test_a_lookup_that_is_no_field_stops_the_start(server: MCPServer) -> None:
    def describe(book: Annotated[Book, ModelArgument(lambda ctx: Book.objects, lookup_field="number")]) -> str:
        return book.title

    with pytest.raises(ImproperlyConfigured, match=r"ModelArgument\(lookup_field='number'\): Book has no field"):
        tool(server=server)(describe)


def test_a_tool_may_be_decorated_before_its_model_is_registered(
    server: MCPServer, books: list[Book], reader: MakeReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "is_started", False)

    @tool(server=server)
    def describe(book: Book) -> str:
        return book.title

    @tool(server=server)
    def other(number: int) -> int:
        return number

    register(Book, BookResource, server=server)
    registration.build(server)
    assert list(server.tools)[:2] == ["describe", "other"]
    assert reader("ann").call("describe", book="salt").text == "Salt"


def test_a_model_that_is_never_registered_stops_the_start(server: MCPServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "is_started", False)

    @tool(server=server)
    def describe(book: Book) -> str:
        return book.title

    with pytest.raises(ImproperlyConfigured, match=r"library\.Book is not registered"):
        registration.build(server)


def test_a_declaration_with_a_problem_stops_the_start_of_tools_that_use_it(
    server: MCPServer, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(ModelResource):
        """Books."""

        fields = ("titel",)

    register(Book, Wrong, server=server)

    def describe(book: Book) -> str:
        return book.title

    with pytest.raises(ImproperlyConfigured, match=r"library\.Book has errors.*titel"):
        tool(server=server)(describe)


def test_prompts_and_resources_take_no_rows_and_say_so_at_the_start(server: MCPServer, bound: list[Book]) -> None:
    def describe(book: Book) -> str:
        return book.title

    for decorator in (prompt(server=server), resource("test://{book}", server=server)):
        with pytest.raises(ImproperlyConfigured, match="Only tools accept model instances"):
            decorator(describe)


def test_each_endpoint_has_its_own_rows(
    make_server: Callable[..., MCPServer], server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    class All(ModelResource):
        """Every book."""

        fields = ("title",)

    other = make_server("other", authentication=server.authentication)
    register(Book, All, server=other)

    @tool(server=[server, other])
    def describe(book: Book) -> str:
        return book.title

    assert "No book with slug 'foghorn' found" in reader("ann").problem("describe", book="foghorn")
    elsewhere = Reader(other, reader("ann").version, "view")
    elsewhere.user = "ann"
    assert elsewhere.call("describe", book=bound[4].pk).text == "Foghorn"


def test_the_function_itself_still_takes_rows(server: MCPServer, bound: list[Book]) -> None:
    @tool(server=server)
    def describe(book: Book) -> str:
        return book.title

    assert describe(bound[4]) == "Foghorn"


def test_object_permissions_are_asked_for(
    server: MCPServer, books: list[Book], reader: MakeReader, people: Mapping[str, User]
) -> None:
    class Owned(ModelResource):
        """Books of the caller."""

        fields = ("title",)
        lookup_field = "slug"
        object_permissions = True

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            return obj is None or obj.owner_id == ctx.user.pk

    register(Book, Owned, server=server)

    @tool(server=server)
    def describe(book: Book) -> str:
        return book.title

    assert reader("ann").call("describe", book="salt").text == "Salt"
    assert (
        reader("bob").problem("describe", book="salt")
        == "No book with slug 'salt' found. Use search_books to find one."
    )
