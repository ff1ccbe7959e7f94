"""What an approval is for, for how long, and who decides: one test for each sentence of the rules of human approval."""

import datetime
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Permission
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from django_mcp import MCPServer, tool
from django_mcp.approvals import approval_requests
from django_mcp.approvals.approvers import may_decide
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.core.policies import Decision
from django_mcp.models import Approval, AutoApprovalRule, Event, RequestLog, ToolPolicy
from tests.approvals.asking import PAID, Calls, People, events, kind_of, newest, serve, texts, the_ticket
from tests.behaviour.users import ByName
from tests.clients import LEGACY, MODERN, Client

pytestmark = pytest.mark.postgresql

FIVE = {"amount": 5}
HOUR = datetime.timedelta(hours=1)
Say = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(server: MCPServer, people: People, pay: Calls) -> Say:
    """Ann's call."""

    def say(user: str = "ann", /, arguments: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        return serve(server, people[user], "pay", FIVE if arguments is None else arguments, **options)

    return say


@pytest.fixture
def approved(ask: Say, people: People) -> Approval:
    """The ticket of Ann's call."""
    ask()
    assert approve(the_ticket(), people["cleo"])
    return the_ticket()


def says(result: dict[str, Any]) -> str:
    return texts([result])[0]


# What it is for


def test_a_ticket_that_was_used_is_not_used_again(ask: Say, approved: Approval, pay: Calls) -> None:
    assert says(ask()) == PAID
    assert kind_of(ask()) == "approval_required"
    assert len(pay) == 1
    approved.refresh_from_db()
    assert approved.state == "consumed"


def test_other_arguments_are_refused_and_do_not_burn_it(ask: Say, approved: Approval, pay: Calls) -> None:
    assert kind_of(ask("ann", {"amount": 6})) == "approval_required"
    assert pay == []
    assert says(ask()) == PAID


def test_the_same_user_by_another_way_is_another_caller(ask: Say, approved: Approval, pay: Calls) -> None:
    ways = ({"client_id": "another"}, {"kind": "another"}, {"id": "another"})
    assert [each for each in ways if kind_of(ask(**each)) != "approval_required"] == []
    assert pay == []
    assert says(ask()) == PAID


def test_another_endpoint_with_the_same_tool_has_approvals_of_its_own(
    make_server: Callable[..., MCPServer], server: MCPServer, people: People, ask: Say, approved: Approval, pay: Calls
) -> None:
    other = make_server("other", source=server, authentication=[ByName()])
    assert kind_of(serve(other, people["ann"], "pay", FIVE)) == "approval_required"
    assert pay == []
    assert approve(newest(), people["cleo"])
    assert says(serve(other, people["ann"], "pay", FIVE)) == PAID
    approved.refresh_from_db()
    assert approved.state == "approved"


def test_the_id_of_a_ticket_opens_nothing_wherever_it_is_sent(
    server: MCPServer, people: People, approved: Approval, pay: Calls
) -> None:
    client = Client(server, MODERN, "view")
    number = approved.public_id
    known = {
        "django-mcp/approval": {"approval_id": number},
        "approval_id": number,
        "approval": number,
    }
    for sent in ({"arguments": {"amount": 6, **known}}, {"_meta": known}, known):
        params = {"name": "pay", "arguments": {"amount": 6}, **sent}
        answer = client.request("tools/call", params, headers={"x-user": people["ben"].username})
        assert answer.result["isError"], sent
    assert pay == []


def test_the_same_call_while_it_waits_has_one_ticket_and_is_noted(ask: Say) -> None:
    first, second, third = ask(), ask("ann", {"amount": 5.0}), ask("ann", {"to": "the-landlord", "amount": 5})
    assert [kind_of(each) for each in (first, second, third)] == ["approval_required", "pending", "pending"]
    assert events(the_ticket()) == ["proposed", "repeated", "repeated"]
    assert len({each["_meta"]["django-mcp/approval"]["approval_id"] for each in (first, second, third)}) == 1


def test_a_call_that_could_not_run_is_nothing_to_decide_about(ask: Say) -> None:
    for wrong in ({}, {"amount": "much"}, {"amount": 5, "confirm": True}, {"amount": None}):
        result = ask("ann", wrong)
        assert result["isError"], wrong
        assert "_meta" not in result, wrong
    assert not Approval.objects.exists()


def test_arguments_are_checked_again_before_it_is_used(
    server: MCPServer, people: People, ask: Say, approved: Approval, pay: Calls
) -> None:
    server.remove(lambda _: True)

    @tool(server=server, policy="ask", name="pay")
    def stricter(amount: str) -> str:
        pay.append({})
        return amount

    assert serve(server, people["ann"], "pay", FIVE)["isError"]
    assert pay == []


def test_the_words_for_the_caller_do_not_say_how_to_get_round_it(ask: Say) -> None:
    for text in texts([ask(), ask()]):
        assert "confirm" not in text.lower()
        assert "approve(" not in text
        assert the_ticket().public_id in text


# For how long


def test_a_ticket_that_nobody_decided_about_in_time_is_no(ask: Say, people: People, pay: Calls) -> None:
    ask()
    ticket = the_ticket()
    Approval.objects.update(expires=timezone.now() - HOUR)
    assert not approve(ticket, people["cleo"])
    assert not deny(ticket, people["cleo"])
    assert kind_of(ask()) == "approval_required"
    ticket.refresh_from_db()
    assert ticket.state == "expired"
    assert events(ticket) == ["proposed", "expired"]
    assert pay == []


def test_an_approval_that_was_not_used_in_time_is_good_no_longer(ask: Say, approved: Approval, pay: Calls) -> None:
    Approval.objects.update(expires=timezone.now() - HOUR)
    assert kind_of(ask()) == "approval_required"
    approved.refresh_from_db()
    assert approved.state == "expired"
    assert pay == []


def test_an_approval_does_not_outlive_the_time_for_approved_calls(ask: Say, people: People) -> None:
    ask()
    with override_settings(DJANGO_MCP={"APPROVAL_GRANT_TTL": 60}):
        approve(the_ticket(), people["cleo"])
    assert the_ticket().expires < timezone.now() + datetime.timedelta(seconds=61)


def test_a_tool_that_became_another_one_needs_another_approval(
    server: MCPServer, ask: Say, approved: Approval, pay: Calls
) -> None:
    server.tools["pay"].definition = {**server.tools["pay"].definition, "description": "Pay twice."}
    assert kind_of(ask()) == "approval_required"
    approved.refresh_from_db()
    assert approved.state == "expired"
    assert pay == []


def test_a_policy_that_was_decided_anew_needs_another_approval(
    server: MCPServer, people: People, ask: Say, approved: Approval, pay: Calls
) -> None:
    set_policy(server, server.tools["pay"], "ask", user=people["dora"])
    assert kind_of(ask()) == "approval_required"
    approved.refresh_from_db()
    assert approved.state == "expired"
    assert pay == []


def test_what_is_blocked_does_not_run_although_it_was_approved(
    server: MCPServer, ask: Say, approved: Approval, pay: Calls
) -> None:
    set_policy(server, server.tools["pay"], "block")
    with pytest.raises(Exception, match="Unknown tool"):
        ask()
    assert pay == []


def test_what_is_allowed_runs_at_once_and_leaves_no_approval_for_later(
    server: MCPServer, ask: Say, approved: Approval, pay: Calls
) -> None:
    set_policy(server, server.tools["pay"], "allow")
    assert says(ask()) == PAID
    set_policy(server, server.tools["pay"], "ask")
    assert kind_of(ask()) == "approval_required"
    assert len(pay) == 1


def test_nothing_leaves_a_final_state(ask: Say, people: People) -> None:
    ask()
    for end in ("consumed", "denied", "expired"):
        Approval.objects.update(state=end, unique_key=None, expires=timezone.now() + HOUR)
        ticket = the_ticket()
        assert not approve(ticket, people["cleo"]), end
        assert not deny(ticket, people["dora"]), end
        assert not approval_requests.use(Approval(pk=ticket.pk, state="approved"), "run", 0), end
        approval_requests.expire_all()
        approval_requests.find_current(ticket.digest, "another version")
        assert the_ticket().state == end


# Who decides


def test_nobody_decides_about_their_own_call(ask: Say, people: People) -> None:
    ask("cleo")
    for is_superuser in (False, True):
        people["cleo"].is_superuser = is_superuser
        people["cleo"].save()
        assert not may_decide(the_ticket(), people["cleo"]), is_superuser
        assert not approve(the_ticket(), people["cleo"]), is_superuser
        assert not deny(the_ticket(), people["cleo"]), is_superuser
    assert the_ticket().state == "pending"
    assert events(the_ticket()) == ["proposed"]


def test_a_call_by_another_credential_of_the_same_user_is_their_own_too(ask: Say, people: People) -> None:
    ask("cleo", kind="api_key", id="7", client_id="laptop")
    assert not approve(the_ticket(), people["cleo"])


def test_where_a_site_says_so_people_approve_their_own_calls_and_that_is_noted(ask: Say, people: People) -> None:
    ask("cleo")
    with override_settings(DJANGO_MCP={"SELF_APPROVAL": True}):
        assert approve(the_ticket(), people["cleo"], reason="fine", in_admin=True)
    noted = the_ticket().events.get(kind="approved")
    assert noted.note == "fine (their own call)"


def test_who_lost_the_permission_after_the_page_was_made_does_not_decide(ask: Say, people: People, pay: Calls) -> None:
    ask()
    assert people["cleo"].has_perm("django_mcp.approve_tool_call"), "what the page saw"
    people["cleo"].user_permissions.clear()
    with pytest.raises(PermissionDenied):
        approve(the_ticket(), people["cleo"])
    with pytest.raises(PermissionDenied):
        deny(the_ticket(), people["cleo"])
    assert kind_of(ask()) == "pending"


def test_who_was_deactivated_after_the_page_was_made_does_not_decide(ask: Say, people: People) -> None:
    ask()
    type(people["cleo"]).objects.filter(pk=people["cleo"].pk).update(is_active=False)
    with pytest.raises(PermissionDenied):
        approve(the_ticket(), people["cleo"])
    assert the_ticket().state == "pending"


def test_nobody_in_particular_does_not_decide(ask: Say) -> None:
    ask()
    with pytest.raises(PermissionDenied):
        approve(the_ticket(), AnonymousUser())


def test_no_tool_decides(server: MCPServer, people: People, ask: Say) -> None:
    ask()
    names = {
        each["name"]
        for each in Client(server, LEGACY, "view")
        .request("tools/list", headers={"x-user": people["cleo"].username})
        .result["tools"]
    }
    assert names == {"pay"}


# Whose call it is


def test_who_was_deactivated_since_does_not_call(
    server: MCPServer, people: People, approved: Approval, pay: Calls
) -> None:
    people["ann"].is_active = False
    people["ann"].save()
    client = Client(server, MODERN, "view")
    body, headers = client.compose("tools/call", {"name": "pay", "arguments": FIVE})
    answer = client.post(json.dumps(body).encode(), {**headers, "x-user": people["ann"].username})
    assert answer.status == 401
    assert pay == []


def test_who_lost_the_permission_for_the_tool_since_does_not_run_it(server: MCPServer, people: People) -> None:
    ran: list[int] = []

    @tool(server=server, policy="ask", permission="auth.add_group")
    def close() -> str:
        ran.append(1)
        return "closed"

    people["ann"].user_permissions.add(Permission.objects.get(codename="add_group"))
    ann = type(people["ann"]).objects.get(pk=people["ann"].pk)
    serve(server, ann, "close", {})
    assert approve(the_ticket(), people["cleo"])
    ann.user_permissions.clear()
    ann = type(ann).objects.get(pk=ann.pk)
    with pytest.raises(Exception, match="Unknown tool"):
        serve(server, ann, "close", {})
    assert ran == []
    assert the_ticket().state == "approved", "which nobody can use"


def test_who_is_gone_leaves_nothing_to_be_used_by_the_next_of_that_name(
    people: People, ask: Say, approved: Approval, pay: Calls
) -> None:
    name, model = people["ann"].username, type(people["ann"])
    people["ann"].delete()
    people["ann"] = model.objects.create_user(username=name)
    result = ask()
    people["ann"].delete()
    assert kind_of(result) == "approval_required"
    assert pay == []


# What is noted


def test_each_step_of_a_ticket_is_noted_with_who_took_it(ask: Say, people: People) -> None:
    ask()
    ask()
    approve(the_ticket(), people["cleo"], reason="fine")
    ask()
    rows = the_ticket().events.order_by("pk").values_list("kind", "by__username", "note")
    cleo = people["cleo"].username
    assert list(rows) == [
        ("proposed", None, ""),
        ("repeated", None, ""),
        ("approved", cleo, "fine"),
        ("executed", None, ""),
        ("returned", None, "ok"),
    ]


def test_the_log_tells_what_a_person_denied_from_what_the_endpoint_rejected(
    people: People, client: Client, pay: Calls, call_log: Callable[[], list[RequestLog]]
) -> None:
    def call(amount: int) -> None:
        headers = {"x-user": people["ann"].username}
        client.request("tools/call", {"name": "pay", "arguments": {"amount": amount}}, headers=headers)

    call(5)
    deny(the_ticket(), people["cleo"])
    call(5)
    call(6)
    Approval.objects.filter(state="pending").update(expires=timezone.now() - HOUR)
    call(6)
    set_policy(client.server, client.server.tools["pay"], "block")
    call(7)
    assert [row.outcome for row in call_log()] == ["waiting", "denied", "waiting", "waiting", "rejected"]


def test_a_refusal_and_each_try_after_it_are_noted(ask: Say, people: People) -> None:
    ask()
    deny(the_ticket(), people["cleo"], reason="No.")
    assert [kind_of(ask()), kind_of(ask())] == ["denied", "denied"]
    assert events(the_ticket()) == ["proposed", "denied", "rejected", "rejected"]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_tool_that_breaks_off_is_not_run_again_without_another_approval(
    server: MCPServer, people: People, form: str
) -> None:
    ran: list[int] = []

    def fail() -> str:
        ran.append(1)
        msg = "the boiler exploded"
        raise RuntimeError(msg)

    async def fail_later() -> str:
        return fail()

    tool(server=server, policy="ask", name="heat")(fail if form == "sync" else fail_later)
    serve(server, people["ann"], "heat", {})
    assert approve(the_ticket(), people["cleo"])
    assert serve(server, people["ann"], "heat", {})["isError"]
    assert kind_of(serve(server, people["ann"], "heat", {})) == "approval_required"
    assert ran == [1]
    first = Approval.objects.order_by("pk")[0]
    assert (first.state, first.outcome) == ("consumed", "error")
    assert events(first) == ["proposed", "approved", "executed", "returned"]


def test_what_a_tool_that_failed_wrote_is_gone_and_its_ticket_stays_used(server: MCPServer, people: People) -> None:
    @tool(server=server, policy="ask")
    def write() -> str:
        Event.objects.create(topic="made by a tool", data="", created=timezone.now(), expires=timezone.now())
        raise RuntimeError

    serve(server, people["ann"], "write", {})
    assert approve(the_ticket(), people["cleo"])
    serve(server, people["ann"], "write", {})
    assert not Event.objects.filter(topic="made by a tool").exists()
    assert the_ticket().state == "consumed"


# Where it is kept

DECIDE = """
import json, os, django
from django.conf import settings
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
settings.DATABASES["default"] = json.loads(os.environ["THE_DATABASE"])
django.setup()
from django.contrib.auth import get_user_model
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
print(approve(Approval.objects.get(), get_user_model().objects.get(username=os.environ["WHO"])))
"""


@pytest.mark.slow
def test_what_is_decided_in_another_process_counts_here(ask: Say, people: People, pay: Calls) -> None:
    ask()
    there = {key: value for key, value in connection.settings_dict.items() if key not in {"TEST", "TIME_ZONE"}}
    variables = {**os.environ, "THE_DATABASE": json.dumps(there, default=str), "WHO": people["cleo"].username}
    done = subprocess.run(
        [sys.executable, "-c", DECIDE], capture_output=True, text=True, env=variables, check=False, timeout=60
    )
    assert done.stdout.strip() == "True", done.stderr
    assert says(ask()) == PAID
    assert len(pay) == 1


# Standing approvals


def test_a_standing_approval_is_for_so_many_calls_of_this_caller(ask: Say, people: People, pay: Calls) -> None:
    ask()
    assert approve(the_ticket(), people["cleo"], calls=3, seconds=60)
    assert kind_of(ask("ben", {"amount": 7})) == "approval_required"
    assert kind_of(ask("ann", {"amount": 7}, client_id="another")) == "approval_required"
    for amount in (5, 6, 7):
        assert "Paid" in says(ask("ann", {"amount": amount}))
    assert kind_of(ask("ann", {"amount": 8})) == "approval_required"
    assert [each["amount"] for each in pay] == [5, 6, 7]


def test_a_standing_approval_holds_to_the_arguments_that_were_named(ask: Say, people: People, pay: Calls) -> None:
    ask()
    assert approve(the_ticket(), people["cleo"], names=["to"], calls=None, seconds=60)
    ask()
    assert "Paid 9" in says(ask("ann", {"amount": 9}))
    assert kind_of(ask("ann", {"amount": 9, "to": "me"})) == "approval_required"
    assert len(pay) == 2


def test_a_standing_approval_is_not_wider_than_its_words(ask: Say, people: People, pay: Calls) -> None:
    ask()
    with pytest.raises(ValueError, match="not arguments of this call: iban"):
        approve(the_ticket(), people["cleo"], names=["iban"], calls=None, seconds=60)
    assert the_ticket().state == "pending"
    assert not AutoApprovalRule.objects.exists()


@pytest.mark.parametrize("how", ["revoked", "expired", "permission", "deactivated", "tool", "policy"])
def test_a_standing_approval_ends(server: MCPServer, ask: Say, people: People, pay: Calls, how: str) -> None:
    ask()
    approve(the_ticket(), people["cleo"], calls=None, seconds=60)
    ask()
    match how:
        case "revoked":
            AutoApprovalRule.objects.update(revoked=timezone.now())
        case "expired":
            AutoApprovalRule.objects.update(expires=timezone.now() - HOUR)
        case "permission":
            people["cleo"].user_permissions.clear()
        case "deactivated":
            type(people["cleo"]).objects.filter(pk=people["cleo"].pk).update(is_active=False)
        case "tool":
            server.tools["pay"].definition = {**server.tools["pay"].definition, "description": "Pay twice."}
        case "policy":
            set_policy(server, server.tools["pay"], "ask")
    assert kind_of(ask("ann", {"amount": 6})) == "approval_required"
    assert len(pay) == 1


def test_a_standing_approval_lasts_a_day_at_most(ask: Say, people: People) -> None:
    ask()
    approve(the_ticket(), people["cleo"], calls=None, seconds=10**9)
    assert AutoApprovalRule.objects.get().expires < timezone.now() + datetime.timedelta(days=1, seconds=1)


# Policies


def test_which_of_two_equal_decisions_counts_does_not_change_by_itself(
    server: MCPServer, people: People, ask: Say, pay: Calls
) -> None:
    from tests.behaviour.users import group

    for name in ("payers", "auditors"):
        people["ann"].groups.add(group(name))
        set_policy(server, server.tools["pay"], "ask", group=group(name))
    ask()
    approve(the_ticket(), people["cleo"])
    for row in ToolPolicy.objects.order_by("pk"):  # which moves them in the tables of PostgreSQL
        ToolPolicy.objects.filter(pk=row.pk).update(changed_by=people["dora"])
    people["ann"] = type(people["ann"]).objects.get(pk=people["ann"].pk)
    assert says(ask()) == PAID
    assert len(server.policies.rules["pay"]) == 3
    assert server.policies.rules["pay"][0].decision is Decision.ASK
    people["ann"].groups.all().delete()


def test_an_endpoint_says_who_of_the_approvers_decides_about_its_calls(
    server: MCPServer, ask: Say, people: People, pay: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    ask()
    waiting = Approval.objects.get()
    server.can_approve = lambda user: user.pk == people["dora"].pk
    assert not may_decide(waiting, people["cleo"])
    for decide_about in (approve, deny):
        with pytest.raises(PermissionDenied):
            decide_about(waiting, people["cleo"])
    assert may_decide(waiting, people["dora"])
    assert approve(waiting, people["dora"], calls=3, seconds=60)
    ask()
    assert len(pay) == 1
    server.can_approve = lambda user: 1 / 0
    ask()
    assert len(pay) == 1, "what was approved beforehand ends when whoever did so may no longer decide"
    assert "raised an error; approval is refused" in caplog.text
