"""Pages of other sites: who may call, and read the answer. Numbers in brackets are rows of the list of attacks."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.test import Client as DjangoClient
from django.test import RequestFactory, override_settings
from django.urls import path
from django.views.decorators.csrf import csrf_exempt

from django_mcp import AllowAny, MCPServer, OAuth2Authentication, tool
from django_mcp.auth.session import own_origins
from django_mcp.transports.base import with_cors
from tests.clients import Client

Make = Callable[..., Any]
OWN = "https://travel.example.com"
INSPECTOR = "https://inspector.example.com"
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture
def allowed(site: None) -> Iterator[None]:
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "ALLOWED_ORIGINS": [INSPECTOR]}):
        yield


@pytest.fixture
def server(make_server: Make, allowed: None) -> MCPServer:
    """An endpoint that takes tokens."""
    server = make_server(authentication=[OAuth2Authentication()])
    tool(server=server, name="book", scopes=["travel:write"])(lambda: "booked")
    return server


@pytest.fixture
def anyone(make_server: Make, allowed: None, edge: str, open_database: None) -> Client:
    """Of an endpoint that everybody may call."""
    server = make_server("anyone", authentication=[AllowAny()])
    tool(server=server, name="one")(lambda: "x")
    return Client(server, "2025-11-25", edge)


def test_a_page_that_gives_itself_a_name_of_ours_is_refused(anyone: Client, subtests: pytest.Subtests) -> None:
    """[23] DNS rebinding."""
    cases = [
        ([".example.com"], "evil.test", "http://evil.test", 400),
        (["*"], "evil.test", "http://evil.test", 403),
        (["*"], "travel.example.com", "http://evil.test", 403),
        (["*"], "travel.example.com", "null", 403),
        ([".example.com"], "travel.example.com", "null", 403),
        ([".example.com"], "travel.example.com", "", 403),
        ([".example.com"], "travel.example.com", "http://evil.example.com", 403),
        ([".example.com"], "travel.example.com", f"{OWN}, {INSPECTOR}", 403),
        ([".example.com"], "travel.example.com", f"{OWN}.evil.test", 403),
    ]
    for verb in ["POST", "GET", "DELETE", "OPTIONS"]:
        for hosts, host, origin, status in cases:
            for base in [OWN, None]:
                with subtests.test(base=base, hosts=hosts, host=host, origin=origin, status=status, verb=verb):
                    own = {**django_settings.DJANGO_MCP, "BASE_URL": base}
                    with override_settings(ALLOWED_HOSTS=hosts, DJANGO_MCP=own, MIDDLEWARE=[]):
                        headers = {"host": host, "origin": origin, "content-type": "application/json"}
                        answer = anyone.send(verb, headers, PING)
                    assert answer.status == status
                    assert "access-control-allow-origin" not in answer.headers


def test_with_a_base_url_host_and_origin_that_agree_prove_nothing(anyone: Client) -> None:
    """[23] Even where the Host is one of ours: it is the setting that counts."""
    for host in ("testserver", "localhost", "travel.example.com"):
        assert anyone.post(PING, {"host": host, "origin": f"http://{host}"}).status == 403
        assert anyone.post(PING, {"host": host, "origin": OWN}).status == 200


def test_the_sites_own_origin_is_as_browsers_write_it(subtests: pytest.Subtests) -> None:
    cases = [
        ("https://travel.example.com", {"https://travel.example.com"}),
        ("HTTPS://Travel.Example.com:443/", {"https://travel.example.com"}),
        ("https://travel.example.com:8443", {"https://travel.example.com:8443"}),
        ("https://travel.example.com/below", {"https://travel.example.com"}),
        ("http://127.0.0.1:8000", {"http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"}),
        ("http://[::1]:8000", {"http://localhost:8000", "http://127.0.0.1:8000", "http://[::1]:8000"}),
        ("http://localhost", {"http://localhost", "http://127.0.0.1", "http://[::1]"}),
        ("http://localhost.evil.test", {"http://localhost.evil.test"}),
        ("travel.example.com", set()),
    ]
    for base, origins in cases:
        with subtests.test(base=base, origins=origins):
            assert own_origins(base) == origins


def test_a_refusal_can_be_read_by_the_page_it_is_for(client: Client, subtests: pytest.Subtests) -> None:
    for origin in [OWN, INSPECTOR]:
        with subtests.test(origin=origin):
            for headers in ({}, {"authorization": "Bearer x"}):
                answer = client.post(PING, {"origin": origin, **headers})
                assert answer.status == 401
                assert answer.headers["access-control-allow-origin"] == origin
                assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]
                assert "access-control-allow-credentials" not in answer.headers
                assert "Origin" in answer.headers["vary"]


def test_so_can_the_wish_for_more_scopes(client: Client, make_token: Make) -> None:
    body, own = client.compose("tools/call", {"name": "book", "arguments": {}})
    token = make_token()
    headers = {**own, "origin": INSPECTOR, "authorization": f"Bearer {token}"}
    answer = client.post(json.dumps(body).encode(), headers)
    assert answer.status == 403
    assert "insufficient_scope" in answer.headers["www-authenticate"]
    assert answer.headers["access-control-allow-origin"] == INSPECTOR
    assert "WWW-Authenticate" in answer.headers["access-control-expose-headers"]


def test_a_preflight_is_answered_whoever_asks(client: Client, subtests: pytest.Subtests) -> None:
    for origin in [OWN, INSPECTOR]:
        with subtests.test(origin=origin):
            asked = {"origin": origin, "access-control-request-method": "POST", "authorization": "Bearer bad"}
            answer = client.send("OPTIONS", asked)
            assert (answer.status, answer.body) == (204, b"")
            assert answer.headers["access-control-allow-methods"] == "GET, POST, DELETE, OPTIONS"
            headers = {name.strip().lower() for name in answer.headers["access-control-allow-headers"].split(",")}
            assert headers >= {"authorization", "x-api-key", "content-type", "mcp-protocol-version", "mcp-session-id"}
            # The session cookie is for pages of the site, which ask nothing beforehand.
            assert "x-csrftoken" not in headers
            assert "access-control-allow-credentials" not in answer.headers


# Django views


@csrf_exempt
@login_not_required
def token(request: HttpRequest, number: int = 0) -> HttpResponse:
    return JsonResponse({"error": "invalid_grant", "number": number}, status=400, headers={"Vary": "Cookie"})


urlpatterns = [path("token/<int:number>", with_cors(token, methods=["POST"]))]


@pytest.fixture
def views(allowed: None) -> Iterator[DjangoClient]:
    middleware = [
        *django_settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=middleware):
        yield DjangoClient(enforce_csrf_checks=True)


def test_a_view_can_be_called_and_read_by_pages_that_may(views: DjangoClient, subtests: pytest.Subtests) -> None:
    for origin in [OWN, INSPECTOR]:
        with subtests.test(origin=origin):
            answer = views.post("/token/7", headers={"origin": origin})
            assert (answer.status_code, answer.json()["number"]) == (400, 7)
            assert answer["Access-Control-Allow-Origin"] == origin
            assert {each.strip() for each in answer["Vary"].split(",")} == {"Cookie", "Origin"}
            assert "Access-Control-Allow-Methods" not in answer
            asked = views.options("/token/7", headers={"origin": origin, "access-control-request-method": "POST"})
            assert (asked.status_code, asked.content) == (204, b"")
            assert asked["Access-Control-Allow-Methods"] == "POST, OPTIONS"
            assert "authorization" in asked["Access-Control-Allow-Headers"].lower()
            assert "Access-Control-Allow-Credentials" not in asked


def test_a_view_is_served_to_others_too_but_their_pages_cannot_read_it(
    views: DjangoClient, subtests: pytest.Subtests
) -> None:
    for origin in ["https://evil.example.com", "null", "http://testserver", None]:
        with subtests.test(origin=origin):
            headers = {"origin": origin} if origin else {}
            answer = views.post("/token/7", headers=headers)
            assert answer.status_code == 400
            assert views.options("/token/7", headers=headers).status_code == 204
            for each in (answer, views.options("/token/7", headers=headers)):
                assert not [name for name in each.headers if name.startswith("Access-Control")]
                assert "Origin" in each["Vary"]  # a cache must not give one page's answer to another


def test_a_view_keeps_its_marks(allowed: None) -> None:
    view: Any = with_cors(token, methods=["POST"])
    assert view.csrf_exempt is True
    assert view.login_required is False
    assert view(RequestFactory().post("/", headers={"host": "evil.test"})).status_code == 400
