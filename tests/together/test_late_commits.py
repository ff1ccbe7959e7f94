"""Notices of transactions that end late, when others were told and read long ago."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import transaction
from django.test import override_settings

from django_mcp import APIKeyAuthentication, MCPServer, resource, tool
from django_mcp.approvals.decisions import approve
from django_mcp.auth.api_keys import create_key, revoke_key
from django_mcp.core.signals import Change, rows_changed
from django_mcp.models import Approval, Session, Task
from django_mcp.pubsub import event_store, publish
from django_mcp.revisions.legacy import sessions
from django_mcp.tasks import store
from tests.behaviour.users import ByName, as_user
from tests.clients import LEGACY, MODERN
from tests.conversation import Conversation
from tests.exchange import Exchange, Room, eventually
from tests.tasks.clients import TaskClient, knows_tasks
from tests.tasks.gates import Gate
from tests.together.conftest import elsewhere

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]

Make = Callable[..., Any]
TOOLS = "notifications/tools/list_changed"
LISTEN = {"notifications": {"toolsListChanged": True}}
MANY = 5000


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    server = make_server(authentication=[APIKeyAuthentication(), ByName()], scopes=[])
    tool(server=server, name="one")(lambda: "x")
    return server


@pytest.fixture
def many_others(others_write: None, server: MCPServer) -> Callable[[], None]:
    """Writes more than any reader takes at once, and then what every stream hears of."""

    def write() -> None:
        event_store.append([("nobody's", "") for _ in range(MANY)])
        server.notify_list_changed("tools")

    return lambda: elsewhere(write)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("how", ["revoked", "saved", "deleted", "user deleted"])
def test_a_key_that_ends_in_a_long_transaction_ends_its_streams(
    server: MCPServer, room: Room, make_user: Make, many_others: Make, version: str, how: str
) -> None:
    user = make_user()
    row, key = create_key(user, "a key", endpoints=[server.name])
    _, other = create_key(make_user(), "another", endpoints=[server.name])
    streams = [listening(room, version, {"authorization": f"Bearer {each}"}) for each in (key, other)]
    with transaction.atomic():
        match how:
            case "revoked":
                revoke_key(row)
            case "saved":
                row.revoked = row.created
                row.save()
            case "deleted":
                row.delete()
            case "user deleted":
                user.delete()
        many_others()
        for stream in streams:
            assert next(stream) == TOOLS, "it goes on until the commit"
    assert TOOLS not in [*streams[0]]
    server.notify_list_changed("tools")
    assert next(streams[1]) == TOOLS


def listening(room: Room, version: str, headers: Any) -> Iterator[str]:
    """The methods of what a stream tells, to its end."""
    talk = Conversation(room, version, headers=headers).open()
    opened: Any = talk.begin("subscriptions/listen", LISTEN) if version == MODERN else talk.get().begun()
    assert opened.next() is not None

    def methods() -> Iterator[str]:
        while (message := opened.next()) is not None:
            message = message if isinstance(message, dict) else message.message
            if message is not None and "result" in message:
                return
            if message is not None and message["method"] == TOOLS:
                yield message["method"]

    return methods()


@pytest.mark.usefixtures("_no_tasks_left")
def test_a_task_that_ends_in_a_long_transaction_is_told_to_who_listens_for_it(
    server: MCPServer, room: Room, make_user: Make, gate: Gate, many_others: Make
) -> None:
    tool(server=server, name="wait", task="required")(gate.wait)
    talk = Conversation(room, MODERN, knows_tasks(), headers=as_user(make_user()))
    task_id = TaskClient(talk).call("wait")
    gate.reached()
    call = talk.begin("subscriptions/listen", {"notifications": {"toolsListChanged": True, "taskIds": [task_id]}})
    told = [call.next(), call.next()]
    assert told[1]["params"]["status"] == "working"
    with transaction.atomic():
        assert store.cancel(Task.objects.get(task_id=task_id))
        many_others()
        assert call.next()["method"] == TOOLS
    message = call.next()
    assert (message["method"], message["params"]["status"]) == ("notifications/tasks", "cancelled")


def test_who_waits_for_an_approval_hears_of_one_given_in_a_long_transaction(
    server: MCPServer, room: Room, make_user: Make, policies: None, many_others: Make
) -> None:
    tool(server=server, name="pay", policy="ask")(lambda: "paid")
    ann, cleo = make_user(), make_user()
    cleo.user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
    cleo = type(cleo).objects.get(pk=cleo.pk)
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "APPROVAL_WAIT_TIMEOUT": 60, "KEEP_ALIVE_INTERVAL": 60}):
        call = Conversation(room, MODERN, {}, headers=as_user(ann)).begin("tools/call", {"name": "pay"})
        eventually(lambda: Approval.objects.filter(state="pending").exists(), "nothing waits")
        # It has subscribed before it reports, and reads the row after that.
        with transaction.atomic():
            assert approve(Approval.objects.get(), cleo)
            many_others()
        *_, message = call
    assert message["result"]["content"][0]["text"] == "paid"


def test_a_session_that_resumes_hears_of_what_was_committed_late(
    server: MCPServer, room: Room, make_user: Make, many_others: Make
) -> None:
    """Its last id is that of an event that was written later, but committed earlier."""
    resource("test:late", server=server)(lambda: "x")
    talk = Conversation(room, LEGACY, headers=as_user(make_user())).open()
    talk.request("resources/subscribe", {"uri": "test:late"})
    stream = talk.get().begun()
    assert stream.next() is not None
    with transaction.atomic():
        event_store.append(
            [(publish.server_topic(server), json.dumps({"method": publish.UPDATED, "params": {"uri": "test:late"}}))]
        )
        many_others()
        last = next_message(stream)
        assert last.message["method"] == TOOLS
        stream.leave()
    again = talk.get(last.id).begun()
    assert next_message(again).message["params"] == {"uri": "test:late"}
    server.notify_list_changed("tools")
    assert next_message(again).message["method"] == TOOLS, "and of nothing twice"


def next_message(stream: Exchange) -> Any:
    while (event := stream.next()) is not None:
        if event.message is not None:
            return event
    raise AssertionError("the stream ended")


def test_a_session_that_is_ended_in_a_long_transaction_ends_its_stream(
    server: MCPServer, room: Room, make_user: Make, many_others: Make
) -> None:
    talk = Conversation(room, LEGACY, headers=as_user(make_user())).open()
    stream = talk.get().begun()
    assert stream.next() is not None
    with transaction.atomic():
        sessions.end_session(Session.objects.get())
        many_others()
        assert next_message(stream).message["method"] == TOOLS
    assert [event.message for event in stream if event.message] == []


def test_rows_of_one_statement_are_told_at_each_endpoint_and_to_each_process(
    make_server: Make, make_user: Make, others_write: None, open_database: None
) -> None:
    """While another connection writes and the followers of two event loops read, 5,000 rows at three endpoints."""
    servers = [make_server(f"endpoint-{number}", authentication=[ByName()], scopes=[]) for number in range(3)]
    for each in servers:
        for number in range(3):
            resource(f"test:{number}", server=each)(lambda: "x")
    uris = [f"test:{number}" for number in range(3)]
    wanted = {"notifications": {"resourceSubscriptions": uris}}
    headers = as_user(make_user())
    rooms = [Room(each, "asgi") for each in servers for _ in range(2)]
    try:
        calls = []
        for room in rooms:
            room.__enter__()
            calls.append(Conversation(room, MODERN, headers=headers).begin("subscriptions/listen", wanted))
            assert calls[-1].next()["method"] == "notifications/subscriptions/acknowledged"
        with transaction.atomic():
            changes = [Change(each, f"test:{number}") for number in range(MANY) for each in servers]
            rows_changed.send(sender=None, changes=changes)
            for _ in range(20):
                elsewhere(lambda: servers[0].notify_resource_updated("test:nobody-listens"))
        for call in calls:
            assert [call.next()["params"]["uri"] for _ in uris] == uris
    finally:
        for room in rooms:
            room.__exit__()
