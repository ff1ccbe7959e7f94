"""Filters, orders and pages."""

from typing import Any

import django_filters.rest_framework as django_filters
import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from drf_spectacular.utils import extend_schema
from jsonschema import Draft202012Validator
from rest_framework.decorators import action
from rest_framework.pagination import BasePagination
from rest_framework.response import Response
from rest_framework.test import APIClient

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.contrib.drf import shop
from tests.model_resources.conftest import Reader, registering
from tests.model_resources.library.models import Book

Books = list[Book]


@pytest.fixture
def shelves(server: MCPServer, books: Books) -> Books:
    drf_tools(shop.BookViewSet, actions=["list"], server=server)
    return books


def tool(client: Reader, name: str = "list_books") -> dict[str, Any]:
    (found,) = [each for each in client.list("tools/list") if each["name"] == name]
    return found


def slugs(client: Reader, name: str = "list_books", **arguments: Any) -> list[str]:
    return [row["slug"] for row in client.data(name, **arguments)["results"]]


def test_what_a_list_takes_is_told(shelves: Books, ann: Reader) -> None:
    properties = tool(ann)["inputSchema"]["properties"]
    assert properties["search"] == {
        "type": "string",
        "description": "Search terms, matched against: title, author name.",
    }
    assert "price, title" in properties["ordering"]["description"]
    assert properties["cheaper_than"]["description"] == "In euros. "[:-1]
    assert "number" in properties["cheaper_than"]["type"]
    assert set(properties["binding"]["enum"]) == {"paper", "cloth"}
    assert {"pages_min", "pages_max"} <= properties.keys()
    assert properties["slugs"]["type"] == properties["tagged"]["type"] == "array"
    assert properties["shelf"] == {
        "anyOf": [{"type": "string", "enum": ["A", "B", "C"]}, {"type": "null"}],
        "description": "Where it stands.",
    }
    assert (properties["page"]["type"], properties["size"]["type"]) == ("integer", "integer")
    assert "required" not in tool(ann)["inputSchema"]


def test_a_list_is_filtered_as_the_api_does(shelves: Books, ann: Reader, subtests: pytest.Subtests) -> None:
    for arguments, found in [
        ({"search": "anna"}, {"salt", "tides"}),
        ({"search": "night"}, {"night-ferry"}),
        ({"cheaper_than": 9}, {"lanterns"}),
        ({"cheaper_than": "9.95"}, {"lanterns", "tides"}),
        ({"pages_min": 200, "pages_max": 400}, {"salt", "night-ferry"}),
        ({"slugs": ["salt", "tides"]}, {"salt", "tides"}),
        ({"tagged": ["sea"]}, {"salt", "night-ferry"}),
        ({"tagged": ["sea", "night"]}, {"salt", "night-ferry"}),
        ({"shelf": "A"}, {"salt"}),
        ({"shelf": None, "search": "foghorn"}, {"foghorn"}),
        ({"search": "", "size": 50}, {"salt", "tides", "night-ferry", "lanterns", "foghorn"}),
    ]:
        with subtests.test(arguments=arguments, found=found):
            assert set(slugs(ann, **arguments)) == found


def test_a_list_is_ordered(shelves: Books, ann: Reader) -> None:
    assert slugs(ann, ordering="-price", size=2) == ["foghorn", "night-ferry"]


def test_a_filter_that_does_not_fit_is_told(shelves: Books, ann: Reader) -> None:
    assert (
        ann.problem("list_books", cheaper_than="little")
        == "Argument 'cheaper_than': Enter a number. (It was \"little\".)"
    )
    told = ann.problem("list_books", tagged=["sea", "moon"])
    assert told.startswith("Argument 'tagged': ")
    assert "moon" in told


def test_the_next_page_is_told_in_arguments(shelves: Books, ann: Reader) -> None:
    first = ann.data("list_books")
    assert (first["count"], len(first["results"])) == (5, 2)
    assert "page=2" in first["next"]
    assert first["next_arguments"] == {"page": 2}
    assert "previous_arguments" not in first
    second = ann.data("list_books", **first["next_arguments"])
    assert second["next_arguments"] == {"page": 3}
    last = ann.data("list_books", page=3)
    assert "next_arguments" not in last
    assert ann.problem("list_books", page=9) == "Invalid page."


