"""Rows of models in ``resources/list``: behind what was registered by hand, page by page."""

import datetime
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_mcp import Icon, ModelResource, register, resource
from tests.model_resources.conftest import registering
from tests.model_resources.library.models import Author, Book, Publisher, Tag

pytestmark = pytest.mark.postgresql


def offer(server, model, **attributes: Any) -> None:
    declared = {"fields": ["name"], "view_permission": None, **attributes}
    register(model, type("Offered", (ModelResource,), declared), server=server)


def listed(reader, model="book"):
    """The rows of one model, in all pages."""
    prefix = f"library://{model}/"
    return [entry for entry in reader.list("resources/list") if entry["uri"].startswith(prefix)]


def sizes(reader):
    found, params = [], {}
    while True:
        result = reader.request("resources/list", params).result
        found.append(len(result["resources"]))
        if "nextCursor" not in result:
            return found
        params = {"cursor": result["nextCursor"]}


def test_a_row_is_listed_with_its_uri_name_and_title(server, reader, books):
    offer(server, Book, fields=["title"], lookup_field="slug", title_field="title")
    assert listed(reader())[2] == {
        "uri": "library://book/night-ferry",
        "name": "book-night-ferry",
        "title": "Night Ferry",
        "mimeType": "application/json",
    }


def test_a_row_without_a_title_field_is_called_by_its_key(server, reader, books):
    offer(server, Book, fields=["price"])
    assert [entry["title"] for entry in listed(reader())] == [str(book.pk) for book in books]


def test_the_icons_of_the_declaration_are_not_repeated_in_each_row(server, reader, books):
    offer(server, Book, fields=["title"], icons=[Icon("https://example.com/book.png", sizes=["48x48"])])
    assert not any("icons" in row for row in listed(reader()))
    template, *_ = reader().list("resources/templates/list")
    assert template["icons"] == [{"src": "https://example.com/book.png", "sizes": ["48x48"]}]


@pytest.mark.parametrize("is_aware", [True, False])
def test_a_row_says_when_it_changed(server, reader, books, is_aware):
    with override_settings(TIME_ZONE="Europe/Berlin", USE_TZ=is_aware):
        moment = datetime.datetime(2026, 7, 1, 12, 0, 0, 5)  # noqa: DTZ001 - as a site without USE_TZ has it
        if is_aware:
            moment = moment.replace(tzinfo=datetime.UTC) - datetime.timedelta(hours=2)
        Book.objects.filter(pk=books[0].pk).update(added=moment)
        offer(server, Book, fields=["title", "added"], modified_field="added")
        first, second, *_ = listed(reader())
    assert first["annotations"] == {"lastModified": "2026-07-01T12:00:00.000005+02:00"}
    assert "annotations" not in second


def test_a_row_that_knows_the_day_of_its_change_says_when_that_began(server, reader, books):
    Book.objects.update(published="2026-07-01")
    offer(server, Book, fields=["title", "published"], modified_field="published")
    with override_settings(TIME_ZONE="Europe/Berlin"):
        assert listed(reader())[0]["annotations"] == {"lastModified": "2026-07-01T00:00:00+02:00"}


def test_rows_stand_behind_what_was_registered_by_hand(server, reader, books):
    @resource("notes://hand", server=server)
    def notes() -> str:
        return "By hand."

    offer(server, Book, fields=["title"])
    uris = [entry["uri"] for entry in reader().list("resources/list")]
    assert uris[0] == "notes://hand"
    assert uris[-5:] == [f"library://book/{book.pk}" for book in books]


def test_every_page_but_the_last_is_full_and_nothing_is_listed_twice(server, reader, books):
    for model, fields in ((Publisher, ["name"]), (Book, ["title"]), (Author, ["name"]), (Tag, ["word"])):
        offer(server, model, fields=fields, **({"view_permission": "no.body"} if model is Author else {}))
    count = Publisher.objects.count() + Book.objects.count() + Tag.objects.count()
    wrong = {}
    for server.page_size in range(1, 14):
        server.pages.clear()
        found = sizes(reader())
        uris = [entry["uri"] for entry in reader().list("resources/list")]
        rows = [uri for uri in uris if uri.rpartition("/")[2].isdecimal()]
        if (
            any(each != server.page_size for each in found[:-1])
            or not len(uris) == len(set(uris)) == sum(found)
            or len(rows) != count
            or any(uri.startswith("library://author/") for uri in uris)
        ):
            wrong[server.page_size] = uris
    assert wrong == {}


def test_a_full_page_does_not_tell_of_a_model_that_may_not_be_viewed(server, reader, books):
    offer(server, Book, fields=["title"])
    offer(server, Author, view_permission="no.body")
    own = [entry for entry in reader().list("resources/list") if not entry["uri"].startswith("library://book/")]
    server.page_size = len(own) + 5
    assert "nextCursor" not in reader().request("resources/list").result


