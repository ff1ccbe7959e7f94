"""The site's own session cookie. Numbers in brackets are rows of the list of attacks."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.db import connection
from django.middleware.csrf import CSRF_SESSION_KEY
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_mcp import (
    AllowAny,
    Context,
    InvalidToken,
    MCPServer,
    OAuth2Authentication,
    RequestHead,
    SessionAuthentication,
    tool,
)
from django_mcp.transports.asgi import MCPApplication
from tests.clients import Client, exchange, no_django

Make = Callable[..., Any]
Headers = dict[str, str | None]

ORIGIN = "https://travel.example.com"
SECRET = "abcdefghijklmnopqrstuvwxyzABCDEF"


@pytest.fixture
def server(make_server: Make, site: None) -> Iterator[MCPServer]:
    server = make_server(authentication=[SessionAuthentication(), OAuth2Authentication()])

    @tool(server=server)
    def whoami(context: Context) -> str:
        return f"{context.principal.kind} {context.user.get_username()}"

    # As behind a proxy that speaks https, for Django compares the Origin with what it is told.
    with override_settings(SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https")):
        yield server


@pytest.fixture
def log_in(open_database: None) -> Iterator[Callable[..., str]]:
    """Makes sessions; gives their cookies."""
    made = []

    def log_in(user: Any = None, **more: Any) -> str:
        store = import_module(django_settings.SESSION_ENGINE).SessionStore()
        if user is not None:
            store[SESSION_KEY] = str(user.pk)
            store[BACKEND_SESSION_KEY] = django_settings.AUTHENTICATION_BACKENDS[0]
            store[HASH_SESSION_KEY] = user.get_session_auth_hash()
        store.update(more)
        store.create()
        store.save()
        made.append(store)
        return f"{django_settings.SESSION_COOKIE_NAME}={store.session_key}; csrftoken={SECRET}"

    yield log_in
    for store in made:
        store.delete()


@pytest.fixture
def page(log_in: Make, user: Any) -> Headers:
    """What a page of the site sends for a user who is logged in."""
    return {
        "cookie": log_in(user),
        "origin": ORIGIN,
        "x-csrftoken": SECRET,
        "host": "travel.example.com",
        "x-forwarded-proto": "https",
    }


def whoami(client: Client, headers: Headers) -> Any:
    return client.request("tools/call", {"name": "whoami", "arguments": {}}, headers=headers)


def refused(client: Client, headers: Headers, verb: str = "POST") -> str:
    answer = client.send(verb, {"content-type": "application/json", "accept": "*/*", **headers}, b"{}")
    assert answer.status == 401, answer.body
    return answer.headers["www-authenticate"]


def test_a_page_of_the_site_calls_as_whoever_is_logged_in(client: Client, page: Headers, user: Any) -> None:
    assert whoami(client, page).text == f"session {user.get_username()}"


BAD: dict[str, Headers] = {
    "no CSRF token": {"x-csrftoken": None},
    "an empty CSRF token": {"x-csrftoken": ""},
    "another CSRF token": {"x-csrftoken": SECRET[::-1]},
    "a CSRF token of another shape": {"x-csrftoken": "é" * 32},
    "no Origin": {"origin": None},
    "[9] no Origin, from another site": {"origin": None, "sec-fetch-site": "cross-site"},
    "no Origin, from a sister site": {"origin": None, "sec-fetch-site": "same-site"},
    "no Origin, typed by hand": {"origin": None, "sec-fetch-site": "none"},
    "an allowed Origin that is not the site": {"origin": "https://inspector.example.com"},
}


def test_a_cookie_without_proof_where_it_comes_from_is_refused(
    client: Client, page: Headers, subtests: pytest.Subtests
) -> None:
    allowed = {**django_settings.DJANGO_MCP, "ALLOWED_ORIGINS": ["https://inspector.example.com"]}
    for verb in ["POST", "GET", "DELETE"]:
        for bad, headers in BAD.items():
            with subtests.test(bad=bad, verb=verb), override_settings(DJANGO_MCP=allowed):
                assert 'error="invalid_token"' in refused(client, {**page, **headers}, verb)


def test_a_page_elsewhere_does_not_even_get_that_far(client: Client, page: Headers, subtests: pytest.Subtests) -> None:
    """[9]"""
    for origin in ["https://evil.example.com", "null", "http://travel.example.com"]:
        with subtests.test(origin=origin):
            answer = client.post(b"{}", {**page, "origin": origin})
            assert answer.status == 403
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.postgresql
def test_a_cookie_that_cannot_be_a_session_is_no_credential(client: Client, page: Headers) -> None:
    """Django reads ``"\\000"`` in quotation marks as NUL, which PostgreSQL rejects."""
    for key in ['"\\000aaaaaaaaaaaa"', "x" * 5000, '"\\377\\376aaaaaaaa"', "../../etc/passwd"]:
        refused(client, {**page, "cookie": f"{django_settings.SESSION_COOKIE_NAME}={key}; csrftoken={SECRET}"})


def test_only_the_cookie_is_no_credential(client: Client, page: Headers) -> None:
    """[9]"""
    refused(client, {"cookie": page["cookie"]})


def test_a_token_in_the_body_does_not_count(client: Client, page: Headers) -> None:
    body = f"csrfmiddlewaretoken={SECRET}".encode()
    headers = {**page, "x-csrftoken": None, "content-type": "application/x-www-form-urlencoded"}
    assert client.send("POST", headers, body).status == 401


def test_a_get_may_come_without_an_origin_where_the_browser_says_it_is_the_sites(client: Client, page: Headers) -> None:
    own = {**page, "origin": None, "sec-fetch-site": "same-origin", "accept": "text/event-stream"}
    referer = f"{ORIGIN}/admin/"
    assert client.send("GET", {**own, "referer": referer}).status == 405  # no session of the protocol to stream for
    refused(client, own, "GET")  # over https Django wants a Referer where there is no Origin
    refused(client, {**own, "referer": "https://evil.example.com/"}, "GET")


def test_with_another_credential_the_cookie_does_not_count(
    client: Client, page: Headers, subtests: pytest.Subtests
) -> None:
    for sent in ["Bearer not-a-token", "Basic eDp5"]:
        with subtests.test(sent=sent):
            refused(client, {**page, "authorization": sent})


def test_with_the_cookie_of_one_and_the_token_of_another_the_token_counts(
    client: Client, page: Headers, make_token: Make, make_user: Make
) -> None:
    """[10]"""
    other = make_user("other")
    token = make_token(user=other)
    assert whoami(client, {**page, "authorization": f"Bearer {token}"}).text == "oauth other"


def test_with_an_api_key_the_cookie_does_not_count(page: Headers, server: MCPServer, subtests: pytest.Subtests) -> None:
    for extra in [{"headers": {"x-api-key": "x"}}, {"query": "api_key=x"}, {"query": "a=1&api_key="}]:
        with subtests.test(extra=extra):
            headers = {**page, **extra.get("headers", {})}
            head = RequestHead(
                "POST", headers, "travel.example.com", lambda: True, lambda: None, extra.get("query", "")
            )
            assert SessionAuthentication().authenticate(head, server) is None


def test_without_a_session_there_is_no_error(client: Client, page: Headers, subtests: pytest.Subtests) -> None:
    for cookie in [None, "", "theme=dark", "sessionid=", "sessionid=unknown", "sessionid=../../x"]:
        with subtests.test(cookie=cookie):
            found = f"{cookie}; csrftoken={SECRET}" if cookie is not None else None
            assert "error" not in refused(client, {**page, "cookie": found})


def test_a_session_nobody_is_logged_in_to_is_nobody(
    make_server: Make, server: MCPServer, page: Headers, log_in: Make, edge: str
) -> None:
    open_to_all = make_server("anyone", authentication=[SessionAuthentication(), AllowAny()])

    @tool(server=open_to_all, name="kind")
    def kind(context: Context) -> str:
        return context.principal.kind

    client = Client(open_to_all, "2025-11-25", edge)
    answer = client.request("tools/call", {"name": "kind", "arguments": {}}, headers={**page, "cookie": log_in()})
    assert answer.text == "public"
    refused(client, {**page, "x-csrftoken": None})  # a bad credential is not as good as none


def test_a_deactivated_user_is_logged_in_no_more(client: Client, page: Headers, user: Any, log_in: Make) -> None:
    user.is_active = False
    user.save()
    refused(client, page)
    with override_settings(AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.AllowAllUsersModelBackend"]):
        refused(client, {**page, "cookie": log_in(user)})


def test_where_the_password_was_changed_the_session_is_dead_and_left_alone(
    client: Client, page: Headers, user: Any
) -> None:
    user.set_password("another")
    user.save()
    before = rows()
    refused(client, page)
    assert rows() == before


def test_a_key_that_was_rotated_keeps_the_session_as_it_is(client: Client, page: Headers, user: Any) -> None:
    """Django gives such a session a new key, of which the browser would never hear."""
    before = rows()
    old = django_settings.SECRET_KEY
    with override_settings(SECRET_KEY="new-secret-key-" * 4, SECRET_KEY_FALLBACKS=[old]):
        if "signed" not in django_settings.SESSION_ENGINE:
            assert whoami(client, page).text == f"session {user.get_username()}"
    assert rows() == before


def test_a_call_leaves_session_and_cookies_as_they_are(client: Client, page: Headers) -> None:
    before = rows()
    answer = whoami(client, page)
    assert "set-cookie" not in answer.headers
    assert rows() == before


def test_the_sites_way_to_keep_sessions_is_obeyed(
    client: Client, log_in: Make, user: Any, page: Headers, subtests: pytest.Subtests
) -> None:
    for engine in ["django.contrib.sessions.backends.signed_cookies", "django.contrib.sessions.backends.cache"]:
        own = {"SESSION_ENGINE": engine, "SESSION_COOKIE_NAME": "own_name"}
        with subtests.test(engine=engine), override_settings(**own):
            mine = {**page, "cookie": log_in(user)}
            assert "own_name=" in str(mine["cookie"])
            assert whoami(client, mine).text == f"session {user.get_username()}"
            refused(client, page)


def test_a_csrf_secret_may_be_in_the_session(client: Client, log_in: Make, user: Any, page: Headers) -> None:
    with override_settings(CSRF_USE_SESSIONS=True):
        cookie = log_in(user, **{CSRF_SESSION_KEY: SECRET}).partition(";")[0]
        assert whoami(client, {**page, "cookie": cookie}).text.startswith("session")
        refused(client, {**page, "cookie": log_in(user)})  # the one in a cookie is not asked


def test_the_header_of_the_csrf_token_is_the_sites(client: Client, page: Headers) -> None:
    with override_settings(CSRF_HEADER_NAME="HTTP_X_OWN"):
        refused(client, page)
        assert whoami(client, {**page, "x-own": SECRET}).text.startswith("session")


def test_it_is_two_queries_and_none_for_a_foreign_page(server: MCPServer, page: Headers) -> None:
    queries = ask(server, page)
    assert len(queries) == 2
    assert "django_session" in queries[0]
    assert "auth_user" in queries[1]
    assert ask(server, {**page, "origin": None}) == []
    assert ask(server, {**page, "cookie": "theme=dark"}) == []


def test_a_page_may_call_without_a_base_url(make_server: Make, log_in: Make, user: Any, edge: str) -> None:
    server = make_server("plain", authentication=[SessionAuthentication()])
    tool(server=server, name="one")(lambda: "x")
    client = Client(server, "2025-11-25", edge)
    page = {"cookie": log_in(user), "origin": "http://testserver", "x-csrftoken": SECRET}
    with override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"]}):
        assert client.post(b'{"jsonrpc":"2.0","id":1,"method":"ping"}', page).status == 200
        refused(client, {**page, "x-csrftoken": None})
        refused(client, {**page, "origin": None})  # over http Django itself asks for nothing more
        refused(client, {**page, "origin": None, "sec-fetch-site": "same-site"})
        with override_settings(ALLOWED_HOSTS=["*"]):
            assert client.post(b"{}", page).status == 403


def ask(server: MCPServer, headers: Headers) -> list[str]:
    """The queries of the authenticator alone."""
    from django.test import RequestFactory

    given = {name: value for name, value in headers.items() if value is not None}
    request = RequestFactory().post("/test/mcp", headers=given, secure=True)
    head = RequestHead("POST", given, "travel.example.com", lambda: True, lambda: request)
    with CaptureQueriesContext(connection) as queries, suppress(InvalidToken):
        SessionAuthentication().authenticate(head, server)
    return [each["sql"] for each in queries]


def rows() -> list[Any]:
    """Every session there is, whole."""
    from django.contrib.sessions.models import Session

    return list(Session.objects.order_by("pk").values_list())


def test_a_client_that_is_no_browser_sends_no_cookie_and_costs_nothing(server: MCPServer) -> None:
    answer = asyncio.run(exchange(MCPApplication(no_django), "POST", "/test/mcp", {"host": "testserver"}, b"{}"))
    assert answer.status == 401
