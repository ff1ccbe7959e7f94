"""What drf-spectacular's decorators say is what tools say."""

from typing import Any

import pytest
from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_field,
    extend_schema_serializer,
    extend_schema_view,
)
from rest_framework import serializers, viewsets
from rest_framework.decorators import action, api_view
from rest_framework.response import Response

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.contrib.drf.described import shown, taken
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Book


class Wish(serializers.Serializer):
    copies = serializers.IntegerField(min_value=1)


class Stock(serializers.Serializer):
    left = serializers.IntegerField()


@extend_schema_serializer(exclude_fields=["internal"])
class Row(serializers.ModelSerializer):
    internal = serializers.CharField(required=False, source="shelf")
    size = serializers.SerializerMethodField()
    colour = extend_schema_field({"type": "string", "enum": ["red"], "nullable": True, "example": "red"})(
        type("Colour", (serializers.Field,), {})
    )(required=False)

    class Meta:
        model = Book
        fields = ["slug", "title", "internal", "size", "colour"]

    @extend_schema_field(OpenApiTypes.INT)
    def get_size(self, book: Any):
        return book.pages


@extend_schema_view(
    list=extend_schema(
        summary="Browse",
        description="All there is.",
        parameters=[
            OpenApiParameter("shelf", str, enum=["A", "B"], description="Where it stands."),
            OpenApiParameter("sizes", int, many=True, required=True),
            OpenApiParameter("X-Trace", str, OpenApiParameter.HEADER),
            Wish,
        ],
    ),
    destroy=extend_schema(exclude=True),
    create=extend_schema(operation_id="book-add"),
)
class Annotated(viewsets.ModelViewSet):
    """Says little itself."""

    queryset = Book.objects.order_by("slug")
    serializer_class = Row
    lookup_field = "slug"

    @extend_schema(request=Wish, responses={200: OpenApiResponse(Stock), 404: None})
    @action(detail=True, methods=["post"])
    def reserve(self, request: Any, slug: str) -> Response:
        """Keep copies of it."""
        return Response({"left": 5 - int(request.data["copies"])})

    @extend_schema(request=None, responses=Stock(many=True))
    @action(detail=False, methods=["post"])
    def count(self, request: Any) -> Response:
        """Count them."""
        self.get_serializer()
        return Response([{"left": 1}])

    @extend_schema(
        request={"application/json": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        responses=OpenApiTypes.OBJECT,
    )
    @action(detail=False, methods=["post"])
    def anything(self, request: Any) -> Response:
        """Take anything."""
        return Response({"got": request.data})


@extend_schema(request=Wish, responses=Stock)
@api_view(["POST"])
def wish(request: Any) -> Response:
    """Wish for it."""
    return Response({"left": request.data["copies"]})


@pytest.fixture
def tools(server: MCPServer, ann: Reader) -> dict[str, Any]:
    drf_tools(Annotated, mounted=False, server=server)
    drf_tools(wish, mounted=False, server=server)
    return {each["name"]: each for each in ann.list("tools/list")}


def test_words_are_those_of_the_annotation(tools: dict[str, Any]) -> None:
    assert (tools["list_books"]["title"], tools["list_books"]["description"]) == ("Browse", "All there is.")


def test_parameters_are_added(tools: dict[str, Any]) -> None:
    schema = tools["list_books"]["inputSchema"]
    assert schema["properties"] == {
        "shelf": {"type": "string", "enum": ["A", "B"], "description": "Where it stands."},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "copies": {"type": "integer", "minimum": 1},
    }
    assert schema["required"] == ["copies", "sizes"]


def test_what_is_excluded_is_no_tool_unless_it_is_named(tools: dict[str, Any], server: MCPServer, ann: Reader) -> None:
    assert "delete_book" not in tools
    drf_tools(Annotated, actions=["destroy"], mounted=False, server=server)
    assert "delete_book" in ann.tool_names()


def test_an_operation_id_is_a_name(tools: dict[str, Any]) -> None:
    assert "book_add" in tools


def test_request_and_response_are_those_of_the_annotation(tools: dict[str, Any], ann: Reader, books: Any) -> None:
    tool = tools["reserve_book"]
    assert tool["inputSchema"]["properties"]["copies"] == {"type": "integer", "minimum": 1}
    assert tool["outputSchema"]["properties"] == {"left": {"type": "integer"}}
    assert ann.data("reserve_book", slug="salt", copies=2) == {"left": 3}
    assert tools["count_books"]["inputSchema"]["properties"] == {}
    assert ann.data("count_books") == {"result": [{"left": 1}]}
    assert tools["anything_books"]["inputSchema"]["properties"] == {"a": {"type": "integer"}}
    assert ann.data("anything_books", a=1) == {"got": {"a": 1}}


def test_functions_are_annotated_too(tools: dict[str, Any], ann: Reader) -> None:
    assert tools["wish"]["inputSchema"]["required"] == ["copies"]
    assert ann.data("wish", copies=4) == {"left": 4}


def test_fields_and_serializers_are_annotated_too() -> None:
    assert shown(Row())["properties"] == {
        "slug": {"type": "string"},
        "title": {"type": "string", "description": "As on the cover."},
        "size": {"type": "integer"},
        "colour": {"type": ["string", "null"], "enum": ["red", None]},
    }
    assert set(taken(Row())["properties"]) == {"slug", "title", "colour"}


class Flexible(serializers.Serializer):
    """Has the fields that it is made with."""

    x = serializers.IntegerField()
    y = serializers.CharField()

    def __init__(self, *args: Any, only: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields = {only: self.fields[only]}


class Twice(serializers.Serializer):
    first = Flexible(only="x")
    second = Flexible(only="y", many=True)


def test_one_serializer_with_other_fields_in_another_place_is_told_apart() -> None:
    for described in (taken(Twice())["properties"], shown(Twice())["properties"]):
        assert set(described["first"]["properties"]) == {"x"}
        assert set(described["second"]["items"]["properties"]) == {"y"}


class Money(serializers.Field):
    """Of a package, which has an extension for drf-spectacular."""


class MoneyExtension(OpenApiSerializerFieldExtension):
    target_class = Money

    def map_serializer_field(self, auto_schema: Any, direction: str) -> dict[str, Any]:
        return {"type": "string", "pattern": "^[0-9]+ EUR$"}


def test_extensions_of_drf_spectacular_count() -> None:
    made = type("Made", (serializers.Serializer,), {"price": Money()})()
    assert taken(made)["properties"]["price"] == {"type": "string", "pattern": "^[0-9]+ EUR$"}
