"""Which redirect URIs a self-registered client may have."""

from typing import Any

import pytest

from django_mcp.oauth.redirect_uris import is_allowed_redirect_uri, usable_redirect_uris
from tests.oauth.site import Site

CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"

GOOD = [
    "https://claude.ai/api/mcp/auth_callback",
    "https://chatgpt.com/connector_platform_oauth_redirect",
    "https://app.example.com:8443/cb?x=1&y=2",
    "https://app.example.com",
    "http://localhost/callback",
    "http://localhost:8787/callback",
    "http://127.0.0.1/",
    "http://127.0.0.1:33418/",
    "http://127.0.0.1:33418",
    "http://[::1]:5000/cb",
    "http://[::1]",
    CURSOR,
    "https://a.example/" + "x" * (2000 - len("https://a.example/")),
]

BAD: list[Any] = [
    "http://evil.example/cb",
    "http://127.0.0.1.evil.example/cb",
    "http://127.0.0.2/cb",
    "http://2130706433/cb",
    "http://localhost.evil.example/cb",
    "http://localhost@evil.example/cb",
    "http://evil.example@localhost/cb",
    "http://localhost:99999/cb",
    "http://localhost:x/cb",
    "http://[::2]/cb",
    "http://[::ffff:127.0.0.1]/cb",
    "http:///cb",
    "http:/localhost/cb",
    "https://",
    "https:///cb",
    "https:example.com",
    "https://user@app.example/cb",
    "https://user:password@app.example/cb",
    "https://@app.example/cb",
    "https://app.example/cb#",
    "https://app.example/cb#fragment",
    "https://a.example/cb https://b.example/cb",
    " https://app.example/cb",
    "https://app.example/cb\n",
    "https://app.example/\tcb",
    "https://app.example/\x00cb",
    "https://app.example/\x7f",
    "https://app.example/\u200bcb",
    "https://app.example/\u00a0cb",
    "https://сlaude.ai/cb",  # the first letter is Cyrillic
    "https://app.example\\@evil.example/cb",
    "https://*.example.com/cb",
    "https://claude.ai,evil.example/cb",
    "https://claude.ai%2eevil.example/cb",
    "https://app.example:/cb",
    "https://[::1/cb",
    "//app.example/cb",
    "app.example/cb",
    "/cb",
    "",
    "javascript:alert(1)",
    "JavaScript://%0aalert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "urn:ietf:wg:oauth:2.0:oob",
    "com.example.app:/cb",
    "vscode://callback",
    "cursor://evil.example/oauth/callback",
    "cursor://anysphere.cursor-mcp/oauth/callback/",
    "cursor://anysphere.cursor-mcp/oauth/callback?x=1",
    "CURSOR://anysphere.cursor-mcp/oauth/callback",
    "https://a.example/" + "x" * 2000,
    None,
    1,
    True,
    [],
    ["https://app.example/cb"],
    {"uri": "https://app.example/cb"},
    b"https://app.example/cb",
]


def test_https_loopback_and_listed_uris_are_taken(subtests: pytest.Subtests) -> None:
    for uri in GOOD:
        with subtests.test(uri=uri):
            assert is_allowed_redirect_uri(uri) is True


def test_anything_else_is_refused(subtests: pytest.Subtests) -> None:
    for uri in BAD:
        with subtests.test(uri=uri):
            assert is_allowed_redirect_uri(uri) is False


def test_a_site_that_lists_no_exceptions_refuses_cursors_scheme(settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "EXTRA_REDIRECT_URIS": []}
    assert not is_allowed_redirect_uri(CURSOR)


def test_a_listed_uri_is_still_no_way_to_have_two_in_one(settings: Any) -> None:
    both = "app://one app://two"
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "EXTRA_REDIRECT_URIS": [both]}
    assert not is_allowed_redirect_uri(both)


def test_the_good_ones_of_a_list_are_kept_once_and_in_order() -> None:
    given = ["https://b.example/cb", "http://evil.example/cb", "https://a.example/cb", "https://b.example/cb", 7]
    assert usable_redirect_uris(given) == ["https://b.example/cb", "https://a.example/cb"]


def test_one_that_the_toolkit_would_not_take_does_not_cost_the_client_the_others() -> None:
    given = ["https://-bad.example.com/cb", "https://good.example.com/cb"]
    assert is_allowed_redirect_uri(given[0])
    assert usable_redirect_uris(given) == given[1:]


def test_a_redirect_uri_is_compared_character_by_character(site: Site, subtests: pytest.Subtests) -> None:
    """OAuth 2.1, section 2.3.1. Only the port of a loopback address may be another one (RFC 8252, section 7.3)."""
    registered = "https://app.example/cb?a=1 http://127.0.0.1/cb http://[::1]:9/cb http://localhost/cb"
    site.make_client("compared", redirect_uris=registered)
    same = ["https://app.example/cb?a=1", "http://127.0.0.1:54321/cb", "http://[::1]:9/cb", "http://[::1]/cb"]
    others = [
        "https://APP.example/cb?a=1",
        "HTTPS://app.example/cb?a=1",
        "https://app.example:443/cb?a=1",
        "https://app.example:/cb?a=1",
        "https://app.example/cb?a=%31",
        "https://app.example/cb?a=1#",
        "https://app.example./cb?a=1",
        "HTTP://127.0.0.1/cb",
        "http://127.0.0.1:/cb",
        "http://127.0.0.1:0x50/cb",
        "http://[0:0::1]:9/cb",
        "http://LOCALHOST:5/cb",
        "http://localhost.:5/cb",
    ]
    for uri in same:
        with subtests.test(uri=uri):
            assert site.ask(client_id="compared", redirect_uri=uri).status_code == 200
    for uri in others:
        with subtests.test(uri=uri):
            answer = site.ask(client_id="compared", redirect_uri=uri)
            assert answer.status_code == 400, answer.headers
            assert "Location" not in answer
