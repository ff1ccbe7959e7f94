"""What waits for an approval, or has one, ends with the access of its caller, and does not come back."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.test import Client as Browser
from django.test.utils import isolate_apps
from django.utils import timezone

from django_mcp import MCPServer, tool
from django_mcp.admin.approval_cards import card_digest
from django_mcp.admin.approval_decisions import decide_card
from django_mcp.approvals import auto_approvals, receivers
from django_mcp.approvals.decisions import approve
from django_mcp.approvals.tool_policies import limit_client, set_policy
from django_mcp.auth.api_keys import create_key, revoke_key
from django_mcp.auth.toolkit import get_application_model
from django_mcp.models import APIKey, Approval, AutoApprovalRule, ClientPolicy, ToolPolicy
from django_mcp.oauth.connected_apps import revoke_access
from tests.admin.tools_page import words
from tests.approvals.asking import events, kind_of, newest, serve
from tests.approvals.conftest import _quickly, pay, people, server  # noqa: F401 - fixtures

State = Approval.State


class Waiting:
    """Calls of Ann's robot: one that waits, one that is approved, and a rule."""

    def __init__(self, endpoint: MCPServer, users: dict[str, Any]) -> None:
        self.server, self.ann, self.cleo = endpoint, users["ann"], users["cleo"]
        self.robot = get_application_model().objects.create(client_id="robot", name="Robot", client_type="public")
        self.key = create_key(self.ann, "key", endpoints=["default"])[0]
        self.callers: dict[str, dict[str, Any]] = {
            "oauth": {"kind": "oauth", "id": f"{self.ann.pk}:{self.robot.pk}", "client_id": "robot"},
            "key": {"kind": "api_key", "id": str(self.key.pk)},
        }

    def call(self, amount: int, by: str = "oauth") -> dict[str, Any]:
        return serve(self.server, self.ann, "pay", {"amount": amount}, **self.callers[by])

    def ask(self, by: str = "oauth") -> None:
        for amount in (1, 2):
            assert kind_of(self.call(amount, by)) == "approval_required"
        assert approve(newest(), self.cleo, calls=5, names=["amount"], seconds=600)

    def states(self) -> list[str]:
        return list(Approval.objects.order_by("pk").values_list("state", flat=True))


@pytest.fixture
def waiting(server: MCPServer, people: dict[str, Any], pay: list[Any]) -> Iterator[Waiting]:  # noqa: F811 - the fixtures
    before = set(User.objects.values_list("pk", flat=True))
    yield Waiting(server, people)
    for model in (
        get_application_model(),
        ClientPolicy,
        ToolPolicy,
        APIKey,
        Approval,
        AutoApprovalRule,
        LogEntry,
        Group,
    ):
        model.objects.all().delete()
    User.objects.exclude(pk__in=before).delete()


def block(waiting: Waiting) -> None:
    ClientPolicy.objects.create(client_id="robot", blocked=True)


def deactivate(waiting: Waiting) -> None:
    waiting.ann.is_active = False
    waiting.ann.save()


def decide_about_pay(decision: str, **whom: Any) -> Callable[[Waiting], None]:
    return lambda waiting: set_policy(waiting.server, waiting.server.tools["pay"], decision, **whom)


def decide_for_group(waiting: Waiting) -> None:
    group = Group.objects.create(name="Office")
    waiting.ann.groups.add(group)
    set_policy(waiting.server, waiting.server.tools["pay"], "block", group=group)


def limit_key(waiting: Waiting) -> None:
    waiting.key.read_only = True
    waiting.key.save()


