"""Endpoints are found like any other address of a site, only faster."""

import re
from types import ModuleType
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, Resolver404, include, path, re_path, resolve, reverse

from django_mcp.urls import APP_NAME, Endpoints

SEEN = ("func", "args", "kwargs", "url_name", "app_names", "namespaces", "route", "captured_kwargs", "extra_kwargs")


def view(request: HttpRequest, **_: Any) -> HttpResponse:
    return HttpResponse(request.path)


PATTERNS = [
    re_path(rf"^{re.escape('mcp')}/?$", view, name="default"),
    re_path(r"^of/(?P<name>\w+)/?$", view, name="named"),
]


def site(patterns: Any) -> Any:
    """A URLconf that has them under ``api/``."""
    module = ModuleType("urls")
    vars(module)["urlpatterns"] = [path("api/", include([*patterns]), {"given": 1})]
    return module


OURS = site([Endpoints(PATTERNS)])
DJANGOS = site([path("", include((PATTERNS, APP_NAME)))])


def test_a_match_is_what_django_finds_the_first_time_and_later(subtests: pytest.Subtests) -> None:
    for address in ["/api/mcp", "/api/mcp/", "/api/of/it"]:
        with subtests.test(address=address):
            plain = resolve(address, DJANGOS)
            for _ in range(3):
                found = resolve(address, OURS)
                assert [getattr(found, name) for name in SEEN] == [getattr(plain, name) for name in SEEN]
                assert (found.view_name, found.namespace, found.app_name) == (
                    plain.view_name,
                    "django_mcp",
                    "django_mcp",
                )


def test_what_code_of_a_site_does_to_one_match_is_not_seen_in_the_next() -> None:
    for _ in range(2):
        first = resolve("/api/mcp", OURS)
        first.kwargs["more"] = True
        first.namespaces.append("more")
    later = resolve("/api/mcp", OURS)
    assert later.kwargs == {"given": 1}
    assert later.namespaces == ["django_mcp"]


def test_parts_of_an_address_that_vary_are_read_anew() -> None:
    assert [resolve(f"/api/of/{name}", OURS).kwargs["name"] for name in ("one", "two", "one")] == ["one", "two", "one"]


def test_addresses_can_be_asked_for_by_name() -> None:
    assert reverse("django_mcp:default", OURS) == "/api/mcp"
    assert reverse("django_mcp:named", OURS, kwargs={"name": "it"}) == "/api/of/it"
    with pytest.raises(NoReverseMatch):
        reverse("default", OURS)


def test_what_is_no_address_is_none_however_often_it_is_asked_for() -> None:
    for _ in range(2):
        with pytest.raises(Resolver404):
            resolve("/api/mcpx", OURS)