def test_the_text_has_the_next_page_too(shelves: Books, ann: Reader) -> None:
    assert '"next_arguments":{"page":2}' in ann.call("list_books").text.replace(" ", "")


def test_a_page_is_that_of_the_api(shelves: Books, ann: Reader) -> None:
    shown = ann.data("list_books", size=3, page=1)
    assert shown.pop("next_arguments") == {"page": 2, "size": 3}
    assert shown == APIClient().get("/shop/books/?size=3&page=1").json()


def test_every_kind_of_page_can_be_turned(
    server: MCPServer, ann: Reader, books: Books, subtests: pytest.Subtests
) -> None:
    kinds: dict[Any, dict[str, Any]] = {shop.CursorBooks: {}, shop.OffsetBooks: {"limit": 2}}
    for view, first in kinds.items():
        with subtests.test(view=view), registering(server):
            drf_tools(view, server=server)
            seen: list[str] = []
            arguments = first
            for _ in range(3):
                page = ann.data("list_books", **arguments)
                Draft202012Validator(tool(ann)["outputSchema"]).validate(page)
                seen += [row["slug"] for row in page["results"]]
                arguments = page.get("next_arguments", {})
            assert seen == ["lanterns", "tides", "salt", "night-ferry", "foghorn"]
            assert arguments == {}
            assert set(page["previous_arguments"]) <= {"cursor", "limit", "offset"}


def test_the_envelope_of_a_page_is_in_the_output_schema(shelves: Books, ann: Reader) -> None:
    properties = tool(ann)["outputSchema"]["properties"]
    assert properties.keys() >= {"count", "next", "previous", "results", "next_arguments"}
    assert properties["next"] == {"anyOf": [{"type": "string"}, {"type": "null"}]}
    assert properties["results"]["items"]["properties"]["price"] == {"type": "string"}


def test_names_that_no_provider_takes_are_others_in_arguments_and_the_apis_own_in_requests(
    server: MCPServer, books: Books, ann: Reader
) -> None:
    class Pages(shop.BookViewSet.pagination_class):
        page_query_param, page_size_query_param = "page[number]", "page[size]"

    class JSONAPIBooks(shop.BookViewSet):
        pagination_class = Pages

    drf_tools(JSONAPIBooks, actions=["list"], server=server, mounted=False)
    properties = tool(ann)["inputSchema"]["properties"]
    assert {"page_number", "page_size"} <= properties.keys()
    assert "Sent as 'page[size]'." in properties["page_size"]["description"]
    found = ann.data("list_books", page_size=2, page_number=2)
    assert len(found["results"]) == 2
    assert found["next_arguments"] == {"page_number": 3, "page_size": 2}


def test_filters_are_chosen_by_name_and_a_wrong_name_is_told(server: MCPServer, books: Books, ann: Reader) -> None:
    drf_tools(shop.BookViewSet, actions=["list"], filters=["cheaper_than", "binding"], server=server)
    properties = tool(ann)["inputSchema"]["properties"]
    assert {"cheaper_than", "binding", "search", "page"} <= properties.keys()
    assert not {"slugs", "tagged", "pages_min"} & properties.keys()
    assert slugs(ann, cheaper_than=9) == ["lanterns"]
    with registering(server), pytest.raises(ImproperlyConfigured, match=r"no filter 'cheaper'; it has .*cheaper_than"):
        drf_tools(shop.BookViewSet, actions=["list"], filters=["cheaper"], server=server)


def test_a_tool_with_very_many_arguments_is_told_of(server: MCPServer, books: Books) -> None:
    class Many(django_filters.FilterSet):
        for number in range(120):
            locals()[f"at_{number}"] = django_filters.CharFilter(field_name="title")
        del number

    class ManyBooks(shop.BookViewSet):
        filterset_class = Many

    drf_tools(ManyBooks, actions=["list"], server=server)
    (found,) = [each for each in run_checks() if each.id == "django_mcp.W028" and "list_books" in each.msg]
    assert "filters=" in found.hint


