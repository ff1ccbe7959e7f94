"""The page of OAuth applications in Django's admin: who let which in, and taking it back."""

import hashlib
import html
import itertools
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import connection
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.formats import date_format

from django_mcp.approvals.tool_policies import get_limit, limit_client
from django_mcp.auth.toolkit import get_access_token_model, get_application_model, get_grant_model
from django_mcp.auth.toolkit import get_refresh_token_model as refresh_model
from django_mcp.core.signals import access_ended
from django_mcp.models import ClientPolicy, Event, RequestLog, Task, ToolPolicy
from django_mcp.oauth.connected_apps import revoke_all_access, summaries, users_of
from django_mcp.pubsub.publish import revocation_topic
from tests.clients import MODERN
from tests.conversation import Conversation
from tests.exchange import Room
from tests.oauth.conftest import live_site, site
from tests.oauth.site import HOST, Browser, Fields, Site

__all__ = ["live_site", "site"]

LIST = "/admin/django_mcp/oauthclient/"
PAGE = f"{LIST}conf-public/change/"
HISTORY = f"{LIST}conf-public/history/"
TOOLS = "/admin/django_mcp/tools/"
REVOKE = f"{LIST}conf-public/revoke/"
SERVICE = {"authorization_grant_type": "client-credentials", "client_type": "confidential", "client_secret": "s3cret"}
_numbers = itertools.count(1)


@pytest.fixture
def owner(site: Site) -> Browser:
    """A browser of somebody who may do everything."""
    return site.browser(site.make_user("owner", is_staff=True, is_superuser=True))


def staff(site: Site, *permissions: str) -> Browser:
    user = site.make_user(f"staff-{next(_numbers)}", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="django_mcp"))
    return site.browser(user)


def content(browser: Browser, url: str) -> str:
    """The part of a page that is ours."""
    answer = browser.get(url)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode().split('id="content-main"')[1].split('id="footer"')[0]


def words(text: str) -> str:
    """What is read of it."""
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", text).split()))


def names(browser: Browser, query: str = "") -> list[str]:
    """The applications that are listed, by client id."""
    return re.findall(r'title="([^"]+)"', content(browser, LIST + query))


def line(browser: Browser, client_id: str, url: str = LIST) -> str:
    """What is read of one application in the list, or of one user on a page."""
    rows = re.findall(r"<tr>.*?</tr>", content(browser, url), re.DOTALL)
    (found,) = (words(each) for each in rows if client_id in each)
    return found


def press(browser: Browser, url: str, **button: Any) -> str:
    """Press a button of a page; what is read then."""
    fields = Fields(browser.get(url).content.decode()).found
    return words(browser.post_form(url, {**fields, **button}, follow=True).content.decode())


def loosen(browser: Browser, url: str, page: str) -> str:
    """The page after its question whether to loosen was answered."""
    assert "Allow more than now?" in page
    again = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page)
    fields = [(name, html.unescape(value)) for name, value in again]
    return str(browser.post_form(url, fields, follow=True).content.decode())


def make_token(site: Site, application: Any, user: Any, **changes: Any) -> Any:
    """An access token that nobody went through a login for."""
    values = {"expires": timezone.now() + timedelta(hours=1), "scope": "travel:read", "resource": [site.resource()]}
    token = f"token {next(_numbers)}"
    return get_access_token_model().objects.create(
        application=application, user=user, token=token, **{**values, **changes}
    )


def make_call(client_id: str, called: datetime, user: Any = None) -> None:
    RequestLog.objects.create(
        started_at=called, server="alpha", client_id=client_id, user=user, outcome="ok", duration=1
    )


# What is listed


def test_the_list_says_who_let_an_application_in_and_since_when(site: Site, owner: Browser) -> None:
    site.application.name = "Desk\u202e"
    site.application.save()
    tokens = site.tokens_for()
    site.tokens_for(user=site.make_user("grace"))
    then = timezone.now() - timedelta(days=20)
    refresh_model().objects.filter(user=site.user).update(created=then)
    site.refresh(tokens["refresh_token"])
    make_call("conf-public", datetime(2026, 3, 4, 5, 6, tzinfo=timezone.get_default_timezone()))
    shown = line(owner, "conf-public")
    assert shown.startswith("Desk registered by this site’s administrators conf-public 2 users ")
    assert date_format(then, "DATE_FORMAT") in shown
    assert date_format(timezone.now(), "DATE_FORMAT") in shown
    assert shown.endswith(" March 4, 2026, 5:06 a.m.")


