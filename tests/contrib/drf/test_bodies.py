"""Which body an operation has: of an API that changes many rows at once, and of others."""

import json
from typing import Any

import pytest
from django.db import transaction
from drf_spectacular.openapi import AutoSchema
from rest_framework import routers, serializers, viewsets
from rest_framework.decorators import api_view
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.model_resources.conftest import Reader
from tests.model_resources.library.models import Author, Publisher

Schemas = dict[str, dict[str, Any]]


class Message(serializers.Serializer):
    message = serializers.CharField(required=False, write_only=True, help_text="Why.")


class Named(Message):
    """One of the rows of a request about many."""

    id = serializers.IntegerField()


class AuthorSerializer(serializers.ModelSerializer):
    class Meta:
        model = Author
        fields = ["id", "name", "email", "born"]
        extra_kwargs = {"email": {"required": True}}


class ManyAtOnce(viewsets.ModelViewSet):
    """PUT, PATCH and DELETE of a list are about the rows that the body names, as in NetBox."""

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = self.get_serializer(data=request.data, many=isinstance(request.data, list))
        serializer.is_valid(raise_exception=True)
        self.perform_create(serializer)
        return Response(serializer.data, status=201)

    def bulk_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        partial = kwargs.pop("partial", False)
        serializer = Named(data=request.data, many=True)
        serializer.is_valid(raise_exception=True)
        rows = self.get_queryset().filter(pk__in=[each["id"] for each in serializer.validated_data])
        changes = {each.pop("id"): each for each in request.data}
        self.perform_bulk_update(rows, changes, partial=partial)
        return Response(self.get_serializer(self.get_queryset().filter(pk__in=changes), many=True).data)

    def perform_bulk_update(self, rows: Any, changes: Any, partial: bool) -> None:
        with transaction.atomic():
            for row in rows:
                serializer = self.get_serializer(row, data=changes[row.pk], partial=partial)
                serializer.is_valid(raise_exception=True)
                self.perform_update(serializer)

    def bulk_partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        kwargs["partial"] = True
        return self.bulk_update(request, *args, **kwargs)

    def bulk_destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = Named(data=request.data, many=True)
        serializer.is_valid(raise_exception=True)
        self.get_queryset().filter(pk__in=[each["id"] for each in serializer.validated_data]).delete()
        return Response(status=204)

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        serializer = Message(data=request.data)
        serializer.is_valid(raise_exception=True)
        self.get_object().delete()
        return Response({"message": serializer.validated_data.get("message")})


class Authors(ManyAtOnce):
    queryset = Author.objects.order_by("pk")
    serializer_class = AuthorSerializer


class Changed(Message):
    """One of the rows of a change of many."""

    id = serializers.IntegerField(help_text="Which author.")
    name = serializers.CharField(required=False)
    email = serializers.EmailField(required=False)
    born = serializers.DateField(required=False)


BODIES: dict[str, Any] = {
    "bulk_update": Changed(many=True),
    "bulk_partial_update": Changed(many=True),
    "bulk_destroy": Named(many=True),
    "destroy": Message,
}


class ManyRouter(routers.SimpleRouter):
    def __init__(self) -> None:
        super().__init__()
        own = {"put": "bulk_update", "patch": "bulk_partial_update", "delete": "bulk_destroy"}
        first = self.routes[0]
        self.routes = [first._replace(mapping={**first.mapping, **own}), *self.routes[1:]]


@pytest.fixture
def authors(db: None) -> list[Author]:
    return [Author.objects.create(name=name, email=f"{name}@example.com") for name in ("anna", "carl")]


@pytest.fixture
def schemas(server: MCPServer, ann: Reader) -> Schemas:
    router = ManyRouter()
    router.register("authors", Authors)
    drf_tools(router, request=BODIES, server=server, mounted=False)
    return inputs(ann)


def inputs(client: Reader) -> Schemas:
    return {each["name"]: each["inputSchema"] for each in client.list("tools/list")}


def test_a_body_that_is_a_list_is_an_array_of_what_names_a_row_and_of_what_it_gets(schemas: Schemas) -> None:
    for name in ("bulk_update_authors", "bulk_partial_update_authors"):
        assert schemas[name]["required"] == ["items"]
        items = schemas[name]["properties"]["items"]
        assert (items["type"], items["items"]["type"]) == ("array", "object")
        assert set(items["items"]["properties"]) == {"id", "message", "name", "email", "born"}
        assert items["items"]["properties"]["id"] == {"type": "integer", "description": "Which author."}
        assert items["items"]["required"] == ["id"]
    deleted = schemas["bulk_destroy_authors"]["properties"]["items"]["items"]
    assert (set(deleted["properties"]), deleted["required"]) == ({"id", "message"}, ["id"])


