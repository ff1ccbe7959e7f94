"""One set of tools for many models, instead of a set for each."""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp import MCPServer, ModelResource, register
from tests.exposure.conftest import Reader, registering
from tests.exposure.library.models import Author, Book, Publisher, Tag

SHARED = {"search_records", "get_record", "aggregate_records", "describe_model"}


class Authors(ModelResource):
    """People who write."""

    fields = ["name", "born"]
    title_field = "name"
    search_fields = ["name"]
    ordering = ["name"]
    tools = "shared"


class Books(ModelResource):
    """What they wrote."""

    fields = ["title", "author", "binding", "price", "pages", "shelf"]
    lookup_field = "slug"
    search_fields = ["title"]
    filters = ["price__lte", "pages__in", "binding", "shelf"]
    ordering = ["title"]
    sortable_by = ["price"]
    aggregates = {"price": ["sum"], "pages": ["max"]}
    dimensions = ["shelf"]
    max_rows = 50
    tools = "shared"


@pytest.fixture
def library(server: MCPServer, books: list[Book]) -> list[Book]:
    """Authors and books share tools."""
    register(Author, Authors, server=server)
    register(Book, Books, server=server)
    return books


def permitted(user: User, *codenames: str) -> None:
    user.user_permissions.set(Permission.objects.filter(codename__in=codenames))


def titles(found: Mapping[str, Any]) -> list[str]:
    return [row["title"] for row in found["rows"]]


# Which tools there are


def test_models_that_share_tools_have_no_tools_of_their_own(library: list[Book], reader: Callable[..., Reader]) -> None:
    assert reader("ann").tool_names() == SHARED


def test_a_model_with_tools_of_its_own_is_none_of_the_shared_ones(
    server: MCPServer, library: list[Book], reader: Callable[..., Reader]
) -> None:
    @register(Tag, server=server)
    class Tags(ModelResource):
        fields = ["word"]

    assert Tags
    assert reader("ann").tool_names() == {*SHARED, "search_tags", "get_tag"}
    assert "library.Tag" not in reader("ann").problem("get_record", model="library.Tag", lookup=1).partition(".T")[2]


