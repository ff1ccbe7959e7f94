"""Calls that require approval look up their rows inside the site's context managers, as they do everything else."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from rest_framework import serializers, viewsets

from django_mcp import Context, MCPServer, ModelResource, form_tool, register, tool
from django_mcp.approvals.decisions import approve
from django_mcp.contrib.drf import drf_tools
from tests.approvals import conftest as approving
from tests.approvals.asking import People, kind_of, newest, serve
from tests.approvals.test_waiting import Waiting

people, server, _quickly = approving.people, approving.server, approving._quickly

tenant: ContextVar[str] = ContextVar("tenant")


@contextmanager
def of_tenant(request: Any) -> Iterator[None]:
    """What a site with a tenant per request has around its code."""
    token = tenant.set("a")
    try:
        yield
    finally:
        tenant.reset(token)


def groups(*_: Any) -> QuerySet[Group]:
    return Group.objects.filter(name__startswith=f"{tenant.get()}-")


class GroupSerializer(serializers.ModelSerializer):
    class Meta:
        model = Group
        fields = ["name"]


class Groups(viewsets.ModelViewSet):
    serializer_class = GroupSerializer
    get_queryset = groups
    lookup_field = "name"


class GroupForm(forms.ModelForm):
    class Meta:
        model = Group
        fields = ["permissions"]


@pytest.fixture
def rows(server: MCPServer, settings: Any, open_database: None) -> Iterator[list[Group]]:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CALL_CONTEXT_MANAGERS": [of_tenant]}

    @register(Group, server=server)
    class GroupResource(ModelResource):
        fields = ["name"]
        actions = ["delete"]
        view_permission = delete_permission = None
        lookup_field = "name"

        def get_queryset(self, ctx: Context) -> QuerySet[Group]:
            return groups()

    @tool(server=server, policy="ask")
    def rename(group: Group) -> str:
        group.name = f"{group.name}-too"
        group.save()
        return group.name

    form_tool(GroupForm, name="change", lookup="name", queryset=groups, permission=None, server=server)
    drf_tools(Groups, mounted=False, name="api_group", actions=["destroy"], server=server)
    yield [Group.objects.create(name=f"{name}-group") for name in "ab"]
    Group.objects.filter(name__contains="-group").delete()


CALLS: dict[str, dict[str, Any]] = {
    "delete_group": {"name": "a-group"},
    "delete_api_group": {"name": "a-group"},
    "rename": {"group": "a-group"},
    "change": {"name": "a-group"},
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_approved_for_the_row_of_the_callers_tenant_and_for_no_other(
    server: MCPServer,
    people: People,
    rows: list[Group],
    name: str,
) -> None:
    def call() -> dict[str, Any]:
        return serve(server, people["ann"], name, CALLS[name])

    assert kind_of(call()) == "approval_required"
    assert approve(newest(), people["cleo"])
    first = rows[0]
    Group.objects.filter(pk=first.pk).update(name="a-group-before")
    other = Group.objects.create(name="a-group")
    assert kind_of(call()) == "approval_required", "the arguments address another row now"
    other.delete()
    Group.objects.filter(pk=first.pk).update(name="a-group")
    assert not call().get("isError")


def test_a_call_that_waits_for_its_approver_looks_up_its_row_there_too(
    server: MCPServer,
    people: People,
    rows: list[Group],
    settings: Any,
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 20, "POLL_INTERVAL": 0.02}
    waiting = Waiting(lambda: serve(server, people["ann"], "delete_group", CALLS["delete_group"]))
    assert approve(newest(), people["cleo"])
    assert not waiting.result().get("isError")
    assert not Group.objects.filter(name="a-group").exists()
