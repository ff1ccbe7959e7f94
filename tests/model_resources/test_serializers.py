"""What is shown of a row: values of every type, relations, long texts, files, Markdown and the schema."""

import base64
import datetime
import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import jsonschema
import pytest
from django.core.files.base import ContentFile
from django.db import models

from django_mcp import Context, Icon, MCPServer, ModelResource, register
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Review, Tag

EVERYTHING = [
    *("key", "title", "author", "author__name", "author__born", "binding", "published", "price", "pages", "weight"),
    *("reading_time", "added", "summary", "text", "cover", "raw", "extra", "tags__word", "reviews", "owner"),
    *("pages_in_words", "price_in_cents", "shout", "first_review"),
]


@pytest.fixture
def library(server: MCPServer, books: list[Book]) -> list[Book]:
    """All that can be shown of books, in one declaration."""

    def first_review(book: Book) -> dict[str, int] | None:
        review = book.reviews.first()
        return review and {"stars": review.stars}

    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ["name", "books"]
        title_field = "name"

    @register(Review, server=server)
    class Reviews(ModelResource):
        fields = ["text", "stars"]
        max_list_size = 0

    @register(Book, server=server)
    class Books(ModelResource):
        """A book one can borrow."""

        fields = [name if name != "first_review" else first_review for name in EVERYTHING]
        content_fields = {"text": "text/markdown", "raw": "image/png"}
        lookup_field, title_field, modified_field = "slug", "title", "added"
        filterset_fields, search_fields = ["pages__gte"], ["title"]
        icons = [Icon("https://library.example.com/book.png", "image/png")]
        secret_fields = ["key"]
        max_related = 3

        def shout(self, book: Book) -> str:
            """The title, loudly."""
            return book.title.upper()

    return books


def full(book: Book) -> Book:
    """The same book with a value in every column."""
    book.key = uuid.UUID("12345678-1234-5678-1234-567812345678")
    book.published = datetime.date(1999, 12, 31)
    book.price = Decimal("1234.50")
    book.weight = 0.25
    book.reading_time = datetime.timedelta(hours=5, seconds=1)
    book.added = datetime.datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=datetime.UTC)
    book.summary = "Short."
    book.text = "# Salt\n\nOnce…"
    book.extra = {"a": [1, None, {"b": True}]}
    book.raw = b"\x89PNG"
    book.cover.save("salt.jpg", ContentFile(b"jpeg"), save=False)
    book.save()
    return book


def test_every_type_is_shown_in_the_json_it_is_at_home_in(library: list[Book], reader: Callable[..., Reader]) -> None:
    book = full(library[0])
    shown = reader("ann").read("library://book/salt")

    assert {
        name: shown[name] for name in ("key", "published", "price", "pages", "weight", "reading_time", "added")
    } == {
        "key": "12345678-1234-5678-1234-567812345678",
        "published": "1999-12-31",
        "price": "1234.50",
        "pages": 210,
        "weight": 0.25,
        "reading_time": "P0DT05H00M01S",
        "added": "2026-01-02T03:04:05.000678+00:00",
    }
    assert shown["extra"] == {"a": [1, None, {"b": True}]}
    assert shown["owner"] == book.owner_id
    assert (shown["pages_in_words"], shown["price_in_cents"], shown["shout"]) == ("210 pages", 123450, "SALT")
    assert shown["first_review"] == {"stars": 4}


def test_relations_are_links_and_sets_of_them(library: list[Book], reader: Callable[..., Reader]) -> None:
    book = library[0]
    shown = reader("ann").read("library://book/salt")

    assert shown["author"] == {"uri": f"library://author/{book.author_id}", "title": "Anna Berg"}
    assert shown["author__name"] == "Anna Berg"
    assert shown["tags__word"] == ["sea"]
    reviews = [each.pk for each in book.reviews.order_by("pk")]
    assert shown["reviews"] == [{"uri": f"library://review/{pk}", "title": str(pk)} for pk in reviews]


def test_a_set_of_related_rows_is_bounded(library: list[Book], reader: Callable[..., Reader]) -> None:
    for number in range(10):
        library[0].tags.add(Tag.objects.create(word=f"tag-{number}"))
        Review.objects.create(book=library[0], text="More")
    shown = reader("ann").read("library://book/salt")

    assert len(shown["tags__word"]) == len(shown["reviews"]) == 3


@pytest.mark.parametrize("fill", [full, lambda book: book])
def test_what_is_shown_fits_the_schemas_that_are_told(
    library: list[Book], reader: Callable[..., Reader], fill: Callable[[Book], Book]
) -> None:
    fill(library[0])
    ann = reader("ann")
    schemas = {tool["name"]: tool["outputSchema"] for tool in ann.list("tools/list")}

    jsonschema.validate(ann.data("get_book", slug="salt"), schemas["get_book"])
    jsonschema.validate(ann.data("search_books"), schemas["search_books"])
    jsonschema.validate(ann.data("search_authors"), schemas["search_authors"])


