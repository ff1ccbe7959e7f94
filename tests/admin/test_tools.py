"""The page of tools in Django's admin: what there is, what counts, and what changed."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.db import connection
from django.test import Client as Browser
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mcp import AllowAny, MCPServer, tool
from django_mcp.approvals import tool_definitions
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.models import RequestLog, ToolPolicy, ToolSnapshot
from tests.admin.tools_page import (
    CLIENT,
    HISTORY,
    PAY,
    TOOLS,
    line,
    names,
    page,
    staff,
    told,
    words,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("nothing_counted", "registered")]


# The list


def test_the_list_has_every_tool_of_every_endpoint(browser: Browser, desk_of_demo: MCPServer) -> None:
    MCPServer("counter", source=desk_of_demo, authentication=[AllowAny()])
    endpoints = ("desk", "counter", "default")
    listed = [name for endpoint in endpoints for name in names(page(browser, f"{TOOLS}?endpoint={endpoint}"))]
    assert {"desk.pay", "desk.look", "desk.hide", "counter.pay", "default.search_flights"} <= set(listed)
    assert "staff.get_task_result" not in listed
    assert names(page(browser, f"{TOOLS}?endpoint=default&q=travel.City+search")) == ["default.search_cities"]


def test_the_list_says_what_a_tool_is_who_may_call_it_and_what_counts(browser: Browser, desk: MCPServer) -> None:
    listed = page(browser)
    shown = line(listed, "desk.pay")
    assert shown.startswith(
        "pay desk destructive permission travel.add_booking; group Office default (require approval)"
    )
    assert 'title="Pay money."' in listed
    assert line(listed, "desk.look").startswith(
        "look desk read-only everyone who may call the endpoint default (allow)"
    )
    assert line(listed, "desk.hide").startswith("hide desk writes scope travel:write default (block)")
    assert "require approval default for destructive tools" in words(page(browser, PAY))
    assert "scope travel:write" in line(listed, "desk.hide")


def test_the_list_says_how_often_and_how_well_it_was_called(browser: Browser, desk: MCPServer) -> None:
    about = {"server": "desk", "method": "tools/call", "name": "pay", "started_at": timezone.now(), "duration": 1.0}
    RequestLog.objects.bulk_create([RequestLog(outcome=each, **about) for each in ("ok", "ok", "ok", "error")])
    shown = page(browser)
    assert line(shown, "desk.pay").endswith("4 calls 25 % failed")
    assert line(shown, "desk.look").endswith("– –")
    assert shown.count('class="mcp-sparkline"') == 1


FOUND = {
    "q=really": ["desk.pay"],
    "q=PAY+money": ["desk.pay"],
    "q=nothing-like-it": [],
    "endpoint=desk": ["desk.hide", "desk.look", "desk.pay"],
    "endpoint=desk&decision=ask": ["desk.pay"],
    "endpoint=desk&decision=block": ["desk.hide"],
    "endpoint=desk&decision=decided": ["desk.look"],
    "endpoint=desk&decision=overridden": ["desk.hide"],
    "endpoint=desk&hint=read-only": ["desk.look"],
    "endpoint=desk&hint=destructive": ["desk.pay"],
    "endpoint=desk&hint=unsaid": ["desk.hide"],
    "endpoint=desk&changed=yes": [],
    "endpoint=desk&o=-1": ["desk.pay", "desk.look", "desk.hide"],
    "endpoint=desk&o=6": ["desk.look", "desk.hide", "desk.pay"],
    "endpoint=desk&o=7": ["desk.hide", "desk.look", "desk.pay"],
    "endpoint=desk&hint=nonsense&p=nonsense": ["desk.hide", "desk.look", "desk.pay"],
}


def test_tools_are_found_by_words_and_by_what_they_are(browser: Browser, desk_of_demo: MCPServer) -> None:
    set_policy(desk_of_demo, desk_of_demo.tools["look"], "allow")
    set_policy(desk_of_demo, desk_of_demo.tools["hide"], "ask", client_id=CLIENT)
    about = {"server": "desk", "method": "tools/call", "started_at": timezone.now(), "duration": 1.0}
    calls = [("look", "ok"), ("look", "ok"), ("look", "ok"), ("look", "error"), ("hide", "error"), ("hide", "error")]
    RequestLog.objects.bulk_create(RequestLog(name=name, outcome=outcome, **about) for name, outcome in calls)
    assert {query: names(page(browser, f"{TOOLS}?{query}")) for query in FOUND} == FOUND


@pytest.mark.postgresql
def test_hundreds_of_tools_take_no_more_queries_than_a_few(
    browser: Browser, desk: MCPServer, make_server: Callable[..., MCPServer]
) -> None:
    many = make_server("many")
    page(browser)
    with CaptureQueriesContext(connection) as few:
        page(browser)
    owner, office = User.objects.get(pk=browser.session["_auth_user_id"]), Group.objects.create(name="Office")
    for number in range(250):
        tool(server=many, name=f"tool_{number}")(lambda: "done")
    about = {"server": "many", "decision": "block", "changed_by": owner}
    ToolPolicy.objects.bulk_create(
        ToolPolicy(tool=name, group=group, **about) for name in many.tools for group in (None, office)
    )
    page(browser)  # which notes what each is
    cache.clear()
    with CaptureQueriesContext(connection) as seen:
        shown = page(browser, f"{TOOLS}?endpoint=many&p=2")
    assert names(shown) == [f"many.{name}" for name in sorted(many.tools)[100:200]]
    assert len(seen) <= len(few) + 2 < 12, [each["sql"] for each in seen]
    assert "250 tools" in words(shown)


def test_a_long_name_breaks_after_an_underscore(browser: Browser, desk: MCPServer) -> None:
    tool(server=desk, name="search_calendar_events")(lambda: "found")
    assert ">search_<wbr>calendar_<wbr>events</span></a>" in page(browser)


# Who may


def test_who_may_look_at_policies_sees_no_buttons_and_decides_nothing(desk: MCPServer) -> None:
    looking = staff("view_toolpolicy")
    for url in (TOOLS, PAY):
        assert (
            "<button"
            not in re.sub(
                r'<button class="theme.*?</button>|<button type="button.*?</button>', "", page(looking, url)
            ).split('id="content-main"')[1]
        )
    assert looking.post(TOOLS, {"policy:desk.pay": "block"}).status_code == 403
    assert looking.post(PAY, {"policy:desk.pay": "block"}).status_code == 403
    assert looking.post(PAY, {"override": "1", "client_id": CLIENT, "decision": "ask"}).status_code == 403
    assert (
        looking.post(
            PAY, {"approve_definition": tool_definitions.current_definition(desk.tools["pay"]).digest}
        ).status_code
        == 403
    )
    assert not ToolPolicy.objects.exists()
    assert "Last 30 days" not in words(page(looking))


def test_who_may_not_look_gets_nothing(desk: MCPServer) -> None:
    other = staff("view_task")
    assert other.get(TOOLS).status_code == 403
    assert other.get(PAY).status_code == 403
    assert "/admin/django_mcp/tools/" not in page(other, "/admin/")


def test_who_may_change_policies_decides_and_who_may_see_calls_sees_them(desk: MCPServer) -> None:
    deciding = staff("change_toolpolicy", "view_requestlog")
    told(deciding, TOOLS, **{"policy:desk.look": "block"})
    assert ToolPolicy.objects.get().tool == "look"
    assert "Last 30 days" in words(page(deciding))


def test_a_form_of_another_site_decides_nothing(desk: MCPServer) -> None:
    strict = Browser(enforce_csrf_checks=True)
    strict.force_login(User.objects.create_superuser("owner-of-the-site"))
    assert strict.post(TOOLS, {"policy:desk.pay": "block"}).status_code == 403
    assert strict.get(f"{TOOLS}?policy:desk.pay=block").status_code == 302
    assert not ToolPolicy.objects.exists()


# One tool


def test_the_page_of_a_tool_has_all_there_is_to_know(browser: Browser, desk: MCPServer) -> None:
    RequestLog.objects.create(
        server="desk",
        name="pay",
        method="tools/call",
        outcome="ok",
        started_at=timezone.now(),
        duration=3,
        caller="ada",
    )
    raw = page(browser, PAY)
    shown = words(raw)
    for each in (
        "tests/admin/tools_page.py:",
        "destructive",
        '"amount"',
        "It is gone then, <b>really</b>.",
        "automatically when first seen, on",
        "succeeded ada",
        "permission travel.add_booking",
    ):
        assert each in shown, each
    assert "<b>really" not in raw
    assert "/admin/django_mcp/requestlog/?server=desk&amp;name=pay" in raw
    assert browser.get("/admin/django_mcp/requestlog/?server=desk&name=pay").status_code == 200


def test_a_tool_that_is_not_there_leads_back(browser: Browser, desk_of_demo: MCPServer) -> None:
    for key in ("desk.gone", "gone.pay", "desk", "staff.get_task_result"):
        assert browser.get(f"{TOOLS}{key}/change/").status_code == 302, key
    assert "doesn’t exist" in words(browser.get(f"{TOOLS}desk.gone/change/", follow=True).content.decode())


def test_tools_that_were_made_of_something_say_what_that_was(browser: Browser) -> None:
    source = r"Source (demo_project\.travel\.\S+ demo_project/travel/\w+\.py:\d+|view departures)"
    for name in ("default.hold_5Frooms", "default.departures_5Fboard", "default.list_5Fown_5Fevents"):
        assert re.search(source, words(page(browser, f"{TOOLS}{name}/change/"))), name


# Changed tools


def change(desk: MCPServer, **more: Any) -> None:
    """The next release of ``pay``."""
    desk.remove(lambda each: each.key == "pay")

    def pay(amount: int, to: str = "the \u202etax office", note: str = "") -> str:
        """Pay money.

        It comes back.
        """
        return "paid"

    tool(server=desk, title="Pay somebody", destructive=False, **more)(pay)


def test_a_tool_that_changed_is_marked_and_shows_what_is_another(browser: Browser, desk: MCPServer) -> None:
    assert "changed since" not in words(page(browser))
    change(desk)
    listed = page(browser)
    assert "1 changed definition" in words(listed)
    assert "pay desk writes changed" in line(listed, "desk.pay")
    assert names(page(browser, f"{TOOLS}?changed=yes")) == ["desk.pay"]
    raw = page(browser, PAY)
    shown = words(raw)
    assert "- It is gone then, <b>really</b>. + It comes back." in shown
    assert '- "destructiveHint": true + "destructiveHint": false' in shown
    assert '+ "note": {' in shown
    assert "\u202e" not in raw
    assert "\\u202etax office" in raw
    assert 'class="mcp-removed"' in raw
    assert "Clients may still call it" in shown


def test_it_is_accepted_as_it_was_shown(browser: Browser, desk: MCPServer) -> None:
    page(browser)
    change(desk)
    digest = re.search(r'name="approve_definition" value="(\w+)"', page(browser, PAY))
    assert digest is not None
    assert "The new definition of desk.pay is approved." in told(browser, PAY, approve_definition=digest[1])
    assert "changed since" not in words(page(browser))
    known = ToolSnapshot.objects.get(server="desk", tool="pay")
    assert known.approved_by is not None
    assert "by owner-of-the-site on" in words(page(browser, PAY))
    assert "New definition approved." in words(page(browser, HISTORY))

    desk.tools["pay"].definition = {**desk.tools["pay"].definition, "title": "Pay all"}
    assert "has changed again" in told(browser, PAY, approve_definition=digest[1])
    assert "Definition changed since approval" in words(page(browser, PAY))


def test_with_change_toolsnapshot_alone_one_accepts_and_decides_nothing(desk: MCPServer) -> None:
    accepting = staff("view_toolpolicy", "change_toolsnapshot")
    page(accepting)
    change(desk)
    assert accepting.post(PAY, {"policy:desk.pay": "block"}).status_code == 403
    assert "The new definition of desk.pay is approved." in told(
        accepting, PAY, approve_definition=tool_definitions.current_definition(desk.tools["pay"]).digest
    )


def test_where_changed_tools_are_held_the_page_says_that_it_is_not_there(browser: Browser, desk: MCPServer) -> None:
    page(browser)
    change(desk)
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "BLOCK_CHANGED_TOOLS": True}):
        assert "changed hidden from clients" in line(page(browser), "desk.pay")
        assert "is hidden from clients until its new definition is approved" in words(page(browser, PAY))


def test_a_huge_change_is_cut(browser: Browser, desk: MCPServer) -> None:
    page(browser)
    desk.tools["pay"].definition = {
        **desk.tools["pay"].definition,
        "description": "\n".join(f"line {number}" for number in range(5000)),
    }
    shown = page(browser, PAY)
    assert "lines more." in shown
    assert shown.count('class="mcp-added"') < 500