ENDS: dict[str, tuple[str, Callable[[Waiting], object], str]] = {
    "the client is blocked": ("oauth", block, "The client was blocked."),
    "the client is deleted": ("oauth", lambda waiting: waiting.robot.delete(), "The client was deleted."),
    "the client is limited to other tools": (
        "oauth",
        lambda waiting: limit_client("robot", {("test", "look")}),
        "The client was limited to other tools.",
    ),
    "the access is revoked": (
        "oauth",
        lambda waiting: revoke_access(waiting.ann, waiting.robot.pk),
        "The access of the caller was revoked.",
    ),
    "the key is revoked": ("key", lambda waiting: revoke_key(waiting.key), "The access of the caller was revoked."),
    "the key is deleted": ("key", lambda waiting: waiting.key.delete(), "The access of the caller was revoked."),
    "the key is limited": ("key", limit_key, "The API key was limited to tools that change nothing."),
    "the client is limited": (
        "oauth",
        lambda _waiting: ClientPolicy.objects.create(client_id="robot", read_only=True),
        "The client was limited to tools that change nothing.",
    ),
    "the user is deactivated": ("key", deactivate, "The user was deactivated."),
    "the user is deleted": ("oauth", lambda waiting: waiting.ann.delete(), "The user was deleted."),
    "the tool is blocked": ("key", decide_about_pay("block"), "The policy of the tool was changed."),
    "the tool is allowed": ("key", decide_about_pay("allow"), "The policy of the tool was changed."),
    "the tool is blocked for the client": (
        "oauth",
        decide_about_pay("block", client_id="robot"),
        "The policy of the tool was changed.",
    ),
    "the tool is blocked for a group": ("oauth", decide_for_group, "The policy of the tool was changed."),
}


@pytest.mark.parametrize("what", ENDS)
def test_what_waits_and_what_is_approved_is_withdrawn(waiting: Waiting, what: str) -> None:
    by, end, why = ENDS[what]
    waiting.ask(by)
    end(waiting)
    assert waiting.states() == [State.EXPIRED, State.EXPIRED]
    assert set(Approval.objects.values_list("reason", flat=True)) == {why}
    assert events(newest())[-1] == "expired"
    assert not AutoApprovalRule.objects.filter(revoked=None).exists()


OTHERS: dict[str, Callable[[Waiting], object]] = {
    "another client is blocked": lambda _waiting: ClientPolicy.objects.create(client_id="other", blocked=True),
    "the client is limited to this tool": lambda _waiting: limit_client("robot", {("test", "pay")}),
    "the scopes of the client are limited": lambda _waiting: ClientPolicy.objects.create(client_id="robot", scopes=[]),
    "another tool is blocked": lambda waiting: set_policy(waiting.server, waiting.server.tools["look"], "block"),
    "the tool is blocked for another client": decide_about_pay("block", client_id="other"),
    "another key of the user is limited": limit_key,
    "another key of the user is revoked": lambda waiting: revoke_key(waiting.key),
}


@pytest.mark.parametrize("what", OTHERS)
def test_what_others_wait_for_is_not_withdrawn(waiting: Waiting, what: str) -> None:
    tool(server=waiting.server, name="look")(lambda: "seen")
    waiting.ask()
    OTHERS[what](waiting)
    assert waiting.states() == [State.PENDING, State.APPROVED]
    assert AutoApprovalRule.objects.filter(revoked=None).exists()


def test_what_only_reads_goes_on_with_a_key_that_is_limited(waiting: Waiting) -> None:
    tool(server=waiting.server, name="look", read_only=True, policy="ask")(lambda: "seen")
    serve(waiting.server, waiting.ann, "look", {}, **waiting.callers["key"])
    waiting.call(1, "key")
    limit_key(waiting)
    assert waiting.states() == [State.PENDING, State.EXPIRED]