def test_nothing_is_added_up_where_no_model_declares_it(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    register(Author, Authors, server=server)
    assert reader("ann").tool_names() == SHARED - {"aggregate_records"}


def test_without_a_model_that_shares_there_is_no_shared_tool(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    @register(Tag, server=server)
    class Tags(ModelResource):
        fields = ["word"]

    assert Tags
    assert reader("root").tool_names() == {"search_tags", "get_tag"}


def test_who_may_view_none_of_the_models_has_no_shared_tool(library: list[Book], reader: Callable[..., Reader]) -> None:
    for nobody in (reader("bob"), reader("")):
        assert nobody.tool_names() == set()
        for tool in SHARED:
            answer = nobody.call(tool, model="library.Book", lookup="salt")
            assert answer.error["message"] == f"Unknown tool: {tool!r}."


def test_who_may_view_one_of_the_models_has_the_tools_that_are_of_use_for_it(
    library: list[Book], people: Mapping[str, User], reader: Callable[..., Reader]
) -> None:
    permitted(people["bob"], "view_author")
    assert reader("bob").tool_names() == SHARED - {"aggregate_records"}
    permitted(people["bob"], "view_book")
    assert reader("bob").tool_names() == SHARED


def test_the_tools_look_the_same_to_all_and_name_no_model(
    library: list[Book], people: Mapping[str, User], reader: Callable[..., Reader]
) -> None:
    permitted(people["bob"], "view_book")
    tools = reader("bob").list("tools/list")
    assert tools == reader("ann").list("tools/list")
    written = json.dumps(tools).lower()
    assert not any(word in written for word in ("library", "author", "price", "shelf"))
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools)


def test_tools_list_asks_the_database_the_same_however_many_models_there_are(
    server: MCPServer,
    library: list[Book],
    reader: Callable[..., Reader],
    django_assert_num_queries: Callable[[int], Any],
) -> None:
    ann = reader("ann")
    with CaptureQueriesContext(connection) as before:
        ann.list("tools/list")
    for model in (Tag, Publisher):
        register(model, type("More", (Authors,), {"fields": ["pk"], **PLAIN}), server=server)
    with django_assert_num_queries(len(before)):
        ann.list("tools/list")


PLAIN = {"title_field": None, "search_fields": (), "ordering": ()}


# Which model


def test_models_are_described_to_those_who_may_view_them(
    library: list[Book], people: Mapping[str, User], reader: Callable[..., Reader]
) -> None:
    permitted(people["bob"], "view_book")
    assert reader("bob").data("describe_model") == {
        "models": [
            {
                "model": "library.Book",
                "title": "Books",
                "description": "What they wrote.",
                "schema": "schema://library/book",
            }
        ]
    }
    assert [each["model"] for each in reader("ann").data("describe_model")["models"]] == [
        "library.Author",
        "library.Book",
    ]


def test_a_model_is_described_as_its_schema_describes_it(library: list[Book], reader: Callable[..., Reader]) -> None:
    ann = reader("ann")
    described = ann.data("describe_model", model="library.Book")
    filters = {each["name"]: each["schema"] for each in described["filters"]}
    assert list(filters) == ["price__lte", "pages__in", "binding", "shelf"]
    assert filters["binding"]["enum"] == ["paper", "cloth"]
    assert described == ann.read("schema://library/book")


def test_a_model_that_is_not_for_the_caller_is_as_unknown_as_one_that_is_nowhere(
    library: list[Book], people: Mapping[str, User], reader: Callable[..., Reader]
) -> None:
    permitted(people["bob"], "view_book")
    bob, arguments = reader("bob"), {"get_record": {"lookup": 1}}
    for tool in sorted(SHARED):
        for name in ("library.Author", "library.Nothing"):
            words = bob.problem(tool, model=name, **arguments.get(tool, {}))
            assert words == f"There is no model {name!r}. There are 'library.Book'.", tool


def test_a_model_may_be_named_in_any_case(library: list[Book], reader: Callable[..., Reader]) -> None:
    assert reader("ann").data("get_record", model="library.book", lookup="salt")["title"] == "Salt"


def test_only_models_with_aggregates_can_be_added_up(library: list[Book], reader: Callable[..., Reader]) -> None:
    problem = reader("ann").problem("aggregate_records", model="library.Author")
    assert problem == "There is no model 'library.Author'. There are 'library.Book'."


# Asking


def test_rows_are_found_by_words_filters_and_order(library: list[Book], reader: Callable[..., Reader]) -> None:
    ann = reader("ann")
    everything = ann.data("search_records", model="library.Book")
    assert titles(everything) == ["Foghorn", "Lanterns", "Night Ferry", "Salt", "Tides"]
    assert everything["total"] == 5
    assert titles(ann.data("search_records", model="library.Book", query="ferry")) == ["Night Ferry"]
    cheap = {"price__lte": "12.50", "shelf": "B"}
    assert titles(ann.data("search_records", model="library.Book", filters=cheap)) == ["Tides"]
    found = ann.data("search_records", model="library.Book", order_by="-price", limit=2)
    assert titles(found) == ["Foghorn", "Night Ferry"]


def test_pages_follow_each_other(library: list[Book], reader: Callable[..., Reader]) -> None:
    ann, cursor, seen = reader("ann"), None, []
    asked = {"model": "library.Book", "filters": {"price__lte": 20}, "limit": 3}
    while cursor is not None or not seen:
        found = ann.data("search_records", **asked, **({"cursor": cursor} if cursor else {}))
        seen += titles(found)
        cursor = found["next_cursor"]
    assert seen == ["Lanterns", "Night Ferry", "Salt", "Tides"]


def test_a_cursor_of_other_filters_is_refused(library: list[Book], reader: Callable[..., Reader]) -> None:
    ann = reader("ann")
    cursor = ann.data("search_records", model="library.Book", limit=1)["next_cursor"]
    ann.problem("search_records", model="library.Book", limit=1, cursor=cursor, filters={"shelf": "B"})
    ann.problem("search_records", model="library.Author", limit=1, cursor=cursor)


def test_rows_are_added_up(library: list[Book], reader: Callable[..., Reader]) -> None:
    ann = reader("ann")
    assert ann.data("aggregate_records", model="library.Book")["groups"] == [{"count": 5}]
    asked = {"measures": ["sum_price", "count"], "by": ["shelf"], "filters": {"price__lte": 16}}
    groups = ann.data("aggregate_records", model="library.Book", **asked)["groups"]
    sums = [(each["shelf"], Decimal(each["sum_price"]), each["count"]) for each in groups]
    assert sums == [("A", Decimal("12.5"), 1), ("B", Decimal("24.9"), 2), ("C", Decimal(7), 1)]


def test_nothing_need_be_said_of_what_a_model_does_not_have(
    library: list[Book], server: MCPServer, reader: Callable[..., Reader]
) -> None:
    class Tags(ModelResource):
        fields = ["word"]
        tools = "shared"
        aggregates: Mapping[str, Any] = {}

    register(Tag, Tags, server=server)
    ann = reader("ann")
    nothing = {"query": None, "filters": None}
    found = ann.data("search_records", model="library.Tag", order_by=None, limit=None, cursor=None, **nothing)
    assert [row["word"] for row in found["rows"]] == ["sea", "night"]
    assert ann.data("aggregate_records", model="library.Tag", by=[], **nothing)["groups"] == [{"count": 2}]


WRONG = [
    {"filters": {"price__lte": "cheap"}},
    {"filters": {"prize__lte": 3}},
    {"filters": {"internal": "not to be seen"}},
    {"filters": {"binding": "steel", "pages__in": 3}},
    {"filters": {"author__password__startswith": "p"}},
    {"order_by": "internal"},
    {"limit": 51},
    {"limit": 2, "filters": {"shelf": "A\0"}},
    {"query": " "},
    {"cursor": "nonsense"},
]


def test_what_is_wrong_is_told_in_the_words_of_a_models_own_tool(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    with registering(server):
        register(Book, Books, server=server)
        shared = [reader("ann").problem("search_records", model="library.Book", **asked) for asked in WRONG]
    register(Book, type("Own", (Books,), {"tools": ["search"]}), server=server)
    flat = [{**asked, **asked.get("filters", {})} for asked in WRONG]
    for asked in flat:
        asked.pop("filters", None)
    assert [reader("ann").problem("search_books", **asked) for asked in flat] == shared


def test_measures_and_dimensions_that_were_not_declared_are_refused(
    library: list[Book], reader: Callable[..., Reader]
) -> None:
    ann = reader("ann")
    assert "'count', 'sum_price' or 'max_pages'" in ann.problem(
        "aggregate_records", model="library.Book", measures=["sum_pages"]
    )
    assert "'shelf'" in ann.problem("aggregate_records", model="library.Book", by=["internal"])


def test_filters_hold_filters_alone(library: list[Book], reader: Callable[..., Reader]) -> None:
    for name in ("limit", "cursor", "order_by", "query", "measures", "by", "ctx"):
        for tool in ("search_records", "aggregate_records"):
            problem = reader("ann").problem(tool, model="library.Book", filters={name: 1000})
            assert problem == f"Argument 'filters': {name!r} is no filter.", tool


def test_a_row_that_is_not_there_and_one_that_does_not_exist_for_the_caller_are_the_same(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    class OwnBooks(Books):
        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).filter(owner=ctx.user.pk)

    register(Book, OwnBooks, server=server)
    ann = reader("ann")
    hidden, nowhere = (ann.problem("get_record", model="library.Book", lookup=slug) for slug in ("tides", "nowhere"))
    assert hidden.replace("tides", "nowhere") == nowhere
    assert titles(ann.data("search_records", model="library.Book")) == ["Salt"]
    assert ann.data("aggregate_records", model="library.Book")["groups"] == [{"count": 1}]


def test_a_row_is_addressed_by_number_or_by_its_digits(library: list[Book], reader: Callable[..., Reader]) -> None:
    key, ann = library[0].author_id, reader("ann")
    assert ann.data("get_record", model="library.Author", lookup=key)["name"] == "Anna Berg"
    assert ann.data("get_record", model="library.Author", lookup=str(key))["name"] == "Anna Berg"
    assert "must be an integer" in ann.problem("get_record", model="library.Author", lookup="anna")


# Scopes


@pytest.fixture
def scoped(server: MCPServer, books: list[Book]) -> None:
    register(Author, type("ScopedAuthors", (Authors,), {"scopes": ["library:read", "authors:read"]}), server=server)
    register(Book, type("ScopedBooks", (Books,), {"scopes": ["library:read"]}), server=server)


@pytest.mark.usefixtures("scoped")
def test_a_model_whose_scopes_the_caller_lacks_is_unknown(reader: Callable[..., Reader]) -> None:
    ann = reader("ann", scopes="travel:read library:read")
    assert titles(ann.data("search_records", model="library.Book", limit=1)) == ["Foghorn"]
    assert [each["model"] for each in ann.data("describe_model")["models"]] == ["library.Book"]
    problem = ann.problem("search_records", model="library.Author")
    assert problem == "There is no model 'library.Author'. There are 'library.Book'."


@pytest.mark.usefixtures("scoped")
def test_without_the_scopes_that_all_models_need_there_is_no_shared_tool(reader: Callable[..., Reader]) -> None:
    assert reader("ann", scopes="travel:read authors:read").tool_names() == set()
    assert reader("ann", scopes="travel:read library:read authors:read").tool_names() == SHARED
