"""Rows that do not exist for the caller: in every place the answer is that to a row that never was."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_mcp import MCPServer, ModelResource, register, tool
from django_mcp.core.context import Context
from django_mcp.core.resources import find_known
from django_mcp.model_resources.checks import found_problems
from tests.clients import LEGACY, Answer
from tests.model_resources.conftest import ByName, Reader
from tests.model_resources.library.models import Author, Book, Draft, Tag
from tests.model_resources.test_attacks import said

pytestmark = pytest.mark.postgresql
MakeReader = Callable[..., Reader]
HIDDEN = ("foghorn", "lanterns")


class Books(ModelResource):
    """Books of the library, of which those on shelf C are hidden."""

    fields = ("title", "price", "pages", "text", "tags__word")
    title_field = "title"
    search_fields = ("title",)
    filterset_fields = ("title", "price__gte", "tags__word")
    ordering = ("-price",)
    ordering_fields = ("pages",)

    def get_queryset(self, ctx: Context) -> Any:
        return super().get_queryset(ctx).exclude(shelf="C")


class BooksBySlug(Books):
    lookup_field = "slug"


class Asked(Books):
    """Books that are asked about one by one."""

    lookup_field = "slug"
    object_permissions = True

    def get_queryset(self, ctx: Context) -> Any:
        return self.model.objects.all()

    def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
        return ctx.user.username != "bob" and (obj is None or obj.shelf != "C")


@pytest.fixture(params=[Books, BooksBySlug, Asked])
def declared(request: pytest.FixtureRequest, server: MCPServer, books: list[Book]) -> type[ModelResource]:
    """Two of the five books are hidden, in each of the ways there are."""
    resource: type[ModelResource] = request.param
    if not resource.object_permissions:
        sums = {"aggregates": {"price": ["max"]}, "group_by_fields": ["title"]}
        resource = type(resource.__name__, (resource,), {"__doc__": resource.__doc__, **sums})
    register(Book, resource, server=server)
    assert found_problems() == []
    return resource


def addresses(declared: type[ModelResource]) -> tuple[Any, Any]:
    """Of a hidden row, and of none; as long as each other."""
    if declared.lookup_field == "slug":
        return "foghorn", "nowhere"
    pk = Book.objects.get(slug="foghorn").pk
    never = next(each for each in range(10 ** len(str(pk)) - 1, 0, -1) if not Book.objects.filter(pk=each).exists())
    return pk, never


def test_asking_for_a_hidden_row_is_asking_for_none(declared: type[ModelResource], reader: MakeReader) -> None:
    ann = reader("ann")
    ann.tool_names()
    suffixes = ["", "/text", "?format=markdown", "?format=json", "/title", "/nosuch"]
    wrong = []
    for suffix in (*suffixes, None):
        hidden, nowhere = (ask(ann, declared, each, suffix) for each in addresses(declared))
        if hidden[0] != nowhere[0] or not (declared.object_permissions or hidden[1] == nowhere[1]):
            wrong.append((suffix, hidden, nowhere))
    assert wrong == []


def ask(reader: Reader, declared: type[ModelResource], row: Any, suffix: str | None) -> tuple[str, int]:
    """What is said of a row, which must be refused, and the number of queries; by the tool where *suffix* is None."""
    with CaptureQueriesContext(connection) as queries:
        if suffix is None:
            answer = reader.call("get_book", **{declared.lookup_field: row})
        else:
            answer = reader.request("resources/read", {"uri": f"library://book/{row}{suffix}"})
    assert "error" in answer.json or answer.result.get("isError")
    return said(answer, str(row)), len(queries)


def everything(reader: Reader, declared: type[ModelResource]) -> dict[str, str]:
    """What lists, searches, sums and completions show."""
    found: dict[str, Any] = {"resources": reader.list("resources/list")}
    page = reader.read("library://book")
    found["rows"] = [page["rows"]]
    while page["next"]:
        page = reader.read(page["next"])
        found["rows"].append(page["rows"])
    searches: list[dict[str, Any]] = [{}, {"query": "foghorn"}, {"query": "lan"}, {"title": "Foghorn"}]
    searches += [{"price__gte": "16"}, {"order_by": "pages"}, {"order_by": "-pages"}, {"tags__word": "fog"}]
    for given in searches:
        for limit in (1, 20):
            found[f"search {given} {limit}"] = walk(reader, limit=limit, **given)
    if "aggregate_books" in reader.tool_names():
        for given in ({"measures": ["count", "max_price"]}, {"by": ["title"]}, {"price__gte": "16"}):
            found[f"aggregate {given}"] = reader.data("aggregate_books", **given)
    for template in reader.list("resources/templates/list"):
        for value in ("", "f", "lan", "1", "2"):
            argument = {"name": declared.lookup_field, "value": value}
            params = {"ref": {"type": "ref/resource", "uri": template["uriTemplate"]}, "argument": argument}
            answer = reader.request("completion/complete", params)
            found[f"complete {template['name']} {value}"] = answer.json.get("result", answer.json.get("error"))
    return {question: json.dumps(answer) for question, answer in found.items()}


def walk(reader: Reader, **given: Any) -> list[Any]:
    shown, cursor = [], None
    while True:
        page = reader.data("search_books", **given, **({"cursor": cursor} if cursor else {}))
        shown.append([page["rows"], page["total"], page["note"]])
        cursor = page["next_cursor"]
        if cursor is None:
            return shown


def test_hidden_rows_are_in_no_list_and_make_no_difference(declared: type[ModelResource], reader: MakeReader) -> None:
    ann = reader("ann")
    before = everything(ann, declared)
    for answer in before.values():
        assert not [word for word in ("Foghorn", "Lanterns", "21.00", '"foghorn') if word in answer]
    Book.objects.filter(shelf="C").first().tags.add(Tag.objects.create(word="fog"))
    Book.objects.filter(slug="lanterns").update(title="Aaa", price=999, pages=1, slug="fox")
    Book.objects.filter(slug="foghorn").update(title="Night", price=11, pages=100)
    changed = everything(ann, declared)
    assert {key: (before[key], changed[key]) for key in before if before[key] != changed[key]} == {}
    Book.objects.filter(shelf="C").delete()
    deleted = everything(ann, declared)
    assert {key: (before[key], deleted[key]) for key in before if before[key] != deleted[key]} == {}


def test_rows_that_are_asked_about_one_by_one_are_neither_counted_nor_added_up(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    register(Book, Asked, server=server)
    ann = reader("ann")
    assert ann.tool_names() == {"search_books", "get_book"}
    assert ann.data("search_books", limit=1)["total"] is None
    assert "of many" in ann.data("search_books", limit=1)["note"]


def test_looking_for_rows_that_may_be_seen_is_bounded(
    server: MCPServer, reader: MakeReader, people: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []

    class Counted(Asked):
        ordering = ("pk",)

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            looked.append(0 if obj is None else obj.pk)
            return super().has_view_permission(ctx, obj)

    author = Author.objects.create(name="Anna Berg")
    made = [Book(title=f"B{at}", slug=f"b{at}", author=author, shelf="C") for at in range(2500)]
    Book.objects.bulk_create([*made, Book(title="Last", slug="last", author=author)])
    register(Book, Counted, server=server)
    ann = reader("ann")
    looked.clear()
    page = ann.data("search_books")
    assert (page["rows"], page["total"]) == ([], None)
    assert len(looked) < 1100
    rows = [row for rows, _, _ in walk(ann) for row in rows]
    assert [row["slug"] for row in rows] == ["last"]
    looked.clear()
    ref = {"type": "ref/resource", "uri": "library://book/{slug}{?format}"}
    answer = ann.request("completion/complete", {"ref": ref, "argument": {"name": "slug", "value": "b"}})
    assert answer.result["completion"]["values"] == []
    assert len(looked) < 1100


@pytest.mark.parametrize("hides", [True, False])
def test_values_and_links_behind_rows_that_are_asked_about_one_by_one(
    server: MCPServer,
    reader: MakeReader,
    books: list[Book],
    hides: bool,
) -> None:
    class Authors(ModelResource):
        fields = ("name",)
        title_field = "name"
        object_permissions = True

        def has_view_permission(self, ctx: Any, obj: Any = None) -> bool:
            return obj is None or not (hides and obj.name == "Anna Berg")

    class LinkedBooks(ModelResource):
        fields = ("title", "author", "author__name", "author__publisher", "author__publisher__name")
        lookup_field = "slug"

    class Tags(ModelResource):
        fields = ("word", "books__author__name", "books__author__publisher__name")

    for model, resource in ((Author, Authors), (Book, LinkedBooks), (Tag, Tags)):
        register(model, resource, server=server)
    assert found_problems() == []
    root = reader("root")
    row = root.read("library://book/salt")
    assert ("Anna Berg" in str(row), row["author"] is None) == (not hides, hides)
    assert ("Harbour House" in str(row), row["author__publisher"] is None) == (not hides, hides)
    shown = str([root.data("search_books"), root.read("library://book"), root.list("resources/list")])
    assert ("Anna" in shown) is not hides
    words = {row["word"]: row for row in (root.read(f"library://tag/{tag.pk}") for tag in Tag.objects.all())}
    assert words["sea"]["books__author__name"] == (["Carl Dahl"] if hides else ["Anna Berg", "Carl Dahl"])
    assert words["sea"]["books__author__publisher__name"] == ([] if hides else ["Harbour House"])


def test_hidden_rows_cannot_be_subscribed_to(
    server: MCPServer, reader: MakeReader, declared: type[ModelResource]
) -> None:
    @tool(server=server)
    def take(ctx: Context, uris: list[str]) -> list[str]:
        """What both eras ask before they take a subscription."""
        return find_known(ctx, uris)

    hidden, nowhere = addresses(declared)
    shown = "salt" if declared.lookup_field == "slug" else Book.objects.get(slug="salt").pk
    uris = [f"library://book/{each}{rest}" for each in (hidden, nowhere, shown) for rest in ("", "/text")]
    taken = json.loads(reader("ann").call("take", uris=uris).text)
    assert taken == [f"library://book/{shown}{rest}" for rest in ("", "/text")]
    assert reader("bob").call("take", uris=uris).text == "[]"


# A default manager that leaves rows out


def test_rows_that_the_default_manager_leaves_out_do_not_exist(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    class Drafts(ModelResource):
        fields = ("title",)
        search_fields = ("title",)
        filterset_fields = ("title",)
        aggregates: Any = {}

    Draft.objects.create(title="Kept")
    gone = Draft.objects.create(title="Binned", deleted=True)
    register(Draft, Drafts, server=server)
    root = reader("root")
    assert root.data("aggregate_drafts")["groups"] == [{"count": 1}]
    assert root.data("search_drafts", query="binned")["total"] == 0
    assert "error" in root.request("resources/read", {"uri": f"library://draft/{gone.pk}"}).json
    assert "Binned" not in str([root.list("resources/list"), root.read("library://draft")])


def test_nor_do_they_where_a_path_leads_to_a_model_that_is_not_registered(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    class WithDrafts(ModelResource):
        fields = ("title", "drafts__title")
        list_fields = fields
        search_fields = ("drafts__title",)
        filterset_fields = ("drafts__title", "drafts__title__isnull")

    Draft.objects.create(title="Kept", book=books[0])
    Draft.objects.create(title="Binned", book=books[0], deleted=True)
    Draft.objects.create(title="Binned", book=books[1], deleted=True)
    register(Book, WithDrafts, server=server)
    root = reader("root")
    shown = root.data("search_books")["rows"]
    assert [row["drafts__title"] for row in shown] == [["Kept"], [], [], [], []]
    assert root.data("search_books", query="binned")["total"] == 0
    assert root.data("search_books", drafts__title="Binned")["total"] == 0
    assert root.data("search_books", drafts__title="Kept")["total"] == 1
    assert root.data("search_books", drafts__title__isnull=True)["total"] == 4


# Permissions and scopes


class ScopedBooks(ModelResource):
    """Books for those whose credential lets them read."""

    fields = ("title", "text")
    search_fields = ("title",)
    aggregates: Any = {}
    scopes = ("books:read",)
    lookup_field = "slug"


def test_a_model_that_may_not_be_viewed_is_nowhere(server: MCPServer, reader: MakeReader, books: list[Book]) -> None:
    register(Book, ScopedBooks, server=server)
    for who in (("bob",), ("",), ("bob", "travel:read books:read"), ("ann", "travel:read other")):
        finds_nothing(reader(*who))


def finds_nothing(outsider: Reader) -> None:
    assert outsider.tool_names() == set()
    for method in ("resources/list", "resources/templates/list"):
        assert outsider.list(method) == []
    for name, given in (("search_books", {}), ("get_book", {"slug": "salt"}), ("aggregate_books", {})):
        nowhere = name.replace("book", "cook")
        assert said(outsider.call(name, **given), name) == said(outsider.call(nowhere, **given), nowhere)
    for rest in ("book", "book/salt", "book/salt/text", "book?cursor=x", "book/salt?format=markdown"):
        answers = [read(outsider, f"library://{each}") for each in (rest, rest.replace("book", "cook"))]
        assert answers[0] == answers[1]
    schemas = [read(outsider, f"schema://library/{each}") for each in ("book", "cook")]
    assert schemas[0] == schemas[1]
    completions = [complete(outsider, f"library://{each}/{{slug}}{{?format}}") for each in ("book", "cook")]
    assert completions[0] == completions[1]


def read(reader: Reader, uri: str) -> str:
    return said(reader.request("resources/read", {"uri": uri}), uri)


def complete(reader: Reader, uri: str) -> str:
    argument = {"name": "slug", "value": "s"}
    answer: Answer = reader.request(
        "completion/complete", {"ref": {"type": "ref/resource", "uri": uri}, "argument": argument}
    )
    return said(answer, uri)


def test_who_has_permission_and_scopes_finds_all_of_it(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    register(Book, ScopedBooks, server=server)
    for scopes in (None, "travel:read books:read", "travel:read other books:read"):
        ann = reader("ann", scopes)
        assert ann.tool_names() == {"search_books", "get_book", "aggregate_books"}
        assert {entry["uri"] for entry in ann.list("resources/list")} >= {"library://book", "library://book/salt"}
        assert ann.read("library://book/salt")["title"] == "Salt"


def test_a_permission_that_is_taken_away_closes_everything_at_once(
    server: MCPServer, reader: MakeReader, books: list[Book], people: dict[str, User]
) -> None:
    register(Book, ScopedBooks, server=server)
    ann = reader("ann")
    assert ann.data("search_books")["total"] == 5
    cursor = ann.data("search_books", limit=1)["next_cursor"]
    server.page_size = 4
    listed = ann.request("resources/list").result["nextCursor"]
    people["ann"].user_permissions.remove(Permission.objects.get(codename="view_book"))
    assert "error" in ann.call("search_books", cursor=cursor).json
    assert ann.request("resources/list", {"cursor": listed}).result["resources"] == []
    assert ann.list("resources/list") == []


@pytest.mark.every_way_in
def test_lists_of_rows_are_not_shared_by_caches(server: MCPServer, reader: MakeReader, books: list[Book]) -> None:
    register(Book, ScopedBooks, server=server)
    root = reader("root")
    if root.version == LEGACY:
        assert "cacheScope" not in root.request("resources/list").result
        return
    uris = ["library://book", "library://book/salt", "library://book/salt/text", "schema://library/book"]
    for method, params in [("resources/list", {}), *(("resources/read", {"uri": uri}) for uri in uris)]:
        assert root.request(method, params).result["cacheScope"] == "private"


def test_a_row_is_hidden_at_each_endpoint_by_its_own_declaration(
    server: MCPServer, make_server: Callable[..., MCPServer], reader: MakeReader, books: list[Book]
) -> None:
    other = make_server("other", authentication=[ByName()])
    register(Book, BooksBySlug, server=server)
    register(Book, type("All", (ModelResource,), {"fields": ("title",), "lookup_field": "slug"}), server=other)
    elsewhere = Reader(other, reader().version, "view")
    elsewhere.user = "ann"
    assert elsewhere.read("library://book/foghorn")["title"] == "Foghorn"
    assert "error" in reader("ann").request("resources/read", {"uri": "library://book/foghorn"}).json
