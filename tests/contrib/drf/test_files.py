"""A call with a file: the serializer gets the other values as it gets them without one."""

import base64
from typing import Any

import pytest
from rest_framework import generics, parsers, serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Book, Review, Tag

FILE = {"filename": "a.txt", "content": base64.b64encode(b"hello").decode()}
FORMS = (parsers.MultiPartParser, parsers.FormParser)


class Line(serializers.Serializer):
    name = serializers.CharField()
    is_gift = serializers.BooleanField(required=False)
    data = serializers.JSONField(required=False)
    tags = serializers.ListField(child=serializers.CharField(), required=False)
    photo = serializers.FileField(required=False)


class Everything(serializers.Serializer):
    file = serializers.FileField(required=False)
    files = serializers.ListField(child=serializers.FileField(), required=False)
    name = serializers.CharField(required=False)
    note = serializers.CharField(required=False, allow_null=True, allow_blank=True)
    count = serializers.IntegerField(required=False, allow_null=True)
    is_open = serializers.BooleanField(required=False)
    is_known = serializers.BooleanField(required=False, allow_null=True)
    data = serializers.JSONField(required=False, allow_null=True)
    kinds = serializers.MultipleChoiceField(choices=["a", "b"], default=["b"])
    words = serializers.ListField(child=serializers.CharField(), required=False)
    datas = serializers.ListField(child=serializers.JSONField(), required=False)
    labels = serializers.DictField(child=serializers.IntegerField(), required=False)
    line = Line(required=False, allow_null=True)
    lines = Line(many=True, required=False)
    tags = serializers.PrimaryKeyRelatedField(many=True, queryset=Tag.objects.all(), required=False)


received: list[dict[str, Any]] = []


class Keep(APIView):
    """Keep what was sent."""

    serializer_class = Everything

    def get_serializer(self, **options: Any) -> Any:
        return self.serializer_class(**options)

    def post(self, request: Request) -> Response:
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        received.append(
            {name: value for name, value in serializer.validated_data.items() if name not in {"file", "files"}}
        )
        return Response(
            {"files": {name: [each.name for each in request.FILES.getlist(name)] for name in request.FILES}}
        )

    def patch(self, request: Request) -> Response:
        serializer = self.get_serializer(data=request.data, partial=True)
        serializer.is_valid(raise_exception=True)
        received.append(
            {name: value for name, value in serializer.validated_data.items() if name not in {"file", "files"}}
        )
        return Response({})


class KeepForm(Keep):
    parser_classes = FORMS


SENT: tuple[dict[str, Any], ...] = (
    {},
    {"data": {"a": 1}},
    {"data": [1]},
    {"data": "text"},
    {"data": None},
    {"data": []},
    {"data": {}},
    {"data": {"a": {"b": [None, True]}}},
    {"note": ""},
    {"note": None, "count": None, "is_known": None},
    {"is_open": False, "is_known": False},
    {"count": 7, "name": "7"},
    {"kinds": []},
    {"kinds": ["a"]},
    {"words": []},
    {"words": ["true", "1"]},
    {"datas": [{"a": 1}, [2], "c"]},
    {"labels": {}},
    {"labels": {"a": 1}},
    {"line": None},
    {"line": {"name": "x"}},
    {"line": {"name": "x", "data": {"a": 1}, "tags": []}},
    {"lines": []},
    {"lines": [{"name": "x", "data": [1], "tags": ["a"], "is_gift": True}, {"name": "y"}]},
    {"tags": []},
)


@pytest.mark.parametrize("method", ["post", "patch"])
@pytest.mark.parametrize("view", [Keep, KeepForm])
def test_a_serializer_gets_with_a_file_what_it_gets_without(
    server: MCPServer, ann: Reader, subtests: pytest.Subtests, view: type[Keep], method: str
) -> None:
    drf_tools(view, names={"post": "post_thing", "patch": "patch_thing"}, mounted=False, server=server)
    for sent in SENT:
        with subtests.test(sent=sent):
            serializer = Everything(data=sent, partial=method == "patch")
            serializer.is_valid(raise_exception=True)
            received.clear()
            ann.data(f"{method}_thing", **sent, file=FILE)
            ann.data(f"{method}_thing", **sent)
            assert received == [{**serializer.validated_data}] * 2


@pytest.mark.parametrize("view", [Keep, KeepForm])
def test_one_file_several_and_a_nested_one_arrive_as_files(server: MCPServer, ann: Reader, view: type[Keep]) -> None:
    drf_tools(view, names={"post": "keep", "patch": "change"}, mounted=False, server=server)
    lines = [{"name": "x", "photo": FILE}, {"name": "y"}]
    answer = ann.data("keep", file=FILE, files=[FILE], lines=lines, line={"name": "z", "photo": FILE})
    assert answer == {"files": {"file": ["a.txt"], "files": ["a.txt"]}}
    assert received[-1]["lines"][0]["photo"].read() == b"hello"
    assert received[-1]["line"]["photo"].name == "a.txt"
    assert ann.data("keep", line={"name": "z", "photo": FILE}) == {"files": {}}
    assert "Argument 'line'" in ann.problem("keep", line={"name": "z", "photo": {**FILE, "content": "?"}})
    ann.data("keep", data=FILE)
    assert received[-1]["data"] == FILE


class ReviewSerializer(serializers.ModelSerializer):
    file = serializers.FileField(write_only=True, required=False)

    class Meta:
        model = Review
        fields = ("text", "is_public", "file")

    def validate(self, data: dict[str, Any]) -> dict[str, Any]:
        data.pop("file", None)
        return data


@pytest.mark.parametrize("taken", [None, FORMS, FORMS[1:]])
def test_a_models_default_is_kept_where_a_form_would_have_an_unchecked_box(
    server: MCPServer, ann: Reader, books: list[Book], taken: Any
) -> None:
    class Add(generics.CreateAPIView):
        serializer_class = ReviewSerializer

        def perform_create(self, serializer: Any) -> None:
            serializer.save(book=books[0])

    if taken is not None:
        Add.parser_classes = taken
    drf_tools(Add, names={"post": "add"}, mounted=False, server=server)
    assert ann.data("add", text="Good.")["is_public"] is True
    if taken != FORMS[1:]:
        assert ann.data("add", text="Good.", file=FILE)["is_public"] is True
        assert ann.data("add", text="Good.", is_public=False, file=FILE)["is_public"] is False


class Renaming(parsers.MultiPartParser):
    """A parser of the site's own, as packages for camel case have."""

    def parse(self, *arguments: Any, **options: Any) -> Any:
        result = super().parse(*arguments, **options)
        result.data._mutable = True
        result.data["name"] = result.data["name"].upper()
        return result


def test_what_expects_a_form_gets_one(server: MCPServer, ann: Reader) -> None:
    """A view without a serializer, or with a parser of its own."""

    class Own(Keep):
        parser_classes = (Renaming,)

    class Bare(APIView):
        def put(self, request: Request) -> Response:
            return Response({"tags": request.data.getlist("tags"), "file": request.data["file"].name})

    properties = {
        "tags": {"type": "array", "items": {"type": "string"}},
        "file": {"type": "string", "format": "binary"},
    }
    body = {"type": "object", "properties": properties}
    drf_tools(Own, names={"post": "own", "patch": "change"}, mounted=False, server=server)
    drf_tools(Bare, names={"put": "bare"}, request={"put": body}, mounted=False, server=server)
    ann.data("own", name="x", file=FILE)
    assert received[-1]["name"] == "X"
    assert ann.data("bare", tags=["a", "b"], file=FILE) == {"tags": ["a", "b"], "file": "a.txt"}
