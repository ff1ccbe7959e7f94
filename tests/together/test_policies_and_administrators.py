"""Two administrators decide about the same: the later decision counts, and the page of the other says so."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client as Browser
from django.utils import timezone

from django_mcp import AllowAny, MCPServer, tool
from django_mcp.admin.api_keys import APIKeyAdmin
from django_mcp.approvals.tool_policies import get_limit, limit_client, set_policy
from django_mcp.auth.toolkit import get_application_model
from django_mcp.core import server
from django_mcp.models import APIKey, AutoApprovalRule, ClientPolicy, ToolPolicy
from tests.admin.tools_page import HIDDEN, PAY, TOOLS, row_of, send, shown_by, told, words

pytestmark = pytest.mark.django_db

CLIENT = "the-robot"
PAGE = f"/admin/django_mcp/oauthclient/{CLIENT}/change/"
POLICIES = "/admin/django_mcp/clientpolicy/"


@pytest.fixture
def desk(make_server: Callable[..., MCPServer], monkeypatch: pytest.MonkeyPatch) -> MCPServer:
    monkeypatch.setattr(server, "_servers", {})  # the demo's tools would fill the first page of the list
    desk = make_server("desk", authentication=[AllowAny()], scopes=[])
    tool(server=desk, name="pay", destructive=True)(lambda: "paid")
    tool(server=desk, name="look", read_only=True)(lambda: "seen")
    tool(server=desk, name="export", read_only=True)(lambda: "all of it")
    get_application_model().objects.create(client_id=CLIENT, name="Robot", client_type="public")
    return desk


@pytest.fixture
def browser() -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("ann"))
    return browser


def stored() -> dict[tuple[str, str], str]:
    return {(tool, client): decision for tool, client, decision in _rows()}


def _rows() -> Any:
    return ToolPolicy.objects.values_list("tool", "client_id", "decision")


def undo_of(page: str) -> str:
    found = re.search(r'name="undo" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def yes(browser: Browser, url: str, page: str) -> str:
    """The page after its question whether to loosen was answered."""
    assert "Allow more than now?" in page
    again: dict[str, list[str]] = {}
    for name, value in re.findall(HIDDEN, page):
        again.setdefault(name, []).append(html.unescape(value))
    return browser.post(url, again, follow=True).content.decode()


# The list and the page of a tool


def test_saving_policies_keeps_what_another_one_decided_meanwhile(browser: Browser, desk: MCPServer) -> None:
    shown = shown_by(browser, TOOLS)
    selects = {f"policy:{name.removeprefix('seen:')}": value for name, value in shown.items()}
    set_policy(desk, desk.tools["export"], "block")
    said = told(browser, TOOLS, shown=shown, **{**selects, "policy:desk.look": "ask"})
    assert "Policy of desk.look is now: require approval." in said
    assert stored() == {("export", ""): "block", ("look", ""): "ask"}


@pytest.mark.parametrize("button", ["select", "action", "page"])
def test_what_another_one_changed_meanwhile_is_not_overwritten(browser: Browser, desk: MCPServer, button: str) -> None:
    url = PAY if button == "page" else TOOLS
    given = {"policy:desk.pay": "ask"}
    shown = shown_by(browser, url)
    if button == "action":
        given = {"action": "ask", "_selected_action": row_of("pay")}
    set_policy(desk, desk.tools["pay"], "block", user=User.objects.create_user("ben-the-other"))
    said = told(browser, url, shown=shown, **given)
    assert "Nothing was changed: the policy of desk.pay is now “block”, which the page did not show." in said
    assert "Decided by ben-the-other" in said
    assert stored() == {("pay", ""): "block"}
    assert "Allow more than now?" in told(browser, url, **given)


def test_a_page_that_does_not_say_what_it_showed_changes_nothing(browser: Browser, desk: MCPServer) -> None:
    assert "Nothing was changed" in told(browser, TOOLS, shown={}, **{"policy:desk.pay": "allow"})
    assert stored() == {}


def test_an_answer_to_a_question_counts_for_that_question_alone(browser: Browser, desk: MCPServer) -> None:
    asked = send(browser, TOOLS, {"policy:desk.pay": "allow"})
    set_policy(desk, desk.tools["pay"], "block")
    assert "Nothing was changed" in words(yes(browser, TOOLS, asked))
    answer = dict(re.findall(HIDDEN, asked))["confirmed"]
    more = {"confirmed": answer, "policy:desk.pay": "ask"}
    assert "Allow more than now?" in told(browser, TOOLS, **more)
    assert "Allow more than now?" in told(browser, TOOLS, **{**more, "confirmed": "yes"})
    assert stored() == {("pay", ""): "block"}


@pytest.mark.parametrize("change", ["added", "changed", "removed", "remove pressed"])
def test_overrides_that_the_page_did_not_show_are_not_replaced(browser: Browser, desk: MCPServer, change: str) -> None:
    pay = desk.tools["pay"]
    if change != "added":
        set_policy(desk, pay, "ask", client_id=CLIENT)
    shown = shown_by(browser, PAY)
    remove = f"{ToolPolicy.objects.get().pk}:ask" if change == "remove pressed" else ""
    set_policy(desk, pay, None if change == "removed" else "block", client_id=CLIENT)
    before = stored()
    given = {"remove": remove} if remove else {"override": "1", "client_id": CLIENT, "decision": "allow"}
    assert "Nothing was changed" in told(browser, PAY, shown=shown, **given)
    assert stored() == before


# Undo


def test_undo_does_not_undo_the_decision_of_another_one(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["pay"], "allow")
    undo = undo_of(send(browser, TOOLS, {"policy:desk.pay": "ask"}))
    set_policy(desk, desk.tools["pay"], "block")
    assert "Nothing was changed: the policy of desk.pay is now “block”" in told(browser, TOOLS, undo=undo)
    assert stored() == {("pay", ""): "block"}
    set_policy(desk, desk.tools["pay"], "ask")  # the same again, but not the decision that is to be undone
    assert "Nothing was changed" in told(browser, TOOLS, undo=undo)
    assert stored() == {("pay", ""): "ask"}


def test_undo_of_many_is_all_or_nothing(browser: Browser, desk: MCPServer) -> None:
    browser.get(TOOLS)
    undo = undo_of(send(browser, TOOLS, {"action": "block", "_selected_action": [row_of("pay"), row_of("look")]}))
    set_policy(desk, desk.tools["look"], "ask")
    assert "Nothing was changed" in told(browser, TOOLS, undo=undo)
    assert stored() == {("pay", ""): "block", ("look", ""): "ask"}


def test_undo_works_once(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["look"], "block")
    undo = undo_of(send(browser, TOOLS, {"policy:desk.look": "default"}))
    assert "1 policy restored." in told(browser, TOOLS, undo=undo)
    send(browser, TOOLS, {"policy:desk.look": "default"})
    assert "This was undone already." in told(browser, TOOLS, undo=undo)
    assert stored() == {}


def test_undo_that_loosens_asks_first(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["pay"], "allow")
    undo = undo_of(send(browser, TOOLS, {"policy:desk.pay": "block"}))
    asked = send(browser, TOOLS, {"undo": undo})
    assert "desk.pay block allow" in words(asked)
    assert stored() == {("pay", ""): "block"}
    assert "1 policy restored." in words(yes(browser, TOOLS, asked))
    assert stored() == {("pay", ""): "allow"}


# What weakens


def test_an_override_that_loosens_for_some_members_of_two_groups_is_asked_about(
    browser: Browser, desk: MCPServer
) -> None:
    office, desk_group = Group.objects.create(name="Office"), Group.objects.create(name="Desk")
    set_policy(desk, desk.tools["pay"], "block")
    set_policy(desk, desk.tools["pay"], "block", group=office)
    set_policy(desk, desk.tools["pay"], "allow", group=desk_group)
    remove = f"{ToolPolicy.objects.get(group=office).pk}:block"
    assert "Group Desk and Group Office block allow" in told(browser, PAY, remove=remove)


def test_a_limit_that_ends_is_asked_about_for_members_of_a_group_too(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["pay"], "block")
    set_policy(desk, desk.tools["pay"], "allow", group=Group.objects.create(name="Office"), client_id=CLIENT)
    limit_client(CLIENT, {("desk", "look")})
    asked = words(limits(browser, limits_tools="", tools=[]))
    assert f"desk.pay Group Office with client Robot ({CLIENT}) block allow" in asked


# A client


def fields(browser: Browser, url: str = PAGE) -> dict[str, Any]:
    found = re.search(r'name="shown" value="([^"]*)"', browser.get(url).content.decode())
    assert found is not None
    return {"shown": html.unescape(found[1])}


def limits(browser: Browser, *, shown: dict[str, Any] | None = None, **given: Any) -> str:
    sent = {**(fields(browser) if shown is None else shown), "limits": "1", **given}
    return browser.post(PAGE, sent, follow=True).content.decode()


LOOK = {"limits_tools": "on", "tools": ["desk.look"]}


def test_a_limit_of_scopes_keeps_the_limit_of_tools_that_another_one_set(browser: Browser, desk: MCPServer) -> None:
    shown = fields(browser)
    limit_client(CLIENT, {("desk", "look")})
    assert "Limits of client Robot saved." in words(limits(browser, shown=shown, limits_scopes="on"))
    row = ClientPolicy.objects.get()
    assert (row.scopes, row.tools) == ([], ["desk.look"])


def test_a_limit_that_another_one_changed_is_not_overwritten(browser: Browser, desk: MCPServer) -> None:
    limit_client(CLIENT, {("desk", "look"), ("desk", "pay")})
    shown = fields(browser)
    limit_client(CLIENT, set())
    assert "This was changed since the page was shown." in words(limits(browser, shown=shown, **LOOK))
    assert get_limit(CLIENT) == set()


def test_limits_are_undone_as_they_were_set(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["pay"], "ask", client_id=CLIENT)
    undo = undo_of(limits(browser, limits_scopes="on", **LOOK))
    asked = browser.post(PAGE, {"undo": undo}).content.decode()
    assert "Scopes Client Robot Maximum scopes: none. Scopes: no limit." in words(asked)
    assert "Limits of client Robot restored." in words(yes(browser, PAGE, asked))
    row = ClientPolicy.objects.get()
    assert (row.scopes, row.tools) == (None, None)
    assert stored() == {("pay", CLIENT): "ask"}
    limits(browser, limits_scopes="on", **LOOK)
    again = browser.post(PAGE, {"undo": undo}).content.decode()
    assert "This was undone already." in words(yes(browser, PAGE, again))
    assert get_limit(CLIENT) == {("desk", "look")}


def test_a_narrower_limit_of_another_one_is_not_undone(browser: Browser, desk: MCPServer) -> None:
    undo = undo_of(limits(browser, **LOOK))
    limit_client(CLIENT, set())
    said = browser.post(PAGE, {"undo": undo}, follow=True).content.decode()
    assert "Nothing was changed: the limits of this client were changed since." in words(said)
    assert get_limit(CLIENT) == set()


@pytest.mark.parametrize("change", [{"blocked": True}, {"scopes": ["travel:read"]}, {"tools": []}])
def test_the_policy_of_a_client_keeps_what_another_one_decided_meanwhile(
    browser: Browser, desk: MCPServer, change: dict[str, Any]
) -> None:
    row = ClientPolicy.objects.create(client_id=CLIENT)
    url, robot = f"{POLICIES}{row.pk}/change/", User.objects.create_user("robot")
    shown = fields(browser, url)
    ClientPolicy.objects.filter(pk=row.pk).update(**change)
    assert browser.post(url, {**shown, "service_account": robot.pk}).status_code == 302
    row.refresh_from_db()
    assert row.service_account == robot
    assert {name: getattr(row, name) for name in change} == change


def test_the_policy_of_a_client_gives_more_only_if_that_was_said(browser: Browser, desk: MCPServer) -> None:
    row = ClientPolicy.objects.create(client_id=CLIENT, blocked=True, scopes=["travel:read"])
    url = f"{POLICIES}{row.pk}/change/"
    both = ["travel:read", "travel:write"]
    for given, says in (
        ({"limits_scopes": "on", "scopes": both[:1]}, "It is blocked now, and would not be."),
        ({"blocked": "on", "limits_scopes": "on", "scopes": both}, "It would get more scopes."),
        ({"blocked": "on"}, "It would get more scopes."),
    ):
        sent = {**fields(browser, url), **given}
        assert says in words(browser.post(url, sent).content.decode())
        assert browser.post(url, {**sent, "weakens": "on"}).status_code == 302
        ClientPolicy.objects.update(blocked=True, scopes=["travel:read"])


def hidden(page: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(HIDDEN, page):
        found.setdefault(name, []).append(html.unescape(value))
    return found


@pytest.mark.parametrize("button", ["one", "many"])
def test_policies_are_deleted_as_the_page_showed_them(browser: Browser, button: str) -> None:
    row = ClientPolicy.objects.create(client_id=CLIENT, scopes=[])
    url, pressed = f"{POLICIES}{row.pk}/delete/", None
    if button == "many":
        url, pressed = POLICIES, {"action": "delete_selected", "_selected_action": row.pk}

    def ask() -> str:
        return (browser.get(url) if pressed is None else browser.post(url, pressed)).content.decode()

    asked = ask()
    assert f"{CLIENT}. It would get more scopes." in words(asked)
    ClientPolicy.objects.update(blocked=True)
    said = words(browser.post(url, hidden(asked), follow=True).content.decode())
    assert "Nothing was deleted: this was changed since the page was shown." in said
    assert ClientPolicy.objects.get().blocked
    asked = ask()
    assert "It is blocked now, and would not be. It would get more scopes." in words(asked)
    assert "deleted" in words(browser.post(url, hidden(asked), follow=True).content.decode())
    assert not ClientPolicy.objects.exists()


def test_who_opens_more_tools_to_a_client_is_asked_first() -> None:
    row = ClientPolicy.objects.create(client_id=CLIENT, read_only=True)
    browser = Browser()
    browser.force_login(User.objects.create_superuser("owner"))
    page = f"{POLICIES}{row.pk}/change/"
    shown = re.search(r'name="shown" value="([^"]*)"', browser.get(page).content.decode())
    sent = {"shown": html.unescape(shown[1])} if shown else {}
    answer = words(browser.post(page, sent).content.decode())
    assert "It may use only tools that change nothing, and could use others." in answer
    row.refresh_from_db()
    assert row.read_only
    browser.post(page, {**sent, "weakens": "on"})
    row.refresh_from_db()
    assert not row.read_only


def test_who_may_only_view_the_policy_of_a_client_reads_what_it_decides() -> None:
    row = ClientPolicy.objects.create(client_id=CLIENT, blocked=True, scopes=["travel:read"])
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_clientpolicy"))
    browser = Browser()
    browser.force_login(viewer)
    page = words(browser.get(f"{POLICIES}{row.pk}/change/").content.decode())
    assert "Access: blocked Only tools that change nothing:" in page
    assert "Scopes: travel:read Service account: –" in page
    assert "The permission “Can change client policy” is needed to change it." in page


# Rows that end


def test_saving_the_page_of_a_rule_changes_nothing(browser: Browser) -> None:
    about = {"principal_kind": "test", "principal_id": "ann", "created": timezone.now(), "expires": timezone.now()}
    rule = AutoApprovalRule.objects.create(
        server="desk",
        tool="pay",
        remaining=0,
        revoked=timezone.now(),
        created_by=User.objects.get(username="ann"),
        **about,
    )
    assert browser.post(f"/admin/django_mcp/autoapprovalrule/{rule.pk}/change/", {}).status_code == 403


def test_renaming_a_key_keeps_the_limit_that_another_one_set(browser: Browser) -> None:
    row = APIKey.objects.create(
        key_hash="x", prefix="mcp_key_1", name="old", user=User.objects.get(username="ann"), expires=timezone.now()
    )
    url = f"/admin/django_mcp/apikey/{row.pk}/change/"
    shown = fields(browser, url)
    APIKey.objects.update(read_only=True)
    assert browser.post(url, {**shown, "name": "new"}).status_code == 302
    row.refresh_from_db()
    assert (row.name, row.read_only) == ("new", True)


def test_renaming_a_key_does_not_bring_it_back(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    row = APIKey.objects.create(
        key_hash="x", prefix="mcp_key_1", name="old", user=User.objects.get(username="ann"), expires=timezone.now()
    )
    read = APIKeyAdmin.get_object

    def slowly(*args: Any) -> Any:
        found = read(*args)
        APIKey.objects.update(revoked=timezone.now())
        return found

    monkeypatch.setattr(APIKeyAdmin, "get_object", slowly)
    assert browser.post(f"/admin/django_mcp/apikey/{row.pk}/change/", {"name": "new"}).status_code == 302
    row.refresh_from_db()
    assert row.name == "new"
    assert row.revoked is not None
