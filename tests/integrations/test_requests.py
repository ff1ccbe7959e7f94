"""Requests made in this process."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import messages
from django.contrib.auth.models import AnonymousUser, User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory, override_settings
from django.urls import get_script_prefix, reverse
from django.utils.html import format_html

from django_mcp.integrations.handler import run_view
from django_mcp.integrations.requests import FORM, MULTIPART, Call, site_request
from django_mcp.integrations.results import tool_result


def context(came: HttpRequest | None = None, user: Any = None) -> Any:
    """What a request is made from, of the context of a call."""
    principal = SimpleNamespace(kind="test", id="1")
    came = came or RequestFactory().post("/mcp")
    return SimpleNamespace(
        request=came, set_on_request={}, user=user or AnonymousUser(), principal=principal, params={"name": "x"}
    )


def test_a_body_of_json_has_what_python_has() -> None:
    import datetime
    import decimal

    body = {"day": datetime.date(2026, 5, 17), "price": decimal.Decimal("1.50"), "note": None}
    request = site_request(context(), Call("POST", "/a/", body=body))
    assert request.body == b'{"day": "2026-05-17", "price": "1.50", "note": null}'
    assert request.content_type == "application/json"


def test_a_body_that_is_bytes_is_sent_as_it_is() -> None:
    request = site_request(context(), Call("POST", "/a/", body=b"<a/>", content_type="application/xml"))
    assert (request.body, request.content_type) == (b"<a/>", "application/xml")


def test_a_request_without_a_body_has_none() -> None:
    request = site_request(context(), Call("GET", "/a/"))
    assert (request.body, request.content_type) == (b"", "")
    assert request.headers["Accept"].startswith("application/json")


def test_a_form_has_repeated_keys_and_no_empty_ones(subtests: pytest.Subtests) -> None:
    for content_type in [FORM, MULTIPART]:
        with subtests.test(content_type=content_type):
            body = {"a": [1, 2], "b": None, "c": "ü\r\n"}
            request = site_request(context(), Call("POST", "/a/", body=body, content_type=content_type))
            assert dict(request.POST.lists()) == {"a": ["1", "2"], "c": ["ü\r\n"]}


def test_files_keep_their_names_and_their_bytes() -> None:
    file = SimpleUploadedFile('a"b.bin', bytes(range(256)), content_type="image/png")
    request = site_request(context(), Call("POST", "/a/", body={"x": 1}, files={'f"\r\nX: y': file}))
    (sent,) = request.FILES.values()
    assert (sent.read(), sent.content_type, sent.name) == (bytes(range(256)), "image/png", "a%22b.bin")
    assert dict(request.POST.lists()) == {"x": ["1"]}


def test_headers_can_be_added_and_accept_replaced() -> None:
    request = site_request(context(), Call("GET", "/a/", headers={"X-Version": "2", "Accept": "text/csv"}))
    assert (request.headers["X-Version"], request.headers["Accept"]) == ("2", "text/csv")


def test_what_a_proxy_says_of_the_caller_is_kept() -> None:
    headers = {"x-forwarded-host": "shop.example.com", "x-forwarded-proto": "https", "x-forwarded-for": "10.1.1.1"}
    with override_settings(
        USE_X_FORWARDED_HOST=True,
        SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
        ALLOWED_HOSTS=["shop.example.com"],
    ):
        request = site_request(context(RequestFactory().post("/mcp", headers=headers)), Call("GET", "/a b/"))
        assert request.build_absolute_uri() == "https://shop.example.com/a%20b/"
    assert request.headers["X-Forwarded-For"] == "10.1.1.1"


def test_a_site_below_a_prefix_stays_there() -> None:
    came = RequestFactory().post("/mcp", SCRIPT_NAME="/shop")
    request = site_request(context(came), Call("GET", "/shop/accounts/login/"))
    assert (request.path, request.path_info) == ("/shop/accounts/login/", "/accounts/login/")
    assert request.resolver_match.url_name == "login"
    before = get_script_prefix()
    assert run_view(lambda _: HttpResponse(reverse("login")), request).content == b"/shop/accounts/login/"
    assert get_script_prefix() == before


def test_a_call_without_http_has_a_request_all_the_same() -> None:
    from django_mcp import MCPServer
    from django_mcp.core.server import server
    from django_mcp.transports.stdio import django_request

    assert isinstance(server, MCPServer)
    request = site_request(context(django_request(server)), Call("GET", "/a/"))
    assert request.build_absolute_uri() == "http://testserver/a/"
    assert request.META["REMOTE_ADDR"] == "127.0.0.1"


def test_messages_are_collected_and_told_first() -> None:
    def view(request: HttpRequest) -> HttpResponse:
        messages.success(request, "Saved.")
        messages.debug(request, "not even recorded")
        return HttpResponse("Here you are.", content_type="text/plain")

    request = site_request(context(), Call("GET", "/a/"))
    assert tool_result(run_view(view, request), request).text == "Saved.\n\nHere you are."


def test_a_message_that_is_html_is_told_as_text() -> None:
    def view(request: HttpRequest) -> HttpResponse:
        messages.success(request, format_html('Created <a href="{}">{}</a>.', "/sites/4/", "A & B"))
        messages.info(request, "1 < 2 <b>")
        return HttpResponse("Done.", content_type="text/plain")

    request = site_request(context(), Call("GET", "/a/"))
    told = "Created [A & B](/sites/4/).\n1 < 2 <b>\n\nDone."
    assert tool_result(run_view(view, request), request).text == told


def test_signing_in_and_out_works_on_a_session_that_is_never_saved(db: None) -> None:
    from django.contrib.auth import login, logout

    ann = User.objects.create_user("ann", password="x")

    def view(request: HttpRequest) -> HttpResponse:
        login(request, ann)
        signed_in = str(request.user)
        logout(request)
        return HttpResponse(signed_in)

    assert run_view(view, site_request(context(), Call("POST", "/a/"))).content == b"ann"


def test_a_view_that_answers_nothing_is_a_mistake_of_the_site() -> None:
    with pytest.raises(ValueError, match="didn't return an HttpResponse"):
        run_view(lambda _: None, site_request(context(), Call("GET", "/a/")))


def test_atomic_requests_hold(db: None) -> None:
    from django.db import connection, transaction

    def depth(request: HttpRequest) -> HttpResponse:
        return HttpResponse(str(len(connection.savepoint_ids)))

    request = site_request(context(), Call("GET", "/a/"))
    before = int(run_view(depth, request).content)
    connection.settings_dict["ATOMIC_REQUESTS"] = True
    try:
        assert int(run_view(depth, request).content) == before + 1
        assert int(run_view(transaction.non_atomic_requests(depth), request).content) == before
    finally:
        connection.settings_dict["ATOMIC_REQUESTS"] = False
