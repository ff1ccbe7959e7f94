"""Filters that are methods of a declaration, as ``method=`` of django-filter: their arguments, rows and errors."""

import datetime
import logging
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import pytest
from django.db.models import QuerySet
from pydantic import Field

from django_mcp import MCPServer, ModelResource, ToolError, register
from django_mcp.model_resources.checks import found_problems
from django_mcp.test import MCPClient
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Author, Book, Tag, Volume

Made = Callable[..., Reader]


class Books(ModelResource):
    """Books of the library."""

    fields = ["title", "pages", "binding", "author"]
    search_fields = ["title"]
    filterset_fields = ["binding", "long", "kind", "bound_as", "tagged", "read_within"]
    ordering = ["title"]
    aggregates = {"pages": ["sum"]}
    group_by_fields = ["binding"]
    view_permission = None
    app = True

    def get_queryset(self, ctx: Any) -> Any:
        return super().get_queryset(ctx).exclude(title="Foghorn")

    def filter_long(self, ctx: Any, queryset: QuerySet[Book], value: bool) -> QuerySet[Book]:
        """Only books of more than 200 pages, or only others."""
        return queryset.filter(pages__gt=200) if value else queryset.exclude(pages__gt=200)

    def filter_kind(self, ctx: Any, queryset: Any, value: Literal["mine", "everything"]) -> Any:
        return Book.objects.filter(owner=ctx.user) if value == "mine" else Book.objects.all()

    def filter_bound_as(self, ctx: Any, queryset: Any, value: Book.Binding) -> Any:
        """How the book is bound."""
        return queryset.filter(binding=value.value)

    filter_bound_as.short_description = "binding of the cover"  # type: ignore[attr-defined]

    def filter_tagged(self, ctx: Any, queryset: Any, value: Annotated[list[str], Field(max_length=3)]) -> Any:
        """Books with one of these tags."""
        return queryset.filter(tags__word__in=value)

    def filter_read_within(self, ctx: Any, queryset: Any, value: datetime.timedelta) -> Any:
        """Books that take at most so long."""
        if value.days > 30:
            raise ToolError("Nobody reads for more than a month.")
        return queryset.filter(reading_time__lte=value)


@pytest.fixture
def ann(server: MCPServer, reader: Made, books: list[Book]) -> Reader:
    register(Book, Books, server=server)
    return reader("ann")


def titles(found: Mapping[str, Any]) -> list[str]:
    return [row["title"] for row in found["rows"]]


def test_a_method_is_an_argument_with_its_type_and_docstring(ann: Reader) -> None:
    tools = {tool["name"]: tool["inputSchema"]["properties"] for tool in ann.list("tools/list")}
    for name in ("search_books", "aggregate_books"):
        given = tools[name]
        assert given["long"]["type"] == "boolean"
        assert given["long"]["description"] == "Only books of more than 200 pages, or only others."
        assert given["kind"]["enum"] == ["mine", "everything"]
        assert given["kind"]["description"] == "Filter: kind."
        assert given["tagged"]["type"] == "array"
        assert given["read_within"]["format"] == "duration"
    assert ann.read("schema://library/book")["filters"][1] == {"name": "long", "schema": {"type": "boolean"}}


def test_search_and_aggregates_have_the_rows_of_the_method(ann: Reader) -> None:
    assert titles(ann.data("search_books", long=True)) == ["Night Ferry", "Salt"]
    assert titles(ann.data("search_books", long=False)) == ["Lanterns", "Tides"]
    assert titles(ann.data("search_books", long=True, query="sal")) == ["Salt"]
    assert titles(ann.data("search_books", bound_as="cloth")) == []
    assert titles(ann.data("search_books", long=None)) == ["Lanterns", "Night Ferry", "Salt", "Tides"]
    (group,) = ann.data("aggregate_books", measures=["count", "sum_pages"], long=True)["groups"]
    assert group == {"count": 2, "sum_pages": 550}


