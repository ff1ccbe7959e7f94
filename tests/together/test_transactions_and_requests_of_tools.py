"""A view or API that queues a job has committed the row by then, unless its site has ``ATOMIC_REQUESTS``."""

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import path
from ninja import NinjaAPI
from rest_framework import serializers, viewsets
from rest_framework.exceptions import ValidationError

from django_mcp import MCPServer, tool, view_tool
from django_mcp.contrib.drf import drf_tools
from django_mcp.contrib.ninja import ninja_tools
from tests.clients import Client
from tests.contrib.drf.beside import api_beside

queued: list[bool] = []
"""Whether there was a transaction when a job was queued, for each job."""


def queue() -> None:
    queued.append(transaction.get_connection().in_atomic_block)


def page(request: HttpRequest) -> HttpResponse:
    queue()
    return JsonResponse({"name": "x"})


def page_that_goes_on(request: HttpRequest) -> HttpResponse:
    queue()
    return HttpResponse(status=302, headers={"Location": "/page/"})


class GroupSerializer(serializers.ModelSerializer):
    class Meta:
        model = Group
        fields = ["name"]


class Groups(viewsets.ModelViewSet):
    queryset = Group.objects.all()
    serializer_class = GroupSerializer

    def perform_create(self, serializer: Any) -> None:
        serializer.save()
        queue()
        if serializer.data["name"] == "of transactions, refused":
            raise ValidationError("Too late.")


ninja = NinjaAPI(urls_namespace="transactions")


@ninja.post("/order")
def order(request: HttpRequest) -> dict[str, str]:
    queue()
    return {"name": "x"}


CALLS: dict[str, dict[str, Any]] = {
    "page": {},
    "page_that_goes_on": {},
    "create_group": {"name": "of transactions"},
    "order": {},
}


@pytest.fixture
def offered(server: MCPServer, open_database: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    patterns = [path("page/", page, name="page"), path("go/", page_that_goes_on), path("ninja/", ninja.urls)]
    with api_beside(patterns, monkeypatch):
        for view in (page, page_that_goes_on):
            view_tool(view, method="POST", server=server)
        drf_tools(Groups, mounted=False, server=server)
        ninja_tools(ninja, server=server)
        queued.clear()
        yield
    Group.objects.filter(name__startswith="of transactions").delete()


@pytest.mark.parametrize("edge", ["asgi", "view"])
def test_a_job_is_queued_after_the_commit(offered: None, client: Client) -> None:
    for name, arguments in CALLS.items():
        assert not client.call(name, **arguments).result.get("isError")
    assert queued == [False] * 5, "once for each, and for the page that one of them leads to"


def test_with_atomic_requests_it_is_not(offered: None, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
    for name, arguments in CALLS.items():
        assert not client.call(name, **arguments).result.get("isError")
    assert queued == [True] * 5
    assert "Too late." in client.call("create_group", name="of transactions, refused").text
    assert not Group.objects.filter(name="of transactions, refused").exists()


def test_a_function_of_the_site_has_the_transaction_of_its_tool(server: MCPServer, client: Client) -> None:
    tool(server=server, name="act")(lambda: str(transaction.get_connection().in_atomic_block))
    tool(server=server, name="act_at_once", atomic=False)(lambda: str(transaction.get_connection().in_atomic_block))
    assert [client.call(name).text for name in ("act", "act_at_once")] == ["True", "False"]
