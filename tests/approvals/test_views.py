"""Views as tools of which calls have to be approved: nobody is asked about a call that the view refuses."""

import re
from collections.abc import Iterator
from functools import partial, update_wrapper
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.admin.views.decorators import staff_member_required
from django.contrib.auth.decorators import login_required, permission_required, user_passes_test
from django.contrib.auth.mixins import LoginRequiredMixin, PermissionRequiredMixin, UserPassesTestMixin
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, HttpResponseForbidden
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST
from django.views.generic import DeleteView, FormView, UpdateView
from rest_framework import viewsets
from rest_framework.decorators import api_view, permission_classes
from rest_framework.permissions import IsAdminUser
from rest_framework.response import Response
from rest_framework.views import APIView

from django_mcp import MCPServer, view_tool
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
from tests.approvals.asking import People, kind_of, newest, serve
from tests.contrib.drf.beside import api_beside
from tests.model_resources.library.models import Author

RAN: list[str] = []
"""What the views did."""


@pytest.fixture(autouse=True)
def _ran(settings: Any) -> Iterator[None]:
    settings.LOGIN_URL = "/login/"
    RAN.clear()
    yield
    RAN.clear()


@pytest.fixture
def boss(people: People) -> Any:
    """A member of staff with the permission that the views ask for."""
    boss = people["ben"]
    boss.is_staff = True
    boss.save()
    boss.user_permissions.add(Permission.objects.get(codename="delete_author"))
    return type(boss).objects.get(pk=boss.pk)


def staff(user: Any) -> bool:
    return bool(user.is_staff)


def drop(request: Any, pk: int = 0) -> HttpResponse:
    RAN.append("drop")
    return HttpResponse("Dropped.")


async def adrop(request: Any, pk: int = 0) -> HttpResponse:
    RAN.append("adrop")
    return HttpResponse("Dropped.")


def of_the_site(view: Any) -> Any:
    """A decorator that does something after the view, and swallows its errors."""

    def inner(request: Any, *args: Any, **kwargs: Any) -> Any:
        if not request.user.is_staff:
            raise PermissionDenied
        try:
            response = view(request, *args, **kwargs)
        except Exception:  # noqa: BLE001 - as decorators that log do
            RAN.append("log")
            return HttpResponse("Failed.")
        RAN.append("mail")
        return response

    return update_wrapper(inner, view)


class ByObject:
    """A decorator that is an object, and names its view twice."""

    def __init__(self, view: Any) -> None:
        update_wrapper(self, view)
        self.view = view

    def __call__(self, request: Any, **variables: Any) -> Any:
        return self.view(request, **variables) if request.user.is_staff else HttpResponseForbidden()


class Drop(View):
    """The handlers of the classes below."""

    def post(self, request: Any, pk: int = 0) -> HttpResponse:
        return drop(request)


class AsyncDrop(View):
    async def post(self, request: Any, pk: int = 0) -> HttpResponse:
        return await adrop(request)


class Permitted(PermissionRequiredMixin, Drop):
    permission_required = "library.delete_author"


class ByTest(LoginRequiredMixin, UserPassesTestMixin, Drop):
    __test__ = False

    def test_func(self) -> bool:
        return staff(self.request.user)


class InDispatch(Drop):
    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        if not request.user.is_staff:
            raise Http404
        return super().dispatch(request, *args, **kwargs)


@method_decorator([login_required, user_passes_test(staff)], name="dispatch")
class OnDispatch(Drop):
    pass


class OnHandler(Drop):
    @method_decorator(permission_required("library.delete_author", raise_exception=True))
    def post(self, request: Any, pk: int = 0) -> HttpResponse:
        return drop(request)


class OnAsyncHandler(View):
    @method_decorator(user_passes_test(staff))
    async def post(self, request: Any, pk: int = 0) -> HttpResponse:
        return await adrop(request)


class OfAPI(APIView):
    permission_classes = (IsAdminUser,)

    def post(self, request: Any, pk: int = 0) -> Response:
        return Response(drop(request).content.decode())


@api_view(["POST"])
@permission_classes([IsAdminUser])
def of_an_api(request: Any, pk: int = 0) -> Response:
    return Response(drop(request).content.decode())


