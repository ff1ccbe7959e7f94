"""One language for a whole call: the caller's, or the one that a context manager of the site activates."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils import translation
from django.utils.translation import gettext, gettext_lazy
from rest_framework import serializers, viewsets
from rest_framework.decorators import api_view
from rest_framework.response import Response

from django_mcp import Context, MCPServer, ModelResource, ToolError, form_tool, prompt, register, resource, tool
from django_mcp.contrib.drf import drf_tools
from django_mcp.integrations.views import view_tool
from tests.clients import Client

YES = gettext_lazy("Yes")  # a word that Django has catalogues of


class AnswerForm(forms.Form):
    """Answer."""

    word = forms.CharField(required=False)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["word"].label = gettext("Yes")  # not lazy: it stays as it is when the form is described

    def save(self) -> str:
        return gettext("Yes")


class RefusingForm(AnswerForm):
    """Refuse."""

    def clean(self) -> None:
        raise ValidationError(YES)


def page(request: HttpRequest) -> HttpResponse:
    """Answer."""
    return HttpResponse(f"{translation.get_language()} {request.LANGUAGE_CODE} {gettext('Yes')}", "text/plain")


@api_view(["GET"])
def api(request: Any) -> Response:
    """Answer."""
    return Response({"answer": gettext("Yes")})


@pytest.fixture
def group(open_database: None) -> Iterator[Group]:
    group = Group.objects.create(name="of languages")
    yield group
    group.delete()


@pytest.fixture
def offered(server: MCPServer, group: Group) -> None:
    """Each kind of tool, resource and prompt, which answer with a translated word."""

    @tool(server=server, read_only=True, title=YES)
    def function() -> str:
        return gettext("Yes")

    @tool(server=server, read_only=True)
    async def coroutine() -> str:
        return gettext("Yes")

    @tool(server=server, read_only=True)
    def fails() -> str:
        raise ToolError(YES)

    @tool(server=server, read_only=True)
    async def fails_async() -> str:
        raise ValidationError(gettext_lazy("%(a)s"), params={"a": YES})

    @tool(server=server, read_only=True)
    def link(ctx: Context) -> Any:
        from django_mcp.core.resources import link_here

        return link_here(ctx, "answer://one").title

    @resource("answer://one", server=server, title=YES, mime_type="text/plain")
    def answer() -> str:
        return gettext("Yes")

    @prompt(server=server)
    def ask() -> str:
        return gettext("Yes")

    @register(Group, server=server)
    class GroupResource(ModelResource):
        fields = ["name", "answer"]
        view_permission = None
        lookup_field = "name"
        app = True

        def answer(self, row: Group) -> str:
            return gettext("Yes")

    form_tool(AnswerForm, name="form", server=server)
    form_tool(RefusingForm, name="refuses", server=server)
    view_tool(page, path="page/", name="view", server=server)
    drf_tools(api, names={"get": "api"}, mounted=False, server=server)


CALLS: dict[str, dict[str, Any]] = {
    "function": {},
    "coroutine": {},
    "fails": {},
    "fails_async": {},
    "link": {},
    "get_group": {"name": "of languages"},
    "form": {},
    "refuses": {},
    "view": {},
    "api": {},
}


def as_profile(request: HttpRequest) -> AbstractContextManager[None]:
    """The language of the user's profile, as many sites have it."""
    return translation.override("fr")


def words(client: Client, accepted: str) -> dict[str, str]:
    """What each kind says to a client that prefers a language."""
    headers = {"accept-language": accepted}
    said = {}
    for name, arguments in CALLS.items():
        said[name] = client.request("tools/call", {"name": name, "arguments": arguments}, headers=headers).text
    read = client.request("resources/read", {"uri": "answer://one"}, headers=headers).result
    said["resource"] = read["contents"][0]["text"]
    asked = client.request("prompts/get", {"name": "ask"}, headers=headers).result
    said["prompt"] = asked["messages"][0]["content"]["text"]
    listed = client.request("tools/list", headers=headers).result["tools"]
    said["title"] = next(each["title"] for each in listed if each["name"] == "function")
    return said


@pytest.mark.parametrize("edge", ["asgi", "view"])
@pytest.mark.parametrize(("managers", "word"), [([], "Ja"), ([as_profile], "Oui")])
def test_everything_that_a_call_says_is_in_one_language(
    offered: None, client: Client, settings: Any, managers: list[Callable[..., Any]], word: str
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CALL_CONTEXT_MANAGERS": managers}
    for _ in range(2):  # the second time from what was kept of the first
        said = words(client, "de")
        assert {name: text for name, text in said.items() if word not in text} == {}
    code = "de" if word == "Ja" else "fr"
    assert said["view"] == f"{code} {code} {word}"


def test_what_a_form_says_for_good_is_in_the_language_of_the_site(offered: None, client: Client) -> None:
    listed = client.request("tools/list", headers={"accept-language": "de"}).result["tools"]
    form = next(each for each in listed if each["name"] == "form")
    assert form["inputSchema"]["properties"]["word"]["title"] == "Yes", "not that of whoever listed it first"


@pytest.mark.parametrize("edge", ["asgi", "view"])
def test_a_language_that_a_function_leaves_active_is_not_that_of_the_next_call(
    server: MCPServer, client: Client
) -> None:
    @tool(server=server, read_only=True)
    def switch() -> str:
        translation.activate("ja")
        return translation.get_language()

    @tool(server=server, read_only=True)
    def look() -> str:
        return translation.get_language()

    before = translation.get_language()
    assert [client.call(name).text for name in ("look", "switch", "look")] == ["en", "ja", "en"]
    assert translation.get_language() == before


class DescribedSerializer(serializers.ModelSerializer):
    class Meta:
        model = Group
        fields = ("name",)

    def get_fields(self) -> Any:
        found = super().get_fields()
        found["name"].help_text = gettext("Yes")  # not lazy
        return found


class DescribedGroups(viewsets.ModelViewSet):
    queryset = Group.objects.all()
    serializer_class = DescribedSerializer


def test_a_tool_that_is_declared_in_a_request_is_described_in_the_language_of_the_site(
    server: MCPServer, open_database: None
) -> None:
    """As in a URLconf, which the first request imports."""
    with translation.override("fr"):
        drf_tools(DescribedGroups, mounted=False, server=server)
        form_tool(AnswerForm, name="form", server=server)
    described = str([each.definition for each in server.tools.values()])
    assert "Yes" in described
    assert "Oui" not in described
