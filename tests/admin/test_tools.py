"""The page of tools in Django's admin: what there is, what counts, and what changed."""

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.db import connection
from django.test import Client as Browser
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from django_mcp import AllowAny, MCPServer, tool
from django_mcp.approvals import tool_definitions
from django_mcp.approvals.tool_policies import limit_client, set_policy
from django_mcp.auth.toolkit import get_application_model
from django_mcp.core import server
from django_mcp.models import RequestLog, ToolPolicy, ToolSnapshot

pytestmark = pytest.mark.django_db

TOOLS = "/admin/django_mcp/tools/"
PAY = f"{TOOLS}desk.pay/change/"
HISTORY = f"{TOOLS}desk.pay/history/"
CLIENT = "https://client.example.com/app.json"


@pytest.fixture(autouse=True)
def _nothing_counted() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def _registered(db: None) -> None:
    get_application_model().objects.create(client_id=CLIENT, client_type="public")


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The site is not the demo, whose tools would be shown, and remembered, on every page."""
    monkeypatch.setattr(server, "_servers", {})
    MCPServer("default", path="mcp", authentication=[AllowAny()])


@pytest.fixture
def desk(alone: None, make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint with some tools."""
    return furnished(make_server)


@pytest.fixture
def desk_of_demo(make_server: Callable[..., MCPServer]) -> MCPServer:
    """The same beside those of the demo."""
    return furnished(make_server)


def furnished(make_server: Callable[..., MCPServer]) -> MCPServer:
    desk = make_server("desk", authentication=[AllowAny()], scopes=[])

    @tool(server=desk, title="Pay somebody", destructive=True, permission="travel.add_booking", groups=["Office"])
    def pay(amount: int, to: str = "me") -> str:
        """Pay money.

        It is gone then, <b>really</b>.
        """
        return f"paid {amount} to {to}"

    tool(server=desk, name="look", read_only=True, open_world=False)(lambda: "seen")
    tool(server=desk, name="hide", policy="block", scopes=["travel:write"])(lambda: "hidden")
    return desk


@pytest.fixture
def browser() -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("owner-of-the-site"))
    return browser


def staff(*permissions: str) -> Browser:
    user = User.objects.create_user("somebody-of-the-staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="django_mcp"))
    browser = Browser()
    browser.force_login(user)
    return browser


def page(browser: Browser, url: str = TOOLS) -> str:
    answer = browser.get(url)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def words(text: str) -> str:
    """What is read on a page."""
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", text).split()))


def names(text: str) -> list[str]:
    """The tools that are listed, by endpoint and name."""
    return re.findall(r'name="seen:([^"]+)"', text)


def line(text: str, key: str) -> str:
    """What is read of one tool."""
    (found,) = (each for each in re.findall(r"<tr>.*?</tr>", text, re.DOTALL) if f'name="seen:{key}"' in each)
    return words(found)


HIDDEN = r'<input type="hidden" name="([^"]+)" value="([^"]*)"'


def shown_by(browser: Browser, url: str) -> dict[str, str]:
    """What a page sends of the decisions that it shows."""
    found = re.findall(HIDDEN, browser.get(url).content.decode())
    return {name: value for name, value in found if name == "shown" or name.startswith("seen:")}


def send(browser: Browser, url: str, given: dict[str, Any], *, shown: dict[str, str] | None = None) -> str:
    """The page after a form was sent as *shown*, by default now; if it asks whether to loosen, that is said."""
    before = shown_by(browser, url) if shown is None else shown
    return browser.post(url, {**before, **given}, follow=True).content.decode()


def told(browser: Browser, url: str, *, loosen: bool = False, shown: dict[str, str] | None = None, **given: Any) -> str:
    """What is read on that page; with *loosen*, after its question was answered."""
    html = send(browser, url, given, shown=shown)
    if loosen:
        assert "Allow more than now?" in html
        html = send(browser, url, dict(re.findall(HIDDEN, html)), shown={})
    return words(html)


# The list


def test_the_list_has_every_tool_of_every_endpoint(browser: Browser, desk_of_demo: MCPServer) -> None:
    MCPServer("counter", source=desk_of_demo, authentication=[AllowAny()])
    listed = names(page(browser))
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


# Deciding


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


def test_a_long_name_breaks_after_an_underscore(browser: Browser, desk: MCPServer) -> None:
    tool(server=desk, name="search_calendar_events")(lambda: "found")
    assert ">search_<wbr>calendar_<wbr>events</span></a>" in page(browser)


def row_of(name: str) -> int:
    """The key of a tool's row, which its box sends."""
    return ToolSnapshot.objects.get(server="desk", tool=name).pk


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
        "tests/admin/test_tools.py:",
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