def test_an_application_that_nobody_let_in_is_listed_as_that(site: Site, owner: Browser) -> None:
    assert line(owner, "conf-public") == ("conf-public registered by this site’s administrators conf-public none – – –")


def test_a_long_name_is_cut_visibly_and_whole_among_the_details(site: Site, owner: Browser) -> None:
    name = "The travel assistant of the people who like to have long names for all that they make"
    site.application.name = name
    site.application.save()
    cut = "The travel assistant of the people who like to have long na…"
    assert line(owner, "conf-public").startswith(cut)
    shown = words(content(owner, PAGE))
    assert f"Authorized users of {cut}" in shown
    assert f"Name {name} Registration" in shown


def test_the_list_says_how_an_application_came(site: Site, owner: Browser) -> None:
    client_id = "https://client.example.com/a/path/that/is/long.json"
    application = site.make_client(client_id, name="Far")
    for source, said in (
        ("manual", "registered by this site’s administrators"),
        ("dcr", "registered itself; nobody at this site has checked it"),
        ("cimd", "described at client.example.com"),
    ):
        application.registration_source = source
        application.save()
        query = "" if source == "manual" else "?state=unused"
        assert f"Far {said} https://client.example.com/a/pa… none" in line(owner, client_id, LIST + query)


def test_registrations_that_nobody_used_are_folded_away(site: Site, owner: Browser) -> None:
    for name in ("unused", "called", "blocked", "has"):
        application = site.make_client(name)
        application.registration_source = "dcr"
        application.save()
    make_call("called", timezone.now())
    ClientPolicy.objects.create(client_id="blocked", blocked=True)
    make_token(site, get_application_model().objects.get(client_id="has"), site.user)
    assert sorted(names(owner)) == ["blocked", "called", "conf-public", "has"]
    assert "1 unused registration" in content(owner, LIST)
    assert names(owner, "?state=unused") == ["unused"]
    assert names(owner, "?q=unused") == ["unused"]


@pytest.mark.postgresql
def test_only_access_that_can_be_used_or_renewed_at_an_endpoint_counts(site: Site, owner: Browser) -> None:
    gone = timezone.now() - timedelta(days=1)
    site.tokens_for()  # live
    site.tokens_for(user=site.make_user("renewable"))
    get_access_token_model().objects.filter(user__username="renewable").update(expires=gone)
    site.tokens_for(user=site.make_user("stayed-away"))
    get_access_token_model().objects.filter(user__username="stayed-away").update(expires=gone - timedelta(days=30))
    site.tokens_for(user=site.make_user("withdrawn"))
    refresh_model().objects.filter(user__username="withdrawn").update(revoked=timezone.now())
    get_access_token_model().objects.filter(user__username="withdrawn").update(expires=gone)
    make_token(site, site.application, site.make_user("expired"), expires=gone)
    make_token(site, site.application, site.make_user("elsewhere"), resource=[])
    make_token(site, site.application, None)
    assert " 2 users " in line(owner, "conf-public")
    shown = content(owner, PAGE)
    assert [name for name in ("ada", "renewable") if f"Revoke access of {name}" not in shown] == []
    assert not re.search("stayed-away|withdrawn|expired|elsewhere", words(shown))


def test_several_logins_of_one_person_count_once(site: Site, owner: Browser) -> None:
    site.tokens_for(site.alpha)
    site.tokens_for(site.beta, scope="travel:write")
    assert " 1 user " in line(owner, "conf-public")
    shown = line(owner, "Revoke access of ada", PAGE)
    assert re.search(r"(alpha beta|beta alpha) Change your trips Look up your trips Revoke access$", shown)


def test_an_application_that_acts_for_itself_has_no_people(site: Site, owner: Browser) -> None:
    service = site.make_client("service", **SERVICE)
    ClientPolicy.objects.create(client_id="service", service_account=site.user)
    make_token(site, service, site.user)
    assert " the client itself " in line(owner, 'title="service"')
    shown = words(content(owner, f"{LIST}service/change/"))
    assert "The client itself, as ada" in shown
    assert "Service account: ada." in shown
    assert "can obtain new tokens with its secret at any time" in shown


@pytest.mark.postgresql
def test_the_list_is_sorted_by_the_last_renewal_then_come_those_without_access(site: Site, owner: Browser) -> None:
    now = timezone.now()
    for number, days in enumerate([3, 1, 2]):
        token = make_token(site, site.make_client(f"c{days}", name=str(number)), site.user)
        get_access_token_model().objects.filter(pk=token.pk).update(created=now - timedelta(days=days))
    site.make_client("newest")
    assert names(owner) == ["c1", "c2", "c3", "newest", "conf-public"]


