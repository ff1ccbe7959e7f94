"""Calls whose clients wait for the decision: what they are told, what they hold, and what may happen meanwhile."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import connections, transaction
from django.test import override_settings

from django_mcp import MCPServer, tool
from django_mcp.approvals import approval_requests
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.models import Approval, Event
from django_mcp.pubsub.publish import end_access
from tests.approvals.asking import PAID, Calls, People, kind_of, serve, texts, the_ticket
from tests.behaviour.users import as_user
from tests.clients import LEGACY, MODERN, Client
from tests.conversation import Conversation
from tests.exchange import Room, eventually

pytestmark = pytest.mark.postgresql

LONG = 20.0


@pytest.fixture
def patiently() -> Iterator[None]:
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": LONG, "POLL_INTERVAL": 0.02}):
        yield


class Waiting:
    """A call that waits in a thread of its own, at the edge that is asked."""

    def __init__(self, begin: Callable[[], Any]) -> None:
        self._given: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(begin,), daemon=True)
        self._thread.start()
        eventually(lambda: Approval.objects.filter(state="pending").exists(), "nothing waits")

    def _run(self, begin: Callable[[], Any]) -> None:
        try:
            self._given.append(begin())
        except Exception as error:  # noqa: BLE001 - which is what it gives
            self._given.append(error)
        finally:
            connections.close_all()

    def result(self) -> Any:
        self._thread.join(LONG)
        assert self._given, "it still waits"
        return self._given[0]


@pytest.fixture
def wait(server: MCPServer, people: People, pay: Calls, patiently: None) -> Callable[[], Waiting]:
    """Ann's call waits where a thread waits, as under WSGI."""
    return lambda: Waiting(lambda: serve(server, people["ann"], "pay", {"amount": 5}))


def test_who_waits_has_the_result_once_it_is_approved(wait: Callable[[], Waiting], people: People, pay: Calls) -> None:
    waiting = wait()
    assert approve(the_ticket(), people["cleo"])
    assert texts([waiting.result()]) == [PAID]
    assert len(pay) == 1


def test_who_waits_hears_why_it_was_refused(wait: Callable[[], Waiting], people: People, pay: Calls) -> None:
    waiting = wait()
    assert deny(the_ticket(), people["cleo"], reason="Too dear.")
    result = waiting.result()
    assert kind_of(result) == "denied"
    assert "Too dear." in texts([result])[0]
    assert pay == []


@pytest.mark.parametrize("what", ["blocked", "decided anew", "deactivated", "permission", "credential", "tool"])
def test_what_was_decided_otherwise_while_it_waited_counts(
    server: MCPServer, people: People, patiently: None, what: str
) -> None:
    ran: list[int] = []
    tool(server=server, policy="ask", permission="auth.add_group", name="close")(lambda: ran.append(1) or "closed")
    people["ann"].user_permissions.add(Permission.objects.get(codename="add_group"))
    ann = type(people["ann"]).objects.get(pk=people["ann"].pk)
    waiting = Waiting(lambda: serve(server, ann, "close", {}))
    ticket = the_ticket()
    with transaction.atomic():  # so that who waits sees all of it at once
        assert approve(ticket, people["cleo"])
        match what:
            case "blocked":
                set_policy(server, server.tools["close"], "block")
            case "decided anew":
                set_policy(server, server.tools["close"], "ask")
            case "deactivated":
                type(ann).objects.filter(pk=ann.pk).update(is_active=False)
            case "permission":
                people["ann"].user_permissions.clear()
            case "credential":
                end_access("test", ann.username)
            case "tool":
                changed = server.tools["close"]
                changed.definition = {**changed.definition, "description": "Close it for ever."}
    result = waiting.result()
    assert ran == []
    assert kind_of(result) == "expired"
    # What sends a signal withdraws the approval at once; the rest is found by the call.
    withdrawn = what in {"blocked", "decided anew", "credential"}
    assert the_ticket().state == ("expired" if withdrawn else "approved"), "not used up"