def test_floats_that_json_lacks_are_null(library: list[Book], reader: Callable[..., Reader]) -> None:
    Book.objects.filter(slug="salt").update(weight=float("inf"))

    assert reader("ann").read("library://book/salt")["weight"] is None


def test_a_value_that_is_no_choice_any_more_is_shown_all_the_same(
    library: list[Book], reader: Callable[..., Reader]
) -> None:
    Book.objects.filter(slug="salt").update(binding="vellum")

    assert reader("ann").data("get_book", slug="salt")["binding"] == "vellum"


class TestLongFields:
    def test_a_text_is_a_resource_of_its_own(self, library, reader):
        full(library[0])

        assert reader("ann").contents("library://book/salt/text") == {
            "uri": "library://book/salt/text",
            "mimeType": "text/markdown",
            "text": "# Salt\n\nOnce…",
        }

    def test_a_long_text_is_cut_where_rows_are_many_and_says_where_the_rest_is(self, library, reader):
        Book.objects.filter(slug="salt").update(text="word " * 1000)
        rows = reader("ann").data("search_books", query="salt")["rows"]

        assert rows[0]["text"].endswith("… (4600 more characters: library://book/salt/text)")
        assert reader("ann").data("get_book", slug="salt")["text"] == "word " * 1000

    def test_a_file_is_described_without_where_it_is_stored(self, library, reader):
        book = full(library[0])
        shown = reader("ann").read("library://book/salt")["cover"]

        assert shown == {
            "uri": "library://book/salt/cover",
            "mimeType": "image/jpeg",
            "name": book.cover.name.rpartition("/")[2],
            "size": 4,
        }
        contents = reader("ann").contents("library://book/salt/cover")
        assert (contents["mimeType"], base64.b64decode(contents["blob"])) == ("image/jpeg", b"jpeg")
        assert "covers/" not in json.dumps(reader("ann").data("get_book", slug="salt"))

    def test_where_there_are_many_no_storage_is_asked_for_sizes(self, library, reader):
        full(library[0])

        assert "size" not in reader("ann").data("search_books", query="salt")["rows"][0]["cover"]

    def test_bytes_are_read_with_the_type_that_was_declared(self, library, reader):
        full(library[0])
        contents = reader("ann").contents("library://book/salt/raw")

        assert (contents["mimeType"], base64.b64decode(contents["blob"])) == ("image/png", b"\x89PNG")
        assert reader("ann").read("library://book/salt")["raw"]["size"] == 4

    def test_what_is_empty_or_no_long_field_is_not_found(self, library, reader):
        ann, found = reader("ann"), {}
        for name in ("cover", "raw", "internal", "title", "nothing", "pk"):
            answer = ann.request("resources/read", {"uri": f"library://book/tides/{name}"})
            found[name] = answer.error["message"]

        assert set(found.values()) == {"Resource not found"}, found

    def test_a_file_that_the_storage_lost_is_not_found(self, library, reader):
        Book.objects.filter(slug="salt").update(cover="covers/lost.txt")
        answer = reader("ann").request("resources/read", {"uri": "library://book/salt/cover"})

        assert answer.error["message"] == "Resource not found"
        assert "size" not in reader("ann").read("library://book/salt")["cover"]

    def test_a_text_file_comes_as_text_if_it_is_utf_8(self, library, reader):
        library[0].cover.save("notes.txt", ContentFile("Salz über alles".encode()))
        library[1].cover.save("notes.txt", ContentFile(b"\xff\xfe"))

        assert reader("ann").contents("library://book/salt/cover")["text"] == "Salz über alles"
        assert base64.b64decode(reader("ann").contents("library://book/tides/cover")["blob"]) == b"\xff\xfe"

    def test_the_declared_media_type_of_a_file_counts_whatever_its_name(self, server, books, reader):
        class Books(ModelResource):
            fields = ["cover"]
            lookup_field = "slug"
            content_fields = {"cover": "text/vnd.example.track"}

        register(Book, Books, server=server)
        books[0].cover.save("harbour.trk", ContentFile("N 54°".encode()))
        contents = reader("ann").contents("library://book/salt/cover")
        assert (contents["mimeType"], contents["text"]) == ("text/vnd.example.track", "N 54°")
        for row in (reader("ann").read("library://book/salt"), *reader("ann").data("search_books")["rows"]):
            assert row["cover"] is None or row["cover"]["mimeType"] == "text/vnd.example.track"

    def test_a_file_that_is_too_large_is_refused_in_words(self, library, reader, monkeypatch):
        monkeypatch.setattr("django_mcp.model_resources.serializers.MAX_BYTES", 3)
        full(library[0])
        answer = reader("ann").request("resources/read", {"uri": "library://book/salt/cover"})

        assert "too large" in answer.error["message"]


