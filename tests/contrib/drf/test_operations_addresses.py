"""Which URL of a view is asked, where there are several."""

from functools import partial
from itertools import product
from typing import Any, ClassVar
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.urls import include, path, re_path, register_converter
from django.views.decorators.cache import never_cache
from rest_framework.generics import GenericAPIView, ListCreateAPIView, RetrieveUpdateAPIView
from rest_framework.permissions import AllowAny, IsAdminUser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.serializers import ModelSerializer
from rest_framework.views import APIView
from rest_framework.viewsets import ModelViewSet, ViewSet

from django_mcp import MCPServer
from django_mcp.contrib.drf import drf_tools
from tests.contrib.drf.beside import api_beside
from tests.model_resources.conftest import Reader, registering


class Report(APIView):
    permission_classes = [AllowAny]

    def get(self, request: Request) -> Response:
        return Response({"path": request.path})


class Reports(ViewSet):
    permission_classes = [AllowAny]

    def list(self, request: Request) -> Response:
        return Response({"path": request.path})


def test_a_view_that_was_made_with_other_permissions_keeps_them(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Or what was published as guarded is called where it is not."""
    kinds: dict[str, Any] = {"get": Report.as_view, "list": partial(Reports.as_view, {"get": "list"})}
    for (action, view), order in product(kinds.items(), (1, -1)):
        guarded, everybodys = view(permission_classes=[IsAdminUser]), view()
        urls = [path("guarded/", guarded), path("everybodys/", everybodys)]
        with (
            subtests.test(action=action, order=order),
            registering(server),
            api_beside(urls[::order], monkeypatch),
        ):
            drf_tools(guarded, names={action: "guarded"}, server=server)
            drf_tools(everybodys, names={action: "everybodys"}, server=server)
            assert "permission" in ann.problem("guarded")
            assert ann.data("everybodys") == {"path": "/everybodys/"}


def test_the_same_view_with_something_around_it_is_found(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = Report.as_view(permission_classes=[AllowAny])
    with api_beside([path("report/", never_cache(view))], monkeypatch):
        drf_tools(view, names={"get": "report"}, server=server)
        assert ann.data("report") == {"path": "/report/"}


class Profile(RetrieveUpdateAPIView[User]):
    """Its row is the caller."""

    queryset = User.objects.all()
    serializer_class = type(
        "Name", (ModelSerializer,), {"Meta": type("Meta", (), {"model": User, "fields": ["username", "first_name"]})}
    )

    def get_object(self) -> Any:
        return self._caller()

    def _caller(self) -> Any:
        return self.request.user


class Named(Profile):
    """Its row is named in the URL, by the code of the site."""

    def _caller(self) -> Any:
        return User.objects.get(username=self.kwargs["pk"])


class Profiles(ModelViewSet[User]):
    queryset = User.objects.all()
    serializer_class = Profile.serializer_class

    def get_object(self) -> Any:
        return self.request.user


def test_a_view_that_finds_its_row_without_the_url_takes_no_key(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    mapped = Profiles.as_view({"get": "retrieve", "patch": "partial_update"})
    router = SimpleRouter()
    router.register("profiles", Profiles)
    urls = [
        path("profile/", Profile.as_view()),
        path("mapped/", mapped),
        path("named/<str:pk>/", Named.as_view()),
        *router.urls,
    ]
    cases: list[tuple[Any, dict[str, Any]]] = [
        (Profile, {}),
        (mapped, {}),
        (Named, {"pk": "ann"}),
        (router, {"pk": "anybody"}),
    ]
    with api_beside(urls, monkeypatch):
        for view, named in cases:
            with subtests.test(view=view), registering(server):
                drf_tools(view, actions=["retrieve", "partial_update"], server=server)
                assert not [each for each in run_checks() if each.id == "django_mcp.E028" and "'test'" in each.msg]
                assert ann.data("get_user", **named)["username"] == "ann"
                assert ann.data("update_user", **named, first_name="Ann")["first_name"] == "Ann"


class OfOneAuthor(ListCreateAPIView[User]):
    """Its URL names something else than its rows."""

    queryset = User.objects.all()
    serializer_class = Profile.serializer_class


class Greeting(GenericAPIView[User]):
    """A handler of the site's own, about a row."""

    queryset = User.objects.all()
    lookup_field = "username"

    def post(self, request: Request, username: str) -> Response:
        return Response({"greeted": self.get_object().pk})


def test_a_variable_is_said_to_name_a_row_where_it_does(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    urls = [path("of/<int:pk>/users/", OfOneAuthor.as_view()), path("greet/<str:username>/", Greeting.as_view())]
    with api_beside(urls, monkeypatch):
        drf_tools(OfOneAuthor, server=server)
        drf_tools(Greeting, server=server)
        described = {each["name"]: each["inputSchema"]["properties"] for each in ann.list("tools/list")}
        assert (
            described["list_of_one_author"]["pk"]
            == described["create_user"]["pk"]
            == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
        )
        assert described["greeting"]["username"]["description"] == "Username of the user."
        assert ann.data("greeting", username="ann")["greeted"] == User.objects.get(username="ann").pk


class Event(APIView):
    permission_classes = [AllowAny]

    def get(self, request: Request, event: str) -> Response:
        return Response({"path": request.path, "event": event})


class CopiedEvent(Event):
    pass


class Halls:
    """Halls by name, in a converter that fails for others."""

    regex = "[^/]+"
    numbers: ClassVar = {"north": 1}

    def to_python(self, value: str) -> int:
        return self.numbers[value]

    def to_url(self, value: str) -> str:
        return value if value in self.numbers else str(self.numbers[value])


register_converter(Halls, "test_addresses_hall")


def test_a_url_is_found_where_django_cannot_reverse_it(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    """Django joins the patterns of a URL to one expression, which may be none although each alone is."""
    event, copied = Event.as_view(), CopiedEvent.as_view()
    plain = re_path(r"^events/(?P<event>[^/]+)/$", event, name="event")
    twice = re_path(
        r"^events/(?P<event>[^/]+)/", include([re_path(r"^copies/(?P<event>[^/]+)/$", copied, name="event")])
    )
    in_any_case = re_path(r"(?i)^others/", include([re_path(r"^(?P<event>[^/]+)/$", copied, name="event")]))
    cases: dict[str, tuple[list[Any], Any, str]] = {
        "another URL of the name has a group twice": ([plain, twice], Event, "/events/a%20b/"),
        "in the other order": ([twice, plain], Event, "/events/a%20b/"),
        "its own URL has a group twice": ([plain, twice], CopiedEvent, "/events/a%20b/copies/a%20b/"),
        "another URL has flags": ([in_any_case, plain], Event, "/events/a%20b/"),
    }
    for name, (urls, view, path_) in cases.items():
        with subtests.test(name), registering(server), api_beside(urls, monkeypatch):
            drf_tools(view, names={"get": "get_event"}, server=server)
            assert not [found for found in run_checks() if found.id == "django_mcp.E028" and "'test'" in found.msg]
            assert ann.data("get_event", event="a b") == {"path": unquote(path_), "event": "a b"}


def test_a_converter_of_the_site_that_fails_finds_nothing(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with api_beside([path("halls/<test_addresses_hall:event>/", Event.as_view(), name="hall")], monkeypatch):
        drf_tools(Event, names={"get": "get_hall"}, server=server)
        assert ann.data("get_hall", event="north") == {"path": "/halls/north/", "event": 1}
        assert ann.problem("get_hall", event="south").startswith("No object found with event")
    assert "KeyError" in caplog.text
