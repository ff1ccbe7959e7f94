"""What an approver saw of a row of an API holds when the call runs; middleware takes the preview for the call."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.utils import timezone, translation
from django.utils.translation import gettext
from rest_framework import serializers, viewsets

from django_mcp import MCPServer
from django_mcp.approvals.decisions import approve
from django_mcp.contrib.drf import drf_tools
from tests.approvals import conftest as approving
from tests.approvals.asking import People, kind_of, newest, serve
from tests.contrib.drf.beside import api_beside
from tests.model_resources.library.models import Author

people, server, _quickly = approving.people, approving.server, approving._quickly


class AuthorSerializer(serializers.ModelSerializer):
    said = serializers.SerializerMethodField()

    class Meta:
        model = Author
        fields = ("name", "said")

    def get_said(self, author: Author) -> str:
        """Differs each time, and by language."""
        return f"{gettext('Yes')} {timezone.now().isoformat()}"


class Authors(viewsets.ModelViewSet):
    queryset = Author.objects.all()
    serializer_class = AuthorSerializer


class Rendered(AuthorSerializer):
    def to_representation(self, author: Author) -> Any:
        return {"name": f"{author.name} at {timezone.now().isoformat()}"}


@pytest.fixture
def jane(open_database: None) -> Iterator[Author]:
    jane = Author.objects.create(name="draft")
    yield jane
    Author.objects.filter(pk=jane.pk).delete()


@pytest.fixture
def call(server: MCPServer, people: People, jane: Author) -> Callable[[str], dict[str, Any]]:
    drf_tools(Authors, mounted=False, server=server)
    more = {"update_author": {"name": "final"}, "replace_author": {"name": "final"}}
    return lambda name: serve(server, people["ann"], name, {"pk": jane.pk, **more.get(name, {})})


CALLS = ("update_author", "replace_author", "delete_author")


@pytest.mark.parametrize("name", CALLS)
def test_a_row_of_an_api_that_has_changed_needs_a_new_approval(
    people: People, jane: Author, call: Callable[[str], dict[str, Any]], name: str
) -> None:
    assert kind_of(call(name)) == "approval_required"
    assert approve(newest(), people["cleo"])
    Author.objects.filter(pk=jane.pk).update(name="the court's order")
    assert "is not what was approved any more" in call(name)["content"][0]["text"]
    assert Author.objects.get(pk=jane.pk).name == "the court's order"
    assert kind_of(call(name)) == "approval_required"
    assert approve(newest(), people["cleo"])
    assert not call(name).get("isError")


@pytest.mark.parametrize("serializer", [AuthorSerializer, Rendered])
@pytest.mark.parametrize("name", CALLS)
def test_what_the_api_computes_may_differ(
    people: People,
    call: Callable[[str], dict[str, Any]],
    name: str,
    serializer: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Authors, "serializer_class", serializer)
    with translation.override("fr"):
        assert kind_of(call(name)) == "approval_required"
    assert "draft" in str(newest().preview)
    assert approve(newest(), people["cleo"])
    assert not call(name).get("isError")


class OfMarks:
    """Middleware that lets calls pass to views with a mark, as ``login_not_required`` sets one."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        is_known = view.cls is Authors and request.resolver_match.func is view
        if is_known and hasattr(view, "is_open"):
            return None
        return HttpResponse(status=302, headers={"Location": f"/login/?next={request.path}"})


@pytest.mark.parametrize("is_open", [True, False])
def test_middleware_sees_the_view_of_the_url_before_the_approver_is_asked(
    server: MCPServer, people: People, jane: Author, settings: Any, monkeypatch: pytest.MonkeyPatch, is_open: bool
) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "VIEW_MIDDLEWARE": [f"{__name__}.OfMarks"]}
    view = Authors.as_view({"delete": "destroy"})
    if is_open:
        view.is_open = True
    with api_beside([path("authors/<int:pk>/", view)], monkeypatch):
        drf_tools(view, server=server)
        answer = serve(server, people["ann"], "delete_author", {"pk": jane.pk})
    if is_open:
        assert kind_of(answer) == "approval_required"
        assert newest().preview["verb"] == "delete"
    else:
        assert answer["content"][0]["text"] == "You do not have permission to do this."