def test_no_more_rows_are_listed_than_the_site_wants(server, reader, books):
    wrong = []
    for most, size in product((0, 1, 3, 4, 5, 6, None), (1, 2, 3, 50)):
        with registering(server):
            offer(server, Book, fields=["title"], max_list_size=most)
            offer(server, Tag, fields=["word"])
            server.page_size = size
            shown = [f"library://book/{book.pk}" for book in books][: 5 if most is None else most]
            found = [entry["uri"] for entry in listed(reader())]
            if found != shown or len(listed(reader(), "tag")) != 2:
                wrong.append((most, size, found))
    assert wrong == []


def test_hidden_rows_do_not_count_among_those_that_are_listed(server, reader, books):
    def has_view_permission(self: Any, ctx: Any, obj: Any = None) -> bool:
        return obj is None or obj.shelf != "B"

    options = {"object_permissions": True, "has_view_permission": has_view_permission}
    server.page_size = 1
    visible = [f"library://book/{book.pk}" for book in books if book.shelf != "B"]
    for most in (1, 2, 3):
        with registering(server):
            offer(server, Book, fields=["title"], max_list_size=most, **options)
            assert [entry["uri"] for entry in listed(reader())] == visible[:most]


def test_the_list_goes_on_with_the_next_model_where_one_may_not_be_viewed_any_more(server, reader, books, people):
    offer(server, Book, fields=["title"], view_permission="library.view_book")
    offer(server, Tag, fields=["word"])
    server.page_size = 7
    first = reader("ann").request("resources/list").result
    assert "library://book/" in first["resources"][-1]["uri"]
    people["ann"].user_permissions.remove(Permission.objects.get(codename="view_book"))
    rest, params = [], {"cursor": first["nextCursor"]}
    while params:
        result = reader("ann").request("resources/list", params).result
        rest += [entry["uri"] for entry in result["resources"]]
        params = {"cursor": result["nextCursor"]} if "nextCursor" in result else None
    assert rest == [f"library://tag/{tag.pk}" for tag in Tag.objects.order_by("pk")]


@pytest.mark.parametrize("is_asked", [True, False])
def test_the_list_stays_right_while_the_site_lowers_how_much_is_listed(server, reader, books, is_asked):
    offer(server, Book, fields=["title"], object_permissions=is_asked)
    server.page_size = 4
    result = reader().request("resources/list").result
    assert len([entry for entry in result["resources"] if entry["uri"].startswith("library://book/")]) == 2
    server.model_resources[Book].resource.max_list_size = 1
    assert reader().request("resources/list", {"cursor": result["nextCursor"]}).result["resources"] == []


def test_a_page_of_the_list_reads_no_more_rows_than_it_shows(server, reader, books):
    for at in range(60):
        Book.objects.create(title=f"{at}", slug=f"more-{at}", author=books[0].author, text="long " * 100)
    offer(server, Book, fields=["title", "text"], title_field="title")
    server.page_size = 10
    client, params = reader(), {}
    for _ in range(3):
        with CaptureQueriesContext(
            connection,
        ) as queries:
            result = client.request("resources/list", params).result
        params = {"cursor": result["nextCursor"]}
        for query in queries:
            limit = int(query["sql"].rpartition("LIMIT ")[2])
            assert limit <= 11
            assert '"text"' not in query["sql"]
            assert "OFFSET" not in query["sql"]
        assert len(queries) <= 1


@pytest.mark.parametrize("attribute", ["title_field", "lookup_field"])
def test_a_long_text_that_names_rows_takes_no_query_for_each(
    server, reader, books, attribute, django_assert_num_queries
):
    Book.objects.update(summary="A title.")
    if attribute == "title_field":
        offer(server, Book, fields=["summary"], title_field="summary")
    else:
        offer(server, Book, fields=["summary"], lookup_field="slug")
    server.page_size = 100
    with django_assert_num_queries(1):
        assert len(listed(reader())) == 5


def test_nobody_else_sees_what_only_the_owner_may_list(server, reader, books):
    def get_queryset(self: Any, ctx: Any) -> Any:
        return Book.objects.filter(owner__username=ctx.user.username)

    offer(server, Book, fields=["title"], title_field="title", get_queryset=get_queryset)
    assert [entry["title"] for entry in listed(reader("ann"))] == ["Salt"]
    assert [entry["title"] for entry in listed(reader("bob"))] == ["Tides"]
    assert listed(reader()) == []


@pytest.mark.every_way_in
def test_the_list_is_the_callers_own(server, reader, books, version):
    offer(server, Book, fields=["title"])
    result = reader().request("resources/list").result
    assert result.get("cacheScope", "private") == "private"
