"""Who may decide a call, above all the requester's own, and through which doors."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Permission
from django.core import mail
from django.core.exceptions import ImproperlyConfigured, PermissionDenied
from django.http import HttpRequest
from django.test import Client as Browser
from django.test import override_settings
from django.urls import reverse

from django_mcp import MCPServer, Principal, tool
from django_mcp.admin import approvals_app
from django_mcp.admin.approval_cards import card_digest, make_cards
from django_mcp.admin.approval_decisions import decide
from django_mcp.approvals import notices
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.fingerprint import version
from django_mcp.conf import APPROVALS_SCOPE
from django_mcp.integrations.views import view_tool
from django_mcp.models import Approval, AutoApprovalRule
from django_mcp.test import MCPClient
from tests.approvals.asking import Calls, People, kind_of, serve, the_ticket

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def edge() -> str:
    """None is needed."""
    return "view"


@pytest.fixture
def wave(server: MCPServer, people: People) -> Calls:
    """A tool of which the requester decides; what it was called with. Ann and Cleo are staff; Cleo may approve."""
    calls: Calls = []
    for name in ("ann", "ben", "cleo"):
        people[name].is_staff = name != "ben"
        people[name].save()

    @tool(server=server, policy="ask", self_approval=True)
    def wave(to: str) -> str:
        """Wave to somebody."""
        calls.append({"to": to})
        return f"Waved to {to}."

    return calls


@pytest.fixture
def ask(server: MCPServer, people: People, wave: Calls) -> Ask:
    """Calls the tool as somebody."""
    return lambda user="ann", **options: serve(server, people[user], "wave", {"to": "ben"}, **options)


@pytest.fixture(autouse=True)
def _sessions() -> Iterator[None]:
    with override_settings(SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies"):
        yield


def browser_of(user: Any) -> Browser:
    browser = Browser()
    browser.force_login(user)
    return browser


def page(ticket: Approval, name: str = "change") -> str:
    return reverse(f"admin:django_mcp_approval_{name}", args=[ticket.pk])


def press(browser: Browser, decision: str = "approve", **more: Any) -> Any:
    ticket = the_ticket()
    return browser.post(page(ticket, "decide"), {"decision": decision, "seen": card_digest(ticket), **more})


def state() -> str:
    return the_ticket().state


# In the admin


def test_a_requester_without_the_permission_decides_in_the_admin_and_the_record_says_so(
    ask: Ask, people: People, wave: Calls
) -> None:
    assert kind_of(ask()) == "approval_required"
    browser = browser_of(people["ann"])
    assert 'value="approve"' in browser.get(page(the_ticket())).content.decode()
    assert press(browser).status_code == 302
    noted = the_ticket().events.get(kind="approved")
    assert (noted.by, noted.note) == (people["ann"], "(their own call)")
    assert ask()["content"][0]["text"] == "Waved to ben."
    assert wave == [{"to": "ben"}]
    shown = browser.get(page(the_ticket())).content.decode()
    assert "(their own call)" in shown, "they still see what became of it"


def test_a_requester_can_deny_their_own_call(ask: Ask, people: People, wave: Calls) -> None:
    ask()
    press(browser_of(people["ann"]), "deny", reason="no")
    assert kind_of(ask()) == "denied"
    assert wave == []


def test_a_model_is_told_that_its_user_decides_and_the_link_leads_there(ask: Ask, people: People) -> None:
    told = ask()
    assert "the user you act for" in told["content"][0]["text"]
    url = told["_meta"]["django-mcp/approval"]["url"]
    assert url


@pytest.mark.parametrize("who", ["ben", "ann"])
def test_of_other_peoples_calls_a_requester_sees_and_decides_nothing(
    who: str, ask: Ask, server: MCPServer, people: People
) -> None:
    ask("cleo")
    for name in ("ann", "ben"):
        people[name].is_staff = True
        people[name].save()
    browser = browser_of(people[who])
    assert browser.get(page(the_ticket())).status_code == 403
    assert browser.get(page(the_ticket(), "pending_one")).status_code == 403
    assert press(browser).status_code == 403
    assert browser.get(reverse("admin:django_mcp_approval_changelist")).status_code == 403
    with pytest.raises(PermissionDenied):
        approve(the_ticket(), people[who], in_admin=True)
    assert state() == "pending"


def test_another_tool_of_the_same_caller_is_not_theirs_to_decide(
    server: MCPServer, people: People, pay: Calls, wave: Calls
) -> None:
    serve(server, people["ann"], "pay", {"amount": 5})
    browser = browser_of(people["ann"])
    assert browser.get(page(the_ticket())).status_code == 403
    assert press(browser).status_code == 403
    assert state() == "pending"


def test_another_approver_may_decide_as_well(ask: Ask, people: People) -> None:
    ask()
    assert approve(the_ticket(), people["cleo"])
    assert the_ticket().events.get(kind="approved").note == ""


def test_who_may_not_open_the_admin_does_not_decide(ask: Ask, people: People) -> None:
    ask("ben")
    assert press(browser_of(people["ben"])).status_code == 302, "to the login page"
    assert state() == "pending"


def test_the_limit_of_an_endpoint_holds_for_requesters_too(
    ask: Ask, server: MCPServer, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "can_approve", lambda user: user != people["ann"])
    ask()
    assert browser_of(people["ann"]).get(page(the_ticket())).status_code == 403
    assert press(browser_of(people["ann"])).status_code == 403
    assert state() == "pending"


def test_a_tool_that_wants_another_person_wants_one_whatever_is_set(server: MCPServer, people: People) -> None:
    @tool(server=server, policy="ask", self_approval=False)
    def fire() -> str:
        """Fire somebody."""
        return "Fired."

    people["cleo"].is_staff = True
    people["cleo"].save()
    serve(server, people["cleo"], "fire", {})
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "SELF_APPROVAL": True}):
        press(browser_of(people["cleo"]))
        assert not approve(the_ticket(), people["cleo"], in_admin=True)
    assert state() == "pending"


def test_the_setting_is_for_those_who_may_approve(server: MCPServer, people: People, pay: Calls, wave: Calls) -> None:
    serve(server, people["ann"], "pay", {"amount": 5})
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "SELF_APPROVAL": True}):
        assert press(browser_of(people["ann"])).status_code == 403
        assert state() == "pending"
        people["ann"].user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
        press(browser_of(people["ann"]))
    assert state() == "approved"


def test_a_tool_that_this_process_does_not_serve_is_not_its_requesters_to_decide(
    ask: Ask, server: MCPServer, people: People
) -> None:
    ask("cleo")
    del server.tools["wave"]
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "SELF_APPROVAL": True}):
        assert not approve(the_ticket(), people["cleo"], in_admin=True)
    assert state() == "pending"


def test_what_a_requester_approved_is_void_once_the_tool_wants_another_person(
    ask: Ask, server: MCPServer, people: People, wave: Calls
) -> None:
    ask()
    assert approve(the_ticket(), people["ann"], in_admin=True)
    server.tools["wave"].self_approval = False
    assert kind_of(ask()) == "approval_required"
    assert wave == []


# Rules


def test_without_the_permission_each_call_is_decided_by_itself(ask: Ask, people: People) -> None:
    ask()
    browser = browser_of(people["ann"])
    assert "approve_more" not in browser.get(page(the_ticket())).content.decode()
    assert press(browser, "approve_more", calls=5, seconds=3600).status_code == 403
    assert (state(), AutoApprovalRule.objects.count()) == ("pending", 0)


def test_a_rule_of_a_requester_ends_when_the_tool_wants_another_person(
    ask: Ask, server: MCPServer, people: People, wave: Calls
) -> None:
    ask("cleo")
    press(browser_of(people["cleo"]), "approve_more", calls=5, seconds=3600)
    for _ in range(2):
        ask("cleo")
    assert len(wave) == 2
    server.tools["wave"].self_approval = None
    AutoApprovalRule.objects.update(version=the_version(server))
    assert kind_of(ask("cleo")) == "approval_required"
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "SELF_APPROVAL": True}):
        AutoApprovalRule.objects.update(version=the_version(server))
        ask("cleo")
    assert len(wave) == 3


def the_version(server: MCPServer) -> str:
    wave = server.tools["wave"]
    return version(wave, server.policies.of(wave, Principal("test", "x", None), ()))


# Other doors


@pytest.mark.parametrize("decide", [approve, deny])
def test_no_code_decides_for_a_requester_without_their_browser(
    decide: Callable[..., bool], ask: Ask, people: People
) -> None:
    ask("cleo")
    assert not decide(the_ticket(), people["cleo"])
    assert state() == "pending"


def test_a_requester_does_not_decide_in_the_conversation(ask: Ask, server: MCPServer, people: People) -> None:
    approvals_app.add_to(server)
    ask("cleo")
    client = MCPClient(people["cleo"], server=server, apps=True, protocol_version="modern", scopes=[APPROVALS_SCOPE])
    html = client.call("pending_approvals").assert_ok().html
    assert 'name="token"' not in html
    assert "in the site’s admin" in html
    (card,) = make_cards([the_ticket()], people["cleo"])

    seen = {"approval": the_ticket().public_id, "decision": "approve"}
    said = client.call("decide_approval", **seen, token=_token(client, server, card)).text
    assert "Decide your own call in the site’s admin" in said
    assert state() == "pending"


def _token(client: MCPClient, server: MCPServer, card: Any) -> str:
    made: list[str] = []

    def keep(context: Any) -> bool:
        made.append(approvals_app.token_of(context, card))
        return True

    server.tools["pending_approvals"].visible = keep
    client.names()
    return made[-1]


def test_neither_mail_nor_webhook_has_anything_to_decide_with(
    ask: Ask, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    people["ann"].email = "ann@example.com"
    people["ann"].save()
    ours = {**django_settings.DJANGO_MCP, "APPROVAL_EMAILS": ["approvers"], "BASE_URL": "https://testserver"}
    with override_settings(DJANGO_MCP=ours):
        for name in ("begin", "look"):  # no thread delivers them meanwhile
            monkeypatch.setattr(notices.sender, name, lambda: None)
        ask()
        notices.deliver_due()
        (sent,) = [message for message in mail.outbox if message.to == ["ann@example.com"]]
        body = json.loads(notices.body_of(the_ticket()))
    address = page(the_ticket())
    assert f"https://testserver{address}" in sent.body
    assert body["data"]["url"] == f"https://testserver{address}"
    assert Browser().post(page(the_ticket(), "decide"), {"decision": "approve", "seen": "x"}).status_code == 302
    assert state() == "pending"


def test_a_tool_that_calls_the_admins_page_is_not_a_browser(ask: Ask, server: MCPServer, people: People) -> None:
    """A client that may call views of the site, also those of the admin, has no session there."""
    ask()
    view_tool("admin:django_mcp_approval_decide", method="POST", name="press", server=server, policy="allow")
    given = {"pk": the_ticket().pk, "decision": "approve", "seen": card_digest(the_ticket())}
    said = serve(server, people["ann"], "press", given)
    assert said["isError"], said
    assert state() == "pending"


def test_a_session_of_somebody_else_does_not_make_a_browser(ask: Ask, people: People, rf: Any) -> None:
    """As where a token in a header says who calls, beside a cookie of another account."""
    ask()
    given = {"decision": "approve", "seen": card_digest(the_ticket())}
    request: HttpRequest = rf.post("/", given)
    request.user, request.session = people["ann"], browser_of(people["ben"]).session
    with pytest.raises(PermissionDenied):
        decide(request, the_ticket())
    assert state() == "pending"


def test_a_tool_says_it_with_true_or_false(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="self_approval must be True, False or None, not 'yes'"):
        tool(server=server, name="x", self_approval="yes")(lambda: "")  # type: ignore[call-overload]
