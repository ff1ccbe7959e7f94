"""Rows that a tool returns are shown as their model's declaration says, to those for whom they exist."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import product
from typing import Any

import jsonschema
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import models
from django.db.models import QuerySet

from django_mcp import Context, MCPServer, ModelResource, TextContent, ToolResult, register, tool
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Author, Book, Publisher

MakeReader = Callable[..., Reader]


class BookResource(ModelResource):
    """Books on shelf A and B; those on C are not for everybody."""

    fields = ("title", "author", "tags__word", "text")
    list_fields = ("title", "author")
    lookup_field = "slug"
    title_field = "title"
    max_page_size = 3

    def get_queryset(self, ctx: Context) -> models.QuerySet[Any]:
        rows = Book.objects.all()
        return rows if ctx.user.is_superuser else rows.exclude(shelf="C")


class AuthorResource(ModelResource):
    """Authors."""

    fields = ("name",)
    title_field = "name"


@pytest.fixture
def bound(server: MCPServer, books: list[Book]) -> list[Book]:
    register(Author, AuthorResource, server=server)
    register(Book, BookResource, server=server)
    return books


def giving(server: MCPServer, returns: Any, make: Callable[[], Any], colour: str = "sync") -> None:
    """A tool ``give`` that gives what *make* makes, with a return annotation unless that is ``...``."""

    def give() -> Any:
        return make()

    async def give_async() -> Any:
        return make()

    call = give if colour == "sync" else give_async
    call.__annotations__ = {} if returns is ... else {"return": returns}
    tool(server=server, name="give")(call)


def schema(reader: Reader) -> Any:
    return next(each for each in reader.list("tools/list") if each["name"] == "give").get("outputSchema")


def test_a_row_is_shown_as_its_resource_shows_it_and_not_a_field_more(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    salt, ann = Book(pk=bound[0].pk, title="made up", slug="salt", internal="secret"), reader("ann")
    as_resource = ann.data("get_book", slug="salt")
    assert as_resource["title"] == "Salt"
    assert "not to be seen" not in json.dumps(as_resource)
    wrong = []
    for returns, colour in product((Book, ..., Any, models.Model), ("sync", "async")):
        with registering(server):
            giving(server, returns, lambda: salt, colour)
            shown, told = ann.data("give"), schema(ann)
            if shown != as_resource or (told is None) is (returns is Book):
                wrong.append((returns, colour, shown, told))
            if returns is Book:
                jsonschema.validate(shown, told)
    assert wrong == []


def test_many_rows_are_shown_in_their_order_and_the_hidden_ones_not(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    ann, wrong = reader("ann"), []
    kinds = [*product((list[Book], QuerySet, QuerySet[Book]), ("sync", "async")), (Iterator[Book], "sync")]
    for returns, colour in kinds:
        with registering(server):
            giving(server, returns, lambda: Book.objects.order_by("-title"), colour)
            result = ann.call("give").result
            shown = result["structuredContent"]
            salt = {
                "uri": "library://book/salt",
                "slug": "salt",
                "title": "Salt",
                "author": {"uri": f"library://author/{bound[0].author_id}", "title": "Anna Berg"},
            }
            rows = json.loads(result["content"][0]["text"])
            titles = [row["title"] for row in rows]
            # Nothing is said of what does not exist for Ann.
            if titles != ["Tides", "Salt", "Night Ferry"] or rows[1] != salt or len(result["content"]) != 1:
                wrong.append((returns, colour, result))
            jsonschema.validate(shown, schema(ann))
    assert wrong == []


def united(rows: QuerySet[Any]) -> QuerySet[Any]:
    parts = rows.order_by().filter(pages__lt=100), rows.order_by().filter(pages__gte=100)
    return parts[0].union(parts[1]).order_by("title")


def test_rows_that_nobody_annotated_are_shown_likewise(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    for make in (list, tuple, lambda rows: rows, lambda rows: rows[:5], united):
        with registering(server):
            giving(server, ..., lambda make=make: make(Book.objects.order_by("title")))
            answer = reader("ann").call("give")
            assert [row["title"] for row in json.loads(answer.text)] == ["Night Ferry", "Salt", "Tides"], make


def test_more_rows_than_an_answer_has_room_for_are_told(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    giving(server, list[Book], lambda: Book.objects.order_by("title"))
    result = reader("root").call("give").result
    assert [row["title"] for row in json.loads(result["content"][0]["text"])] == ["Foghorn", "Lanterns", "Night Ferry"]
    assert (
        result["content"][1]["text"]
        == "Only the first 3 rows are listed; more were left out. Use search_books for others."
    )


def test_relations_take_a_number_of_queries_that_does_not_depend_on_the_rows(
    server: MCPServer, bound: list[Book], reader: MakeReader, django_assert_num_queries: Any
) -> None:
    def give(most: int) -> list[Book]:
        return list(Book.objects.order_by("title")[:most])

    tool(server=server, read_only=True)(give)
    root = reader("root")
    for most in (1, 3):
        with django_assert_num_queries(3):  # who calls, the tool's own, and the rows with their authors
            assert len(json.loads(root.call("give", most=most).text)) == most


def test_rows_in_a_dict_are_shown_each_as_its_model_says(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    giving(server, ..., lambda: {"book": bound[0], "authors": Author.objects.order_by("name"), "total": 2})
    shown = reader("ann").data("give")
    assert (shown["book"]["title"], shown["total"]) == ("Salt", 2)
    assert [set(row) for row in shown["authors"]] == [{"uri", "pk", "name"}] * 2


HOLDING = [..., dict, dict[str, Any], dict[str, object], ToolResult, ToolResult[dict[str, object]], dict | None]


def test_rows_in_a_dict_are_shown_however_little_its_annotation_says(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    wrong = []
    for returns in HOLDING:
        with registering(server):
            giving(server, returns, lambda: {"book": bound[0], "authors": Author.objects.all(), "total": 2})
            shown = reader("ann").data("give")
            shown = shown.get("result", shown)
            if (shown["book"]["title"], len(shown["authors"]), shown["total"]) != ("Salt", 2, 2):
                wrong.append((returns, shown))
    assert wrong == []


def test_rows_in_a_list_of_dicts_are_shown(server: MCPServer, bound: list[Book], reader: MakeReader) -> None:
    for returns in (..., list, list[Any], list[dict[str, object]], list[dict[str, Book]]):
        with registering(server):
            giving(server, returns, lambda: [{"book": bound[0]}, {"book": bound[1]}])
            titles = [each["book"]["title"] for each in json.loads(reader("ann").call("give").text)]
            assert titles == ["Salt", "Tides"], returns


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: ToolResult[each], lambda each: each | None])
def test_a_dict_of_rows_has_the_schema_of_a_row(
    server: MCPServer, bound: list[Book], reader: MakeReader, wrap: Callable[[Any], Any]
) -> None:
    giving(server, wrap(dict[str, Book]), lambda: {"first": bound[0]})
    ann = reader("ann")
    shown, told = ann.data("give"), schema(ann)
    jsonschema.validate(shown, told)
    assert shown.get("result", shown)["first"] == ann.data("get_book", slug="salt")
    assert "'title': {" in str(told)


def test_a_dict_of_lists_of_rows_has_the_schema_of_what_lists_show(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    giving(server, dict[str, list[Book]], lambda: {"shelf": [bound[0], bound[1]]})
    ann = reader("ann")
    row = schema(ann)["additionalProperties"]["items"]
    assert set(row["properties"]) == {"uri", "slug", "title", "author"}
    assert [each["title"] for each in ann.data("give")["shelf"]] == ["Salt", "Tides"]


def test_rows_where_none_can_be_shown_stop_the_start_with_what_would_be_right(
    server: MCPServer, bound: list[Book]
) -> None:
    returns = tuple[dict[str, Book], ...]
    words = r"is not supported; return rows alone, in a list or in a dict\."
    with pytest.raises(ImproperlyConfigured, match=words):
        giving(server, returns, list)


def test_a_row_with_other_words(server: MCPServer, bound: list[Book], reader: MakeReader) -> None:
    blocks = [TextContent("!")]
    giving(server, ToolResult[Book], lambda: ToolResult(bound[0], text="Salt it is.", content=blocks, meta={"a/b": 1}))
    result = reader("ann").call("give").result
    assert [block["text"] for block in result["content"]] == ["Salt it is.", "!"]
    assert result["structuredContent"]["title"] == "Salt"
    assert result["_meta"]["a/b"] == 1
    jsonschema.validate(result["structuredContent"], schema(reader("ann")))


def test_a_row_or_none(server: MCPServer, bound: list[Book], reader: MakeReader) -> None:
    found: list[Book | None] = [bound[0], None]
    giving(server, Book | None, found.pop)
    ann = reader("ann")
    for expected in (None, "Salt"):
        shown = ann.data("give")
        jsonschema.validate(shown, schema(ann))
        assert shown["result"] is expected or shown["result"]["title"] == expected


def test_no_rows_at_all(server: MCPServer, bound: list[Book], reader: MakeReader) -> None:
    giving(server, list[Book], Book.objects.none)
    ann = reader("ann")
    assert ann.data("give") == ann.as_sent([])


def test_a_hidden_row_gets_the_words_of_one_that_does_not_exist_and_its_change_is_undone(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    @tool(server=server)
    def hide(slug: str) -> Book:
        book = Book.objects.get(slug=slug)
        book.shelf = "C"
        book.save()
        return book

    assert reader("ann").problem("hide", slug="salt") == "No book with slug 'salt' found."
    assert reader("ann").problem("get_book", slug="foghorn") == "No book with slug 'foghorn' found."
    assert Book.objects.get(slug="salt").shelf == "A"
    assert reader("root").data("hide", slug="salt")["slug"] == "salt"


def test_a_new_row_can_be_returned_and_one_that_was_not_saved_cannot(
    server: MCPServer, bound: list[Book], reader: MakeReader
) -> None:
    @tool(server=server)
    def create(title: str, save: bool) -> Author:
        author = Author(name=title)
        if save:
            author.save()
        return author

    assert reader("ann").data("create", title="Eva", save=True)["name"] == "Eva"
    assert reader("ann").problem("create", title="Eva", save=False) == "No author with pk 'None' found."


def test_rows_of_which_nothing_is_said_are_never_shown(
    server: MCPServer, books: list[Book], reader: MakeReader, caplog: pytest.LogCaptureFixture
) -> None:
    house = Publisher.objects.get()
    values: dict[str, Any] = {
        "one": house,
        "many": [house],
        "in a dict": {"house": house},
        "queryset": Publisher.objects.all(),
        "mixed": [Author.objects.all()[0], house],
    }
    wrong = []
    for others in ((), ((Author, AuthorResource),)):
        for name, value in values.items():
            caplog.clear()
            with registering(server):
                for model, resource in others:
                    register(model, resource, server=server)
                giving(server, ..., lambda value=value: value)
                words = reader("ann").problem("give")
            if (
                not words.startswith("Internal server error")
                or "Harbour" in words
                or "12 per cent" in words
                or not ("egister" in caplog.text or "several models" in caplog.text)
            ):
                wrong.append((name, others, words, caplog.text))
    assert wrong == []


def test_a_promised_row_of_which_nothing_is_said_stops_the_start(server: MCPServer) -> None:
    for returns in (Book, list[Book], Book | None, ToolResult[Book], Iterator[Book]):
        with pytest.raises(ImproperlyConfigured, match=r"its result: library\.Book is not registered"):
            giving(server, returns, list)


def test_what_values_chose_is_given_as_it_is(server: MCPServer, bound: list[Book], reader: MakeReader) -> None:
    giving(server, ..., lambda: Book.objects.order_by("title").values("title")[:1])
    assert json.loads(reader("ann").call("give").text) == [{"title": "Foghorn"}]


def test_rows_that_are_yielded_are_rows_of_the_result(server: MCPServer, bound: list[Book], reader: MakeReader) -> None:
    @tool(server=server)
    def walk() -> Iterator[Book]:
        yield from Book.objects.order_by("title")

    @tool(server=server)
    async def walk_async() -> AsyncIterator[Book]:
        async for book in Book.objects.order_by("title"):
            yield book

    for name in ("walk", "walk_async"):
        assert [row["title"] for row in json.loads(reader("ann").call(name).text)] == ["Night Ferry", "Salt", "Tides"]
