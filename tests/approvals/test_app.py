"""The approvals app: those who may decide do so in the conversation; no model, requester or other caller can."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest
from django.conf import settings as django_settings
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.core import signing
from django.core.checks import run_checks
from django.test import Client as Browser
from django.test import override_settings

from django_mcp import MCPServer, ModelResource, register, tool
from django_mcp.admin import approvals_app
from django_mcp.approvals.decisions import approve
from django_mcp.conf import APPROVALS_SCOPE, settings
from django_mcp.core.failures import UnknownPrimitive
from django_mcp.core.server import server as default
from django_mcp.models import Approval, RequestLog
from django_mcp.test import CallResult, MCPClient
from tests.approvals.asking import PAID, Calls, People, events, newest, serve, texts, the_ticket


@pytest.fixture
def edge() -> str:
    """None is needed."""
    return "view"


@pytest.fixture(autouse=True)
def _app(server: MCPServer, people: People, pay: Calls) -> None:
    """The app, at an endpoint where Ann asked to pay. Cleo and Dora are staff."""
    for name in ("cleo", "dora"):
        people[name].is_staff = True
        people[name].save()
    approvals_app.add_to(server)
    serve(server, people["ann"], "pay", {"amount": 5, "note": "<script>alert(1)</script>"})


@pytest.fixture
def host(server: MCPServer, people: People) -> Callable[..., MCPClient]:
    """Makes a client that shows apps; Cleo's by default."""

    def make(user: str = "cleo", **options: Any) -> MCPClient:
        usual = {"apps": True, "protocol_version": "modern", "scopes": [APPROVALS_SCOPE]}
        return MCPClient(people[user], server=server, **{**usual, **options})

    return make


def form(html: str) -> dict[str, str]:
    """The hidden fields of the first form."""
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]+)"', html)[:2])


def shown(client: MCPClient) -> dict[str, str]:
    return form(client.call("pending_approvals").assert_ok().html)


def press(client: MCPClient, given: Mapping[str, str], decision: str = "approve", **more: Any) -> CallResult:
    return client.call("decide_approval", **{**given, "decision": decision, **more})


def names(client: MCPClient) -> set[str]:
    return {each["name"] for each in client.tools()} & {"pending_approvals", "decide_approval"}


def refused(called: CallResult, words: str) -> None:
    called.assert_error_mentions()
    assert words in called.text
    assert the_ticket().state == Approval.State.PENDING


def test_an_approver_sees_the_call_as_in_the_admin_and_the_model_only_how_many_wait(
    host: Callable[..., MCPClient], people: People
) -> None:
    called = host().call("pending_approvals").assert_ok()

    for words in ("1 approval pending", str(people["ann"]), "Pay money to somebody."):
        assert words in called.html
    assert "&lt;script&gt;alert(1)" in called.html
    assert "<script" not in called.html
    called.assert_structured({"pending": 1})
    ticket = the_ticket()
    for hidden in (ticket.public_id, shown(host())["token"], str(people["ann"]), "amount"):
        assert hidden not in called.text
    assert "shown" in events(ticket)


def test_an_approved_call_runs_once_and_the_list_is_shown_anew(
    host: Callable[..., MCPClient], server: MCPServer, people: People
) -> None:
    given = shown(host())
    called = press(host(), given, reason="fine").assert_ok()

    assert "You approved the call of pay" in called.html
    assert "No calls are waiting" in called.html
    note = the_ticket().events.get(kind="approved")
    assert (note.by, note.note) == (people["cleo"], "fine (via django_mcp.test)")
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_id, entry.is_change()) == (people["cleo"], str(the_ticket().pk), True)
    assert entry.get_change_message() == "You approved the call of pay. It runs once. (via django_mcp.test)"
    same = {"amount": 5, "note": "<script>alert(1)</script>"}
    assert texts([serve(server, people["ann"], "pay", same)]) == [PAID]
    assert "Already decided" in press(host(), given).assert_ok().text
    assert the_ticket().state == Approval.State.CONSUMED


def test_a_denial_carries_the_reason(host: Callable[..., MCPClient]) -> None:
    press(host(), shown(host()), "deny", reason="Too much.").assert_ok()
    assert (the_ticket().state, the_ticket().reason) == (Approval.State.DENIED, "Too much.")


def test_only_apps_list_the_tool_that_decides(host: Callable[..., MCPClient]) -> None:
    definition = host().definition("decide_approval")
    assert definition["_meta"]["ui"]["visibility"] == ["app"]