def test_markdown_is_given_where_it_is_asked_for(library: list[Book], reader: Callable[..., Reader]) -> None:
    book = full(library[0])
    contents = reader("ann").contents("library://book/salt?format=markdown")

    assert contents["mimeType"] == "text/markdown"
    lines = contents["text"].splitlines()
    assert lines[0] == "# Salt"
    assert f"* author: [Anna Berg](library://author/{book.author_id})" in lines
    assert "* tags word: sea" in lines
    assert "## text" in lines
    assert "Once…" in lines
    answer = reader("ann").request("resources/read", {"uri": "library://book/salt?format=html"})
    assert answer.error["message"] == "Resource not found"


def test_the_schema_says_what_there_is_and_nothing_of_what_is_not_declared(
    library: list[Book], reader: Callable[..., Reader]
) -> None:
    schema = reader("ann").read("schema://library/book")
    fields = {field["name"]: field for field in schema["fields"]}

    assert set(fields) == set(EVERYTHING)
    assert (schema["model"], schema["list"], schema["row"]) == (
        "library.Book",
        "library://book",
        "library://book/{slug}",
    )
    assert fields["title"]["help_text"] == "As on the cover."
    assert fields["binding"]["choices"] == [
        {"value": "paper", "label": "Paperback"},
        {"value": "cloth", "label": "Cloth"},
    ]
    assert fields["author"]["relation"] == {
        "model": "library.Author",
        "schema": "schema://library/author",
        "many": False,
    }
    assert fields["shout"]["schema"] == {"type": "string", "description": "The title, loudly."}
    (pages,) = schema["filters"]
    assert (pages["name"], pages["schema"]["type"]) == ("pages__gte", "integer")
    assert schema["searched"] == ["title"]
    assert "internal" not in json.dumps(schema)


def test_rows_are_listed_with_their_titles_and_dates(library: list[Book], reader: Callable[..., Reader]) -> None:
    """The icon of all of them is told once, with their template and their tools."""
    full(library[0])
    ann = reader("ann")
    listed = {entry["uri"]: entry for entry in ann.list("resources/list")}

    assert listed["library://book/salt"] == {
        "uri": "library://book/salt",
        "name": "book-salt",
        "title": "Salt",
        "mimeType": "application/json",
        "annotations": {"lastModified": "2026-01-02T03:04:05.000678+00:00"},
    }
    assert "annotations" not in listed["library://book/tides"]
    icons = [{"src": "https://library.example.com/book.png", "mimeType": "image/png"}]
    templates = {entry["uriTemplate"]: entry for entry in ann.list("resources/templates/list")}
    tools = {entry["name"]: entry for entry in ann.list("tools/list")}
    assert templates["library://book/{slug}{?format}"]["icons"] == tools["get_book"]["icons"] == icons


def test_lookup_values_are_completed(library: list[Book], reader: Callable[..., Reader]) -> None:
    ref = {"type": "ref/resource", "uri": "library://book/{slug}{?format}"}
    expected = {
        "": ["foghorn", "lanterns", "night-ferry", "salt", "tides"],
        "n": ["night-ferry"],
        "NIGHT": ["night-ferry"],
        "x": [],
        "%": [],
        "_": [],
        "\0": [],
        "n\0": [],
        "n" * 5000: [],
    }
    found = {}
    for typed in expected:
        params = {"ref": ref, "argument": {"name": "slug", "value": typed}}
        found[typed] = reader("ann").request("completion/complete", params).result["completion"]["values"]

    assert found == expected


def test_integer_keys_are_not_completed(server: MCPServer, people: Any, reader: Callable[..., Reader]) -> None:
    @register(Author, server=server)
    class Authors(ModelResource):
        fields = ["name"]

    Author.objects.create(pk=7, name="Ada")
    ref = {"type": "ref/resource", "uri": "library://author/{pk}{?format}"}
    for typed in ("", "7"):
        params = {"ref": ref, "argument": {"name": "pk", "value": typed}}
        assert reader("ann").request("completion/complete", params).result["completion"]["values"] == []