def test_a_row_that_a_method_joins_several_times_is_found_once(ann: Reader) -> None:
    found = ann.data("search_books", tagged=["sea", "night"])
    assert titles(found) == ["Night Ferry", "Salt"]
    assert ann.data("aggregate_books", measures=["count"], tagged=["sea", "night"])["groups"] == [{"count": 2}]


def test_pages_continue_with_the_same_filter_alone(ann: Reader) -> None:
    first = ann.data("search_books", long=True, limit=1)
    assert (titles(first), first["total"]) == (["Night Ferry"], 2)
    assert titles(ann.data("search_books", long=True, limit=1, cursor=first["next_cursor"])) == ["Salt"]
    assert "cursor" in str(ann.call("search_books", long=False, limit=1, cursor=first["next_cursor"]).body).lower()


def test_a_method_adds_no_rows_that_the_caller_may_not_see(ann: Reader) -> None:
    assert titles(ann.data("search_books", kind="everything")) == ["Lanterns", "Night Ferry", "Salt", "Tides"]
    assert titles(ann.data("search_books", kind="everything", long=True)) == ["Night Ferry", "Salt"]
    assert titles(ann.data("search_books", long=True, kind="mine")) == ["Salt"]
    assert ann.data("aggregate_books", measures=["count"], kind="everything")["groups"] == [{"count": 4}]


def test_values_of_a_wrong_type_and_errors_of_the_method_are_told(ann: Reader) -> None:
    assert "'long'" in ann.problem("search_books", long="perhaps")
    assert "'kind'" in ann.problem("search_books", kind="others")
    assert "'tagged'" in ann.problem("search_books", tagged=["a", "b", "c", "d"])
    assert ann.problem("search_books", read_within="P31D") == "Nobody reads for more than a month."


def narrow(server: MCPServer, made: Callable[..., Any], **more: Any) -> None:
    class Narrow(ModelResource):
        fields, ordering, filterset_fields, view_permission = ["title"], ["title"], ["own"], None

        def filter_own(self, ctx: Any, queryset: Any, value: bool) -> Any:
            return made(queryset)

        vars().update(more)

    register(Book, Narrow, server=server)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda rows: rows.order_by("-pages")[:2], ["Foghorn", "Night Ferry"]),
        (lambda rows: rows.filter(pages=90) | rows.filter(pages=60), ["Lanterns", "Tides"]),
        (lambda rows: rows.filter(pages=90).union(rows.filter(pages=60)), ["Lanterns", "Tides"]),
        (lambda rows: Volume.objects.filter(pages=90), ["Tides"]),
        (lambda rows: rows.none(), []),
        (lambda rows: rows.filter(tags__isnull=False).distinct(), ["Night Ferry", "Salt"]),
    ],
    ids=["slice", "or", "union", "proxy", "none", "distinct"],
)
@pytest.mark.postgresql
def test_every_queryset_of_the_model_is_taken(
    server: MCPServer, reader: Made, books: list[Book], made: Callable[..., Any], expected: list[str]
) -> None:
    narrow(server, made)
    assert titles(reader("ann").data("search_books", own=True)) == expected


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda rows: None, "not NoneType"),
        (list, "not list"),
        (lambda rows: Author.objects.all(), "not one of library.Author"),
        (lambda rows: rows.values("pk"), "not one of values"),
    ],
)
def test_what_is_no_queryset_of_the_model_is_a_clear_error(
    server: MCPServer,
    reader: Made,
    books: list[Book],
    caplog: pytest.LogCaptureFixture,
    made: Callable[..., Any],
    words: str,
) -> None:
    narrow(server, made)
    with caplog.at_level(logging.ERROR):
        assert "reference" in reader("ann").problem("search_books", own=True)
    assert f"the filter 'own' must return a queryset of library.Book, {words}" in caplog.text


def test_rows_that_are_decided_one_by_one_stay_hidden(server: MCPServer, reader: Made, books: list[Book]) -> None:
    def has_view_permission(self: Any, ctx: Any, obj: Any = None) -> bool:
        return obj is None or obj.title != "Tides"

    narrow(server, lambda rows: Book.objects.filter(pages__lt=100), has_view_permission=has_view_permission)
    assert titles(reader("ann").data("search_books", own=True)) == ["Lanterns"]