def test_of_very_many_filters_those_that_are_made_from_lookups_are_offered_only_where_they_are_named(
    server: MCPServer, books: Books, ann: Reader
) -> None:
    """Packages make a dozen of each filter: name__ic, name__nic, name__empty, and so on."""

    class Many(django_filters.FilterSet):
        written__after = django_filters.NumberFilter(field_name="pages", lookup_expr="gte")

        class Meta:
            model = Book
            fields = ["binding"]

        @classmethod
        def get_filters(cls) -> Any:
            made = {f"title__{number}": django_filters.CharFilter(field_name="title") for number in range(80)}
            return {**super().get_filters(), **made}

    class ManyBooks(shop.BookViewSet):
        filterset_class = Many

    with registering(server):
        drf_tools(ManyBooks, actions=["list"], server=server, mounted=False)
        listed = tool(ann)
        properties = listed["inputSchema"]["properties"]
        assert listed["description"].endswith(" Not offered: further filters by title.")
        assert {"written__after", "binding", "search", "page"} <= properties.keys()
        assert not [name for name in properties if name.startswith("title__")]
        assert not [each for each in run_checks() if each.id == "django_mcp.W028" and "list_books" in each.msg]
    drf_tools(ManyBooks, actions=["list"], filters=["title__3"], server=server, mounted=False)
    properties = tool(ann)["inputSchema"]["properties"]
    assert "title__3" in properties
    assert "binding" not in properties
    assert "Not offered" not in tool(ann)["description"]


def test_a_filter_that_can_never_work_is_left_out_and_the_log_says_why(
    server: MCPServer, books: Books, ann: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(django_filters.FilterSet):
        publisher = django_filters.ModelChoiceFilter(queryset=Book.objects.all(), to_field_name="account")
        shelf = django_filters.CharFilter()

    class WrongBooks(shop.BookViewSet):
        filterset_class = Wrong

    drf_tools(WrongBooks, actions=["list"], server=server, mounted=False)
    properties = tool(ann)["inputSchema"]["properties"]
    assert "publisher" not in properties
    assert "shelf" in properties
    assert "'publisher' of " in caplog.text
    assert "Book has no field 'account'" in caplog.text


class Unsized(shop.TwoByTwo):
    """Pages only where a size is given."""

    page_size = None


class Chapters(BasePagination):
    """A site's own, which has no size."""

    def paginate_queryset(self, queryset: Any, request: Any, view: Any = None) -> list[Any]:
        return list(queryset)

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"rows": data})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"type": "object", "properties": {"rows": schema}}

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        return [{"name": "chapter", "in": "query", "schema": {"type": "integer"}}]


def test_an_answer_has_the_shape_that_its_pages_have(server: MCPServer, books: Books, ann: Reader) -> None:
    for paginator, member in ((Unsized, "result"), (Chapters, "rows")):
        view = type("Paged", (shop.BookViewSet,), {"pagination_class": paginator})
        with registering(server):
            drf_tools(view, actions=["list"], server=server, mounted=False)
            assert member in tool(ann)["outputSchema"]["properties"]
            assert len(ann.data("list_books")[member]) == len(books)


class Found(shop.BookViewSet):
    """An action that filters and pages as the list does."""

    @extend_schema(filters=True, responses=shop.BookSerializer(many=True))
    @action(detail=False)
    def found(self, request: Any) -> Response:
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


def test_an_action_that_says_so_filters_and_pages_too(server: MCPServer, books: Books, ann: Reader) -> None:
    drf_tools(Found, actions=["found"], server=server, mounted=False)
    assert {"search", "cheaper_than", "page"} <= tool(ann, "found_books")["inputSchema"]["properties"].keys()
    assert {"count", "results"} <= tool(ann, "found_books")["outputSchema"]["properties"].keys()
    first = ann.data("found_books", size=2)
    assert (len(first["results"]), first["next_arguments"]) == (2, {"page": 2, "size": 2})
    assert slugs(ann, "found_books", cheaper_than=9) == ["lanterns"]
