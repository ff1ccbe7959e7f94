"""What is found when the site starts."""

import importlib
import re
import sys
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from rest_framework import filters, generics, routers, serializers, viewsets

from django_mcp import MCPServer
from django_mcp.contrib import drf
from django_mcp.contrib.drf import drf_tools
from tests.contrib.drf import shop
from tests.model_resources.conftest import Reader, registering


def found() -> list[str]:
    return [each.msg for each in run_checks() if each.id == "django_mcp.E028" and "'test'" in each.msg]


def test_a_tool_that_no_url_leads_to_is_found(server: MCPServer) -> None:
    class Unmounted(shop.BookPage):
        """Nowhere."""

    drf_tools(Unmounted, actions=["retrieve"], server=server)
    (told,) = found()
    assert "The tool 'get_book'" in told
    assert "the URLconf has none" in told


def test_its_hint_names_the_subclass_and_the_base_class_that_have_a_url(server: MCPServer) -> None:
    class Above(viewsets.ReadOnlyModelViewSet[Any]):
        serializer_class = shop.BookViewSet.serializer_class
        queryset = shop.BookViewSet.queryset

    class Routed(Above):
        """The one in the URLconf."""

    class Below(Routed):
        """Nowhere."""

    router = routers.SimpleRouter()
    router.register("routed", Routed, basename="routed")
    urlconf = type("urls", (), {"urlpatterns": router.urls})
    drf_tools(Above, server=server, actions=["list"], name="above")
    drf_tools(Below, server=server, actions=["list"], name="below")
    drf_tools(shop.Rates, server=server)
    with override_settings(ROOT_URLCONF=urlconf):
        hints = [each.hint or "" for each in run_checks() if each.id == "django_mcp.E028" and "'test'" in each.msg]
    above, below, unrelated = hints
    way_out = f"publish {Routed.__module__}.{Routed.__qualname__}, which is in the URLconf"
    assert way_out in above
    assert way_out in below
    assert "publish" not in unrelated


def test_so_is_one_whose_url_nobody_can_make(server: MCPServer) -> None:
    drf_tools(shop.Nameless, server=server)
    (told,) = found()
    assert "the URLconf has none" in told
    assert "in a namespace a URL needs a name" in told


def test_variables_that_only_the_urlconf_knows_are_arguments(server: MCPServer) -> None:
    drf_tools(shop.AuthorBooks, actions=["list"], server=server)
    assert found() == []
    assert server.tools["list_books"].definition["inputSchema"]["required"] == ["author_pk"]


def test_a_version_that_nobody_named_is_found(server: MCPServer) -> None:
    drf_tools(shop.Versioned, server=server)
    assert len(found()) == 1


def test_what_the_urlconf_has_is_not_found_fault_with(server: MCPServer, subtests: pytest.Subtests) -> None:
    views: dict[Any, dict[str, Any]] = {
        shop.BookViewSet: {},
        shop.BookPage: {},
        shop.Rates: {},
        shop.echo: {},
        shop.AuthorBooks: {},
        shop.Versioned: {"version": "v1"},
        shop.ByNamespace: {"version": "v1"},
    }
    for view, options in views.items():
        with subtests.test(view=view), registering(server):
            drf_tools(view, server=server, **options)
            assert found() == []


class Choosy(generics.CreateAPIView):
    def get_serializer_class(self) -> Any:
        return {"gold": shop.OrderSerializer}[self.request.user.profile.level]


def test_a_view_that_needs_a_real_request_is_refused_where_it_is_declared(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"POST \(post\) of .*Choosy cannot be described: .* request=\{"):
        drf_tools(Choosy, server=server)


class Plain(serializers.Serializer[Any]):
    name = serializers.CharField()


class OfProfile(viewsets.ModelViewSet[Any]):
    """Reads what middleware puts on the request, wherever a view set can."""

    @property
    def paginator(self) -> Any:  # type: ignore[override]
        return self.request.profile.paginator  # type: ignore[attr-defined]

    def get_queryset(self) -> Any:
        return self.request.profile.books  # type: ignore[attr-defined]

    def get_serializer_class(self) -> Any:
        return self.request.profile.serializer  # type: ignore[attr-defined]

    def get_serializer_context(self) -> dict[str, Any]:
        return {"profile": self.request.profile}  # type: ignore[attr-defined]


class ForProfile(viewsets.ModelViewSet[Any]):
    """Its serializers get something of the request that they need for values only."""

    serializer_class = Plain

    def get_queryset(self) -> Any:
        return self.request.profile.books  # type: ignore[attr-defined]

    def get_serializer_context(self) -> dict[str, Any]:
        return {**super().get_serializer_context(), "profile": self.request.profile}  # type: ignore[attr-defined]


