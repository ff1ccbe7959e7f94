"""What is found when the site starts."""

from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from rest_framework import generics, routers, viewsets

from django_mcp import MCPServer
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
