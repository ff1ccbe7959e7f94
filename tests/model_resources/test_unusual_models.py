"""Models unlike the usual ones: one of them neither fails nor takes the others of its endpoint down."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.postgres.fields import ArrayField, DateRangeField, IntegerRangeField
from django.core.checks import run_checks
from django.db import connection, connections, models, router
from django.forms import modelform_factory
from django.test.utils import CaptureQueriesContext, isolate_apps

from django_mcp import Context, MCPServer, ModelResource, form_tool, register
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Author, Book, Note, Plant, Tag, Watering

MakeReader = Callable[..., Reader]


def expose(server: MCPServer, model: Any, **attributes: Any) -> None:
    resource = type("Declared", (ModelResource,), {"view_permission": None, "__doc__": "Rows.", **attributes})
    register(model, resource, server=server)


def test_a_composite_primary_key_is_refused_at_start_and_other_models_are_served(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    expose(server, Watering, fields=["day", "litres"])
    expose(server, Book, fields=["title"])

    told = [(each.id, str(each.msg)) for each in run_checks(tags=["django_mcp"]) if "Watering" in str(each.msg)]

    assert [number for number, _ in told] == ["django_mcp.E050"]
    assert "library.Watering" in told[0][1]
    assert "plant_id, day" in told[0][1]
    assert reader().tool_names() == {"search_books", "get_book"}
    assert len(reader().list("resources/list")) > len(books)


@pytest.mark.postgresql
def test_a_set_of_rows_with_a_composite_primary_key_can_be_shown_by_its_values(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    fern = Plant.objects.create(name="Fern")
    Watering.objects.create(plant=fern, day="2026-01-02", litres=2)
    Watering.objects.create(plant=fern, day="2026-01-01", litres=3)
    expose(
        server,
        Plant,
        fields=["name", "waterings__litres"],
        filterset_fields=["waterings__litres__gte", "waterings__isnull"],
        filter_only_fields=["waterings"],
    )

    assert reader().data("get_plant", pk=fern.pk)["waterings__litres"] == [3, 2]
    assert reader().data("search_plants", waterings__litres__gte=3)["total"] == 1
    assert reader().data("search_plants", waterings__isnull=True)["total"] == 0
    assert reader().data("search_plants", waterings__isnull=False)["total"] == 1


def test_the_key_of_a_row_with_a_composite_primary_key_is_no_field(server: MCPServer, subtests: Any) -> None:
    for attributes in (
        {"fields": ["name", "waterings__pk"]},
        {"fields": ["name"], "filterset_fields": ["waterings"], "filter_only_fields": ["waterings"]},
    ):
        with subtests.test(attributes), registering(server):
            expose(server, Plant, **attributes)
            (told,) = [each for each in run_checks(tags=["django_mcp"]) if "Plant" in str(each.msg)]
            assert "composite primary key" in str(told.msg)


@pytest.fixture
def plants(books: list[Book]) -> list[Plant]:
    """Two plants, with notes and labels."""
    anna, carl = Author.objects.order_by("name")
    made = [Plant.objects.create(name=name) for name in ("Fern", "Moss")]
    for plant in made:
        for number, writer in enumerate((anna, carl, None)):
            Note.objects.create(about=plant, text=f"{plant.name} {number}", writer=writer)
        plant.labels.set(Tag.objects.all())
    return made


@pytest.mark.postgresql
def test_a_generic_relation_is_followed_backwards_by_filters_but_not_shown(
    server: MCPServer, reader: MakeReader, plants: list[Plant], subtests: Any
) -> None:
    for name in ("plant", "plant__name"):
        with subtests.test(name), registering(server):
            expose(server, Plant, fields=["name"])
            expose(server, Note, fields=["text", name])
            (told,) = [str(each.msg) for each in run_checks(tags=["django_mcp"]) if "Note" in str(each.msg)]
            assert f"{name!r} follows a generic relation backwards, which cannot be shown" in told

    def seen(self: Any, ctx: Context) -> Any:
        return Plant.objects.exclude(name="Moss")

    paths = ["plant", "plant__name"]
    expose(server, Plant, fields=["name"], title_field="name", get_queryset=seen)
    expose(
        server,
        Note,
        fields=["text"],
        filterset_fields=paths,
        filter_only_fields=paths,
        search_fields=["plant__name"],
        ordering_fields=["plant__name"],
        aggregates={},
        group_by_fields=paths,
    )

    def texts(**filters: Any) -> list[str]:
        return [row["text"] for row in reader().data("search_notes", **filters)["rows"]]

    ferns = ["Fern 0", "Fern 1", "Fern 2"]
    assert texts(plant=plants[0].pk) == texts(plant__name="Fern") == texts(query="fern") == ferns
    assert texts(plant__name="Moss") == texts(query="moss") == []
    assert texts(plant=plants[1].pk) == []
    assert texts(order_by="plant__name")[:3] == ferns
    groups = reader().data("aggregate_notes", by=["plant__name"])["groups"]
    assert sorted((str(group["plant__name"]), group["count"]) for group in groups) == [("Fern", 3), ("None", 3)]
    groups = reader().data("aggregate_notes", by=["plant"])["groups"]
    assert sorted((group["plant"] or {}).get("title", "") for group in groups) == ["", "Fern"]


@pytest.mark.postgresql
def test_a_generic_relation_and_a_relation_through_a_manager_of_its_own_are_shown(
    server: MCPServer, reader: MakeReader, plants: list[Plant]
) -> None:
    expose(server, Tag, fields=["word"], title_field="word")
    expose(
        server,
        Plant,
        fields=["name", "notes__text", "notes__writer__name", "labels", "labels__word"],
        filterset_fields=["labels__word"],
    )

    row = reader().data("get_plant", pk=plants[0].pk)

    assert row["notes__text"] == ["Fern 0", "Fern 1", "Fern 2"]
    assert row["notes__writer__name"] == ["Anna Berg", "Carl Dahl"]
    assert row["labels__word"] == ["sea", "night"]
    assert [each["title"] for each in row["labels"]] == ["sea", "night"]
    assert reader().data("search_plants", labels__word="sea")["total"] == 2
    assert reader().read(f"library://plant/{plants[1].pk}")["notes__text"] == ["Moss 0", "Moss 1", "Moss 2"]


@pytest.mark.postgresql
def test_such_sets_show_no_more_rows_than_exist_for_the_caller_and_than_max_related(
    server: MCPServer, reader: MakeReader, plants: list[Plant]
) -> None:
    def rows(self: Any, ctx: Context) -> Any:
        return Note.objects.exclude(text__endswith="0")

    def words(self: Any, ctx: Context) -> Any:
        return Tag.objects.exclude(word="sea")

    def others(self: Any, ctx: Context) -> Any:
        return Author.objects.exclude(name="Carl Dahl")

    expose(server, Note, fields=["text"], get_queryset=rows)
    expose(server, Tag, fields=["word"], get_queryset=words)
    expose(server, Author, fields=["name"], get_queryset=others)
    shown = ["notes__text", "notes__writer__name", "labels__word"]
    expose(server, Plant, fields=["name", *shown], list_fields=shown, max_related=1, filterset_fields=["labels__word"])

    found = reader().data("search_plants")["rows"]

    assert [[row[name] for name in shown] for row in found] == [
        [["Fern 1"], [], ["night"]],
        [["Moss 1"], [], ["night"]],
    ]
    assert reader().data("search_plants", labels__word="sea")["total"] == 0


def test_such_sets_take_as_many_queries_for_many_rows_as_for_one(
    server: MCPServer, reader: MakeReader, plants: list[Plant]
) -> None:
    shown = ["name", "notes__text", "labels__word"]
    expose(server, Plant, fields=shown, list_fields=shown)
    taken = []
    for limit in (1, 2):
        with CaptureQueriesContext(connection) as queries:
            assert len(reader().data("search_plants", limit=limit)["rows"]) == limit
        taken.append(len([each for each in queries if "library_" in each["sql"]]))
    assert taken[0] - taken[1] in (0, 1)  # the first one is counted besides


def test_an_address_that_may_be_null_is_refused_at_start(server: MCPServer, reader: MakeReader) -> None:
    expose(server, Plant, fields=["name"], lookup_field="code")
    expose(server, Book, fields=["title"])

    (told,) = [each for each in run_checks(tags=["django_mcp"]) if "Plant" in str(each.msg)]

    assert told.id == "django_mcp.E025"
    assert "may be null" in str(told.msg)
    assert reader().tool_names() == {"search_books", "get_book"}


def test_an_error_in_one_models_rows_is_logged_and_leaves_the_list_without_them(
    server: MCPServer, reader: MakeReader, books: list[Book], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(self: Any, ctx: Context) -> Any:
        raise RuntimeError("the warehouse is away")

    def wrong(self: Any, ctx: Context) -> Any:
        return Author.objects.extra(where=["no_such_column = 1"])

    expose(server, Tag, fields=["word"], get_queryset=broken)
    expose(server, Author, fields=["name"], get_queryset=wrong)
    expose(server, Book, fields=["title"], title_field="title")

    uris = [each["uri"] for each in reader().list("resources/list")]

    assert [uri for uri in uris if uri.startswith("library://book/")] == [f"library://book/{each.pk}" for each in books]
    assert not [uri for uri in uris if uri.startswith(("library://tag/", "library://author/"))]
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 2
    assert "library.Tag" in logged[0]
    assert "library.Author" in logged[1]


def test_rows_that_get_queryset_takes_from_another_database_can_be_aggregated(
    server: MCPServer, reader: MakeReader, books: list[Book], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows(self: Any, ctx: Context) -> Any:
        return Book.objects.using("mirror").filter(pages__gt=50)

    class Elsewhere:
        """Sends what asks for no database to one that is not there."""

        def db_for_read(self, model: Any, **hints: Any) -> str | None:
            return "nowhere" if model._meta.app_label == "library" and "instance" not in hints else None

    mirror = connections["default"].copy("mirror")
    mirror.connection = connections["default"].connection
    monkeypatch.setitem(connections.settings, "mirror", connections.settings["default"])
    monkeypatch.setattr(connections._connections, "mirror", mirror, raising=False)
    monkeypatch.setattr(router, "routers", [Elsewhere()])
    expose(
        server,
        Book,
        fields=["title", "author__name", "tags__word", "pages"],
        filterset_fields=["tags__word", "author__name"],
        search_fields=["title", "tags__word"],
        aggregates={"pages": ["sum"]},
        group_by_fields=["author__name"],
        get_queryset=rows,
    )

    assert reader().data("aggregate_books", measures=["count"], by=["author__name"])["groups"] == [
        {"author__name": "Anna Berg", "count": 2},
        {"author__name": "Carl Dahl", "count": 3},
    ]
    assert reader().data("aggregate_books", tags__word="night")["groups"] == [{"count": 1}]
    assert reader().data("search_books", query="sea")["total"] == 2
    assert reader().data("get_book", pk=books[2].pk)["tags__word"] == ["sea", "night"]


@isolate_apps("tests.model_resources.library")
def test_an_array_or_a_range_is_shown_but_refused_as_a_filter_and_a_range_is_not_written(
    server: MCPServer, subtests: Any
) -> None:
    class Shelf(models.Model):
        words = ArrayField(models.CharField(max_length=10))
        open = DateRangeField()
        blocks = ArrayField(ArrayField(IntegerRangeField()))

        class Meta:
            app_label = "library"

        def __str__(self) -> str:
            return "shelf"

    shown: dict[str, Any] = {"fields": ["words", "open"], "actions": ["update"], "writable_fields": ["words"]}
    for name in ("words", "open"):
        for lookup in ("exact", "in", "icontains", "gte", "isnull"):
            with subtests.test(name=name, lookup=lookup), registering(server):
                expose(server, Shelf, **shown, filterset_fields={name: [lookup]})
                told = [str(each.msg) for each in run_checks(tags=["django_mcp"]) if "Shelf" in str(each.msg)]
                assert len(told) == (lookup != "isnull")
                assert all(f"Field, which cannot be filtered with {lookup!r}" in each for each in told)
    expose(server, Shelf, **{**shown, "writable_fields": ["words", "open", "blocks"]})
    told = [str(each.msg) for each in run_checks(tags=["django_mcp"]) if "Shelf" in str(each.msg)]
    assert [words.partition("writable_fields: ")[2] for words in told] == [
        "'open' is a range, so it cannot be written.",
        "'blocks' has ranges, so it cannot be written.",
    ]


@pytest.mark.postgresql
def test_groups_by_a_relation_are_links_that_other_tools_take(
    server: MCPServer, reader: MakeReader, books: list[Book]
) -> None:
    def seen(self: Any, ctx: Context) -> Any:
        return Author.objects.exclude(name="Carl Dahl")

    expose(server, Author, fields=["name", "publisher"], title_field="name", get_queryset=seen)
    expose(server, Tag, fields=["word"], lookup_field="word")
    expose(server, Plant, fields=["name"])
    expose(
        server,
        Book,
        fields=["title", "author", "owner"],
        filterset_fields=["author"],
        aggregates={},
        group_by_fields=["author", "owner"],
    )

    groups = reader().data("aggregate_books", by=["author"])["groups"]

    anna = Author.objects.get(name="Anna Berg")
    link = {"uri": f"library://author/{anna.pk}", "title": "Anna Berg"}
    assert sorted(groups, key=lambda group: group["count"]) == [
        {"author": link, "count": 2},
        {"author": None, "count": 3},
    ]
    assert reader().read(link["uri"])["name"] == "Anna Berg"
    assert {group["owner"] for group in reader().data("aggregate_books", by=["owner"])["groups"]} == {
        *User.objects.filter(username__in=["ann", "bob"]).values_list("pk", flat=True),
        None,
    }


def test_a_column_called_model_is_a_column(server: MCPServer) -> None:
    with isolate_apps("tests.model_resources.library"):

        class Car(models.Model):
            model = models.CharField(max_length=20)

            class Meta:
                app_label = "library"

            def __str__(self) -> str:
                return self.model

    expose(server, Car, fields=["model"], search_fields=["model"], title_field="model")
    bound = server.model_resources[Car]
    assert not bound.problems
    row = server.tools["get_car"].definition["outputSchema"]["properties"]["model"]
    assert row["type"] == "string"


def test_a_column_may_have_the_name_that_functions_give_the_context(
    server: MCPServer, reader: MakeReader, db: None
) -> None:
    with isolate_apps("tests.model_resources.library"):

        class Trace(models.Model):  # noqa: DJ008
            ctx = models.SlugField(unique=True, db_column="word")

            class Meta:
                app_label = "library"
                db_table = Tag._meta.db_table

    expose(
        server,
        Trace,
        fields=["ctx"],
        filterset_fields=["ctx"],
        ordering_fields=["ctx"],
        aggregates={},
        lookup_field="ctx",
        actions=["create", "update"],
        writable_fields=["ctx"],
        **dict.fromkeys(("add_permission", "change_permission")),
    )
    form_tool(modelform_factory(Trace, fields=["ctx"]), name="trace", server=server)
    assert not server.model_resources[Trace].problems
    assert not [error for error in run_checks(tags=["django_mcp"]) if "Declared" in str(error.msg)]
    anybody = reader()
    assert anybody.data("create_trace", ctx="a")["ctx"] == "a"
    assert not anybody.call("trace", ctx="c").result.get("isError")
    assert anybody.data("get_trace", ctx="c")["ctx"] == "c"
    assert anybody.data("search_traces", ctx="a")["total"] == 1
    assert anybody.data("update_trace", ctx="a", new_ctx="z")["ctx"] == "z"
    assert {*Tag.objects.values_list("word", flat=True)} == {"c", "z"}
