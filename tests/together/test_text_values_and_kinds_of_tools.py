"""Values sent as text mean the same to functions, models, forms, REST framework and django-ninja, and in the log."""

import itertools
import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django import forms
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from ninja import NinjaAPI, Schema
from pydantic import BaseModel
from rest_framework import serializers
from rest_framework.generics import CreateAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from django_mcp import MCPServer, ModelResource, Secret, form_tool, register, tool
from django_mcp.contrib.drf import drf_tools
from django_mcp.contrib.ninja import ninja_tools
from django_mcp.models import RequestLog
from django_mcp.test import MCPClient
from tests.model_resources.library.models import Tag

pytestmark = pytest.mark.django_db

_names = itertools.count()
BIG = 2047948614742839297
AS_TEXT = {
    "number": str(BIG),
    "share": "0.25",
    "agreed": "true",
    "tags": '["7", "sea"]',
    "ages": ["1", "2"],
    "word": "7",
}
MEANT = {"number": BIG, "share": 0.25, "agreed": True, "tags": ["7", "sea"], "ages": [1, 2], "word": "7"}


def of_a_function(server: MCPServer) -> None:
    @tool(server=server, read_only=True)
    def take(number: int, share: float, agreed: bool, tags: list[str], ages: list[int], word: str) -> dict[str, Any]:
        return {"number": number, "share": share, "agreed": agreed, "tags": tags, "ages": ages, "word": word}


class TakeForm(forms.Form):
    number = forms.IntegerField()
    share = forms.FloatField()
    agreed = forms.BooleanField()
    tags = forms.MultipleChoiceField(choices=[("7", "7"), ("sea", "sea")])
    ages = forms.TypedMultipleChoiceField(choices=[(1, "1"), (2, "2")], coerce=int)
    word = forms.CharField()


def of_a_form(server: MCPServer) -> None:
    form_tool(TakeForm, name="take", handle=lambda ctx, form: form.cleaned_data, server=server)


class TakeSerializer(serializers.Serializer):
    number = serializers.IntegerField()
    share = serializers.FloatField()
    agreed = serializers.BooleanField()
    tags = serializers.ListField(child=serializers.CharField())
    ages = serializers.ListField(child=serializers.IntegerField())
    word = serializers.CharField()


class TakeView(CreateAPIView):
    serializer_class = TakeSerializer
    permission_classes = ()

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        taken = TakeSerializer(data=request.data)
        taken.is_valid(raise_exception=True)
        assert isinstance(request.data["number"], int), "the view gets numbers, as from a client that sends them"
        return Response(taken.validated_data)


def of_rest_framework(server: MCPServer) -> None:
    drf_tools(TakeView, names={"create": "take"}, mounted=False, server=server)


class Taken(Schema):
    number: int
    share: float
    agreed: bool
    tags: list[str]
    ages: list[int]
    word: str


def of_ninja(server: MCPServer) -> None:
    api = NinjaAPI(urls_namespace=f"text-{next(_names)}")

    @api.post("/take", response=Taken)
    def take(request: HttpRequest, data: Taken) -> Any:
        return data

    ninja_tools(api, server=server)


@pytest.mark.parametrize(
    "publish", [of_a_function, of_a_form, of_rest_framework, of_ninja], ids=lambda each: each.__name__
)
def test_every_kind_of_tool_reads_it_alike(publish: Callable[[MCPServer], None], server: MCPServer) -> None:
    publish(server)
    called = MCPClient(AnonymousUser(), server=server).call("take", **AS_TEXT)
    assert called.ok, called.text
    assert called.structured == MEANT


def test_models_read_it_when_they_search_get_and_write(server: MCPServer) -> None:
    @register(Tag, server=server)
    class Tags(ModelResource):
        fields = ("word",)
        filterset_fields = ("id",)
        actions = ("create", "update")
        writable_fields = ("word",)

    assert Tags
    Tag.objects.create(pk=BIG, word="7")
    client = MCPClient(User.objects.create_superuser("root"), server=server)
    assert client.call("get_tag", pk=str(BIG)).structured["word"] == "7"
    found = client.call("search_tags", id=str(BIG), limit="1").structured
    assert [row["pk"] for row in found["rows"]] == [BIG]
    changed = client.call("update_tag", pk=str(BIG), word="8")
    assert changed.ok, changed.text
    assert Tag.objects.get().word == "8"
    assert client.call("create_tag", word="true").structured["word"] == "true"


def test_a_rounded_key_is_answered_with_the_way_to_send_it(server: MCPServer) -> None:
    register(Tag, server=server)(type("Tags", (ModelResource,), {"fields": ("word",)}))
    client = MCPClient(User.objects.create_superuser("root"), server=server)
    assert client.call("get_tag", pk=2**53 + 2).text.endswith("send it as text.")
    assert client.call("get_tag", pk=7).text == "No tag with pk '7' found."


class Card(BaseModel):
    number: Annotated[str, Secret()]


def test_the_log_has_what_was_meant_and_no_secret_inside_of_text(
    server: MCPServer, call_log: Callable[[], list[RequestLog]]
) -> None:
    @tool(server=server, read_only=True)
    def pay(amount: int, card: Card) -> str:
        return card.number

    client = MCPClient(AnonymousUser(), server=server)
    assert client.call("pay", amount="7", card='{"number": "4000 1234"}').text == "4000 1234"
    (row,) = call_log()
    assert row.arguments["amount"] == 7
    assert "4000" not in str(row.arguments)


@pytest.mark.parametrize(
    "text", ["{'number': '4000 1234'}", '{"number": "4000 1234"', '[{"number": "4000 1234"}]', "4000 1234", ["4000"]]
)
def test_the_log_has_nothing_that_was_sent_in_place_of_a_value_with_secrets(
    text: Any, server: MCPServer, call_log: Callable[[], list[RequestLog]]
) -> None:
    @tool(server=server, read_only=True)
    def pay(ways: list[Card], way: Card | str = "") -> str:
        return str(way)

    client = MCPClient(AnonymousUser(), server=server)
    assert not client.call("pay", ways=[text]).ok
    if str(text).startswith("{"):
        assert client.call("pay", ways=[], way=text).ok
    for row in call_log():
        assert "4000" not in f"{row.arguments} {row.error}"


class Node(BaseModel):
    value: int
    children: list["Node"] = []


def test_text_in_text_is_read_as_deep_as_it_can_be(server: MCPServer) -> None:
    @tool(server=server, read_only=True)
    def count(node: Node) -> str:
        return str(node.value)

    def nested(node: Any) -> Any:
        for _ in range(90):
            node = {"value": "1", "children": [node]}
        return node

    called = MCPClient(AnonymousUser(), server=server).call("count", node=nested(json.dumps(nested({"value": "1"}))))
    assert called.ok or called.text.startswith("Argument 'node.children[0]"), called.text
