"""What the consent page says, whatever a client says of itself."""

from types import SimpleNamespace
from typing import Any

import pytest

from django_mcp.oauth import consent

SCOPES = {
    "read": "Look things up",
    "write": {"text": "Change things", "implies": ["read"]},
    "admin": {"text": "Manage the site", "implies": ["write", "people"]},
    "people": "See people",
}


@pytest.fixture(autouse=True)
def scopes(settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SCOPES": SCOPES, "DEFAULT_SCOPES": ["read"]}


def test_the_destination_is_the_whole_host_or_a_program(subtests: pytest.Subtests) -> None:
    cases = [
        ("https://claude.ai/api/mcp/auth_callback", "web", "claude.ai", ""),
        ("https://claude.ai.evil.example/claude.ai", "web", "claude.ai.evil.example", ""),
        ("https://EXAMPLE.com:443/cb", "web", "example.com", ""),
        ("https://example.com:8443/cb", "web", "example.com:8443", ""),
        ("http://example.com/cb", "web", "http://example.com", ""),
        ("https://cl\u0430ude.ai/cb", "web", "xn--clude-5ve.ai", ""),
        ("http://127.0.0.1:33418/", "loopback", "a program on this computer", "127.0.0.1:33418"),
        ("http://localhost/callback", "loopback", "a program on this computer", "localhost"),
        ("http://[::1]:5000/cb", "loopback", "a program on this computer", "[::1]:5000"),
        (
            "cursor://anysphere.cursor-mcp/oauth/callback",
            "program",
            "a program on this computer that opens “cursor:” links",
            "cursor://anysphere.cursor-mcp",
        ),
        (
            "com.example.app:/cb",
            "program",
            "a program on this computer that opens “com.example.app:” links",
            "com.example.app:",
        ),
    ]
    for uri, kind, text, detail in cases:
        with subtests.test(uri=uri, kind=kind, text=text, detail=detail):
            assert consent.destination(uri) == (kind, text, detail)


def test_a_host_that_only_begins_like_loopback_is_no_program_on_this_computer() -> None:
    assert consent.destination("https://127.0.0.1.evil.example/cb").kind == "web"
    assert consent.destination("https://localhost.evil.example/cb").text == "localhost.evil.example"


def test_the_page_says_how_the_site_came_to_know_the_client(subtests: pytest.Subtests) -> None:
    for source, client_id, expected in [
        ("cimd", "https://claude.ai/oauth/metadata", "described at claude.ai"),
        ("dcr", "x", "registered itself; nobody at this site has checked it"),
        ("manual", "x", "registered by this site’s administrators"),
    ]:
        with subtests.test(source=source, client_id=client_id, expected=expected):
            application = SimpleNamespace(registration_source=source, client_id=client_id)
            assert consent.origin(application) == expected


def test_what_is_granted_is_known_and_within_the_limit(subtests: pytest.Subtests) -> None:
    cases = [
        (["read"], None, ("read",)),
        (["write", "read", "openid", "offline_access"], None, ("read", "write")),
        ([], None, ("read",)),
        (["openid"], None, ("read",)),
        (["write"], ["read"], ("read",)),
        (["admin"], ["write"], ("read", "write")),
        (["read"], ["admin"], ("read",)),
        (["people"], ["read"], ()),
        (["people"], [], ()),
    ]
    for asked, limit, expected in cases:
        with subtests.test(asked=asked, limit=limit, expected=expected):
            assert consent.granted_scopes(asked, ["read"], limit) == expected


def test_included_scopes_are_told_once_below_the_one_that_includes_them() -> None:
    lines = consent.describe_scopes(["read", "write", "people"])
    assert [(line.text, line.includes) for line in lines] == [
        ("Change things", ["Look things up"]),
        ("See people", []),
    ]


def test_a_scope_says_all_that_it_includes_though_nobody_asked_for_that() -> None:
    [line] = consent.describe_scopes(["admin"])
    assert set(line.includes) == {"Look things up", "Change things", "See people"}


def test_scopes_that_include_each_other_are_still_told(settings: Any) -> None:
    circle = {"a": {"text": "A", "implies": ["b"]}, "b": {"text": "B", "implies": ["a"]}}
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "SCOPES": circle}
    assert [(line.text, line.includes) for line in consent.describe_scopes(["a", "b"])] == [("A", ["B"])]


def test_a_scope_that_is_no_longer_declared_is_told_by_its_name() -> None:
    assert [line.text for line in consent.describe_scopes(["gone"])] == ["gone"]