def test_the_list_is_narrowed_by_access_and_blocking(site: Site, owner: Browser) -> None:
    for name in ("has", "blocked"):
        make_token(site, site.make_client(name), site.user)
    ClientPolicy.objects.create(client_id="blocked", blocked=True)
    ClientPolicy.objects.create(client_id="has", blocked=False)
    assert names(owner, "?state=access") == ["has"]
    assert names(owner, "?state=blocked") == ["blocked"]
    assert set(names(owner, "?state=nonsense")) == {"has", "blocked", "conf-public"}
    assert line(owner, 'title="blocked"').startswith("blocked blocked registered by")
    assert "suspended while blocked" in line(owner, 'title="blocked"')
    assert "suspended while blocked" not in line(owner, 'title="has"')


FOUND = {
    "desktop": ["one"],
    "ONE": ["one"],
    "grac": ["two"],
    "desktop grace": [],
    "tool grace": ["two"],
    "expired": [],
    "%00": ["conf-public", "one", "two"],
}


@pytest.mark.postgresql
def test_the_list_is_searched_by_name_client_id_and_user(site: Site, owner: Browser) -> None:
    make_token(site, site.make_client("one", name="The Desktop"), site.user)
    two = site.make_client("two", name="A tool")
    make_token(site, two, site.make_user("grace"))
    make_token(site, two, site.make_user("expired"), expires=timezone.now())
    three = site.make_client("three", name="Für Köln")
    assert "three" in content(owner, f"{LIST}?q=KÖLN")
    three.delete()
    for query, found in FOUND.items():
        shown = content(owner, f"{LIST}?q={query}")
        assert sorted(re.findall(r'title="([^"]+)"', shown)) == found, query
        assert (f"{len(found)} of 3 clients" in words(shown)) is (query != "%00"), query


@pytest.mark.postgresql
def test_hundreds_of_applications_cost_as_many_queries_as_one(
    site: Site, owner: Browser, django_assert_max_num_queries: Any
) -> None:
    model, now = get_application_model(), timezone.now()
    rows = [
        model(client_id=f"c{number}", name=f"App {number}", authorization_grant_type="authorization-code")
        for number in range(219)
    ]
    rows = model.objects.bulk_create(rows)
    token = get_access_token_model()
    values = {"user": site.user, "expires": now + timedelta(hours=1), "resource": [site.resource()]}
    sums = [hashlib.sha256(row.client_id.encode()).hexdigest() for row in rows]
    made = [token(application=row, token_checksum=each, **values) for row, each in zip(rows, sums, strict=True)]
    token.objects.bulk_create(made)
    RequestLog.objects.bulk_create(
        [RequestLog(started_at=now, client_id=row.client_id, server="alpha", outcome="ok", duration=1) for row in rows]
    )
    owner.get(LIST)
    with django_assert_max_num_queries(9):
        assert words(content(owner, LIST)).count("1 user") == 100
    first = content(owner, LIST)
    assert "220 clients" in words(first)
    pages = [re.findall(r'title="([^"]+)"', first), names(owner, "?p=2"), names(owner, "?p=3")]
    assert [len(each) for each in pages] == [100, 100, 20]
    assert len({name for each in pages for name in each}) == 220
    with django_assert_max_num_queries(9):
        assert names(owner, "?q=App+218&state=access&p=1") == ["c218"]


# One application


def test_the_page_says_what_an_application_is(site: Site, owner: Browser) -> None:
    client_id = "https://client.example.com/app.json"
    redirects = "https://client.example.com/back http://127.0.0.1/back http://localhost/back cursor://there/back"
    site.make_client(client_id, name="Far", registration_source="cimd", redirect_uris=redirects)
    text = content(owner, f"{LIST}{quote(client_id)}/change/")
    assert f'<a href="{client_id}" rel="noopener noreferrer">' in text
    for each in (
        f"Client id {client_id} Metadata document {client_id} Grant Authorization code Type Public",
        "Redirect URIs client.example.com , a program on the user’s computer ,",
        ", a program on the user’s computer that opens “cursor://there” links Created ",
        "None. This client has no access.",
        "No policy: limited only by what its users authorize.",
    ):
        assert each in words(text)
    policy = re.search(r'href="([^"]+/clientpolicy/add/[^"]+)"', text)
    assert policy is not None
    assert f'value="{client_id}"' in owner.get(html.unescape(policy[1])).content.decode()