def test_the_app_does_not_exist_for_others(host: Callable[..., MCPClient], people: People) -> None:
    people["dora"].is_staff = False
    people["dora"].save()
    given = shown(host())

    others = [host("ann"), host("dora"), host(apps=False)]
    for each in others:
        assert names(each) == set()
        refused(press(each, given), "decide_approval")
    assert names(host()) == {"pending_approvals", "decide_approval"}


@pytest.mark.parametrize("kind", ["api_key", "client", "external", "user", "session", "public", "other"])
@pytest.mark.parametrize("scopes", [None, frozenset({APPROVALS_SCOPE})])
def test_a_program_with_an_approvers_credential_is_not_an_approver(
    host: Callable[..., MCPClient], server: MCPServer, people: People, kind: str, scopes: frozenset[str] | None
) -> None:
    given = {**shown(host()), "decision": "approve"}
    own = str(people["cleo"].pk)
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "APP_CLIENTS": [""]}):
        with pytest.raises(UnknownPrimitive):
            serve(server, people["cleo"], "decide_approval", given, kind=kind, id=own, scopes=scopes)
        with pytest.raises(UnknownPrimitive):
            serve(server, people["cleo"], "pending_approvals", {}, kind=kind, id=own, scopes=scopes)
        assert the_ticket().state == Approval.State.PENDING
        agreed = {"kind": "oauth", "id": own, "scopes": frozenset({APPROVALS_SCOPE})}
        assert "approved" in texts([serve(server, people["cleo"], "decide_approval", given, **agreed)])[0]


def test_the_token_is_in_no_log_and_not_among_the_arguments_shown_of_a_call(
    host: Callable[..., MCPClient], server: MCPServer, people: People, call_log: Callable[[], list[RequestLog]]
) -> None:
    given = shown(host())
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "REDACTED_ARGUMENTS": []}):
        press(host(), {**given, "approval": "unknown"}).assert_error_mentions()
        press(host(), given).assert_ok()
    rows = call_log()
    assert [row.outcome for row in rows] == ["ok", "error", "ok"]
    assert rows[2].arguments == {"approval": given["approval"], "decision": "approve", "token": "***"}
    assert given["token"] not in str([[row.arguments, row.error] for row in rows])


def test_the_playground_is_no_client_of_an_approver(server: MCPServer, people: People) -> None:
    people["cleo"].user_permissions.add(Permission.objects.get(codename="try_tool"))
    browser = Browser()
    browser.force_login(people["cleo"])
    place = urlencode({"endpoint": server.name, "kind": "tool", "key": "pending_approvals"})
    page = browser.post(f"/admin/django_mcp/playground/call/?{place}", {"by": "fields"})
    assert "approval pending" not in page.content.decode()
    assert 'name="token"' not in page.content.decode()


def test_a_client_whose_user_has_not_agreed_is_told_which_scope_it_needs(host: Callable[..., MCPClient]) -> None:
    given = shown(host())
    for scopes in [[], ["mcp"]]:
        without = host(scopes=scopes)
        assert names(without) == {"pending_approvals", "decide_approval"}
        for called in (without.call("pending_approvals"), press(without, given)):
            assert called.status == 403
        assert the_ticket().state == Approval.State.PENDING
    assert names(host("ann", scopes=["mcp"])) == set()


def test_an_endpoint_limits_who_decides(host: Callable[..., MCPClient], server: MCPServer, people: People) -> None:
    given = shown(host())
    server.can_approve = lambda user: user.pk != people["cleo"].pk
    assert names(host()) == set()
    refused(press(host(), given), "decide_approval")


