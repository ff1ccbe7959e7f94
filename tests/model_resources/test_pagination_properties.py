"""Paging stays right whatever is added, deleted and changed between two pages."""

import datetime
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, transaction
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_mcp import MCPServer, ModelResource, register
from django_mcp.model_resources import pagination
from tests.clients import MODERN
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Author, Book, Publisher, Tag, Ticket

pytestmark = pytest.mark.postgresql
BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = datetime.datetime(2026, 10, 25, 0, 0, tzinfo=datetime.UTC)
"""Of the night in which Berlin's clocks are turned back."""
numbers = count()

TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4) | st.sampled_from(
    ["a", "A", "b", "ä", "Z", "z", "a b", "a-b", "", " ", "Straße", "STRASSE"]
)
DAYS = st.dates(datetime.date(2026, 1, 1), datetime.date(2026, 1, 4)) | st.dates()
MOMENTS = st.integers(0, 24).map(lambda at: NIGHT + datetime.timedelta(minutes=10 * at)) | st.integers(
    -(10**16), 10**16
).map(lambda at: NIGHT + datetime.timedelta(microseconds=at))
DURATIONS = st.timedeltas(datetime.timedelta(days=-10_000), datetime.timedelta(days=10_000)) | st.timedeltas(
    datetime.timedelta(0), datetime.timedelta(microseconds=2)
)

BOOKS = st.fixed_dictionaries(
    {
        "key": st.uuids(),
        "title": TEXTS,
        "shelf": st.sampled_from("ABab"),
        "pages": st.integers(0, 3) | st.integers(0, 32767),
        "price": st.decimals(-999_999, 999_999, places=2) | st.sampled_from([0, 1, "0.10", "0.30"]),
        "weight": st.none() | st.floats() | st.sampled_from([0.1, 0.1 + 2**-53, 0.3, 1e300]),
        "published": st.none() | DAYS,
        "added": st.none() | MOMENTS,
        "reading_time": st.none() | DURATIONS,
        "summary": TEXTS | st.integers(1, 3).map(lambda times: "long " * 500 * times),
        "author": st.integers(0, 3),
    }
)
CHANGES = st.lists(
    st.tuples(st.just("insert"), BOOKS)
    | st.tuples(st.just("delete"), st.integers(0, 30))
    | st.tuples(st.just("update"), st.integers(0, 30)),
    max_size=3,
)
SCENES = st.tuples(st.lists(BOOKS, max_size=9), st.lists(CHANGES, max_size=6), st.integers(1, 4))
"""What is there, what happens after each page, and how long pages are."""

ORDERS: list[list[str]] = [
    ["pk"],
    ["-pk"],
    ["key"],
    ["-key"],
    ["shelf", "-pages"],
    ["-shelf", "title", "-price"],
    ["published", "-weight", "shelf"],
    ["-published", "added"],
    ["title"],
    ["-title"],
    ["price"],
    ["-price"],
    ["weight"],
    ["-weight"],
    ["added"],
    ["-added"],
    ["reading_time"],
    ["-reading_time"],
    ["summary"],
    ["-summary", "title"],
]
OVER_RELATIONS: list[list[str]] = [
    ["author"],
    ["-author", "pages"],
    ["author__name"],
    ["author__born", "-author__publisher__name"],
    ["-author__born"],
    ["author__publisher"],
    ["-author__publisher__name", "-price"],
]


Tried = Callable[..., Callable[[Callable[..., None]], None]]


@pytest.fixture
def tried(request: pytest.FixtureRequest) -> Tried:
    """Runs a function with values of strategies: ``make test`` and ``.ci/run`` have a look, ``make test-all`` many."""
    is_fast = request.config.getoption("fast") or "FAST_LANE_RUN" in os.environ

    def make(*strategies: Any, thorough: int = 12) -> Callable[[Callable[..., None]], None]:
        examples = 2 if is_fast else thorough
        profile = settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))
        return lambda function: profile(given(*strategies)(function))()

    return make


@pytest.fixture
def nobody(server: MCPServer) -> Reader:
    """A client without a name."""
    return Reader(server, MODERN, "view")