VIEWS: dict[str, Any] = {
    "the permission of an API": OfAPI.as_view(),
    "the permission of a function of an API": of_an_api,
    "a permission": permission_required("library.delete_author")(drop),
    "a permission, else 403": permission_required("library.delete_author", raise_exception=True)(drop),
    "a test": user_passes_test(staff)(drop),
    "members of staff": staff_member_required(drop),
    "several": csrf_exempt(require_POST(login_required(user_passes_test(staff)(drop)))),
    "a coroutine": user_passes_test(staff)(adrop),
    "a decorator of the site": of_the_site(drop),
    "an object": ByObject(drop),
    "a partial": partial(user_passes_test(staff)(drop)),
    "the mixin of a permission": Permitted.as_view(),
    "the mixin of a test": ByTest.as_view(),
    "its dispatch": InDispatch.as_view(),
    "a decorator of its dispatch": OnDispatch.as_view(),
    "a decorator of its handler": OnHandler.as_view(),
    "a decorator of its coroutine": OnAsyncHandler.as_view(),
    "a decorator of the class": of_the_site(Drop.as_view()),
    "a decorator of the class with a coroutine": user_passes_test(staff)(AsyncDrop.as_view()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_nobody_is_asked_about_a_call_that_a_view_refuses(
    server: MCPServer, people: People, boss: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    patterns = [path("admin/", admin.site.urls), path("drop/<int:pk>/", VIEWS[name], name="drop")]
    with api_beside(patterns, monkeypatch):
        view_tool("drop", method="POST", policy="ask", server=server)
        refused = serve(server, people["ann"], "drop", {"pk": 1})
        assert refused["isError"]
        assert re.search("permission|Forbidden|Not found", refused["content"][0]["text"])
        assert not Approval.objects.exists()
        assert kind_of(serve(server, boss, "drop", {"pk": 1})) == "approval_required"
        assert not RAN, "nothing is done before it is approved"
        assert approve(newest(), people["cleo"])
        assert not serve(server, boss, "drop", {"pk": 1}).get("isError")
        assert RAN


def test_a_view_of_a_tool_with_a_preview_of_its_own_refuses_likewise(
    server: MCPServer, people: People, boss: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_beside([path("drop/<int:pk>/", VIEWS["a test"], name="drop")], monkeypatch):
        view_tool("drop", method="POST", policy="ask", preview=lambda pk: f"Drops {pk}.", server=server)
        assert serve(server, people["ann"], "drop", {"pk": 1})["isError"]
        assert not Approval.objects.exists()
        assert kind_of(serve(server, boss, "drop", {"pk": 1})) == "approval_required"
        assert newest().preview == {"text": "Drops 1."}


class WithoutSuper(LoginRequiredMixin, View):
    """Of which the work is done where others only look."""

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        return drop(request)

    post = Drop.post


class Set(viewsets.ViewSet):
    def create(self, request: Any) -> Response:
        return Response(drop(request).content.decode())


def old_decorator(view: Any) -> Any:
    """A decorator that does not say what it decorates."""

    def inner(request: Any, **variables: Any) -> Any:
        return view(request, **variables)

    return inner


UNKNOWN = [
    drop,
    adrop,
    Drop.as_view(),
    WithoutSuper.as_view(),
    Set.as_view({"post": "create"}),
    old_decorator(drop),
]


@pytest.mark.parametrize("view", UNKNOWN)
def test_a_view_of_which_it_cannot_be_known_is_asked_about_and_does_nothing_before(
    server: MCPServer, people: People, monkeypatch: pytest.MonkeyPatch, view: Any
) -> None:
    with api_beside([path("drop/", view, name="drop")], monkeypatch):
        view_tool("drop", method="POST", policy="ask", server=server)
        assert kind_of(serve(server, people["ann"], "drop", {})) == "approval_required"
        assert not RAN
        assert newest().preview is None


class Edit(UpdateView):
    model = Author
    fields = ["name"]
    template_name = "django_mcp/app.html"
    success_url = "/"

    def form_valid(self, form: Any) -> HttpResponse:
        RAN.append("edit")
        return super().form_valid(form)


class Remove(DeleteView):
    model = Author
    success_url = "/"


class Word(forms.Form):
    word = forms.CharField(max_length=3)


class Say(FormView):
    form_class = Word
    template_name = "django_mcp/app.html"
    success_url = "/"


@pytest.mark.parametrize(
    ("view", "method", "given", "told"),
    [
        (Edit, "POST", {"pk": 999, "name": "Jane"}, "Not found"),
        (Edit, "POST", {"name": ""}, "required"),
        (Remove, "POST", {"pk": 999}, "Not found"),
        (Remove, "DELETE", {"pk": 999}, "Not found"),
        (Say, "POST", {"word": "long"}, "at most 3"),
    ],
)
def test_nobody_is_asked_about_a_row_or_a_form_that_a_view_of_django_refuses(
    server: MCPServer,
    people: People,
    open_database: None,
    monkeypatch: pytest.MonkeyPatch,
    view: Any,
    method: str,
    given: dict[str, Any],
    told: str,
) -> None:
    jane = Author.objects.create(name="Jane")
    arguments: dict[str, Any] = {name: str for name in ("name", "word") if name in given}
    with api_beside([path("x/<int:pk>/", view.as_view(), name="x")], monkeypatch):
        view_tool("x", method=method, arguments=arguments, policy="ask", server=server)
        refused = serve(server, people["ann"], "x", {"pk": jane.pk, **given})
        assert refused["isError"]
        assert told in refused["content"][0]["text"]
        assert not Approval.objects.exists()
        good = dict.fromkeys(arguments, "Ann")
        assert kind_of(serve(server, people["ann"], "x", {"pk": jane.pk, **good})) == "approval_required"
        assert not RAN
        jane.refresh_from_db()
        assert jane.name == "Jane"
    jane.delete()
