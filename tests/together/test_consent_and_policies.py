"""A consent page is open while something of it changes: what was shown is what is granted, or it is shown again."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_mcp import MCPServer
from django_mcp.auth.toolkit import get_application_model, get_grant_model
from django_mcp.models import ClientPolicy
from tests.oauth.site import CALLBACK, Fields, Site, forget_urlconfs, make_site

Grant = get_grant_model()


@pytest.fixture
def site(settings: Any, make_server: Callable[..., MCPServer], db: None) -> Iterator[Site]:
    """A site with an authorization server."""
    yield make_site(settings, make_server)
    forget_urlconfs()


def limit(site: Site, *scopes: str) -> None:
    ClientPolicy.objects.update_or_create(client_id="conf-public", defaults={"scopes": [*scopes]})


def change_client(**fields: Any) -> None:
    get_application_model().objects.filter(client_id="conf-public").update(**fields)


def declare(site: Site, **scopes: Any) -> None:
    site.configure(SCOPES={**site.settings.DJANGO_MCP["SCOPES"], **{"travel:" + key: scopes[key] for key in scopes}})


Change = Callable[[Site], object]
WIDER_OR_NARROWER: dict[str, tuple[Change, Change]] = {
    "a limit is lifted": (lambda site: limit(site, "travel:read"), lambda site: ClientPolicy.objects.all().delete()),
    "a limit is widened": (lambda site: limit(site, "travel:read"), lambda site: limit(site, "travel:write")),
    "a limit is set": (lambda site: None, lambda site: limit(site, "travel:read")),
    "the client has another name": (lambda site: None, lambda site: change_client(name="Bank")),
    "the client registered itself by now": (lambda site: None, lambda site: change_client(registration_source="dcr")),
    "a scope includes more": (
        lambda site: declare(site, pay="Pay"),
        lambda site: declare(site, write={"text": "Change your trips", "implies": ["travel:read", "travel:pay"]}),
    ),
    "a scope is gone": (
        lambda site: None,
        lambda site: site.configure(SCOPES={"travel:read": "Look up your trips"}),
    ),
}


@pytest.mark.parametrize("what", WIDER_OR_NARROWER)
def test_a_page_that_would_show_something_else_is_shown_again(site: Site, what: str) -> None:
    before, change = WIDER_OR_NARROWER[what]
    before(site)
    page = site.ask(scope="travel:write")
    change(site)
    again = site.agree(page)
    assert (again.status_code, "Location" in again) == (200, False)
    assert "Something has changed since you opened this page." in again.content.decode()
    assert not Grant.objects.exists()
    assert site.agree(again).status_code == 302
    shown_now = site.ask(scope="travel:write")
    assert Fields(again.content.decode()).found.keys() == Fields(shown_now.content.decode()).found.keys()
    assert Grant.objects.count() == 1


def test_what_a_client_did_not_name_is_shown_again_too(site: Site) -> None:
    page = site.ask(scope=None)
    site.alpha._scopes = ["travel:write"]
    again = site.agree(page)
    assert (again.status_code, "Change your trips" in again.content.decode()) == (200, True)
    assert not Grant.objects.exists()


def test_a_page_that_would_show_the_same_is_answered(site: Site) -> None:
    limit(site, "travel:read", "travel:write")
    page = site.ask(scope="travel:write")
    limit(site, "travel:write")
    assert "code=" in site.agree(page)["Location"]


def test_denying_is_possible_whatever_has_changed_but_the_address(site: Site) -> None:
    client = site.make_client("one", redirect_uris=CALLBACK, registration_source="dcr")
    page = site.ask(client, redirect_uri=None)
    client.name, client.redirect_uris = "Other", "https://evil.example/cb"
    client.save(update_fields=["name"])
    assert "error=access_denied" in site.agree(page, deny="1")["Location"]
    client.save(update_fields=["redirect_uris"])
    again = site.agree(page, deny="1")
    assert (again.status_code, "Location" in again) == (200, False)
    assert "evil.example" in again.content.decode()


def test_who_sends_both_answers_denies(site: Site) -> None:
    page = site.ask()
    assert "error=access_denied" in site.agree(page, deny="1", allow="1")["Location"]
    assert not Grant.objects.exists()


def test_a_page_of_somebody_else_is_no_consent_of_the_user(site: Site) -> None:
    other = site.make_user("eve")
    page = site.ask(user=other)
    assert site.agree(page, user=site.user).status_code == 400
    assert not Grant.objects.exists()
