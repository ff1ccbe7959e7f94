"""What a caller tries with a tool of a view, and what must not get out of its call."""

from typing import Any

import pytest
from django.core.cache import cache
from django.core.handlers.wsgi import WSGIHandler
from django.test import RequestFactory

from django_mcp import MCPServer, view_tool
from tests.integrations.visitors import Visitor

NASTY = [
    "..",
    "../secret",
    "a/b",
    "a?b=c",
    "a#b",
    "%2F",
    "%2e%2e%2fsecret",
    "a\r\nX-User: root",
    "\x00",
    "a b",
    "ü",
    "//x",
]


def test_a_value_does_not_leave_its_place_in_the_path(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    view_tool("flight", server=site)
    for value in NASTY:
        with subtests.test(value=value):
            answer = visitor.call("flight", code=value)
            if answer.result.get("isError"):
                assert "/" in value or value in {"..", "\x00", "a\r\nX-User: root"}
            else:
                seen = answer.result["structuredContent"]
                assert seen["variables"] == {"code": repr(value)}
                assert (seen["name"], seen["query"], seen["user"]) == ("flight", {}, "AnonymousUser")


def test_a_value_that_no_browser_could_send_is_refused(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    """Browsers and proxies resolve dot segments, and a URL has no control characters."""
    view_tool("flight", server=site)
    for value in ["..", ".", "\x00", "a\r\nX-User: root", "a\nb", "\x7f"]:
        with subtests.test(value=value):
            answer = visitor.call("flight", code=value)
            assert answer.result.get("isError")
            assert "No object found with code" in answer.text


def test_a_path_goes_to_its_own_view_whatever_is_in_it(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    view_tool("years", server=site)
    key = "12345678-1234-5678-1234-567812345678"
    for value in NASTY:
        with subtests.test(value=value):
            answer = visitor.call("years", year="2026", key=key, rest=value)
            if value in {"..", "../secret", "\x00", "a\r\nX-User: root"}:
                assert answer.text.startswith("No object found with")
            else:
                assert answer.result["structuredContent"]["variables"]["rest"] == repr(value)


def test_a_group_without_a_name_takes_what_its_pattern_takes_and_leads_nowhere_else(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    view_tool("page-at", name="page", server=site)
    view_tool("anything", server=site)
    for value in [*NASTY, "a/../b/", "..%2f", "%2e%2e/"]:
        with subtests.test(value=value):
            assert visitor.problem("page", place=value).startswith("No object found with place")
            answer = visitor.call("anything", place=value)
            if ".." in value.split("/") or value in {"\x00", "a\r\nX-User: root"}:
                assert answer.text.startswith("No object found with place")
            else:
                assert answer.result["structuredContent"]["place"] == value
                assert answer.result["structuredContent"]["path"] == f"/anything/{value}"


def test_a_value_cannot_choose_another_view(site: MCPServer, visitor: Visitor) -> None:
    view_tool("flight", server=site)
    assert visitor.problem("flight", code="new") == "Not found."


def test_values_do_not_become_other_parameters(site: MCPServer, visitor: Visitor, subtests: pytest.Subtests) -> None:
    for method in ["GET", "POST"]:
        with subtests.test(method=method):
            arguments: dict[str, Any] = {"words": str, "scan": (bytes, b"")}
            view_tool("echo", name=method, method=method, arguments=arguments, server=site)
            nasty = 'x&admin=1\r\n--\r\nContent-Disposition: form-data; name="admin"\r\n\r\n1'
            seen = visitor.data(method, words=nasty, scan="LS0=")
            assert {**seen["query"], **seen["form"]}["words"] == [nasty]
            assert "admin" not in {**seen["query"], **seen["form"]}


def test_what_a_view_told_of_an_earlier_request_ends_no_part_of_a_later_one(site: MCPServer, visitor: Visitor) -> None:
    view_tool("echo", method="POST", arguments={"words": str, "scan": bytes}, server=site)
    boundary = visitor.data("echo", words="x", scan="LS0=")["meta"]["CONTENT_TYPE"].partition("boundary=")[2]
    nasty = f'x\r\n--{boundary}\r\nContent-Disposition: form-data; name="admin"\r\n\r\n1'
    assert visitor.data("echo", words=nasty, scan="LS0=")["form"] == {"words": [nasty]}


def test_what_proves_who_the_caller_is_does_not_reach_the_view(
    site: MCPServer, visitor: Visitor, subtests: pytest.Subtests
) -> None:
    view_tool("echo", server=site)
    for credential in ["authorization", "x-api-key"]:
        with subtests.test(credential=credential):
            visitor.sends = {
                credential: "Bearer s3cret",
                "cookie": "sessionid=s3cret; csrftoken=s3cret",
                "proxy-authorization": "s3cret",
                "remote-user": "s3cret",
                "x-other": "s3cret",
            }
            visitor.user = "ann"
            seen = visitor.data("echo")
            assert "s3cret" not in str(seen)
            assert "REMOTE_USER" not in seen["meta"]
            assert seen["user"] == "ann"


def test_the_request_comes_from_where_the_call_came(site: MCPServer, visitor: Visitor) -> None:
    view_tool("echo", server=site)
    visitor.host = "localhost"
    seen = visitor.data("echo")
    assert (seen["url"], seen["address"]) == ("http://localhost/echo/", "127.0.0.1")
    assert seen["cookies"] == {}


def test_a_session_is_empty_each_time_and_never_saved(site: MCPServer, visitor: Visitor) -> None:
    from django.contrib.sessions.models import Session

    before = Session.objects.count()
    view_tool("session", server=site)
    assert [visitor.data("session") for _ in range(2)] == [{"seen": 1, "has_key": True}] * 2
    assert Session.objects.count() == before


def browse(url: str) -> bytes:
    """A page, for a browser that has no cookie yet; the one of tests has an empty one."""
    environ = RequestFactory().get(url).environ
    del environ["HTTP_COOKIE"]
    response: Any = WSGIHandler()(environ, lambda *_: None)
    return b"".join(response)


def test_a_page_that_is_cached_for_each_user_is_not_shown_to_another(site: MCPServer, visitor: Visitor) -> None:
    view_tool("cached", server=site)
    assert browse("/cached/") == b"of AnonymousUser"
    for user in ("ann", "bob", "ann"):
        visitor.user = user
        assert visitor.text("cached") == f"of {user}"
    assert browse("/cached/") == b"of AnonymousUser"
    visitor.user = ""
    assert visitor.text("cached") == "of AnonymousUser"


def test_nothing_of_a_call_stays_in_the_cache_of_pages(site: MCPServer, visitor: Visitor) -> None:
    view_tool("cached", server=site)
    visitor.user = "ann"
    visitor.text("cached")
    kept: Any = cache
    assert not [key for key in kept._cache if "cache_page" in key or "cache_header" in key]


def test_a_large_body_is_refused_as_from_a_browser(site: MCPServer, visitor: Visitor, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    view_tool("echo", method="POST", arguments={"words": str}, server=site)
    assert visitor.data("echo", words="x" * 900)
    assert visitor.problem("echo", words="x" * 1100) == "The request was not accepted."