@pytest.mark.postgresql
def test_the_page_says_since_when_each_person_let_it_in_and_when_it_called(site: Site, owner: Browser) -> None:
    grace = site.make_user("grace", is_active=True)
    site.tokens_for(user=grace)
    grace.is_active = False
    grace.save()
    site.tokens_for()
    zone = timezone.get_default_timezone()
    make_call("conf-public", datetime(2026, 3, 4, tzinfo=zone), site.user)
    make_call("conf-public", datetime(2026, 3, 3, tzinfo=zone), site.user)
    make_call("other", datetime(2026, 3, 5, tzinfo=zone), site.user)
    get_access_token_model().objects.filter(user=site.user).update(created=datetime(2026, 2, 1, tzinfo=zone))
    refresh_model().objects.filter(user=site.user).update(created=datetime(2026, 1, 1, tzinfo=zone))
    assert line(owner, "Revoke access of ada", PAGE) == (
        "ada Jan. 1, 2026, midnight Feb. 1, 2026, midnight March 4, 2026, midnight alpha "
        "Look up your trips Revoke access"
    )
    assert line(owner, "Revoke access of grace", PAGE).startswith("grace deactivated ")


@pytest.mark.postgresql
def test_people_are_turned_over_a_hundred_at_a_time(
    site: Site, owner: Browser, django_assert_max_num_queries: Any
) -> None:
    for number in range(101):
        make_token(site, site.application, get_user_model().objects.create(username=f"person-{number}"))
    owner.get(PAGE)
    with django_assert_max_num_queries(16):
        first = content(owner, PAGE)
    second = content(owner, f"{PAGE}?p=2")
    found = re.findall(r"Revoke access of (person-\d+)", first + second)
    assert len(found) == len(set(found)) == 101
    assert first.count("Revoke access of") == 100


def test_the_policy_is_in_words_and_linked(site: Site, owner: Browser) -> None:
    policy = ClientPolicy.objects.create(client_id="conf-public", scopes=["travel:write"], service_account=site.user)
    name = site.alpha.name
    limit_client("conf-public", {(name, "look_up"), (name, "change")})
    shown = words(content(owner, PAGE))
    for each in (
        "Not blocked.",
        "Maximum scopes: Change your trips.",
        f"Only the tools change ({name}), look_up ({name}).",
        "Service account: ada.",
    ):
        assert each in shown
    assert f'href="/admin/django_mcp/clientpolicy/{policy.pk}/change/"' in content(owner, PAGE)
    ClientPolicy.objects.update(scopes=[], blocked=True)
    limit_client("conf-public", ())
    shown = words(content(owner, PAGE))
    assert "Blocked: all its tokens are rejected. Maximum scopes: none. Tools: none." in shown


def test_its_calls_are_one_click_away(site: Site, owner: Browser) -> None:
    client_id = "https://client.example.com/app.json?a=b"
    site.make_client(client_id)
    for each in (client_id, "another"):
        make_call(each, timezone.now())
    text = content(owner, f"{LIST}{quote(client_id)}/change/")
    found = re.search(r'href="([^"]+/requestlog/[^"]+)"', text)
    assert found is not None
    assert unquote_plus(found[1]).endswith(f"?client_id={client_id}")
    answer = owner.get(html.unescape(found[1]))
    assert answer.context["cl"].result_count == 1
    assert answer.context["cl"].result_list[0].client_id == client_id


def test_an_application_that_is_not_there_leads_back(site: Site, owner: Browser) -> None:
    for url in (f"{LIST}nobody/change/", f"{LIST}nobody/revoke/", f"{LIST}a%00b/change/", f"{LIST}nobody/history/"):
        assert owner.get(url).status_code == 302, url


# Taking it back


def test_taking_back_from_one_person_ends_their_tokens_alone(site: Site, owner: Browser) -> None:
    grace = site.make_user("grace")
    mine, theirs = site.tokens_for(), site.tokens_for(user=grace)
    told = press(owner, PAGE, revoke=str(site.user.pk))
    assert "Access of client conf-public on behalf of ada is revoked." in told
    assert "Access of ada revoked." in content(owner, HISTORY)
    assert staff(site, "view_task").get(HISTORY).status_code == 403
    assert site.status(mine["access_token"]) == 401
    assert site.refresh(mine["refresh_token"]).status_code == 400
    assert site.status(theirs["access_token"]) == 200
    assert " 1 user " in line(owner, "conf-public")
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.user.username) == ("conf-public", "owner")
    assert owner.get(entry.get_admin_url()).status_code == 200