def offer(server: MCPServer, **attributes: Any) -> None:
    """Books for everybody, with more or other *attributes*."""
    fields = ["key", "title", "shelf", "pages", "price", "weight", "published", "added", "reading_time", "summary"]
    beyond = ["author", "author__name", "author__born", "author__publisher__name"]
    declared = {
        "fields": [*fields, *beyond],
        "filter_only_fields": ["author__publisher"],
        "list_fields": ["title"],
        "secret_fields": ["key"],
        "view_permission": None,
        **attributes,
    }
    register(Book, type("Books", (ModelResource,), declared), server=server)


@pytest.fixture
def authors(db: None) -> list[Author]:
    """With the same name, with no day of birth, with no publisher, and one who is not to be seen."""
    house, other = Publisher.objects.create(name="House"), Publisher.objects.create(name="Other")
    return [
        Author.objects.create(name="Same", born="1950-01-01", publisher=other),
        Author.objects.create(name="Same", publisher=house),
        Author.objects.create(name="Nobody's", born="1900-01-01"),
        Author.objects.create(name="Hidden", born="1920-01-01", publisher=house, is_anonymous_writer=True),
    ]


class Shelves:
    """Books that come and go while they are read."""

    def __init__(self, authors: Sequence[Author], rows: Sequence[dict[str, Any]]) -> None:
        self.authors = authors
        self.present: list[int] = []
        for row in rows:
            self.insert(row)
        self.throughout = set(self.present)

    def insert(self, row: dict[str, Any]) -> None:
        author = self.authors[row["author"]]
        book = Book.objects.create(**{**row, "author": author, "slug": f"book-{next(numbers)}"})
        self.present.append(book.pk)

    def change(self, kind: str, what: Any) -> None:
        if kind == "insert":
            self.insert(what)
        elif self.present:
            pk = self.present[what % len(self.present)]
            if kind == "delete":
                Book.objects.filter(pk=pk).delete()
                self.present.remove(pk)
                self.throughout.discard(pk)
            else:
                Book.objects.filter(pk=pk).update(internal=f"changed {next(numbers)}")


def check(scene: Any, authors: Sequence[Author], read: Callable[[int], Iterator[list[int]]], hidden: Any = ()) -> None:
    """*read* gives pages of primary keys, of so many rows; what happens in between happens here.

    Each row that was there throughout comes once and none comes twice; and where nothing happens they come in the
    order in which one page has them all.
    """
    rows, changes, size = scene
    with transaction.atomic():
        shelves = Shelves(authors, rows)
        seen: list[int] = []
        later = iter(changes)
        for page in read(size):
            assert len(page) <= size
            seen += page
            for change in next(later, ()):
                shelves.change(*change)
        assert len(seen) == len(set(seen)), "a row came twice"
        wanted = {pk for pk in shelves.throughout if pk not in hidden_among(hidden)}
        assert wanted <= set(seen), "a row was left out"
        assert not set(seen) & hidden_among(hidden), "a hidden row came"
        at_once = [pk for page in read(100) for pk in page]
        assert [pk for page in read(size) for pk in page] == at_once
        transaction.set_rollback(True)


def hidden_among(condition: Any) -> set[int]:
    return set(Book.objects.filter(**condition).values_list("pk", flat=True)) if condition else set()


def searching(nobody: Reader, tool: str = "search_books", key: str = "pk", **arguments: Any) -> Any:
    """Reads by the tool."""

    def read(size: int) -> Iterator[list[Any]]:
        following: dict[str, str] = {}
        for _ in range(200):
            found = nobody.data(tool, limit=size, **following, **arguments)
            yield [row[key] for row in found["rows"]]
            if found["next_cursor"] is None:
                return
            following = {"cursor": found["next_cursor"]}
        raise AssertionError("the pages do not end")

    return read


@contextmanager
def offering(server: MCPServer, about: str, **attributes: Any) -> Iterator[None]:
    """Books for everybody, which are gone afterwards; *about* stands with what goes wrong meanwhile."""
    try:
        with registering(server):
            offer(server, **attributes)
            yield
    except BaseException as error:
        error.add_note(f"This happened with {about}.")
        raise


def test_search_gives_every_row_once_in_any_order(server, nobody, authors, tried):
    with override_settings(TIME_ZONE="Europe/Berlin"):
        for order in ORDERS:
            with offering(server, f"the order {order}", ordering=order):
                tried(SCENES)(lambda scene: check(scene, authors, searching(nobody)))