def test_sums_have_the_places_of_their_column_and_means_two_more(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    @register(Book, server=server)
    class Books(ModelResource):
        fields = ["title", "price"]
        aggregates = {"price": ["sum", "min", "avg"]}

    measures = ["count", "sum_price", "min_price", "avg_price"]
    assert reader("ann").data("aggregate_books", measures=measures)["groups"] == [
        {"count": 5, "sum_price": "65.40", "min_price": "7.00", "avg_price": "13.0800"}
    ]


def by_sql(book: Book) -> Any:
    return Review.objects.raw("SELECT * FROM library_review ORDER BY id")


def some(book: Book) -> Any:
    return [{1: review}.values() for review in book.reviews.order_by("pk")]


def writer(book: Book) -> Any:
    return book.author


def values(book: Book) -> Any:
    return book.reviews.order_by("pk").values("stars")


OTHERS = (by_sql, some, writer, values)


class TestRowsOfComputedFields:
    """Methods and attributes that return rows."""

    @pytest.fixture
    def shelf(self, server: MCPServer, books: list[Book]) -> list[Book]:
        """Books whose computed fields return reviews, of which only the public ones may be seen."""

        @register(Review, server=server)
        class Reviews(ModelResource):
            fields = ["stars"]
            view_permission = None

            def get_queryset(self, ctx: Context) -> models.QuerySet[Review]:
                return super().get_queryset(ctx).filter(is_public=True)

        @register(Book, server=server)
        class Books(ModelResource):
            fields = ["title", "first_hidden", "all_of_them", "by_manager", "as_list", "as_dict", *OTHERS]
            view_permission = None

            def first_hidden(self, book: Book) -> Any:
                return book.reviews.filter(is_public=False).first()

            def all_of_them(self, book: Book) -> Any:
                return book.reviews.order_by("pk")

            def by_manager(self, book: Book) -> Any:
                return book.reviews

            def as_list(self, book: Book) -> list[Any]:
                return [*book.reviews.order_by("pk"), "and more"]

            def as_dict(self, book: Book) -> dict[str, Any]:
                return {"reviews": book.reviews.all(), "hidden": book.reviews.filter(is_public=False).first()}

        return books

    def test_rows_hidden_from_the_caller_are_left_out_and_others_are_links(
        self, shelf: list[Book], reader: Callable[..., Reader]
    ) -> None:
        row = reader().data("get_book", pk=shelf[0].pk)
        review = Review.objects.get(is_public=True)
        link = {"uri": f"library://review/{review.pk}", "title": str(review.pk)}
        assert row["first_hidden"] is None
        assert row["all_of_them"] == [link]
        assert row["by_manager"] == [link]
        assert row["as_list"] == [link, "and more"]
        assert row["as_dict"] == {"reviews": [link], "hidden": None}
        assert row["by_sql"] == [link]
        assert row["some"] == [[link], []]
        assert row["values"] == [{"stars": 4}, {"stars": 5}]

    def test_a_row_of_an_unregistered_model_is_its_key(self, shelf: list[Book], reader: Callable[..., Reader]) -> None:
        assert reader().data("get_book", pk=shelf[0].pk)["writer"] == shelf[0].author_id

    def test_a_property_that_returns_a_manager_shows_its_rows(
        self, server: MCPServer, books: list[Book], reader: Callable[..., Reader], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opinions = property(lambda book: book.reviews(manager="objects"))
        monkeypatch.setattr(Book, "opinions", opinions, raising=False)
        monkeypatch.setattr(Book, "bindings", property(lambda _book: Book.Binding), raising=False)

        @register(Book, server=server)
        class Books(ModelResource):
            fields = ["opinions", "bindings"]
            view_permission = None

        row = reader().data("get_book", pk=books[0].pk)
        assert row["opinions"] == list(books[0].reviews.values_list("pk", flat=True))

    def test_a_title_shows_no_key_of_a_hidden_row(
        self, server: MCPServer, books: list[Book], reader: Callable[..., Reader]
    ) -> None:
        @register(Review, server=server)
        class Reviews(ModelResource):
            fields = ["book", "of_book"]
            title_field = "of_book"
            view_permission = None

            def of_book(self, review: Review) -> Any:
                return review.book

        @register(Book, server=server)
        class Books(ModelResource):
            fields = ["title", "reviews", "about"]
            title_field = "about"
            view_permission = None

            def get_queryset(self, ctx: Context) -> models.QuerySet[Book]:
                return super().get_queryset(ctx).exclude(pk=books[1].pk)

            def about(self, book: Book) -> Any:
                return book.reviews.first()

        other = Review.objects.create(book=books[1], text="x")
        seen = Review.objects.get(text="Wet.")
        titles = {row["title"] for row in reader().data("get_book", pk=books[0].pk)["reviews"]}
        assert titles == {str(books[0].pk)}
        assert reader().data("get_review", pk=seen.pk)["book"]["title"] == str(seen.pk)
        assert reader().data("get_review", pk=other.pk)["book"] is None