@pytest.mark.postgresql
def test_nothing_is_taken_back_from_nobody(site: Site, owner: Browser) -> None:
    tokens = site.tokens_for()
    fields = Fields(owner.get(PAGE).content.decode()).found
    for key in ("", "x", "-1", "0", "9" * 30, "999999"):
        answer = owner.post_form(PAGE, {**fields, "revoke": key}, follow=True)
        assert "This user no longer exists." in answer.content.decode(), key
    assert site.status(tokens["access_token"]) == 200
    assert not LogEntry.objects.exists()


@pytest.mark.postgresql
def test_taking_back_all_asks_first_and_ends_everything(site: Site, owner: Browser) -> None:
    first, second = site.tokens_for(), site.tokens_for(site.beta, user=site.make_user("grace"))
    renewed = site.refresh(first["refresh_token"]).json()
    code, other = site.code_for(), site.tokens_for(application=site.make_client("other"))
    make_token(site, site.application, None)
    assert f'href="{REVOKE}"' in content(owner, PAGE)
    question = words(content(owner, REVOKE))
    assert "Revoke all access of conf-public ? 2 users have authorized it." in question
    assert site.status(second["access_token"], site.beta) == 200
    told = press(owner, REVOKE)
    assert "All access of client conf-public is revoked." in told
    assert "All access revoked, of 2 users." in content(owner, HISTORY)
    assert site.status(renewed["access_token"]) == 401
    assert site.status(second["access_token"], site.beta) == 401
    for token in (first, second, renewed):
        assert site.refresh(token["refresh_token"]).json()["error"] == "invalid_grant"
    assert site.exchange(code).json()["error"] == "invalid_grant"
    of_application = {"application": site.application}
    assert not get_access_token_model().objects.filter(**of_application).exists()
    assert not get_grant_model().objects.filter(**of_application).exists()
    assert not refresh_model().objects.filter(**of_application, revoked=None).exists()
    assert site.status(other["access_token"]) == 200


def test_taking_back_from_an_application_that_acts_for_itself(site: Site, owner: Browser) -> None:
    site.configure(CLIENT_CREDENTIALS=True)
    service = site.make_client("service", **SERVICE, redirect_uris="")
    ClientPolicy.objects.create(client_id="service", service_account=site.user)
    asked = {"client_id": "service", "client_secret": "s3cret", "resource": site.resource()}
    for url in (f"{LIST}service/change/", f"{LIST}service/revoke/"):
        token = site.token(grant_type="client_credentials", **asked).json()["access_token"]
        assert site.status(token) == 200
        Event.objects.all().delete()
        with TestCase.captureOnCommitCallbacks(execute=True):
            press(owner, url, revoke=str(site.user.pk))
        assert site.status(token) == 401, url
        assert Event.objects.filter(topic=revocation_topic("client", f"{site.user.pk}:{service.pk}")).exists(), url


def test_taking_back_all_tells_tasks_and_streams_of_everybody(site: Site) -> None:
    grace = site.make_user("grace")
    site.tokens_for()
    site.code_for(user=grace)  # not even exchanged
    ended: set[tuple[str, str]] = set()

    def hear(**told: Any) -> None:
        ended.add((told["kind"], told["id"]))

    access_ended.connect(hear)
    try:
        with TestCase.captureOnCommitCallbacks(execute=True):
            assert revoke_all_access(site.application.pk) == 2
    finally:
        access_ended.disconnect(hear)
    pairs = [f"{user.pk}:{site.application.pk}" for user in (site.user, grace)]
    assert ended == {(kind, pair) for kind in ("oauth", "client") for pair in pairs}
    for pair in pairs:
        assert Event.objects.filter(topic=revocation_topic("oauth", pair)).exists()


@pytest.mark.parametrize("button", ["revoke", "all", "blocked"])
def test_an_open_stream_ends(live_site: Site, button: str) -> None:
    site = live_site
    owner = site.browser(site.make_user("owner", is_staff=True, is_superuser=True))
    token, other = (site.tokens_for(application=each)["access_token"] for each in (None, site.make_client("other")))
    with Room(site.alpha, "asgi") as room:
        calls = []
        for each in (token, other):
            headers = {"authorization": f"Bearer {each}", "host": HOST}
            call = Conversation(room, MODERN, headers=headers).begin(
                "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
            )
            assert call.next()["method"] == "notifications/subscriptions/acknowledged"
            calls.append(call)
        if button == "all":
            press(owner, REVOKE)
        else:
            press(owner, PAGE, **{button: str(site.user.pk) if button == "revoke" else "yes"})
        assert calls[0].next()["result"]["resultType"] == "complete"
        site.alpha.notify_list_changed("tools")
        assert calls[1].next()["method"] == "notifications/tools/list_changed"


