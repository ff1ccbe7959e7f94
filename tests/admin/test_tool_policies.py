"""Policies of tools in Django's admin: choosing, confirming what weakens a control, undoing, and overrides."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.test import Client as Browser
from django.test import override_settings

from django_mcp import MCPServer, tool
from django_mcp.approvals.tool_policies import limit_client, set_policy
from django_mcp.auth.toolkit import get_application_model
from django_mcp.models import ToolPolicy, ToolSnapshot
from tests.admin.tools_page import (
    CLIENT,
    HIDDEN,
    HISTORY,
    PAY,
    TOOLS,
    line,
    page,
    row_of,
    send,
    shown_by,
    staff,
    told,
    words,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("nothing_counted", "registered")]


def test_a_policy_is_chosen_and_saved(browser: Browser, desk: MCPServer) -> None:
    assert "Policy of desk.pay is now: block." in told(
        browser, f"{TOOLS}?endpoint=desk", **{"policy:desk.pay": "block"}
    )
    row = ToolPolicy.objects.get()
    assert (row.server, row.tool, row.decision) == ("desk", "pay", "block")
    assert row.changed_by is not None
    assert row.changed_by.username == "owner-of-the-site"
    chosen = re.search(r'name="policy:desk\.pay".*?<option value="(\w+)" selected>', page(browser), re.DOTALL)
    assert chosen is not None
    assert chosen[1] == "block"
    assert "block decided by owner-of-the-site on" in words(page(browser, PAY))
    assert "General policy: block." in words(page(browser, HISTORY))

    assert "Policy of desk.pay is now: default." in told(browser, TOOLS, loosen=True, **{"policy:desk.pay": "default"})
    assert not ToolPolicy.objects.exists()
    assert [each.get_change_message() for each in LogEntry.objects.order_by("pk")] == [
        "General policy: block.",
        "General policy: default.",
    ]


def test_the_page_stays_where_it_was(browser: Browser, desk: MCPServer) -> None:
    answer = browser.post(f"{TOOLS}?endpoint=desk&p=1", {"policy:desk.pay": "block", "seen:desk.pay": "default"})
    assert answer["Location"] == f"{TOOLS}?endpoint=desk&p=1"


def test_what_counts_already_is_not_decided_again(browser: Browser, desk: MCPServer) -> None:
    assert "Nothing changed" in told(browser, TOOLS, **{"policy:desk.pay": "default"})
    told(browser, TOOLS, **{"policy:desk.pay": "ask"})
    assert "Nothing changed" in told(browser, TOOLS, **{"policy:desk.pay": "ask"})
    assert LogEntry.objects.count() == 1


def test_many_are_decided_about_at_once(browser: Browser, desk: MCPServer) -> None:
    page(browser)
    chosen = {"action": "block", "_selected_action": [row_of("pay"), row_of("look"), 12345]}
    assert "2 policies changed." in told(browser, TOOLS, **chosen)
    assert set(ToolPolicy.objects.values_list("tool", "decision")) == {("pay", "block"), ("look", "block")}
    assert LogEntry.objects.count() == 2


def test_an_action_holds_for_what_the_page_showed(browser: Browser, desk: MCPServer) -> None:
    shown = shown_by(browser, TOOLS)
    set_policy(desk, desk.tools["look"], "ask")
    chosen = {"action": "block", "_selected_action": [row_of("pay"), row_of("look")]}
    said = told(browser, TOOLS, shown=shown, **chosen)
    assert "the policy of desk.look is now “require approval”, which the page did not show." in said
    assert set(ToolPolicy.objects.values_list("tool", "decision")) == {("look", "ask")}
    unseen = told(browser, TOOLS, shown={}, **chosen)
    assert "Nothing was changed" in unseen
    assert set(ToolPolicy.objects.values_list("tool", "decision")) == {("look", "ask")}


def test_an_action_on_all_pages_is_about_what_the_filters_leave(
    browser: Browser, desk: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    many = make_server("many")
    for number in range(101):
        tool(server=many, name=f"tool_{number}")(lambda: "done")
    url = f"{TOOLS}?endpoint=many"
    page(browser, url)
    first = ToolSnapshot.objects.filter(server="many").earliest("tool").pk
    said = told(browser, url, action="block", _selected_action=first, select_across="1", index="0")
    assert "101 policies changed." in said
    assert set(ToolPolicy.objects.values_list("server", "decision")) == {("many", "block")}


def test_what_loosens_a_tool_that_may_destroy_something_is_asked_about_first(browser: Browser, desk: MCPServer) -> None:
    asked = told(browser, f"{TOOLS}?endpoint=desk", **{"policy:desk.pay": "allow", "policy:desk.look": "block"})
    assert "Allow more than now?" in asked
    assert "After this change, clients may do more than now. The tools below may destroy data." in asked
    assert "Tool or limit Now After desk.pay Pay money. require approval allow" in asked
    assert "desk.look Pay" not in asked
    assert not ToolPolicy.objects.exists()
    given = {"policy:desk.pay": "allow", "policy:desk.look": "block"}
    assert "2 policies changed." in told(browser, TOOLS, loosen=True, **given)
    assert set(ToolPolicy.objects.values_list("tool", "decision")) == {("pay", "allow"), ("look", "block")}


@pytest.mark.parametrize(
    ("before", "given", "asked"),
    [
        (None, {"policy:desk.pay": "block"}, False),
        ("block", {"policy:desk.pay": "default"}, True),
        ("block", {"policy:desk.pay": "ask"}, True),
        ("allow", {"policy:desk.pay": "default"}, False),
        (None, {"policy:desk.hide": "ask"}, True),
        (None, {"policy:desk.look": "allow"}, False),
        ("block", {"action": "allow", "_selected_action": "pay"}, True),
    ],
)
def test_it_is_not_asked_about_anything_else(
    browser: Browser, desk: MCPServer, before: str | None, given: dict[str, str], asked: bool
) -> None:
    if before:
        set_policy(desk, desk.tools["pay"], before)
    page(browser)
    if "_selected_action" in given:
        given = {**given, "_selected_action": str(row_of(given["_selected_action"]))}
    for url in (TOOLS, PAY) if "policy:desk.pay" in given else (TOOLS,):
        number = LogEntry.objects.count()
        assert ("Allow more than now?" in told(browser, url, **given)) is asked, url
        assert (LogEntry.objects.count() == number) is (asked or url == PAY), url


def test_a_change_can_be_undone_by_whoever_made_it(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["look"], "ask")
    chosen = {"policy:desk.pay": "block", "policy:desk.look": "block"}
    html = send(browser, TOOLS, chosen)
    token = re.search(r'<button name="undo" value="([^"]+)">Undo</button>', html)
    assert token is not None
    other = staff("change_toolpolicy")
    assert "too late to undo" in told(other, TOOLS, undo=token[1])
    assert "too late to undo" in told(browser, TOOLS, undo=token[1] + "x")
    assert set(ToolPolicy.objects.values_list("tool", "decision")) == {("pay", "block"), ("look", "block")}
    assert "2 policies restored." in told(browser, TOOLS, loosen=True, undo=token[1])
    assert set(ToolPolicy.objects.values_list("tool", "decision")) == {("look", "ask")}
    assert staff_looking().post(TOOLS, {"undo": token[1]}).status_code == 403


def staff_looking() -> Browser:
    user = User.objects.create_user("who-looks", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_toolpolicy"))
    browser = Browser()
    browser.force_login(user)
    return browser


def test_what_makes_no_sense_changes_nothing(browser: Browser, desk: MCPServer) -> None:
    page(browser)
    for given in ({"policy:desk.pay": "burn"}, {"policy:desk.gone": "block"}, {"action": "burn"}, {"action": ""}, {}):
        answer = browser.post(TOOLS, {"_selected_action": [row_of("pay")], **given}, follow=True)
        assert answer.status_code == 200, given
        assert not ToolPolicy.objects.exists(), given


def test_the_history_leads_from_the_start_page_to_the_tool(browser: Browser, desk: MCPServer) -> None:
    told(browser, TOOLS, **{"policy:desk.pay": "block"})
    entry = LogEntry.objects.get()
    assert entry.object_repr == "pay (desk)"
    assert page(browser, f"/admin/{entry.get_admin_url().removeprefix('/admin/')}")


def test_groups_and_clients_get_decisions_of_their_own(browser: Browser, desk: MCPServer) -> None:
    office = Group.objects.create(name="Office")
    shown = told(browser, PAY, override="1", group=office.pk, client_id="", decision="allow", loosen=True)
    assert "Group Office: allow." in shown
    assert "1 override" in line(page(browser), "desk.pay")
    told(browser, PAY, override="1", group="", client_id=f" {CLIENT} ", decision="block")
    told(browser, PAY, override="1", group=office.pk, client_id=CLIENT, decision="ask")
    rows = {(each.group, each.client_id): each for each in ToolPolicy.objects.all()}
    assert {key: row.decision for key, row in rows.items()} == {
        (office, ""): "allow",
        (None, CLIENT): "block",
        (office, CLIENT): "ask",
    }
    assert "Client https://client.example.com/app.json: override removed." in told(
        browser, PAY, remove=f"{rows[None, CLIENT].pk}:block", loosen=True
    )
    assert ToolPolicy.objects.count() == 2
    assert "This policy no longer exists" in told(browser, PAY, remove=rows[None, CLIENT].pk)


@pytest.mark.parametrize(
    ("stored", "given", "asked"),
    [
        ({}, {"decision": "allow"}, "desk.pay Group Office Pay money. require approval allow"),
        ({}, {"decision": "block"}, ""),
        ({}, {"decision": "ask"}, ""),
        ({"office": "block"}, {"decision": "ask"}, "Group Office Pay money. block require approval"),
        ({"office": "block"}, {"remove": "office"}, "Group Office Pay money. block require approval"),
        ({"office": "allow"}, {"remove": "office"}, ""),
        ({"all": "block"}, {"decision": "ask"}, "Group Office Pay money. block require approval"),
        ({"all": "allow"}, {"decision": "allow"}, ""),
        ({"all": "allow", "office": "ask"}, {"remove": "office"}, "require approval allow"),
    ],
)
def test_an_override_that_loosens_is_asked_about_first_and_can_be_undone(
    browser: Browser, desk: MCPServer, stored: dict[str, str], given: dict[str, str], asked: str
) -> None:
    office = Group.objects.create(name="Office")
    for audience, decision in stored.items():
        set_policy(desk, desk.tools["pay"], decision, group=office if audience == "office" else None)
    before = decisions()
    if "remove" in given:
        row = ToolPolicy.objects.get(group=office)
        form: dict[str, Any] = {"remove": f"{row.pk}:{row.decision}"}
    else:
        form = {"override": "1", "group": office.pk, "client_id": "", **given}
    first = send(browser, PAY, form)
    if asked:
        assert asked in words(first)
        assert decisions() == before
        first = send(browser, PAY, dict(re.findall(HIDDEN, first)), shown={})
    assert decisions() != before
    assert "Allow more than now?" not in words(first)
    undo = re.search(r'<button name="undo" value="([^"]+)">Undo</button>', first)
    assert undo is not None
    restored = send(browser, TOOLS, {"undo": undo[1]})
    if "Allow more than now?" in restored:
        restored = send(browser, TOOLS, dict(re.findall(HIDDEN, restored)), shown={})
    assert "1 policy restored." in words(restored)
    assert decisions() == before


def decisions() -> set[Any]:
    return set(ToolPolicy.objects.values_list("tool", "group__name", "client_id", "decision"))


def test_an_override_of_a_tool_that_destroys_nothing_is_not_asked_about(browser: Browser, desk: MCPServer) -> None:
    set_policy(desk, desk.tools["look"], "block")
    look = f"{TOOLS}desk.look/change/"
    assert f"Client {CLIENT}: allow." in told(browser, look, override="1", client_id=CLIENT, decision="allow")


def test_a_group_that_is_gone_is_not_restored(browser: Browser, desk: MCPServer) -> None:
    office = Group.objects.create(name="Office")
    page = send(browser, PAY, {"override": "1", "group": office.pk, "decision": "block"})
    undo = re.search(r'name="undo" value="([^"]+)"', page)
    assert undo is not None
    office.delete()
    assert "0 policies restored." in told(browser, TOOLS, undo=undo[1])
    assert not ToolPolicy.objects.exists()


def test_the_page_of_a_tool_names_the_clients_that_are_limited_to_others(browser: Browser, desk: MCPServer) -> None:
    limit_client(CLIENT, {("desk", "look")})
    assert f"{CLIENT} block limited to other tools" in words(page(browser, PAY))
    assert CLIENT not in words(page(browser, f"{TOOLS}desk.look/change/")).partition("Add override")[0]
    assert "1 override" not in line(page(browser), "desk.pay")
    assert "1 policy" not in words(page(browser))


def test_an_override_gives_a_limited_client_nothing(browser: Browser, desk: MCPServer) -> None:
    limit_client(CLIENT, {("desk", "look")})
    assert f"Client {CLIENT}: allow." in told(browser, PAY, override="1", client_id=CLIENT, decision="allow")
    assert f"{CLIENT} block limited to other tools" in words(page(browser, PAY))


def test_an_override_is_for_somebody(browser: Browser, desk: MCPServer) -> None:
    assert "Choose a group or a client" in told(browser, PAY, override="1", group="", client_id="", decision="ask")
    assert not ToolPolicy.objects.exists()


def test_known_clients_are_offered(browser: Browser, desk: MCPServer) -> None:
    get_application_model().objects.create(client_id="the-desk", name="The <Desk>", client_type="public")
    assert '<option value="the-desk">The &lt;Desk&gt;</option>' in page(browser, PAY)


# Tools that are not there


def test_decisions_about_tools_that_are_not_there_are_shown_and_can_be_taken_back(
    desk: MCPServer, browser: Browser
) -> None:
    set_policy(desk, desk.tools["look"], "block")
    gone = ToolPolicy.objects.create(server="desk", tool="sell", decision="block")
    other = ToolPolicy.objects.create(server="closed", tool="pay", decision="ask", client_id=CLIENT)
    page = browser.get(TOOLS).content.decode()
    assert "2 policies match nobody" in page
    assert f"Client {CLIENT}" in page
    browser.post(TOOLS, {"delete_orphan": f"{gone.pk}:block"})
    assert "1 policy matches nobody" in browser.get(TOOLS).content.decode()
    assert {(row.server, row.tool) for row in ToolPolicy.objects.all()} == {("desk", "look"), ("closed", "pay")}
    assert LogEntry.objects.get(object_id="desk.sell").get_change_message() == "General policy: default."
    browser.post(TOOLS, {"delete_orphan": f"{other.pk}:ask"})
    assert "matches nobody" not in browser.get(TOOLS).content.decode()


@override_settings(USE_THOUSAND_SEPARATOR=True)
def test_the_key_of_a_policy_that_a_button_sends_is_not_written_for_people(desk: MCPServer, browser: Browser) -> None:
    browser.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    ToolPolicy.objects.create(pk=1_234_567, server="desk", tool="sell", decision="block")
    ToolPolicy.objects.create(pk=1_234_568, server="desk", tool="pay", decision="block", client_id=CLIENT)
    assert 'name="delete_orphan" value="1234567:block"' in browser.get(TOOLS).content.decode()
    assert 'name="remove" value="1234568:block"' in browser.get(PAY).content.decode()


def test_a_decision_about_a_tool_that_is_there_is_not_taken_back_as_one_of_those(
    desk: MCPServer, browser: Browser
) -> None:
    set_policy(desk, desk.tools["look"], "block")
    browser.post(TOOLS, {"delete_orphan": f"{ToolPolicy.objects.get().pk}:block"})
    assert ToolPolicy.objects.get().decision == "block"


def test_who_may_only_look_takes_no_decision_back(desk: MCPServer) -> None:
    gone = ToolPolicy.objects.create(server="desk", tool="sell", decision="block")
    trainee = staff("view_toolpolicy")
    assert 'name="delete_orphan"' not in trainee.get(TOOLS).content.decode()
    assert trainee.post(TOOLS, {"delete_orphan": f"{gone.pk}:block"}).status_code == 403
    assert ToolPolicy.objects.count() == 1
