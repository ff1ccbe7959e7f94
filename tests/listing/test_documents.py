"""Server cards, catalogs and ``server.json``: valid, public, and silent about what is not."""

import json
from collections.abc import Callable, Iterator

import jsonschema
import pytest
from django.test import Client as Browser
from django.urls import get_resolver

from django_mcp import APIKeyAuthentication, Icon, MCPServer, OAuth2Authentication, tool
from django_mcp.listing.documents import registry_name, server_card, server_json
from tests.listing.conftest import BASE, With
from tests.listing.schemas import SERVER_CARD, SERVER_JSON

Make = Callable[..., MCPServer]
Serve = Callable[[], None]
CARD = "/travel/mcp/server-card"
CATALOGS = ("/.well-known/ai-catalog.json", "/.well-known/mcp/catalog.json")

pytestmark = pytest.mark.usefixtures("with_settings")


@pytest.fixture
def travel(make_server: Make) -> MCPServer:
    """An endpoint with all that a card can say, and a tool that it does not."""
    travel = make_server(
        "travel",
        title="Travel",
        description="Search and book trips.",
        website_url="https://travel.example.com/",
        icons=[Icon("https://travel.example.com/i.png", sizes=["48x48"]), Icon("data:image/png;base64,AA==")],
    )
    tool(server=travel, name="refund_guest", permission="library.add_book")(lambda: "x")
    return travel


@pytest.fixture
def browser(travel: MCPServer, with_settings: With, served: Serve) -> Iterator[Browser]:
    with_settings(SERVER_CARD=True)
    served()
    return Browser()


def test_cards_and_server_json_are_valid(travel: MCPServer, make_server: Make, subtests: pytest.Subtests) -> None:
    bare = make_server("bare")
    keys = make_server("keys", authentication=[APIKeyAuthentication()])
    for server in (travel, bare, keys):
        with subtests.test(server=server.name):
            jsonschema.validate(server_card(server), SERVER_CARD)
            jsonschema.validate(server_json(server), SERVER_JSON)


def test_a_card_says_what_the_endpoint_is_and_where(travel: MCPServer) -> None:
    card = server_card(travel)
    assert card["name"] == "com.example.travel/travel"
    assert (card["title"], card["description"], card["version"]) == ("Travel", "Search and book trips.", "1.0.2")
    (remote,) = card["remotes"]
    assert (remote["type"], remote["url"]) == ("streamable-http", f"{BASE}/travel/mcp")
    assert "2026-07-28" in remote["supportedProtocolVersions"]
    assert "refund_guest" not in json.dumps(card)


def test_a_registry_gets_only_the_icons_that_it_takes(make_server: Make, subtests: pytest.Subtests) -> None:
    fits = Icon(f"{BASE}/i.svg", "image/svg+xml", ["any"], "dark")
    for case, icon in {
        "no https": Icon("data:image/png;base64,AA=="),
        "media type": Icon(f"{BASE}/i.ico", "image/x-icon"),
        "long": Icon(f"{BASE}/{'x' * 255}.png"),
        "size": Icon(f"{BASE}/i.png", sizes=["48x48", "48"]),
    }.items():
        with subtests.test(case):
            server = make_server(case.replace(" ", "-"), icons=[icon, fits])
            found = server_json(server)
            jsonschema.validate(found, SERVER_JSON)
            assert [each["src"] for each in found["icons"]] == [fits.src]
            assert len(server_card(server)["icons"]) == 2


def test_a_client_is_asked_for_a_key_where_nothing_else_is_accepted(make_server: Make) -> None:
    keys = make_server("keys", authentication=[APIKeyAuthentication()])
    both = make_server("both", authentication=[OAuth2Authentication(), APIKeyAuthentication()])
    (header,) = server_json(keys)["remotes"][0]["headers"]
    assert (header["name"], header["isSecret"]) == ("Authorization", True)
    assert "headers" not in server_json(both)["remotes"][0]


def test_a_name_in_registries_can_be_chosen(make_server: Make) -> None:
    assert registry_name(make_server("own", registry_name="io.github.travel/own")) == "io.github.travel/own"


def test_nothing_is_published_unless_the_site_asks_for_it(travel: MCPServer, served: Serve) -> None:
    served()
    for path in (CARD, *CATALOGS, "/.well-known/openai-apps-challenge", "/.well-known/mcp-registry-auth"):
        assert Browser().get(path).status_code == 404


def test_a_card_is_served_below_its_endpoint(browser: Browser, travel: MCPServer) -> None:
    answer = browser.get(CARD)
    assert answer.status_code == 200
    assert answer["content-type"] == "application/mcp-server-card+json"
    assert answer.json() == server_card(travel)


def entries(browser: Browser, catalog: str) -> dict[str, str]:
    """The entries of a catalog: identifier by URL."""
    return {each["url"]: each["identifier"] for each in browser.get(catalog).json()["entries"]}


def test_the_catalogs_lead_to_the_card(browser: Browser) -> None:
    assert entries(browser, CATALOGS[0])[BASE + CARD] == "urn:air:travel.example.com:mcp:travel"
    assert entries(browser, CATALOGS[1])[BASE + CARD] == "urn:mcp:server:com.example.travel/travel"


def test_an_endpoint_for_some_users_is_published_only_by_its_own_option(
    browser: Browser, make_server: Make, served: Serve
) -> None:
    make_server("managers", user_passes_test=lambda user: user.is_staff)
    make_server("partners", user_passes_test=lambda user: user.is_active, server_card=True)
    make_server("hidden", server_card=False)
    served()
    listed = entries(browser, CATALOGS[0])
    assert f"{BASE}/partners/mcp/server-card" in listed
    for name in ("managers", "hidden"):
        assert f"{BASE}/{name}/mcp/server-card" not in listed
        assert browser.get(f"/{name}/mcp/server-card").status_code == 404


def test_any_page_may_read_a_document_and_caches_may_keep_it(browser: Browser, subtests: pytest.Subtests) -> None:
    for path in (CARD, *CATALOGS):
        with subtests.test(path=path):
            answer = browser.get(path)
            assert answer["access-control-allow-origin"] == "*"
            assert answer["access-control-expose-headers"] == "ETag"
            assert answer["cache-control"] == "public, max-age=3600"
            again = browser.get(path, headers={"If-None-Match": answer["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert again["access-control-allow-origin"] == "*"
            assert browser.get(path, headers={"If-None-Match": '"other"'}).status_code == 200
            asked = browser.options(path)
            assert (asked.status_code, asked["access-control-allow-methods"]) == (204, "GET, HEAD")
            assert (browser.head(path).status_code, browser.head(path).content) == (200, b"")
            assert browser.post(path).status_code == 405


def test_a_site_that_asks_everybody_to_sign_in_does_not_ask_here(browser: Browser) -> None:
    patterns = get_resolver("tests.listing.urlconf").url_patterns
    assert patterns
    assert not any(getattr(each.callback, "login_required", True) for each in patterns)


def test_directories_find_their_tokens(with_settings: With, served: Serve) -> None:
    key = "v=MCPv1; k=ed25519; p=AAAA"
    with_settings(OPENAI_APPS_CHALLENGE="token-123", MCP_REGISTRY_AUTH=key)
    served()
    for path, text in (("openai-apps-challenge", "token-123"), ("mcp-registry-auth", key)):
        answer = Browser().get(f"/.well-known/{path}")
        assert (answer.status_code, answer.text) == (200, text)
        assert answer["content-type"] == "text/plain; charset=utf-8"