@pytest.mark.parametrize("button", ["all", "blocked", "blocked without tokens"])
def test_a_task_that_is_under_way_is_cancelled(site: Site, owner: Browser, button: str) -> None:
    site.tokens_for()
    if button == "blocked without tokens":
        refresh_model().objects.all().delete()
        get_access_token_model().objects.all().delete()
    now = timezone.now()
    task = Task.objects.create(
        task_id="a task",
        server="alpha",
        tool="look_up",
        principal_kind="oauth",
        principal_id=f"{site.user.pk}:{site.application.pk}",
        user=site.user,
        request={},
        backend="none",
        created=now,
        updated=now,
        expires=now + timedelta(hours=1),
    )
    press(owner, REVOKE) if button == "all" else press(owner, PAGE, blocked="yes")
    task.refresh_from_db()
    assert task.status == Task.Status.CANCELLED


# Blocking


def test_blocking_stops_its_tokens_until_it_is_unblocked(site: Site, owner: Browser) -> None:
    tokens = site.tokens_for()
    told = press(owner, PAGE, blocked="yes")
    assert "Client conf-public is blocked." in told
    assert "Blocked. All its tokens are rejected." in told
    assert site.status(tokens["access_token"]) == 401
    assert "Nothing changed" in press(owner, PAGE, blocked="yes")
    assert "Client conf-public is no longer blocked." in press(owner, PAGE, blocked="no")
    assert site.status(tokens["access_token"]) == 200
    assert "Nothing changed" in press(owner, PAGE, blocked="no")
    said = LogEntry.objects.order_by("pk").values_list("content_type__model", "change_message")
    assert list(said) == [
        ("clientpolicy", "Blocked."),
        ("oauthclient", "Blocked."),
        ("clientpolicy", "No longer blocked."),
        ("oauthclient", "No longer blocked."),
    ]


def test_blocking_keeps_the_rest_of_the_policy(site: Site, owner: Browser) -> None:
    ClientPolicy.objects.create(client_id="conf-public", scopes=["travel:read"], service_account=site.user)
    limit_client("conf-public", {(site.alpha.name, "look_up")})
    press(owner, PAGE, blocked="yes")
    row = ClientPolicy.objects.get()
    assert (row.blocked, row.scopes, row.service_account) == (True, ["travel:read"], site.user)
    assert get_limit("conf-public") == {(site.alpha.name, "look_up")}


def test_the_questions_about_a_client_count_no_users_where_there_are_none(site: Site, owner: Browser) -> None:
    block = f"{LIST}conf-public/block/"
    assert "users" not in words(content(owner, block)).replace("Users can", "")
    assert "0 users" not in words(content(owner, REVOKE))
    ClientPolicy.objects.create(client_id="conf-public", blocked=True)
    assert "users" not in words(content(owner, block))


def test_limits_are_set_on_the_page_and_keep_what_was_decided_meanwhile(site: Site, owner: Browser) -> None:
    look_up = f"{site.alpha.name}.look_up"
    shown = owner.get(PAGE).content.decode()
    assert "Limit tools" in shown
    # Django 6.1 no longer imports them in forms.css, and the two lists fall apart without.
    assert re.search(r"<link[^>]+admin/css/widgets\.css", shown)
    ClientPolicy.objects.create(client_id="conf-public", blocked=True, service_account=site.user)
    told = press(owner, PAGE, limits="1", limits_tools="on", tools=[look_up], limits_scopes="on")
    assert "Limits of client conf-public saved." in told
    row = ClientPolicy.objects.get()
    assert (row.scopes, row.blocked, row.service_account) == ([], True, site.user)
    assert get_limit("conf-public") == {(site.alpha.name, "look_up")}
    shown = content(owner, PAGE)
    assert f'<option value="{look_up}" selected>' in shown
    given = {**Fields(owner.get(PAGE).content.decode()).found, "limits": "1", "limits_tools": "", "limits_scopes": ""}
    loosen(owner, PAGE, owner.post_form(PAGE, given).content.decode())
    row.refresh_from_db()
    assert row.scopes is None
    assert get_limit("conf-public") is None
    history = LogEntry.objects.filter(content_type__model="oauthclient")
    assert [each.get_change_message() for each in history] == ["Limits changed."] * 2