def test_a_serializer_that_is_described_without_its_context_needs_none(server: MCPServer) -> None:
    drf_tools(ForProfile, server=server, mounted=False, name="book")
    arguments = {name: [*tool.definition["inputSchema"]["properties"]] for name, tool in server.tools.items()}
    one = {"get_book": ["pk"], "create_book": ["name"], "replace_book": ["pk", "name"], "update_book": ["pk", "name"]}
    assert arguments == {"list_books": [], **one, "delete_book": ["pk"]}
    assert server.tools["create_book"].definition["inputSchema"]["required"] == ["name"]
    assert server.tools["update_book"].definition["inputSchema"]["required"] == ["pk"]
    assert "name" in server.tools["get_book"].definition["outputSchema"]["properties"]


class Searching(filters.SearchFilter):
    def get_search_fields(self, view: Any, request: Any) -> Any:
        return request.profile.fields


def test_serializers_that_are_given_are_all_that_such_a_view_needs(server: MCPServer) -> None:
    given: dict[str, Any] = {
        "request": {"create": Plain, "update": Plain},
        "responses": dict.fromkeys(("list", "retrieve", "create", "update"), Plain),
    }
    drf_tools(OfProfile, server=server, mounted=False, name="book", exclude=["partial_update"], **given)
    arguments = {name: [*tool.definition["inputSchema"]["properties"]] for name, tool in server.tools.items()}
    expected = {"list_books": [], "get_book": ["pk"], "create_book": ["name"], "replace_book": ["pk", "name"]}
    assert arguments == {**expected, "delete_book": ["pk"]}


def test_without_output_schemas_only_bodies_need_a_serializer(server: MCPServer) -> None:
    class Paged(OfProfile):
        pagination_class = shop.TwoByTwo
        paginator = shop.TwoByTwo()

    given: dict[str, Any] = {"request": {"create": Plain, "update": Plain}, "output": False}
    drf_tools(Paged, server=server, mounted=False, name="book", exclude=["partial_update"], **given)
    arguments = {name: [*tool.definition["inputSchema"]["properties"]] for name, tool in server.tools.items()}
    writes = {"create_book": ["name"], "replace_book": ["pk", "name"], "delete_book": ["pk"]}
    assert arguments == {"list_books": ["page", "size"], "get_book": ["pk"], **writes}


@pytest.mark.parametrize(
    ("action", "given", "way_out"),
    [
        ("list", {}, "Support that, or set responses={'list': …} or output=False."),
        ("create", {}, "Support that, or set request={'create': …} and responses={'create': …} or output=False."),
        ("create", {"request": {"create": Plain}}, "Support that, or set responses={'create': …} or output=False."),
        ("create", {"output": False}, "Support that, or set request={'create': …}."),
        ("list", {"responses": {"list": Plain}}, "Support that in its filters, "),
    ],
)
def test_the_error_names_what_is_not_given_yet(server: MCPServer, action: str, given: Any, way_out: str) -> None:
    class Filtered(OfProfile):
        filter_backends = (Searching,)

    with pytest.raises(ImproperlyConfigured, match=re.escape(way_out)):
        drf_tools(Filtered, actions=[action], server=server, mounted=False, **given)


def test_it_keeps_no_site_from_its_start_and_no_other_tool_from_its_clients(
    server: MCPServer, ann: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apps, "ready", False)
    drf_tools(Choosy, server=server)
    drf_tools(shop.Rates, server=server)
    monkeypatch.setattr(apps, "ready", True)
    assert ann.tool_names() == {"rates"}
    (told,) = [each.msg for each in run_checks() if each.id == "django_mcp.E029" and "'create_choosy'" in each.msg]
    assert "cannot be described" in told


class Pages(viewsets.ViewSet):
    """Its methods are called by URLs of its own, as in Wagtail's API."""

    def listing_view(self, request: Any) -> Any:
        raise NotImplementedError


def test_a_view_set_in_which_nothing_is_found_is_told_with_what_can_be_done(server: MCPServer, subtests: Any) -> None:
    router = routers.SimpleRouter()
    router.register("pages", Pages, basename="pages")
    sources: list[tuple[Any, dict[str, Any]]] = [
        (Pages, {}),
        (Pages, {"actions": ["listing_view"]}),
        (router, {}),
        (routers.SimpleRouter(), {}),
    ]
    for source, options in sources:
        with subtests.test(source=source, options=options), pytest.raises(ImproperlyConfigured) as refused:
            drf_tools(source, server=server, **options)
        assert "no operations found" in str(refused.value)
        assert "as_view({" in str(refused.value)
        assert "view_tool" in str(refused.value)
        assert "it has ." not in str(refused.value)


def test_the_urlconf_is_not_read_where_a_view_is_declared(server: MCPServer, ann: Reader) -> None:
    """It may import the module that declares it, and have no patterns yet."""
    with override_settings(ROOT_URLCONF="tests.contrib"):
        drf_tools(shop.AuthorBooks, actions=["list"], server=server)
    assert "author_pk" in server.tools["list_books"].definition["inputSchema"]["properties"]


def test_a_site_with_an_api_and_without_the_extra_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "drf_spectacular.drainage", None)
    for name in [name for name in sys.modules if name.startswith(drf.__name__)]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=re.escape("pip install 'django-mcp-toolkit[drf]'")):
        importlib.import_module(drf.__name__)