@isolate_apps("tests.together")
def test_a_user_who_is_saved_as_another_class_is_deactivated_too(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Employee(User):
        class Meta:
            app_label = "together"
            proxy = True

    monkeypatch.setattr("django.apps.apps.get_models", lambda: [User, Employee])
    receivers.connect()
    waiting.ask()
    employee = Employee(**{field.attname: getattr(waiting.ann, field.attname) for field in User._meta.concrete_fields})
    employee.is_active = False
    employee.save(update_fields=["is_active"])
    assert waiting.states() == [State.EXPIRED, State.EXPIRED]


def test_what_was_withdrawn_does_not_come_back_with_the_access(waiting: Waiting, pay: list[Any]) -> None:  # noqa: F811
    waiting.ask()
    row = ClientPolicy.objects.create(client_id="robot", blocked=True)
    row.blocked = False
    row.save()
    for amount in (1, 2):
        assert kind_of(waiting.call(amount)) == "approval_required"
    assert pay == []


SILENT: dict[str, tuple[str, Callable[[Waiting], object], str]] = {
    "the client": (
        "oauth",
        lambda _waiting: ClientPolicy.objects.bulk_create([ClientPolicy(client_id="robot", blocked=True)]),
        "The client was blocked.",
    ),
    "what the client may use": (
        "oauth",
        lambda _waiting: ClientPolicy.objects.bulk_create([ClientPolicy(client_id="robot", read_only=True)]),
        "The tool or its policy was changed.",
    ),
    "the key": (
        "key",
        lambda _waiting: APIKey.objects.update(revoked=timezone.now()),
        "The API key is no longer valid.",
    ),
    "what the key opens": (
        "key",
        lambda _waiting: APIKey.objects.update(read_only=True),
        "The tool or its policy was changed.",
    ),
    "the user": (
        "key",
        lambda waiting: get_user_model().objects.filter(pk=waiting.ann.pk).update(is_active=False),
        "The user was deactivated.",
    ),
    "the tool": (
        "key",
        lambda waiting: setattr(
            waiting.server.tools["pay"], "definition", {**waiting.server.tools["pay"].definition, "title": "Pay all"}
        ),
        "The tool or its policy was changed.",
    ),
}


@pytest.mark.parametrize("what", SILENT)
def test_who_approves_what_could_not_run_reads_why(waiting: Waiting, what: str) -> None:
    by, end, why = SILENT[what]
    waiting.call(1, by)
    end(waiting)
    given = {"decision": "approve", "seen": card_digest(newest()), "unseen": False, "reason": ""}
    _level, said = decide_card(newest(), waiting.cleo, given)
    assert said == f"Not decided: the approval request for pay was withdrawn. {why}"
    assert waiting.states() == [State.EXPIRED]


def test_pages_say_what_ends_and_what_was_withdrawn(waiting: Waiting) -> None:
    waiting.ask()
    waiting.ask("key")
    browser = Browser()
    browser.force_login(User.objects.create_superuser("owner"))
    ends = "1 pending approval is withdrawn. 1 unused approval is withdrawn. 1 auto-approval rule is revoked."
    page = "/admin/django_mcp/oauthclient/robot"
    for url in (f"{page}/block/", f"{page}/revoke/", f"/admin/django_mcp/apikey/{waiting.key.pk}/revoke/"):
        assert ends in words(browser.get(url).content.decode()), url
    said = words(browser.post(f"{page}/change/", {"blocked": "yes"}, follow=True).content.decode())
    assert "Client Robot is blocked." in said
    assert waiting.states() == [State.EXPIRED, State.EXPIRED, State.PENDING, State.APPROVED]
    assert "do not come back" in words(browser.get(f"{page}/block/").content.decode())
    listed = words(browser.get("/admin/django_mcp/approval/").content.decode())
    assert listed.count("Withdrawn") == 2
    first = Approval.objects.order_by("pk").first()
    assert first is not None
    assert "The client was blocked." in words(
        browser.get(f"/admin/django_mcp/approval/{first.pk}/change/").content.decode()
    )


def test_a_rule_of_a_client_that_was_blocked_approves_nothing(waiting: Waiting) -> None:
    waiting.ask()
    block(waiting)
    assert not auto_approvals._usable_rules().exists()
