"""The page on which people see which programs act for them, and take it back."""

import re
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.db.models import UUIDField
from django.test import TestCase, override_settings
from django.utils import timezone

from django_mcp.models import APIKey, Event
from django_mcp.pubsub.publish import revocation_topic
from tests.oauth.site import BASE_URL, Browser, Fields, Site
from tests.oauth.test_authorize import text_of

pytestmark = pytest.mark.postgresql

PAGE = "/o/access/"


def press(site: Site, user: Any = None, **button: Any) -> Any:
    """Press a button of the page."""
    fields = Fields(site.browser(user).get(PAGE).content.decode()).found
    return site.browser(user).post_form(PAGE, {**fields, **button})


def make_key(user: Any, **changes: Any) -> APIKey:
    values = {
        "key_hash": f"hash of {APIKey.objects.count()}",
        "prefix": "mcp_key_abc",
        "name": "Nightly job",
        "endpoints": ["alpha"],
        "scopes": ["travel:read"],
        "expires": timezone.now() + timedelta(days=30),
        **changes,
    }
    return APIKey.objects.create(user=user, **values)


def test_nobody_sees_it_without_a_login(site: Site) -> None:
    response = Browser().get(PAGE)
    assert response.status_code == 302
    assert response["Location"].startswith("/accounts/login/?next=/o/access/")


def test_an_application_is_listed_with_host_endpoint_scopes_and_dates(site: Site) -> None:
    client = site.make_client("c", name="Claude\u202e", registration_source="dcr")
    site.tokens_for(application=client, scope="travel:write")
    text = text_of(site.browser().get(PAGE))
    for words in (
        "These applications may act for ada .",
        "Claude registered itself; nobody at this site has checked it",
        "Redirects to a program on this computer",
        "Endpoints alpha",
        "Permissions Change your trips Look up your trips",
        "Since",
        "Last renewed",
    ):
        assert words in text


def test_the_list_is_the_users_own(site: Site) -> None:
    site.tokens_for()
    assert "conf-public" in text_of(site.browser().get(PAGE))
    text = text_of(site.browser(site.make_user("grace")).get(PAGE))
    assert "conf-public" not in text
    assert "No application has access." in text


def test_two_logins_of_one_application_are_one_entry_with_both_endpoints(site: Site) -> None:
    site.tokens_for(site.alpha)
    site.tokens_for(site.beta, scope="travel:write")
    text = text_of(site.browser().get(PAGE))
    assert text.count("Revoke access") == 1
    assert re.search(r"Endpoints (alpha, beta|beta, alpha) ", text)
    assert "Change your trips" in text


def test_an_application_counts_since_its_first_login_however_often_it_renewed(site: Site) -> None:
    from django_mcp.auth.toolkit import get_refresh_token_model

    tokens = site.tokens_for()
    get_refresh_token_model().objects.update(created=timezone.now() - timedelta(days=20))
    site.refresh(tokens["refresh_token"])
    page = site.browser().get(PAGE).content.decode()
    since, renewed = re.findall(r'<time datetime="([^"T]+)', page)
    assert since == str((timezone.now() - timedelta(days=20)).date())
    assert renewed == str(timezone.now().date())


def test_taking_back_ends_every_token_code_and_stream_of_the_application(site: Site) -> None:
    first, second = site.tokens_for(site.alpha), site.tokens_for(site.beta)
    renewed = site.refresh(second["refresh_token"]).json()
    code = site.code_for()
    with TestCase.captureOnCommitCallbacks(execute=True):
        response = press(site, application=site.application.pk)
    assert (response.status_code, response["Location"]) == (302, PAGE)
    assert site.status(first["access_token"]) == 401
    assert site.status(renewed["access_token"], site.beta) == 401
    for token in (first, second, renewed):
        assert site.refresh(token["refresh_token"]).json()["error"] == "invalid_grant"
    assert site.exchange(code).json()["error"] == "invalid_grant"
    assert Event.objects.filter(topic=revocation_topic("oauth", f"{site.user.pk}:{site.application.pk}")).exists()
    text = text_of(site.browser().get(PAGE))
    assert "The application no longer has access." in text
    assert "No application has access." in text


def test_nothing_can_be_renewed_that_lost_its_access_token(site: Site) -> None:
    from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model

    tokens = site.tokens_for()
    get_access_token_model().objects.all().delete()
    assert "No application has access." in text_of(site.browser().get(PAGE))
    press(site, application=site.application.pk)
    assert not get_refresh_token_model().objects.filter(revoked=None).exists()
    assert site.refresh(tokens["refresh_token"]).status_code == 400


def test_an_application_that_stayed_away_too_long_has_no_access(site: Site) -> None:
    from django_mcp.auth.toolkit import get_access_token_model

    tokens = site.tokens_for()
    get_access_token_model().objects.update(expires=timezone.now() - timedelta(days=29))
    assert "conf-public" in text_of(site.browser().get(PAGE))
    get_access_token_model().objects.update(expires=timezone.now() - timedelta(days=30))
    assert "No application has access." in text_of(site.browser().get(PAGE))
    assert site.refresh(tokens["refresh_token"]).status_code == 400