def test_a_table_has_its_control_or_its_words(ann: Reader, server: MCPServer, people: Mapping[str, Any]) -> None:
    shown = MCPClient(people["ann"], server=server, apps=True).call("search_books", long=True, tagged=["sea", "night"])
    selects = dict(re.findall(r'<select[^>]*name="(\w+)"[^>]*>(.*?)</select>', shown.html, re.DOTALL))
    assert selects.keys() == {"binding", "long", "kind", "bound_as"}
    assert re.search(r'<option value="true" selected>\s*Yes', selects["long"])
    assert re.findall(r">([^<]+)</option>", selects["bound_as"])[1:] == ["Paperback", "Cloth"]
    assert "Binding of the cover" in shown.html
    assert "Tagged: sea, night" in shown.html


# Declarations


def made_of(**methods: Any) -> dict[str, Any]:
    return {"fields": ["title"], "filterset_fields": ["own"], **methods}


def untyped(self: Any, ctx: Any, queryset: Any, value) -> Any:  # type: ignore[no-untyped-def]
    return queryset


def of_a_row(self: Any, ctx: Any, queryset: Any, value: Author | None) -> Any:
    return queryset


def short(self: Any, queryset: Any, value: bool) -> Any:
    return queryset


def long(self: Any, ctx: Any, queryset: Any, value: bool, *, more: int = 1) -> Any:
    return queryset


async def late(self: Any, ctx: Any, queryset: Any, value: bool) -> Any:
    return queryset


def strange(self: Any, ctx: Any, queryset: Any, value: Callable[[], None]) -> Any:
    return queryset


def good(self: Any, ctx: Any, queryset: Any, value: bool) -> Any:
    return queryset


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "without a type": (made_of(filter_own=untyped), "E022", "'filter_own' must annotate its value"),
    "a row": (made_of(filter_own=of_a_row), "E022", "'filter_own' must annotate its value"),
    "without the context": (made_of(filter_own=short), "E022", "takes ctx, queryset, value"),
    "with more": (made_of(filter_own=long), "E022", "takes ctx, queryset, value"),
    "async": (made_of(filter_own=late), "E022", "must be a synchronous method"),
    "no JSON": (made_of(filter_own=strange), "E022", "has no JSON Schema"),
    "a lookup": (made_of(filter_own=good, filterset_fields={"own": ["lt"]}), "E022", "has no lookup 'lt'"),
    "no method": (made_of(), "E022", "'own'"),
    "a name of another argument": (
        made_of(filter_limit=good, filterset_fields=["limit"]),
        "E071",
        "a filter cannot have the name 'limit'",
    ),
    "a secret": (
        made_of(filter_password=good, filterset_fields=["password"]),
        "E023",
        "'password' in filterset_fields",
    ),
}


def test_a_wrong_filter_is_told_by_the_checks(server: MCPServer, db: None, subtests: Any) -> None:
    for name, (declared, check, words) in WRONG.items():
        with subtests.test(name), registering(server):
            register(Book, type("Wrong", (ModelResource,), declared), server=server)
            (problem,) = found_problems()
            assert problem.id == f"django_mcp.{check}"
            assert words in problem.msg
            assert "%(" not in str(problem.hint)


def test_a_filter_may_have_the_name_of_a_path_or_of_an_option(server: MCPServer, db: None) -> None:
    declared = {"fields": ["word"], "filterset_fields": ["word", "only_field"], "view_permission": None}
    methods = {"filter_word": good, "filter_only_field": good}
    register(Tag, type("Tags", (ModelResource,), {**declared, **methods}), server=server)
    assert found_problems() == []
    given = MCPClient(server=server).definition("search_tags")["inputSchema"]["properties"]
    assert given["word"]["type"] == given["only_field"]["type"] == "boolean", "the method goes first"