def test_limits_that_allow_more_of_what_may_destroy_something_ask_first_and_can_be_undone(
    site: Site, owner: Browser
) -> None:
    name = site.alpha.name
    told = press(owner, PAGE, limits="1", limits_tools="on", tools=[f"{name}.look_up"])
    assert "Allow more than now?" not in told
    both = {"limits": "1", "limits_tools": "on", "tools": [f"{name}.look_up", f"{name}.change"]}
    both = {**Fields(owner.get(PAGE).content.decode()).found, **both}
    asked = words(owner.post_form(PAGE, both).content.decode())
    assert f"{name}.change Client conf-public block allow" in asked
    assert "look_up Client" not in asked
    assert get_limit("conf-public") == {(name, "look_up")}
    answer = owner.post_form(PAGE, both)
    again = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', answer.content.decode())
    assert [value for field, value in again if field == "tools"] == both["tools"]
    html = loosen(owner, PAGE, answer.content.decode())
    assert get_limit("conf-public") == {(name, "look_up"), (name, "change")}
    undo = re.search(r'name="undo" value="([^"]+)"', html)
    assert undo is not None
    restored = owner.post_form(PAGE, {"undo": undo[1]}, follow=True).content.decode()
    assert "Limits of client conf-public restored." in words(restored)
    assert get_limit("conf-public") == {(name, "look_up")}
    everything = press(owner, PAGE, limits="1", limits_tools="", tools=[])
    assert f"{name}.administer Client conf-public block allow" in everything


def test_tools_are_limited_only_by_who_may_change_their_policies(site: Site) -> None:
    limit_client("conf-public", {(site.alpha.name, "look_up")})
    changing = staff(site, "change_clientpolicy")
    shown = content(changing, PAGE)
    assert "Limit scopes" in shown
    assert "Limit tools" not in shown
    assert "Only the tool look_up" in words(shown)
    press(changing, PAGE, limits="1", limits_scopes="on", limits_tools="", tools=[])
    assert ClientPolicy.objects.get().scopes == []
    assert get_limit("conf-public") == {(site.alpha.name, "look_up")}


def test_limits_with_an_error_change_nothing_and_are_shown_again(site: Site, owner: Browser) -> None:
    answer = owner.post_form(PAGE, {"limits": "1", "tools": ["no-such-tool"]})
    assert "no-such-tool is not one of the available choices" in answer.content.decode()
    answer = owner.post_form(PAGE, {"limits": "1", "tools": [f"{site.alpha.name}.look_up"]})
    assert "Tick “Limit tools” as well, or choose none." in answer.content.decode()
    assert not ClientPolicy.objects.exists()
    assert not ToolPolicy.objects.exists()
    assert staff(site, "view_clientpolicy").post_form(PAGE, {"limits": "1"}).status_code == 403


def test_only_a_superuser_says_in_whose_name_a_client_acts_by_itself(site: Site, owner: Browser) -> None:
    """Whoever may add a policy could have a client act as a superuser."""
    add = "/admin/django_mcp/clientpolicy/add/"
    site.make_client("service")
    chosen = {"client_id": "service", "service_account": str(site.user.pk)}
    helper = staff(site, "add_clientpolicy", "view_clientpolicy")
    assert 'name="service_account"' not in content(helper, add)
    helper.post(add, chosen)
    assert ClientPolicy.objects.get().service_account is None
    ClientPolicy.objects.all().delete()
    owner.post(add, chosen)
    assert ClientPolicy.objects.get().service_account == site.user


def test_what_is_not_blocked_is_not_unblocked(site: Site, owner: Browser) -> None:
    for blocked in ("no", "perhaps"):
        press(owner, PAGE, blocked=blocked)
    assert not ClientPolicy.objects.exists()
    assert not LogEntry.objects.exists()


# Who may


def test_who_may_look_sees_no_buttons_and_changes_nothing(site: Site) -> None:
    tokens, looking = site.tokens_for(), staff(site, "view_clientpolicy")
    assert "conf-public" in content(looking, LIST)
    shown = content(looking, PAGE)
    assert "ada" in shown
    for each in ("<button", "/revoke/", "clientpolicy/add"):
        assert each not in shown
    for url, given in ((PAGE, {"revoke": site.user.pk}), (PAGE, {"blocked": "yes"}), (REVOKE, {})):
        assert looking.post_form(url, given).status_code == 403
    assert looking.get(REVOKE).status_code == 403
    assert site.status(tokens["access_token"]) == 200


