"""API keys and client policies in Django's admin."""

import html
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser
from django.test import TestCase, override_settings
from django.utils import timezone

from django_mcp import AllowAny, APIKeyAuthentication, MCPServer, tool
from django_mcp.auth.api_keys import create_key, hash_of
from django_mcp.models import APIKey, ClientPolicy, Event
from django_mcp.pubsub.publish import revocation_topic

pytestmark = pytest.mark.django_db

SITE = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    "SCOPES": {"read": "Look <things> up", "write": "Write things down"},
    "DEFAULT_SCOPES": ["read"],
}
KEYS = "/admin/django_mcp/apikey/"
POLICIES = "/admin/django_mcp/clientpolicy/"
CLIENT = "https://client.example.com/app.json"


@pytest.fixture(autouse=True)
def guarded(make_server: Callable[..., MCPServer]) -> Iterator[MCPServer]:
    with override_settings(DJANGO_MCP=SITE):
        server = make_server("guarded", authentication=[APIKeyAuthentication()])
        tool(server=server, name="book")(lambda: "booked")
        yield server


@pytest.fixture
def owner() -> User:
    return User.objects.create_superuser("owner")


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", is_staff=True)


@pytest.fixture
def browser(owner: User) -> Browser:
    browser = Browser()
    browser.force_login(owner)
    return browser


def add(browser: Browser, user: User, **given: Any) -> Any:
    fields = {"user": user.pk, "name": "nightly job", "endpoints": ["guarded"], "days": 30, **given}
    return browser.post(f"{KEYS}add/", {name: value for name, value in fields.items() if value is not None})


def permit(user: User, *names: str) -> Browser:
    user.user_permissions.set(Permission.objects.filter(codename__in=names, content_type__app_label="django_mcp"))
    browser = Browser()
    browser.force_login(user)
    return browser


# Making keys


def test_the_form_offers_endpoints_and_scopes_in_words(browser: Browser, make_server: Callable[..., MCPServer]) -> None:
    make_server("lobby", authentication=[AllowAny()])
    page = browser.get(f"{KEYS}add/").content.decode()
    assert re.search(r'name="endpoints" value="guarded"[^>]* checked', page)
    assert "guarded (/guarded/mcp)" in page
    assert "lobby (/lobby/mcp) – does not accept API keys" in page
    assert "Look &lt;things&gt; up (read)" in page
    assert re.search(r'name="days" value="90"', page)
    assert "_addanother" not in page
    assert "_continue" not in page


def test_a_new_key_is_shown_once_on_a_page_that_is_not_kept(browser: Browser, ada: User) -> None:
    answer = add(browser, ada, scopes=["read", "write"])
    assert answer.status_code == 200
    (key,) = set(re.findall(r"mcp_key_\w{49}", answer.content.decode()))
    row = APIKey.objects.get()
    assert (row.key_hash, row.user, row.name) == (hash_of(key), ada, "nightly job")
    assert (row.endpoints, row.scopes) == (["guarded"], ["read", "write"])
    assert abs(row.expires - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)
    assert "no-store" in answer["Cache-Control"]
    assert "/guarded/mcp" in answer.content.decode()
    for page in (KEYS, f"{KEYS}{row.pk}/change/", f"{KEYS}{row.pk}/history/", "/admin/"):
        shown = browser.get(page)
        assert shown.status_code == 200
        assert key[14:] not in shown.content.decode()


def test_the_key_is_shown_whatever_button_a_request_names(
    browser: Browser, ada: User, subtests: pytest.Subtests
) -> None:
    for button in ["_continue", "_addanother", "_popup", "_saveasnew"]:
        with subtests.test(button=button):
            assert re.search(r"mcp_key_\w{49}", add(browser, ada, **{button: "1"}).content.decode())