class BulkSchema(AutoSchema):
    """What a site says to drf-spectacular once for all its views, as NetBox does."""

    def get_request_serializer(self) -> Any:
        return Named(many=True) if self.view.action.startswith("bulk") else super().get_request_serializer()

    def get_operation_id(self) -> str:
        return "an_id_of_its_own"


def test_a_schema_class_of_the_site_is_asked(server: MCPServer, ann: Reader) -> None:
    router = ManyRouter()
    router.register("authors", type("Described", (Authors,), {"schema": BulkSchema()}))
    drf_tools(router, actions=["bulk_destroy", "bulk_update", "create"], server=server, mounted=False)
    found = inputs(ann)
    for name in ("bulk_destroy_authors", "bulk_update_authors"):
        assert set(found[name]["properties"]["items"]["items"]["properties"]) == {"id", "message"}
    assert set(found["create_author"]["properties"]) == {"name", "email", "born"}


def test_where_nobody_says_what_a_body_is_it_is_any_json(server: MCPServer, ann: Reader, authors: list[Author]) -> None:
    router = ManyRouter()
    router.register("authors", Authors)
    drf_tools(router, server=server, mounted=False)
    body = inputs(ann)["bulk_destroy_authors"]["properties"]["body"]
    assert body["description"] == "The JSON to send."
    assert len(body["anyOf"]) == 6, "the types of JSON"
    told = ann.problem("bulk_destroy_authors", body=[{"id": authors[0].pk}, {"id": "second"}])
    assert told == "Argument 'body[1].id': A valid integer is required. (It was \"second\".)"
    assert ann.call("bulk_destroy_authors", body=[{"id": each.pk} for each in authors]).text == "Done."


def test_code_that_takes_one_or_many_is_told_of_one(schemas: Schemas) -> None:
    assert set(schemas["create_author"]["properties"]) == {"name", "email", "born"}


def test_a_deletion_has_a_body_where_one_is_said(schemas: Schemas, ann: Reader, authors: list[Author]) -> None:
    assert schemas["delete_author"]["required"] == ["pk"]
    assert schemas["delete_author"]["properties"]["message"]["description"] == "Why."
    assert ann.data("delete_author", pk=authors[0].pk, message="moved")["message"] == "moved"
    assert not ann.call("delete_author", pk=authors[1].pk).result.get("isError")


def test_many_rows_are_changed_and_deleted_in_one_call(schemas: Schemas, ann: Reader, authors: list[Author]) -> None:
    anna, carl = authors
    items = [{"id": anna.pk, "name": "Anna Berg"}, {"id": carl.pk, "born": "1970-01-02"}]
    told = json.loads(ann.call("bulk_partial_update_authors", items=items).text)
    assert [row["name"] for row in told] == ["Anna Berg", "carl"]
    assert ann.call("bulk_destroy_authors", items=[{"id": anna.pk}, {"id": carl.pk}]).text == "Done."
    assert not Author.objects.exists()


def test_mistakes_in_lists_are_told_with_their_place(schemas: Schemas, ann: Reader, authors: list[Author]) -> None:
    told = ann.problem("bulk_destroy_authors", items=[{"id": authors[0].pk}, {"id": "second"}, {}])
    assert told.splitlines() == [
        "Argument 'items[1].id': A valid integer is required. (It was \"second\".)",
        "Argument 'items[2].id': This field is required.",
    ]
    assert "Expected a list of items" in ann.problem("bulk_destroy_authors", items={"id": 1})
    assert ann.problem("bulk_destroy_authors") == "Missing argument 'items'."
    told = ann.problem("bulk_partial_update_authors", items=[{"id": authors[0].pk, "email": "none"}])
    assert told == "email: Enter a valid email address.", "which of the items it was the API did not say"


def test_a_tool_without_words_of_its_own_says_what_it_does(schemas: Schemas, ann: Reader) -> None:
    words = {each["name"]: each["description"] for each in ann.list("tools/list")}
    assert words["bulk_destroy_authors"].startswith("Bulk destroy authors.")


