"""Self-registered clients go when nobody uses them, and stay as long as somebody does."""

import datetime
import io
import json
from typing import Any

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.utils import timezone

from django_mcp.auth.toolkit import (
    get_access_token_model,
    get_application_model,
    get_grant_model,
    get_refresh_token_model,
)
from django_mcp.oauth import register
from django_mcp.oauth.cleanup import prune_clients
from tests.oauth.site import Browser, Site

pytestmark = pytest.mark.postgresql

HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    cache.clear()


def client(site: Site, name: str, age: datetime.timedelta, source: str = "dcr", **changes: Any) -> Any:
    made = site.make_client(name, registration_source=source, **changes)
    get_application_model().objects.filter(pk=made.pk).update(created=timezone.now() - age)
    return made


def ids() -> set[str]:
    return set(
        get_application_model().objects.exclude(registration_source="manual").values_list("client_id", flat=True)
    )


def access(site: Site, of: Any, ends: datetime.timedelta) -> Any:
    """An access token that ends so long from now."""
    expires = timezone.now() + ends
    return get_access_token_model().objects.create(
        user=site.user, application=of, token=f"access {of.client_id}", expires=expires, scope="travel:read"
    )


def refresh(site: Site, of: Any, age: datetime.timedelta, revoked: datetime.timedelta | None = None) -> Any:
    """A refresh token that is so old, and was revoked so long ago."""
    token = get_refresh_token_model().objects.create(user=site.user, application=of, token=f"refresh {of.client_id}")
    now = timezone.now()
    get_refresh_token_model().objects.filter(pk=token.pk).update(
        created=now - age, updated=now - age, revoked=None if revoked is None else now - revoked
    )
    return token


def test_a_client_that_never_got_a_token_goes_after_seven_days(site: Site) -> None:
    client(site, "six days", 6 * DAY)
    client(site, "eight days", 8 * DAY)
    assert prune_clients() == 1
    assert ids() == {"six days"}


def test_only_clients_that_registered_themselves_go(site: Site) -> None:
    old = client(site, "by hand", 1000 * DAY, "manual")
    client(site, "by document", 1000 * DAY, "cimd")
    assert prune_clients() == 0
    assert ids() == {"by document"}
    assert get_application_model().objects.filter(pk=old.pk).exists()


def test_a_client_stays_while_it_has_a_live_token_however_old_it_is(site: Site) -> None:
    access(site, client(site, "access", 400 * DAY), HOUR)
    refresh(site, client(site, "refresh", 400 * DAY), 29 * DAY)
    assert prune_clients() == 0
    assert ids() == {"access", "refresh"}


def test_a_client_goes_ninety_days_after_its_last_token(site: Site) -> None:
    access(site, client(site, "access 89", 200 * DAY), -89 * DAY)
    access(site, client(site, "access 91", 200 * DAY), -91 * DAY)
    refresh(site, client(site, "revoked 89", 200 * DAY), 100 * DAY, 89 * DAY)
    refresh(site, client(site, "revoked 91", 200 * DAY), 100 * DAY, 91 * DAY)
    refresh(site, client(site, "ended 89", 200 * DAY), 119 * DAY)  # of which it lived thirty
    refresh(site, client(site, "ended 91", 200 * DAY), 122 * DAY)
    assert prune_clients() == 3
    assert ids() == {"access 89", "revoked 89", "ended 89"}


def test_where_refresh_tokens_never_end_their_clients_stay(site: Site, settings: Any) -> None:
    settings.OAUTH2_PROVIDER = {**settings.OAUTH2_PROVIDER, "REFRESH_TOKEN_EXPIRE_SECONDS": None}
    refresh(site, client(site, "old", 1000 * DAY), 1000 * DAY)
    assert prune_clients() == 0


def test_one_live_token_among_dead_ones_is_enough(site: Site) -> None:
    made = client(site, "used", 400 * DAY)
    access(site, made, -300 * DAY)
    refresh(site, made, 400 * DAY, 300 * DAY)
    get_refresh_token_model().objects.create(user=site.user, application=made, token="live")
    assert prune_clients() == 0


def test_a_client_stays_while_its_person_is_logging_in(site: Site) -> None:
    made = client(site, "code", 8 * DAY)
    code = site.code_for(made)
    assert prune_clients() == 0
    assert site.exchange(code, made).status_code == 200
    assert prune_clients() == 0
    get_grant_model().objects.all().delete()
    assert ids() == {"code"}


def test_a_client_that_was_pruned_is_told_to_register_again(site: Site) -> None:
    made = client(site, "gone", 400 * DAY)
    refresh(site, made, 400 * DAY, 300 * DAY)
    prune_clients()
    response = site.refresh("refresh gone", made)
    assert (response.status_code, json.loads(response.content)["error"]) == (401, "invalid_client")
    assert not get_refresh_token_model().objects.exists()


def test_the_oldest_go_first_where_only_some_may(site: Site) -> None:
    for days in (30, 10, 20):
        client(site, f"{days} days", days * DAY)
    assert prune_clients(most=2) == 2
    assert ids() == {"10 days"}


def test_the_command_prunes_both_kinds_and_says_how_many(site: Site) -> None:
    client(site, "old", 8 * DAY)
    client(site, "young", 6 * DAY)
    now = timezone.now()
    client(site, "https://old.example/c", 8 * DAY, "cimd", cimd_expires_at=now - HOUR)
    client(site, "https://young.example/c", 8 * DAY, "cimd", cimd_expires_at=now + HOUR)
    told = io.StringIO()
    call_command("mcp_clear", stdout=told)
    assert "1 registered client, 1 client with a document deleted." in told.getvalue()
    assert ids() == {"young", "https://young.example/c"}


def test_a_document_that_has_expired_stays_while_its_client_has_a_live_token(site: Site) -> None:
    stale = timezone.now() - HOUR
    refresh(site, client(site, "https://used.example/c", 8 * DAY, "cimd", cimd_expires_at=stale), DAY)
    call_command("mcp_clear", stdout=io.StringIO())
    assert ids() == {"https://used.example/c"}


def test_registering_prunes_now_and_then_where_nobody_runs_the_command(site: Site, monkeypatch: Any) -> None:
    monkeypatch.setattr(register, "EVERY", 2)
    client(site, "old", 8 * DAY)
    body = json.dumps({"redirect_uris": ["https://app.example/cb"]})
    for _ in range(2):
        assert Browser().post("/o/register/", body, "application/json").status_code == 201
    assert "old" not in ids()
    assert len(ids()) == 2