def test_the_key_is_in_no_cookie_session_message_or_log(
    browser: Browser, ada: User, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG"):
        answer = add(browser, ada)
    secret = re.findall(r"mcp_key_\w{49}", answer.content.decode())[0][14:]
    assert secret not in str(browser.cookies)
    assert secret not in str(dict(browser.session.items()))
    assert secret not in caplog.text
    entry = LogEntry.objects.get()
    assert entry.is_addition()
    assert secret not in str(vars(entry))


def test_no_scope_ticked_is_what_the_endpoints_ask_for(browser: Browser, ada: User) -> None:
    add(browser, ada)
    assert APIKey.objects.get().scopes == ["read"]


def test_what_will_not_do_is_said_at_its_field(browser: Browser, ada: User, subtests: pytest.Subtests) -> None:
    for given, message in [
        ({"days": 366}, "The lifetime must be from 1 to 365 days"),
        ({"days": 0}, "greater than or equal to 1"),
        ({"endpoints": None}, "This field is required"),
        ({"endpoints": ["gaurded"]}, "gaurded is not one of the available choices"),
        ({"scopes": ["root"]}, "root is not one of the available choices"),
        ({"name": "   "}, "This field is required"),
    ]:
        with subtests.test(given=given, message=message):
            answer = add(browser, ada, **given)
            assert message in answer.content.decode().replace("&#x27;", "'")
            assert not APIKey.objects.exists()


def test_nobody_inactive_gets_a_key(browser: Browser, ada: User) -> None:
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert "This user is inactive" in add(browser, ada).content.decode()


def test_whoever_may_add_keys_gets_none_for_another_user(ada: User, owner: User) -> None:
    browser = permit(ada, "add_apikey", "view_apikey")
    assert "Only superusers can create keys for other users" in add(browser, owner).content.decode()
    assert not APIKey.objects.exists()
    assert add(browser, ada).status_code == 200
    assert APIKey.objects.get().user == ada


def test_a_superuser_finds_the_user_by_name_and_others_see_only_themselves(browser: Browser, ada: User) -> None:
    page = browser.get(f"{KEYS}add/").content.decode()
    assert re.search(r'<select name="user"[^>]*class="admin-autocomplete"', page)
    assert ">owner</option>" in page
    page = permit(ada, "add_apikey", "view_apikey").get(f"{KEYS}add/").content.decode()
    choices = re.search(r'<select name="user".*?</select>', page, re.DOTALL)
    assert choices is not None
    assert re.findall(r">([^<]+)</option>", choices[0]) == ["ada"]


def test_a_site_whose_users_cannot_be_searched_in_the_admin_takes_their_keys(
    browser: Browser, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(admin.site._registry, User)
    assert re.search(r'<input type="text" name="user"', browser.get(f"{KEYS}add/").content.decode())
    assert add(browser, ada).status_code == 200
    assert APIKey.objects.get().user == ada


def test_a_key_is_limited_to_tools_that_change_nothing_now_or_later(browser: Browser, ada: User) -> None:
    assert (
        "Only tools that change nothing, resources and prompts." in add(browser, ada, read_only="on").content.decode()
    )
    row = APIKey.objects.get()
    assert row.read_only
    sent = {"name": "renamed", "shown": '{"read_only": true}'}
    said = browser.post(f"{KEYS}{row.pk}/change/", sent).content.decode()
    assert "It opens only tools that change nothing, and would open others." in said
    assert browser.post(f"{KEYS}{row.pk}/change/", {**sent, "weakens": "on"}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.read_only) == ("renamed", False)


def test_a_key_revoked_while_its_page_is_open_stays_revoked(browser: Browser, ada: User) -> None:
    add(browser, ada)
    get_object = admin.site.get_model_admin(APIKey).get_object

    def slow(*given: Any) -> Any:
        row = get_object(*given)
        APIKey.objects.update(revoked=timezone.now())
        return row

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admin.site.get_model_admin(APIKey), "get_object", slow)
        browser.post(f"{KEYS}{APIKey.objects.get().pk}/change/", {"name": "renamed"})
    row = APIKey.objects.get()
    assert row.name == "renamed"
    assert row.revoked is not None


# Looking at them, and revoking them


def test_the_list_says_what_can_be_used_and_finds_it(browser: Browser, ada: User) -> None:
    rows = {}
    for name in ("works", "over", "taken back"):
        rows[name], _ = create_key(ada, name, endpoints=["guarded"])
    APIKey.objects.filter(name="over").update(expires=timezone.now())
    APIKey.objects.filter(name="taken back").update(revoked=timezone.now())

    def names(query: str) -> set[str]:
        page = browser.get(KEYS + query).content.decode()
        return {name for name in rows if f">{name}<span" in page}

    assert names("") == set(rows)
    assert names("?state=active") == {"works"}
    assert names("?state=expired") == {"over"}
    assert names("?state=revoked") == {"taken back"}
    assert names("?state=user+inactive") == set()
    User.objects.filter(pk=ada.pk).update(is_active=False)
    assert names("?state=user+inactive") == {"works"}
    assert names("?state=active") == set()
    assert names("?q=over") == {"over"}
    assert names("?q=ada") == set(rows)
    assert names(f"?q={rows['works'].prefix}") == {"works"}


def test_of_a_key_only_the_name_can_be_changed(browser: Browser, ada: User, owner: User) -> None:
    row, _ = create_key(ada, "job", endpoints=["guarded"])
    page = browser.get(f"{KEYS}{row.pk}/change/").content.decode()
    assert "Look &lt;things&gt; up (read)" in page
    assert row.key_hash not in page
    forged = {"user": owner.pk, "endpoints": ["default"], "scopes": ["write"], "days": 300, "expires_0": "2099-01-01"}
    answer = browser.post(f"{KEYS}{row.pk}/change/", {"name": "renamed", "prefix": "x", **forged})
    assert answer.status_code == 302
    changed = APIKey.objects.values().get()
    before = {name: value for name, value in vars(row).items() if not name.startswith("_")}
    assert changed == {**before, "name": "renamed"}


def test_pages_have_one_sign_for_nothing(browser: Browser, ada: User) -> None:
    row, _ = create_key(ada, "job", endpoints=["guarded"])
    ClientPolicy.objects.create(client_id=CLIENT)
    for page in (KEYS, f"{KEYS}{row.pk}/change/", POLICIES):
        shown = browser.get(page).content.decode()
        assert re.search(r">\s*–\s*<", shown), page
        assert not re.search(r">\s*-\s*<", shown), page


def test_the_button_asks_and_then_revokes(browser: Browser, ada: User) -> None:
    row, _ = create_key(ada, "job", endpoints=["guarded"])
    revoke = f"{KEYS}{row.pk}/revoke/"
    assert revoke in browser.get(f"{KEYS}{row.pk}/change/").content.decode()
    assert "Yes, revoke it" in browser.get(revoke).content.decode()
    row.refresh_from_db()
    assert row.revoked is None
    with TestCase.captureOnCommitCallbacks(execute=True):
        assert browser.post(revoke)["Location"] == KEYS
    row.refresh_from_db()
    assert row.revoked is not None
    assert Event.objects.filter(topic=revocation_topic("api_key", str(row.pk))).exists()
    assert "Revoked." in LogEntry.objects.get().change_message
    assert revoke not in browser.get(f"{KEYS}{row.pk}/change/").content.decode()
    assert browser.get(f"{KEYS}999999/revoke/").status_code == 302


def test_the_action_revokes_those_that_are_chosen(browser: Browser, ada: User) -> None:
    rows = [create_key(ada, name, endpoints=["guarded"])[0] for name in ("a", "b", "c")]
    chosen = {"action": "revoke_selected", "_selected_action": [rows[0].pk, rows[1].pk]}
    asked = browser.post(KEYS, chosen).content.decode()
    assert [f"<li>{each}</li>" in asked for each in rows] == [True, True, False]
    assert not APIKey.objects.exclude(revoked=None).exists()
    hidden = re.findall(
        r'<input type="hidden" name="(_selected_action|action|select_across|confirmed)" value="([^"]*)"', asked
    )
    again: dict[str, list[str]] = {}
    for name, value in hidden:
        again.setdefault(name, []).append(value)
    assert "2 API keys are revoked." in browser.post(KEYS, again, follow=True).content.decode()
    assert APIKey.objects.get(revoked=None) == rows[2]
    assert LogEntry.objects.count() == 2


def test_the_action_asks_about_the_number_of_keys_that_are_not_revoked_yet(browser: Browser, ada: User) -> None:
    rows = [create_key(ada, name, endpoints=["guarded"])[0] for name in ("a", "b", "c")]
    APIKey.objects.filter(pk=rows[2].pk).update(revoked=timezone.now())
    chosen = {"action": "revoke_selected", "_selected_action": [row.pk for row in rows]}
    asked = browser.post(KEYS, chosen).content.decode()
    assert "<h1>Revoke API keys</h1>" in asked
    assert "Revoke 2 API keys? Requests with them fail from now on." in asked
    assert 'value="Yes, revoke them"' in asked
    assert f"<li>{rows[2]}</li>" not in asked
    asked = browser.post(KEYS, {**chosen, "_selected_action": [rows[0].pk]}).content.decode()
    assert "<h1>Revoke API key</h1>" in asked
    assert "Revoke 1 API key? Requests with it fail from now on." in asked
    assert 'value="Yes, revoke it"' in asked
    told = browser.post(KEYS, {**chosen, "_selected_action": [rows[2].pk]}, follow=True).content.decode()
    assert '<li class="warning">0 API keys are revoked.</li>' in told


def test_the_action_names_twenty_keys_and_counts_the_others(browser: Browser, ada: User) -> None:
    rows = [create_key(ada, str(number), endpoints=["guarded"])[0] for number in range(22)]
    chosen = {"action": "revoke_selected", "_selected_action": [row.pk for row in rows]}
    asked = browser.post(KEYS, chosen).content.decode()
    assert "Revoke 22 API keys?" in asked
    assert "<li>and 2 more</li>" in asked


def test_a_deleted_key_ends_its_streams(browser: Browser, ada: User) -> None:
    rows = [create_key(ada, name, endpoints=["guarded"])[0] for name in ("a", "b")]
    with TestCase.captureOnCommitCallbacks(execute=True):
        browser.post(f"{KEYS}{rows[0].pk}/delete/", {"post": "yes"})
        browser.post(KEYS, {"action": "delete_selected", "_selected_action": [rows[1].pk], "post": "yes"})
    assert not APIKey.objects.exists()
    assert {each.topic for each in Event.objects.all()} == {revocation_topic("api_key", str(row.pk)) for row in rows}


def test_whoever_may_only_look_cannot_revoke(ada: User) -> None:
    row, _ = create_key(ada, "job", endpoints=["guarded"])
    browser = permit(ada, "view_apikey")
    revoke = f"{KEYS}{row.pk}/revoke/"
    assert browser.get(f"{KEYS}{row.pk}/change/").status_code == 200
    assert browser.get(revoke).status_code == 403
    assert browser.post(revoke).status_code == 403
    browser.post(KEYS, {"action": "revoke_selected", "_selected_action": [row.pk], "confirmed": "yes"})
    row.refresh_from_db()
    assert row.revoked is None


def test_revoking_from_another_page_needs_the_csrf_token(owner: User, ada: User) -> None:
    row, _ = create_key(ada, "job", endpoints=["guarded"])
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(owner)
    assert browser.post(f"{KEYS}{row.pk}/revoke/").status_code == 403


# What the owner decided about clients


def save(browser: Browser, page: str, **given: Any) -> ClientPolicy:
    shown = re.search(r'name="shown" value="([^"]*)"', browser.get(POLICIES + page).content.decode())
    assert shown is not None
    sent = {"client_id": CLIENT, "shown": html.unescape(shown[1]), **given}
    answer = browser.post(POLICIES + page, sent)
    assert answer.status_code == 302, answer.content.decode()
    return ClientPolicy.objects.get()


def test_nothing_ticked_is_no_limit(browser: Browser) -> None:
    policy = save(browser, "add/")
    assert (policy.blocked, policy.scopes, policy.service_account) == (False, None, None)
    assert "no limit" in browser.get(POLICIES).content.decode()


def test_limits_are_ticked_and_taken_back(browser: Browser, ada: User) -> None:
    page = browser.get(f"{POLICIES}add/").content.decode()
    assert "Write things down (write)" in page
    chosen = {"limits_scopes": "on", "scopes": ["read"], "service_account": ada.pk}
    policy = save(browser, "add/", blocked="on", **chosen)
    assert (policy.blocked, policy.scopes, policy.service_account) == (True, ["read"], ada)
    policy = save(browser, f"{policy.pk}/change/", scopes=["read"], service_account="", weakens="on")
    assert (policy.blocked, policy.scopes, policy.service_account) == (False, None, None)


def test_what_is_chosen_without_its_limit_is_an_error_and_not_all(browser: Browser) -> None:
    page = browser.post(f"{POLICIES}add/", {"client_id": CLIENT, "scopes": ["read"]}).content.decode()
    assert "Tick “Limit scopes” as well, or choose none." in page
    assert not ClientPolicy.objects.exists()


def test_the_page_that_deletes_policies_is_written_for_their_number(browser: Browser) -> None:
    rows = [ClientPolicy.objects.create(client_id=name, scopes=[]) for name in ("one", "other")]
    asked = browser.get(f"{POLICIES}{rows[0].pk}/delete/").content.decode()
    assert "Delete this client policy? The client may then do" in asked
    chosen = {"action": "delete_selected", "_selected_action": [row.pk for row in rows]}
    asked = browser.post(POLICIES, chosen).content.decode()
    assert "Delete these 2 client policies? The clients may then do" in asked


def test_a_limit_to_what_is_gone_stays_one(browser: Browser) -> None:
    policy = ClientPolicy.objects.create(client_id=CLIENT, scopes=["old"])
    page = browser.get(f"{POLICIES}{policy.pk}/change/").content.decode()
    assert "old – no longer exists" in page
    assert re.search(r'id="id_limits_scopes" checked|checked id="id_limits_scopes"', page)
    assert save(browser, f"{policy.pk}/change/", scopes=["old"], limits_scopes="on").scopes == ["old"]


def test_an_empty_limit_allows_nothing_and_stays_one(browser: Browser) -> None:
    policy = ClientPolicy.objects.create(client_id=CLIENT, scopes=[])
    assert ">none<" in browser.get(POLICIES).content.decode()
    saved = save(browser, f"{policy.pk}/change/", blocked="on", limits_scopes="on")
    assert (saved.scopes, saved.blocked) == ([], True)


def test_a_scope_that_does_not_exist_is_refused(browser: Browser) -> None:
    answer = browser.post(f"{POLICIES}add/", {"client_id": CLIENT, "scopes": ["reed"]})
    assert "reed is not one of the available choices" in answer.content.decode()