def test_nobody_decides_about_their_own_call(
    host: Callable[..., MCPClient], server: MCPServer, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    Approval.objects.update(user=people["cleo"])
    html = host().call("pending_approvals").html
    assert "another person has to decide" in html
    assert "decide_approval" not in html

    # Not with a token either, such as one of before.
    monkeypatch.setattr(approvals_app.Card, "may_decide", True)
    called = press(host(), shown(host()))
    assert "another person has to decide" in called.text
    assert the_ticket().state == Approval.State.PENDING


@pytest.mark.parametrize(
    "token",
    ["", "guessed", signing.dumps([]), signing.dumps([], salt=approvals_app.SALT)],
    ids=["none", "guessed", "of another part", "of nothing"],  # a signature has the time: processes would disagree
)
def test_without_a_token_of_the_view_nothing_is_decided(host: Callable[..., MCPClient], token: str) -> None:
    refused(press(host(), {"approval": the_ticket().public_id}, token=token), "out of date")


def test_a_token_is_for_one_person_client_and_call(
    host: Callable[..., MCPClient], server: MCPServer, people: People
) -> None:
    given = shown(host())
    refused(press(host("dora"), given), "out of date")
    refused(press(host(client_id="another"), given), "out of date")

    serve(server, people["ben"], "pay", {"amount": 500})
    press(host(), {**given, "approval": newest().public_id}).assert_error_mentions()
    press(host(), {**given, "approval": "unknown"}).assert_error_mentions()
    assert set(Approval.objects.values_list("state", flat=True)) == {"pending"}


def test_a_token_expires(host: Callable[..., MCPClient], monkeypatch: pytest.MonkeyPatch) -> None:
    given = shown(host())
    monkeypatch.setattr(approvals_app, "TOKEN_TTL", -1)
    refused(press(host(), given), "out of date")


def test_a_call_that_changed_is_not_decided(host: Callable[..., MCPClient]) -> None:
    given = shown(host())
    Approval.objects.update(preview={"text": "something else"})
    refused(press(host(), given), "has changed")


def test_a_decision_in_the_admin_comes_first(host: Callable[..., MCPClient], people: People) -> None:
    given = shown(host())
    assert approve(the_ticket(), people["dora"])
    called = press(host(), given, "deny").assert_ok()
    assert "Already decided" in called.text
    assert the_ticket().state == Approval.State.APPROVED
    assert not LogEntry.objects.exists()


def test_hidden_parts_need_the_check_box(host: Callable[..., MCPClient], server: MCPServer, people: People) -> None:
    @tool(server=server, policy="ask")
    def write(password: str) -> str:
        """Write it."""
        return "Written."

    Approval.objects.all().delete()
    serve(server, people["ann"], "write", {"password": "hunter2"})
    html = host().call("pending_approvals").html
    assert "hunter2" not in html
    assert "these parts are hidden" in html
    assert 'type="checkbox" name="unseen" required' in html
    assert 'value="deny" class="danger" formnovalidate' in html

    refused(press(host(), form(html)), "parts of this call are hidden")
    press(host(), form(html), unseen=True).assert_ok()
    assert the_ticket().state == Approval.State.APPROVED


def test_calls_of_other_endpoints_are_neither_shown_nor_decided(host: Callable[..., MCPClient]) -> None:
    given = shown(host())
    Approval.objects.update(server="another")
    assert "No calls are waiting" in host().call("pending_approvals").assert_structured({"pending": 0}).html
    refused(press(host(), given), "out of date")


def test_rules_are_not_made_in_the_conversation(host: Callable[..., MCPClient]) -> None:
    press(host(), shown(host()), "approve_more").assert_error_mentions()
    assert the_ticket().state == Approval.State.PENDING


@contextmanager
def started(**mcp: Any) -> Iterator[None]:
    """The apps started anew with other settings."""
    given = {**django_settings.DJANGO_MCP, **mcp}
    with override_settings(DJANGO_MCP=given), override_settings(INSTALLED_APPS=[*django_settings.INSTALLED_APPS]):
        yield


def decides(server: MCPServer) -> bool:
    return {"pending_approvals", "decide_approval"} <= server.tools.keys()


def test_the_setting_adds_the_app_to_every_endpoint_and_without_it_there_is_none(
    make_server: Callable[..., MCPServer],
) -> None:
    first = make_server("first")
    second = make_server("second", source=first)
    with started():
        assert settings.APPROVALS_APP is False
        assert not any(map(decides, (default, first, second)))
    with started(APPROVALS_APP=True):
        assert all(map(decides, (default, first, second)))
        assert approvals_app.APP.uri in second.resources


def test_the_app_needs_the_admin() -> None:
    apps = [each for each in django_settings.INSTALLED_APPS if each != "django.contrib.admin"]
    given = {**django_settings.DJANGO_MCP, "APPROVALS_APP": True}
    with override_settings(DJANGO_MCP=given), override_settings(INSTALLED_APPS=apps):
        assert not decides(default)
        assert "django_mcp.E036" in {each.id for each in run_checks(tags=["django_mcp"])}


def test_a_connector_has_only_its_own_tools(make_server: Callable[..., MCPServer]) -> None:
    register(Approval, type("Approvals", (ModelResource,), {"fields": ["tool"], "search_fields": ["tool"]}))
    research = make_server("research", connector=[Approval])
    with started(APPROVALS_APP=True):
        assert decides(default)
        assert research.tools.keys() == {"search", "fetch"}