def test_a_credential_that_is_taken_back_with_the_approval_opens_nothing_however_late_that_is_told(
    wait: Callable[[], Waiting], people: People, pay: Calls
) -> None:
    waiting, results = wait(), []
    with transaction.atomic():
        transaction.on_commit(lambda: results.append(waiting.result()))  # before anything else that is done then
        assert approve(the_ticket(), people["cleo"])
        end_access("test", people["ann"].username)
    assert kind_of(results[0]) == "expired"
    assert pay == []


def test_a_credential_that_is_taken_back_just_before_the_ticket_is_there_opens_nothing(
    server: MCPServer, people: People, pay: Calls, patiently: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def proposed(*arguments: Any) -> Any:
        end_access("test", people["ann"].username)  # there is nothing to withdraw yet
        made = propose(*arguments)
        assert approve(the_ticket(), people["cleo"])
        return made

    propose = approval_requests.create_request
    monkeypatch.setattr(approval_requests, "create_request", proposed)
    assert kind_of(serve(server, people["ann"], "pay", {"amount": 5})) == "expired"
    assert pay == []


def test_who_waits_holds_no_lock(wait: Callable[[], Waiting], people: People) -> None:
    waiting = wait()
    for _ in range(20):  # on SQLite there is one write lock
        with transaction.atomic():
            Event.objects.filter(topic="nobody's").delete()
    assert approve(the_ticket(), people["cleo"])
    assert texts([waiting.result()]) == [PAID]


@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_who_waits_takes_no_thread_from_others(
    server: MCPServer, people: People, pay: Calls, room: Room, version: str, patiently: None
) -> None:
    """More wait than there are threads, and others are served."""
    tool(server=server, name="hello", read_only=True)(lambda: "Hello.")
    talks = [Conversation(room, version, {}, headers=as_user(people["ann"])) for _ in range(3)]
    many = int(settings.DJANGO_MCP.get("WORKER_THREADS", 0)) or 8
    calls = [
        talks[number % 3].open().begin("tools/call", {"name": "pay", "arguments": {"amount": number}})
        for number in range(many + 4)
    ]
    eventually(lambda: Approval.objects.filter(state="pending").count() == len(calls), "they do not all wait")
    other = Conversation(room, version, {}, headers=as_user(people["ben"]))
    assert other.call("hello").text == "Hello."
    for ticket in Approval.objects.all():
        assert approve(ticket, people["cleo"])
    for call in calls:
        *_, answer = call
        assert "Paid" in answer["result"]["content"][0]["text"]
    assert len(pay) == len(calls)


@pytest.mark.parametrize("edge", ["asgi"])
def test_who_goes_away_while_they_wait_runs_nothing(people: People, pay: Calls, room: Room, patiently: None) -> None:
    talk = Conversation(room, MODERN, {}, headers=as_user(people["ann"]))
    call = talk.begin("tools/call", {"name": "pay", "arguments": {"amount": 5}})
    eventually(lambda: Approval.objects.filter(state="pending").exists(), "nothing waits")
    call.exchange.leave()
    eventually(lambda: not room._serving, "the call goes on")
    assert approve(the_ticket(), people["cleo"])
    assert pay == []
    assert talk.call("pay", amount=5).text == PAID
    assert len(pay) == 1


@pytest.mark.parametrize("edge", ["asgi"])
def test_calls_of_a_batch_do_not_wait_one_after_the_other(
    server: MCPServer, people: People, pay: Calls, client: Client, patiently: None
) -> None:
    """Fifty that wait 25 seconds each would be 21 minutes, and a worker is killed long before."""
    calls = [
        {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "pay", "arguments": {"amount": n}}}
        for n in range(1, 4)
    ]
    headers = {**as_user(people["ann"]), "mcp-protocol-version": "2025-03-26"}
    before = time.monotonic()
    answers = client.post(json.dumps(calls).encode(), headers).json
    assert time.monotonic() - before < LONG
    assert [kind_of(answer["result"]) for answer in answers] == ["approval_required"] * 3
    assert Approval.objects.filter(state="pending").count() == 3
    assert pay == []