def test_search_gives_every_row_once_when_sorted_by_what_other_rows_hold(server, nobody, authors, tried):
    for order in OVER_RELATIONS:
        with offering(server, f"the order {order}", ordering=order):
            tried(SCENES)(lambda scene: check(scene, authors, searching(nobody)))


@pytest.mark.parametrize("is_hidden", [True, False], ids=["some hidden", "all hidden"])
def test_search_gives_every_row_once_when_sorted_by_what_may_be_hidden(server, nobody, authors, is_hidden, tried):
    class Authors(ModelResource):
        fields = ("name", "publisher")
        view_permission = None if is_hidden else "library.view_author"

        def get_queryset(self, ctx):
            return Author.objects.filter(is_anonymous_writer=False)

    register(Author, Authors, server=server)
    for order in OVER_RELATIONS:
        with offering(server, f"the order {order}", ordering=order):
            tried(SCENES)(lambda scene: check(scene, authors, searching(nobody)))


@pytest.mark.parametrize(("batch", "most"), [(200, 1000), (2, 4)], ids=["one batch", "several batches"])
def test_search_gives_every_row_once_where_each_is_asked_about(
    server, nobody, authors, batch, most, monkeypatch, tried
):
    monkeypatch.setattr(pagination, "BATCH", batch)
    monkeypatch.setattr(pagination, "MAX_LOOKED_AT", most)

    def has_view_permission(self: Any, ctx: Any, obj: Any = None) -> bool:
        return obj is None or obj.shelf != "A"

    asked = {"object_permissions": True, "has_view_permission": has_view_permission}
    for order in (["pk"], ["-price", "title"], ["added"]):
        with offering(server, f"the order {order}", ordering=order, **asked):
            tried(SCENES)(lambda scene: check(scene, authors, searching(nobody), {"shelf": "A"}))


def test_search_gives_every_row_once_sorted_as_the_caller_likes(server, nobody, authors, tried):
    ways = ["author__name", "-weight", "-added", "price"]
    with offering(server, "one of these", ordering_fields=[way.removeprefix("-") for way in ways]):
        run = tried(SCENES, st.sampled_from(ways), thorough=48)
        run(lambda scene, way: check(scene, authors, searching(nobody, order_by=way)))


def doors() -> dict[str, Callable[[Any, Any], Any]]:
    """Ways in which sites limit their rows, all of which let all books through."""
    from django.db.models import Count, F, Q, Value
    from django.db.models.functions import Lower

    everything = Book.objects.filter(Q(tags__word__in=["sea", "night"]) | Q(tags=None))
    return {
        "distinct": lambda self, ctx: everything.distinct(),
        "repeated by a join": lambda self, ctx: everything,
        "repeated and annotated": lambda self, ctx: everything.annotate(low=Lower("title")),
        "counted": lambda self, ctx: Book.objects.annotate(n=Count("tags")).filter(n__gte=0),
        "annotated": lambda self, ctx: Book.objects.annotate(writer=F("author__name"), one=Value(1)),
        "select_related": lambda self, ctx: Book.objects.select_related("author__publisher"),
        "only": lambda self, ctx: Book.objects.only("slug"),
        "ordered": lambda self, ctx: Book.objects.order_by("?"),
        "united": lambda self, ctx: Book.objects.filter(pages=0).union(Book.objects.exclude(pages=0)),
        "cut": lambda self, ctx: Book.objects.order_by("pk")[:1000],
        "filtered by a path": lambda self, ctx: Book.objects.filter(author__name__contains=""),
    }


@pytest.mark.parametrize("order", [["pk"], ["-author__born", "price"], ["author__name", "-summary"]], ids=",".join)
def test_search_gives_every_row_once_through_any_queryset(server, nobody, authors, order, tried):
    words = [Tag.objects.create(word=word) for word in ("sea", "night")]

    def run(scene):
        with transaction.atomic():
            rows, _, size = scene
            shelves = Shelves(authors, rows)
            for book in Book.objects.all()[:3]:
                book.tags.set(words)
            for each in (size, 100):
                seen = [pk for page in searching(nobody)(each) for pk in page]
                assert sorted(seen) == sorted(shelves.present)
            assert nobody.data("search_books", limit=1)["total"] == len(rows)
            transaction.set_rollback(True)

    for name, get_queryset in doors().items():
        with offering(server, f"rows that are {name}", ordering=order, get_queryset=get_queryset):
            tried(SCENES, thorough=6)(run)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns"])