def test_taking_back_leaves_other_people_and_applications_alone(site: Site) -> None:
    grace, other = site.make_user("grace"), site.make_client("other")
    theirs, others = site.tokens_for(user=grace), site.tokens_for(application=other)
    site.tokens_for()
    press(site, application=site.application.pk)
    assert site.status(theirs["access_token"]) == 200
    assert site.status(others["access_token"]) == 200
    press(site, application=other.pk, user=grace)
    assert site.status(others["access_token"]) == 200


def test_what_is_not_there_cannot_be_taken_back(site: Site, subtests: pytest.Subtests) -> None:
    for name in ["application", "key"]:
        for value in ["", "x", "-1", "999999", "٩٩٩٩٩٩", "9" * 30]:
            with subtests.test(value=value, name=name), site.afresh():
                tokens = site.tokens_for()
                assert press(site, **{name: value}).status_code == 302
                assert site.status(tokens["access_token"]) == 200


def test_the_buttons_need_the_token_against_forged_requests(site: Site) -> None:
    tokens = site.tokens_for()
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(site.user)
    assert browser.post_form(PAGE, {"application": site.application.pk}).status_code == 403
    assert site.status(tokens["access_token"]) == 200


def test_api_keys_are_listed_and_can_be_revoked(site: Site) -> None:
    key, kept = make_key(site.user), make_key(site.user, name="Other")
    text = text_of(site.browser().get(PAGE))
    assert "Nightly job mcp_key_abc… Endpoints alpha Permissions Look up your trips" in text
    assert "Last used never Expires" in text
    with TestCase.captureOnCommitCallbacks(execute=True):
        press(site, key=key.pk)
    key.refresh_from_db()
    kept.refresh_from_db()
    assert key.revoked
    assert kept.revoked is None
    text = text_of(site.browser().get(PAGE))
    assert "Nightly job" not in text
    assert "Other" in text
    assert Event.objects.filter(topic=revocation_topic("api_key", str(key.pk))).exists()


@override_settings(USE_THOUSAND_SEPARATOR=True)
def test_the_key_that_a_button_sends_is_not_written_for_people(site: Site) -> None:
    key = make_key(site.user, pk=1_234_567)
    html = site.browser().get(PAGE, HTTP_ACCEPT_LANGUAGE="en").content.decode()
    assert f'name="key" value="{key.pk}"' in html


def test_keys_of_others_and_keys_that_no_longer_work_are_not_there(site: Site) -> None:
    grace = site.make_user("grace")
    theirs = make_key(grace, name="Theirs")
    make_key(site.user, name="Expired", expires=timezone.now())
    make_key(site.user, name="Revoked", revoked=timezone.now())
    text = text_of(site.browser().get(PAGE))
    assert not re.search("Theirs|Expired|Revoked|API keys", text)
    press(site, key=theirs.pk)
    theirs.refresh_from_db()
    assert theirs.revoked is None


def test_clients_that_act_for_themselves_are_not_the_users_to_revoke(site: Site) -> None:
    from django_mcp.auth.toolkit import get_access_token_model

    service = site.make_client("service", authorization_grant_type="client-credentials", client_type="confidential")
    get_access_token_model().objects.create(
        user=site.user, application=service, token="x", expires=timezone.now() + timedelta(hours=1)
    )
    assert "No application has access." in text_of(site.browser().get(PAGE))


def test_an_endpoint_that_is_gone_is_named_by_its_address(site: Site) -> None:
    from django_mcp.auth.toolkit import get_access_token_model, get_refresh_token_model

    site.tokens_for()
    for model in (get_access_token_model(), get_refresh_token_model()):
        model.objects.update(resource=[f"{BASE_URL}/gone", "not a url"])
    assert f"Endpoints {BASE_URL}/gone, not a url Permissions" in text_of(site.browser().get(PAGE))


def test_the_page_says_where_it_was_agreed_to_that_it_can_be_taken_back(site: Site) -> None:
    assert f'href="{PAGE}"' in site.ask().content.decode()


def test_the_page_costs_as_many_queries_for_ten_applications_as_for_one(
    site: Site, django_assert_max_num_queries: Any
) -> None:
    for number in range(10):
        site.tokens_for(application=site.make_client(f"c{number}"))
    with django_assert_max_num_queries(6):
        assert text_of(site.browser().get(PAGE)).count("Revoke access") == 10


def test_a_uuid_is_not_taken_for_the_key_of_an_api_key(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """An application model of the site's own may have UUIDs for keys."""
    taken: list[Any] = []
    model = SimpleNamespace(_meta=SimpleNamespace(pk=UUIDField()))
    monkeypatch.setattr("django_mcp.oauth.connected_apps.get_application_model", lambda: model)
    monkeypatch.setattr(
        "django_mcp.oauth.connected_apps.revoke_access", lambda user, application: taken.append(application)
    )
    key = uuid4()
    site.tokens_for(application=site.make_client("c"), scope="travel:write")
    assert press(site, application=str(key)).status_code == 302
    text = text_of(site.browser().get(PAGE))
    assert "The application no longer has access." in text
    assert "The API key no longer works." not in text
    assert taken == [key]


def test_what_is_no_key_at_all_changes_nothing_and_claims_nothing(site: Site) -> None:
    site.tokens_for(application=site.make_client("c"), scope="travel:write")
    for button in ({"application": "x"}, {"application": "9" * 40}, {"key": "x"}, {}):
        press(site, **button)
        assert "no longer" not in text_of(site.browser().get(PAGE))