def test_who_may_change_may_do_so_without_more(site: Site) -> None:
    tokens, changing = site.tokens_for(), staff(site, "change_clientpolicy")
    assert "conf-public" in content(changing, LIST)
    press(changing, PAGE, revoke=str(site.user.pk))
    assert site.status(tokens["access_token"]) == 401


def test_calls_are_for_those_who_may_see_calls(site: Site, owner: Browser) -> None:
    site.tokens_for()
    make_call("conf-public", timezone.now(), site.user)
    for url in (LIST, PAGE):
        assert "Last call" in content(owner, url)
        assert "Last call" not in content(staff(site, "view_clientpolicy"), url)


def test_who_may_not_look_gets_nothing(site: Site) -> None:
    other = staff(site, "view_toolpolicy", "change_toolpolicy", "view_apikey")
    for url in (LIST, PAGE, REVOKE, f"{LIST}nobody/change/"):
        assert other.get(url).status_code == 403
    assert LIST not in other.get("/admin/").content.decode()
    assert site.browser().get(LIST).status_code == 302  # to the login


def test_the_buttons_need_the_token_against_forged_requests(site: Site) -> None:
    tokens, browser = site.tokens_for(), Browser(enforce_csrf_checks=True)
    browser.force_login(site.make_user("owner", is_staff=True, is_superuser=True))
    for url in (PAGE, REVOKE):
        assert browser.post_form(url, {"revoke": site.user.pk}).status_code == 403, url
    assert site.status(tokens["access_token"]) == 200


@pytest.mark.postgresql
def test_no_page_has_a_token_or_a_secret_nor_is_one_read(site: Site, owner: Browser) -> None:
    site.application.client_secret = "the-secret-of-the-client"
    site.application.save()
    tokens = site.tokens_for()
    row = get_access_token_model().objects.get()
    secrets = {*tokens.values(), row.token, row.token_checksum, site.application.client_secret} - {None, ""}
    secrets = {str(each) for each in secrets if len(str(each)) > 20}
    with CaptureQueriesContext(connection) as seen:
        pages = [owner.get(url).content.decode() for url in (LIST, PAGE, REVOKE)]
    assert len(secrets) >= 4
    assert not [secret for secret in secrets for text in pages if secret in text]
    assert not [query["sql"] for query in seen if re.search(r'"client_secret"|"token"', query["sql"])]


def test_what_an_application_calls_itself_is_no_markup(site: Site, owner: Browser) -> None:
    name = "<script>alert(1)</script>"
    application = site.make_client('evil"><script>', name=name)
    make_token(site, application, site.make_user("x"))
    for url in (
        LIST,
        f"{LIST}{quote(application.client_id)}/change/",
        f"{LIST}{quote(application.client_id)}/revoke/",
    ):
        text = owner.get(url).content.decode()
        assert "&lt;script&gt;alert(1)" in text
        assert "<script>" not in text


def test_the_page_is_on_the_index_of_the_admin(site: Site, owner: Browser) -> None:
    assert f'href="{LIST}"' in owner.get("/admin/").content.decode()


PROGRAM = """
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only-for-this-test", USE_TZ=True, DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"]},
    INSTALLED_APPS=["django.contrib.admin", "django.contrib.auth", "django.contrib.contenttypes",
                    "django.contrib.messages", "django.contrib.sessions", "django_mcp"],
)
django.setup()
from django.contrib import admin
from django.test import TestCase

admin.autodiscover()
print(sorted(model.__name__ for model in admin.site._registry if model.__module__.startswith("django_mcp")))
"""


@pytest.mark.slow
def test_there_is_no_such_page_where_the_toolkit_is_not_installed() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "'ClientPolicy'" in done.stdout
    assert "Applications" not in done.stdout


def test_the_figures_are_the_same_from_both_sides(site: Site) -> None:
    for user in (site.user, site.make_user("grace")):
        site.tokens_for(user=user)
    (summary,) = summaries().values()
    rows = list(users_of(site.application))
    assert summary.people == len(rows) == 2
    assert summary.renewed == rows[0]["renewed"]


def test_the_title_of_the_list_is_written_as_in_the_menu(owner: Browser) -> None:
    page = owner.get(LIST).content.decode()
    assert "<h1>OAuth clients</h1>" in page
