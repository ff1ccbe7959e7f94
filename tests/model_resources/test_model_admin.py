"""What a ``ModelAdmin`` says already need not be said again."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ImproperlyConfigured
from django.db.models import Count, F, QuerySet, Value

from demo_project.travel import admin as travel
from demo_project.travel import models as travel_models
from django_mcp import Context, MCPServer, ModelResource, from_admin, register
from django_mcp.model_resources.checks import found_problems
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Book, Publisher
from tests.model_resources.looking import call_of


class LongBooks(admin.SimpleListFilter):
    title = "length"
    parameter_name = "length"

    def lookups(self, request: Any, model_admin: Any) -> list[tuple[str, str]]:
        return [("long", "Long")]

    def queryset(self, request: Any, queryset: QuerySet[Book]) -> QuerySet[Book]:
        return queryset.filter(pages__gt=300)


class BookAdmin(admin.ModelAdmin):
    list_display = ["title", "internal"]
    search_fields = ["^title", "=slug", "author__name", "shelf__istartswith"]
    list_filter = [
        "binding",
        "author",
        ("published", admin.DateFieldListFilter),
        ("summary", admin.EmptyFieldListFilter),
        LongBooks,
    ]
    ordering = ["-price", F("title")]
    date_hierarchy = "published"
    list_select_related = ["author"]


Made = Callable[..., ModelResource]


@pytest.fixture
def made(server: MCPServer) -> Made:
    """Registers what is made of an admin, and gives the declaration as it stands at the endpoint."""

    def make(model_admin: Any = BookAdmin, /, model: Any = Book, **attributes: Any) -> ModelResource:
        attributes.setdefault("fields", ["title"])
        register(model, from_admin(model_admin, **attributes), server=server)
        return server.model_resources[model].resource

    return make


@pytest.fixture
def call(server: MCPServer, people: Mapping[str, User]) -> Callable[[str], Context]:
    """The context of a call of one of ``people``, as they are in the database."""
    return lambda name: call_of(server, User.objects.get(pk=people[name].pk))


def problems() -> list[str]:
    return [problem.id for problem in found_problems()]


def titles(found: Mapping[str, Any]) -> list[str]:
    return [row["title"] for row in found["rows"]]


def schema(client: Reader, name: str) -> Mapping[str, Any]:
    (tool,) = [each for each in client.list("tools/list") if each["name"] == name]
    return tool["inputSchema"]["properties"]


# What is taken over


def test_what_the_admin_compares_can_be_compared(made: Made, books: list[Book], reader: Callable[..., Reader]) -> None:
    made()
    assert problems() == []
    offered = schema(reader("ann"), "search_books")
    assert list(offered) == [
        "query",
        *("binding", "author", "published", "summary__isnull"),
        *("published__year", "published__month", "published__day"),
        *("order_by", "limit", "cursor"),
    ]
    assert "if every term occurs in one of: title, slug, author name, shelf." in str(offered["query"])


def test_nothing_is_shown_but_what_is_written(made: Made, books: list[Book], reader: Callable[..., Reader]) -> None:
    made(list_fields=["title"])
    (row,) = reader("ann").data("search_books", query="salt")["rows"]
    assert set(row) == {"uri", "pk", "title"}


def test_without_fields_it_is_not_served(server: MCPServer, books: list[Book], reader: Callable[..., Reader]) -> None:
    register(Book, from_admin(BookAdmin), server=server)
    assert problems() == ["django_mcp.E065"]
    assert reader("root").request("tools/list").error["code"] == -32601


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("NIGHT", ["Night Ferry"]),
        ("ferry", []),  # ^title
        ("night-ferry", ["Night Ferry"]),  # =slug
        ("night-fer", []),
        ("berg", ["Salt", "Tides"]),
        ("c", ["Foghorn", "Night Ferry", "Lanterns"]),  # by Carl, and two of them on shelf C
    ],
)
def test_words_are_found_as_in_the_admin(
    made: Made, books: list[Book], reader: Callable[..., Reader], query: str, found: list[str]
) -> None:
    made()
    assert titles(reader("ann").data("search_books", query=query)) == found
    model_admin = BookAdmin(Book, admin.site)
    rows, _ = model_admin.get_search_results(None, Book.objects.order_by("-price"), query)
    assert [book.title for book in rows] == found


@pytest.mark.parametrize(
    ("declared", "means"),
    [
        ("title__iexact", "=title"),
        ("title__exact", "=title"),
        ("author__name__startswith", "^author__name"),
        ("title__icontains", "title"),
        ("@summary", "@summary"),
        ("summary__search", "@summary"),
        ("title", "title"),
        ("author__name", "author__name"),
    ],
)
def test_a_lookup_of_a_search_field_means_the_same(declared: str, means: str) -> None:
    searching = type("Searching", (admin.ModelAdmin,), {"search_fields": [declared]})
    assert from_admin(searching).search_fields == [means]


def test_rows_come_in_the_admins_order(made: Made, books: list[Book], reader: Callable[..., Reader]) -> None:
    made()
    Book.objects.filter(title="Salt").update(price=15)
    assert titles(reader("ann").data("search_books")) == ["Foghorn", "Night Ferry", "Salt", "Tides", "Lanterns"]
    for way in ("price", "-price", "title", "-title"):
        assert len(titles(reader("ann").data("search_books", order_by=way))) == 5
    assert "'-price'" in reader("ann").problem("search_books", order_by="pages")


@pytest.mark.parametrize("ordering", [["?"], [Value(1).asc()], None, ()])
def test_an_order_that_cannot_be_paged_through_is_left_out(
    made: Made, books: list[Book], reader: Callable[..., Reader], ordering: Any
) -> None:
    made(type("Shuffled", (admin.ModelAdmin,), {"ordering": ordering}))
    assert "order_by" not in schema(reader("ann"), "search_books")
    assert titles(reader("ann").data("search_books")) == [book.title for book in books]


def test_descending_expressions_keep_their_direction() -> None:
    kind = type("Sorted", (admin.ModelAdmin,), {"ordering": [F("price").desc(nulls_last=True), F("title").asc()]})
    assert from_admin(kind).ordering == ["-price", "title"]


def test_a_date_hierarchy_can_be_filtered_and_grouped_by(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    made(aggregates={})
    Book.objects.filter(title__in=["Salt", "Tides"]).update(published="2024-05-17")
    ann = reader("ann")
    assert titles(ann.data("search_books", published__year=2024, published__month=5, published__day=17)) == [
        "Salt",
        "Tides",
    ]
    groups = ann.data("aggregate_books", by=["published__year"])["groups"]
    assert {"published__year": 2024, "count": 2} in groups


def test_joins_are_taken_over_where_they_are_named(made: Made) -> None:
    assert made().select_related == ["author"]
    with warnings.catch_warnings(action="ignore"):  # deprecated since Django 6.1
        everything = type("Joined", (admin.ModelAdmin,), {"list_select_related": True})
    assert from_admin(everything).select_related == []


def test_what_is_written_takes_the_place_of_what_the_admin_says(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    made(search_fields=[], filterset_fields=["title"], ordering=["title"])
    offered = schema(reader("ann"), "search_books")
    assert set(offered) == {"title", "order_by", "limit", "cursor"}


def test_a_subclass_says_the_rest(
    server: MCPServer, people: Mapping[str, User], books: list[Book], reader: Callable[..., Reader]
) -> None:
    @register(Book, server=server)
    class Books(from_admin(BookAdmin)):  # type: ignore[misc]
        """Everything on our shelves."""

        fields = ["title", "price_in_words"]
        filterset_fields = ["pages__lte", "binding"]
        filter_only_fields = ["pages"]

        def price_in_words(self, obj: Book) -> str:
            return f"{obj.price} crowns"

    assert Books
    assert problems() == []
    (tool,) = [each for each in reader("ann").list("tools/list") if each["name"] == "search_books"]
    assert tool["description"].startswith("Everything on our shelves.")
    (row,) = reader("ann").data("search_books", pages__lte=60, binding="paper")["rows"]
    assert (row["title"], row["price_in_words"]) == ("Lanterns", "7.00 crowns")


def test_further_paths_must_be_findable_by_somebodys_word(made: Made, books: list[Book]) -> None:
    made(filterset_fields=["internal"])
    assert problems() == ["django_mcp.E024"]


def test_a_secret_is_a_secret_although_the_admin_searches_it(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    made(type("Careless", (admin.ModelAdmin,), {"search_fields": ["author__password"]}))
    assert problems() == ["django_mcp.E023"]
    assert reader("root").request("tools/list").error["code"] == -32601


# What it can be made of


@pytest.mark.parametrize("wrong", [Book, admin.TabularInline, "BookAdmin", None, admin.site])
def test_only_a_model_admin_will_do(wrong: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="from_admin takes a ModelAdmin, not"):
        from_admin(wrong)


def test_a_misspelt_attribute_is_refused() -> None:
    with pytest.raises(ImproperlyConfigured, match="ModelResource has no attribute 'feilds'"):
        from_admin(BookAdmin, feilds=["title"])


def test_an_instance_is_asked_itself(made: Made, books: list[Book], reader: Callable[..., Reader]) -> None:
    instance = BookAdmin(Book, admin.AdminSite("back-office"))
    instance.search_fields = ["shelf"]
    assert made(instance).model_admin is instance
    assert titles(reader("ann").data("search_books", query="b")) == ["Night Ferry", "Tides"]


def test_an_instance_for_another_model_is_refused(made: Made) -> None:
    with pytest.raises(ImproperlyConfigured, match="is for another model"):
        made(BookAdmin(Author, admin.site))


def test_the_registered_instance_is_asked_where_there_is_one(made: Made) -> None:
    admin.site.register(Book, BookAdmin)
    try:
        assert made().model_admin is admin.site.get_model_admin(Book)
    finally:
        admin.site.unregister(Book)


def test_one_that_is_registered_with_other_rules_is_not_asked(made: Made) -> None:
    admin.site.register(Book, type("Lax", (BookAdmin,), {"has_view_permission": lambda *_: True}))
    try:
        asked = made().model_admin
        assert type(asked) is BookAdmin
        assert asked.admin_site is admin.site or asked.admin_site == admin.site
    finally:
        admin.site.unregister(Book)


# Who may


def test_djangos_permissions_decide_as_in_the_admin(
    made: Made,
    books: list[Book],
    reader: Callable[..., Reader],
    people: Mapping[str, User],
    call: Callable[[str], Context],
) -> None:
    resource = made()
    assert resource.has_view_permission(call("ann"))
    assert not resource.has_change_permission(call("ann"))
    assert not resource.has_add_permission(call("ann"))
    assert not resource.has_delete_permission(call("ann"), books[0])
    assert resource.has_add_permission(call("root"))
    for nobody in (people["bob"], AnonymousUser(), None):
        assert not resource.has_view_permission(call_of(resource.server, nobody))
    assert reader("bob").tool_names() == reader().tool_names() == set()


class Editors(admin.ModelAdmin):
    """Whose name begins with "a", may; each their own."""

    def _is_editor(self, request: Any) -> bool:
        assert request.user.pk, "the admin is never asked about anonymous users"
        return request.user.username.startswith("a")

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return self._is_editor(request) and (obj is None or obj.owner == request.user)

    has_change_permission = has_delete_permission = has_view_permission

    def has_add_permission(self, request: Any) -> bool:
        return self._is_editor(request)


def test_an_admins_own_rules_decide_among_those_whom_the_site_lets_in(
    made: Made,
    books: list[Book],
    reader: Callable[..., Reader],
    call: Callable[[str], Context],
) -> None:
    resource = made(Editors)
    hooks = (
        *(resource.has_view_permission, resource.has_add_permission),
        *(resource.has_change_permission, resource.has_delete_permission),
    )
    assert not any(hook(call("ann")) for hook in hooks), "she is not staff"
    User.objects.update(is_staff=True)
    assert all(hook(call("ann")) for hook in hooks)
    assert not any(hook(call("bob")) for hook in hooks)
    assert not any(hook(call_of(resource.server, AnonymousUser())) for hook in hooks)
    assert resource.has_delete_permission(call("ann"), books[0])
    assert not resource.has_delete_permission(call("ann"), books[1])


def test_an_admin_that_decides_row_by_row_is_asked_for_each(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    made(Editors, lookup_field="slug", tools=["search", "get"])
    User.objects.update(is_staff=True)
    ann = reader("ann")
    assert titles(ann.data("search_books")) == ["Salt"]
    assert ann.data("get_book", slug="salt")["title"] == "Salt"
    assert "No book" in ann.problem("get_book", slug="tides")
    assert [
        each["uri"] for each in ann.list("resources/list") if "/salt" in each["uri"] or "/tides" in each["uri"]
    ] == ["library://book/salt"]


def test_a_rule_written_over_that_of_an_admin_is_asked_for_each_row_too(
    server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    class Short(from_admin(BookAdmin, fields=["title"])):  # type: ignore[misc]
        def has_view_permission(self, ctx: Context, obj: Any = None) -> bool:
            return super().has_view_permission(ctx, obj) and (obj is None or obj.pages < 100)

    register(Book, Short, server=server)
    assert problems() == []
    assert sorted(titles(reader("ann").data("search_books"))) == ["Lanterns", "Tides"]
    assert "search_books" not in reader("bob").tool_names()


def test_an_admins_own_rules_read_the_request_of_the_call(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    class Named(admin.ModelAdmin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return request.headers.get("X-User") == "ann"

    User.objects.update(is_staff=True)
    made(Named)
    assert "search_books" in reader("ann").tool_names()
    assert reader("bob").tool_names() == set()


def test_an_anonymous_caller_is_nobody_and_breaks_nothing(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    made(Editors)
    nobody = reader()
    assert nobody.tool_names() == set()
    assert nobody.list("resources/list") == []


def test_a_permission_that_is_written_takes_the_place_of_the_admins(
    made: Made,
    books: list[Book],
    reader: Callable[..., Reader],
    call: Callable[[str], Context],
) -> None:
    resource = made(view_permission=None, change_permission="library.view_book")
    assert len(reader().data("search_books")["rows"]) == 5
    assert resource.has_change_permission(call("ann"))
    assert not resource.has_delete_permission(call("ann"))


# Which rows


class OwnBooks(admin.ModelAdmin):
    """Joined, counted and sorted, as admins do it for their own pages."""

    def get_queryset(self, request: Any) -> QuerySet[Book]:
        assert request.path
        rows = super().get_queryset(request).annotate(reviewed=Count("reviews")).order_by("-reviewed")
        return rows.select_related("author").filter(owner=request.user).distinct()


def test_rows_that_the_admin_does_not_have_do_not_exist(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    made(OwnBooks, lookup_field="slug", aggregates={}, filterset_fields=["pages__gte"], filter_only_fields=["pages"])
    ann = reader("ann")
    found = ann.data("search_books", pages__gte=1)
    assert (titles(found), found["total"]) == (["Salt"], 1)
    assert ann.data("aggregate_books")["groups"] == [{"count": 1}]
    assert "No book" in ann.problem("get_book", slug="tides")
    assert titles(reader("root").data("search_books")) == []


def test_the_admins_rows_never_widen_what_the_model_has(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    from tests.model_resources.library.models import Draft

    class Everything(admin.ModelAdmin):
        def get_queryset(self, request: Any) -> QuerySet[Draft]:
            return Draft.everything.all()

    Draft.objects.create(title="kept")
    Draft.objects.create(title="gone", deleted=True)
    made(Everything, model=Draft)
    assert titles(reader("ann").data("search_drafts")) == ["kept"]


def test_who_is_not_signed_in_has_no_rows_of_an_admin_that_chooses_them(
    made: Made, books: list[Book], reader: Callable[..., Reader]
) -> None:
    made(OwnBooks, view_permission=None)
    assert reader().data("search_books")["rows"] == []
    assert reader().read("library://book")["rows"] == []
    assert titles(reader("bob").data("search_books")) == ["Tides"]


def test_an_admin_that_chooses_rows_is_not_asked_for_those_who_may_see_none(
    made: Made, server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    asked: list[str] = []

    class Noting(admin.ModelAdmin):
        def get_queryset(self, request: Any) -> QuerySet[Author]:
            asked.append(request.user.username)
            return super().get_queryset(request)

    made(Noting, model=Author, fields=["name"], title_field="name")
    made(fields=["title", "author"], view_permission=None)
    assert [row["author"] for row in reader().data("search_books")["rows"]] == [None] * 5
    assert [row["author"] for row in reader("bob").data("search_books")["rows"]] == [None] * 5
    assert asked == []
    assert reader("ann").data("search_books", limit=1)["rows"][0]["author"]["title"] == "Carl Dahl"


def test_only_an_admin_that_chooses_rows_makes_them_less_than_all(made: Made, server: MCPServer) -> None:
    assert made().has_plain_rows
    assert not made(OwnBooks, model=Publisher, fields=["name"]).has_plain_rows
    server.model_resources.clear()
    instance = BookAdmin(Book, admin.site)
    instance.get_queryset = lambda request: Book.objects.filter(shelf="A")  # type: ignore[method-assign]
    assert not made(instance).has_plain_rows


def test_a_row_that_the_admin_joins_is_not_shown_to_those_for_whom_it_does_not_exist(
    made: Made, server: MCPServer, books: list[Book], reader: Callable[..., Reader]
) -> None:
    class Authors(ModelResource):
        fields = ["name"]
        title_field = "name"

        def get_queryset(self, ctx: Any) -> Any:
            return super().get_queryset(ctx).exclude(name="Carl Dahl")

    register(Author, Authors, server=server)
    made(fields=["title", "author", "author__email"], lookup_field="slug")  # BookAdmin joins the author
    shown = reader("ann").data("get_book", slug="foghorn")
    assert (shown["author"], shown["author__email"]) == (None, None)
    assert reader("ann").data("get_book", slug="salt")["author"]["title"] == "Anna Berg"
    # Neither can they be found by it.
    assert titles(reader("ann").data("search_books", query="carl")) == []


# The demo's admin

TRAVEL = {
    travel.CityAdmin: (travel_models.City, ["name", "slug", "country"]),
    travel.AirportAdmin: (travel_models.Airport, ["code", "name"]),
    travel.FlightAdmin: (travel_models.Flight, ["number", "airline", "departs"]),
    travel.HotelAdmin: (travel_models.Hotel, ["name", "stars"]),
    travel.ActivityAdmin: (travel_models.Activity, ["name", "category"]),
    travel.CalendarEventAdmin: (travel_models.CalendarEvent, ["title", "starts"]),
    travel.TripAdmin: (travel_models.Trip, ["title", "rating"]),
    travel.BookingAdmin: (travel_models.Booking, ["reference", "status"]),
    travel.DocumentAdmin: (travel_models.Document, ["title", "category"]),
    travel.RegionPreferenceAdmin: (travel_models.RegionPreference, ["region", "summary"]),
}


def test_the_admins_of_the_travel_agency_are_served_with_nothing_but_fields(
    made: Made, people: Mapping[str, User], reader: Callable[..., Reader]
) -> None:
    for model_admin, (model, fields) in TRAVEL.items():
        assert made(model_admin, model=model, fields=fields).model_admin is admin.site.get_model_admin(model)
    assert problems() == []
    root = reader("root")
    searches = [each for each in root.tool_names() if each.startswith("search_")]
    assert len(searches) == len(TRAVEL)
    assert {each: root.data(each, query="nowhere")["rows"] for each in searches} == {each: [] for each in searches}


def test_flights_are_found_through_their_cities(
    made: Made, people: Mapping[str, User], reader: Callable[..., Reader]
) -> None:
    common = {"latitude": 0, "longitude": 0, "timezone": "UTC", "temp_mean": 10, "temp_swing": 5, "daily_range": 5}
    climate = {"rain_days": 1, "rain_swing": 1, "humidity": 50, "wind": 5, "warmest_month": 7, "wettest_month": 1}
    atlantis, utopia = (
        travel_models.City.objects.create(name=name, slug=name.lower(), airport=code, **common, **climate)
        for name, code in (("Atlantis", "QQA"), ("Utopia", "QQU"))
    )
    for number, ends, day in (("DM1", (atlantis, utopia), 1), ("DM2", (utopia, atlantis), 2)):
        travel_models.Flight.objects.create(
            number=number,
            origin=ends[0],
            destination=ends[1],
            departs=f"2026-03-0{day}T10:00:00Z",
            arrives=f"2026-03-0{day}T12:00:00Z",
            price=100,
            seats_left=5,
        )
    made(travel.FlightAdmin, model=travel_models.Flight, fields=["number", "origin__name"])
    root = reader("root")
    found = root.data("search_flights", query="atlantis", departs__year=2026, departs__day=2, cabin="economy")
    assert [(row["number"], row["origin__name"]) for row in found["rows"]] == [("DM2", "Utopia")]