@pytest.mark.parametrize("order", [["added"], ["-added"]], ids=",".join)
def test_search_gives_every_row_once_in_the_hour_that_comes_twice_without_use_tz(server, nobody, authors, zone, order):
    offer(server, ordering=order)
    with override_settings(USE_TZ=False, TIME_ZONE=zone):
        for at in range(24):
            moment = NIGHT + datetime.timedelta(minutes=10 * at)
            book = Book.objects.create(author=authors[0], slug=f"book-{next(numbers)}")
            if connection.vendor == "postgresql":  # as another program wrote it
                with connection.cursor() as cursor:
                    cursor.execute("UPDATE library_book SET added = %s WHERE id = %s", [moment, book.pk])
            else:
                naive = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
                Book.objects.filter(pk=book.pk).update(added=naive)
        seen = [pk for page in searching(nobody)(1) for pk in page]
    assert sorted(seen) == sorted(Book.objects.values_list("pk", flat=True))


def test_search_gives_every_row_once_where_keys_are_no_numbers(server, nobody, tried):
    for word in ("sea", "night", "1", "2"):
        Tag.objects.create(word=word)
    keys = st.tuples(st.uuids(), st.sampled_from(["sea", "night", "1", "2", None]))

    def run(tickets, size):
        with transaction.atomic():
            Ticket.objects.bulk_create([Ticket(id=pk, about_id=word) for pk, word in dict(tickets).items()])
            seen = [pk for page in searching(nobody, "search_tickets", "pk")(size) for pk in page]
            if order == ["pk"]:
                assert seen == sorted(seen)
            assert sorted(seen) == sorted(map(str, dict(tickets)))
            transaction.set_rollback(True)

    for order in (["pk"], ["-pk"], ["about"], ["-about", "holder"]):
        with registering(server):
            declared = {"fields": ("holder", "about"), "ordering": order, "view_permission": None}
            register(Ticket, type("Tickets", (ModelResource,), declared), server=server)
            tried(st.lists(keys, max_size=9, unique=True), st.integers(1, 4))(run)


def test_the_list_of_rows_gives_every_row_once(server, nobody, authors, tried):
    offer(server, ordering=["-shelf", "published"])

    def run(scene):
        def read(size: int) -> Iterator[list[int]]:
            server.model_resources[Book].resource.max_page_size = size
            page = nobody.read("library://book")
            yield [row["pk"] for row in page["rows"]]
            while page["next"]:
                page = nobody.read(page["next"])
                yield [row["pk"] for row in page["rows"]]

        check(scene, authors, read)

    tried(SCENES, thorough=25)(run)


@pytest.mark.parametrize("most", [None, 1000])
def test_resources_list_gives_every_row_once_between_those_of_other_models(server, nobody, authors, most, tried):
    class Authors(ModelResource):
        fields = ("name",)
        view_permission = None

    class Publishers(ModelResource):
        fields = ("name",)  # bob may not see any

    register(Author, Authors, server=server)
    register(Publisher, Publishers, server=server)
    offer(server, max_list_size=most)
    register(Tag, type("Tags", (ModelResource,), {"fields": ["word"], "view_permission": None}), server=server)
    words = {Tag.objects.create(word=word).pk for word in ("sea", "night", "fog")}

    def run(scene):
        others: list[str] = []

        def read(size: int) -> Iterator[list[int]]:
            server.page_size = size
            server.pages.clear()
            others.clear()
            params: dict[str, str] = {}
            for _ in range(200):
                result = nobody.request("resources/list", params).result
                uris = [entry["uri"] for entry in result["resources"]]
                others.extend(uri for uri in uris if not uri.startswith("library://book/"))
                yield [int(uri.rpartition("/")[2]) for uri in uris if uri.startswith("library://book/")]
                if "nextCursor" not in result:
                    break
                params = {"cursor": result["nextCursor"]}
            rows = [uri for uri in others if uri.rpartition("/")[2].isdecimal()]
            assert set(rows) == {f"library://author/{each.pk}" for each in authors} | {
                f"library://tag/{pk}" for pk in words
            }
            assert len(others) == len(set(others))

        check(scene, authors, read)

    tried(SCENES, thorough=25)(run)