class Password(serializers.Serializer):
    password = serializers.CharField(min_length=8)


class Enrolment(APIView):
    class Taken(serializers.Serializer):
        course = serializers.CharField()

    def post(self, request: Request) -> Response:
        taken = self.Taken(data=request.data)
        taken.is_valid(raise_exception=True)
        return Response(taken.validated_data)


@api_view(["POST"])
def enrol(request: Request) -> Response:
    taken = Password(data=request.data)
    return Response(taken.is_valid())


def test_views_without_a_serializer_take_what_is_said_of_them(server: MCPServer, ann: Reader) -> None:
    drf_tools(Enrolment, request={"post": Enrolment.Taken}, server=server, mounted=False)
    drf_tools(enrol, request={"post": Password}, server=server, mounted=False)
    assert ann.data("enrolment", course="Latin") == {"course": "Latin"}
    assert inputs(ann)["enrol"]["required"] == ["password"]


class Site(serializers.ModelSerializer):
    """Takes the row itself where it is nested, by its key or by what it is called."""

    def __init__(self, *args: Any, nested: bool = False, **kwargs: Any) -> None:
        self.nested = nested
        super().__init__(*args, **kwargs)

    class Meta:
        model = Publisher
        fields = ["id", "name"]

    def to_internal_value(self, data: Any) -> Any:
        if not self.nested:
            return super().to_internal_value(data)
        return Publisher.objects.get(**(data if isinstance(data, dict) else {"pk": data}))


class Writer(serializers.ModelSerializer):
    publisher = Site(nested=True, required=False, allow_null=True)

    class Meta:
        model = Author
        fields = ["id", "name", "publisher"]


class Writers(viewsets.ModelViewSet):
    queryset = Author.objects.all()
    serializer_class = Writer


def test_a_relation_that_is_read_by_code_of_the_site_is_given_by_its_key(server: MCPServer, ann: Reader) -> None:
    drf_tools(Writers, server=server, mounted=False)
    house = Publisher.objects.create(name="Harbour House")
    taken = inputs(ann)["create_author"]["properties"]["publisher"]
    assert {"string", "number", "object"} <= {each["type"] for each in taken["anyOf"]}
    assert not any("required" in each for each in taken["anyOf"])
    for given in (house.pk, {"name": "Harbour House"}):
        assert ann.data("create_author", name="Anna", publisher=given)["publisher"]["id"] == house.pk


class ItemByItem(Authors):
    """Tells of the mistakes in each item by the row that it names, or by its number."""

    def bulk_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        Named(data=request.data, many=True).is_valid(raise_exception=True)
        name = {"name": ["Too long."], "__all__": "Not now."}
        errors = [{"id": request.data[1]["id"], "errors": name}, {"index": 0, "errors": {"email": ["Taken."]}}]
        return Response({"detail": "2 of 2 failed.", "errors": errors}, status=400)


@pytest.mark.parametrize(("request_", "name"), [(BODIES, "items"), ({}, "body")])
def test_mistakes_that_are_told_by_row_or_by_number_have_their_place_too(
    server: MCPServer, ann: Reader, authors: list[Author], request_: dict[str, Any], name: str
) -> None:
    router = ManyRouter()
    router.register("authors", ItemByItem)
    drf_tools(router, request=request_, server=server, mounted=False)
    items = [{"id": each.pk, "name": each.name, "email": each.email} for each in authors]
    assert ann.problem("bulk_update_authors", **{name: items}).splitlines() == [
        "2 of 2 failed.",
        f"Argument '{name}[1].name': Too long. (It was \"carl\".)",
        f"Argument '{name}[1]': Not now. (It was {json.dumps(items[1])}.)",
        f"Argument '{name}[0].email': Taken. (It was \"anna@example.com\".)",
    ]


class Letter(serializers.Serializer):
    class Address(serializers.Serializer):
        street = serializers.CharField()

    to = Address()


class Letters(viewsets.ModelViewSet):
    queryset = Author.objects.all()
    serializer_class = Letter


def test_a_partial_update_requires_nothing_inside_either(server: MCPServer, ann: Reader) -> None:
    drf_tools(Letters, actions=["create", "partial_update"], server=server, mounted=False)
    found = inputs(ann)
    assert found["create_author"]["properties"]["to"]["required"] == ["street"]
    assert "required" not in found["update_author"]["properties"]["to"]
