"""What code of the site sees of a request in a call that has none."""

import pytest
from django.test import override_settings

from django_mcp.core.request import StandInRequest


def test_its_host_is_one_that_the_site_allows(subtests: pytest.Subtests) -> None:
    for allowed, host in [
        (["*", "shop.example.com", "b.example.com"], "shop.example.com"),
        ([".example.com"], "example.com"),
        (["*"], "localhost"),
    ]:
        with subtests.test(allowed=allowed), override_settings(ALLOWED_HOSTS=allowed):
            request = StandInRequest("/mcp", {})
            assert request.get_host() == host
            assert request.build_absolute_uri("/a/") == f"http://{host}/a/"


@override_settings(ALLOWED_HOSTS=["shop.example.com"])
def test_what_is_known_of_a_request_is_in_it() -> None:
    meta = {"HTTP_HOST": "shop.example.com", "HTTP_X_TENANT": "acme", "QUERY_STRING": "site=1", "REQUEST_METHOD": "GET"}
    request = StandInRequest("/app/mcp", meta, path_info="/mcp", scheme="https")
    assert request.build_absolute_uri() == "https://shop.example.com/app/mcp?site=1"
    assert (request.path_info, request.headers["X-Tenant"], request.GET["site"]) == ("/mcp", "acme", "1")


def test_it_is_a_post_without_a_form() -> None:
    request = StandInRequest("/mcp", {"REQUEST_METHOD": "GET"})
    assert (request.method, request.META["REQUEST_METHOD"]) == ("POST", "POST")
    assert not request.POST
    assert not request.FILES
    assert request.body == b""


@override_settings(SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"))
def test_a_scheme_that_a_proxy_names_counts() -> None:
    assert StandInRequest("/mcp", {"HTTP_X_FORWARDED_PROTO": "https"}).is_secure()
    assert not StandInRequest("/mcp", {}).is_secure()
