"""A task from its beginning to its end, as a client sees it that asks for it."""

import asyncio
import base64
import datetime
import sys
import threading
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings
from django.utils import timezone

from django_mcp import Context, MCPServer, ToolError, tool
from django_mcp.models import Task
from django_mcp.protocol.errors import InvalidParams
from django_mcp.tasks import store
from django_mcp.tasks.extension import NAME
from django_mcp.transports.asgi import MCPApplication
from tests.clients import LEGACY, META
from tests.conversation import Conversation
from tests.exchange import Room, eventually
from tests.tasks.clients import TaskClient, knows_tasks
from tests.tasks.gates import Gate, endless

REQUIRED = {"requiredCapabilities": {"extensions": {NAME: {}}}}
METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


def add(server: MCPServer, body: Any, **options: Any) -> None:
    """A tool ``work`` with tasks."""
    tool(server=server, name="work", **{"task": "optional", **options})(body)


# From working to its end


def test_a_server_that_stops_in_good_order_gives_its_tasks_back_at_once(
    server: MCPServer, client: TaskClient, gate: Gate
) -> None:
    """As ASGI servers say it before they end their process, some of them without ending Python."""

    begun = threading.Event()

    def work() -> str:
        begun.set()
        gate.wait()
        return "done"

    add(server, work)
    task_id = client.call("work")
    assert begun.wait(10)
    messages = iter([{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}])
    sent: list[Any] = []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        sent.append(message["type"])

    async def django(scope: Any, receive: Any, send: Any) -> None:
        raise ValueError("Django can only handle ASGI/HTTP connections")

    asyncio.run(MCPApplication(django)({"type": "lifespan"}, receive, send))
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert [each.task_id for each in store.abandoned()] == [task_id]
    gate.open()
    assert client.text(task_id) == "done"


def test_work_that_ends_the_process_is_work_that_failed(server: MCPServer, client: TaskClient) -> None:
    def work() -> None:
        sys.exit(3)

    add(server, work)
    for _ in range(2):
        assert client.ended(client.call("work"))["isError"]


@pytest.mark.parametrize("read_only", [True, False])
def test_a_call_becomes_a_task_that_ends_with_what_the_tool_gives(
    server: MCPServer, client: TaskClient, gate: Gate, read_only: bool
) -> None:
    def work(number: int) -> dict[str, int]:
        gate.wait()
        return {"double": 2 * number}

    add(server, work, read_only=read_only)
    made = client.request("tools/call", {"name": "work", "arguments": {"number": 4}}).result
    assert made["status"] == "working"
    shown = client.get(made["taskId"])
    same = ("taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta")
    assert {key: made[key] for key in same} == {key: shown[key] for key in same}
    assert set(shown) == {*same, "resultType"}
    gate.open()
    ended = client.become(made["taskId"], "completed")
    assert set(ended) == {*same, "resultType", "result"}
    assert ended["result"]["structuredContent"] == {"double": 8}
    assert ended["createdAt"] == made["createdAt"]
    assert ended["lastUpdatedAt"] > made["lastUpdatedAt"]


def test_a_coroutine_runs_as_a_task_too(server: MCPServer, client: TaskClient, gate: Gate) -> None:
    async def work() -> str:
        await gate.await_()
        return "done"

    add(server, work)
    task_id = client.call("work")
    gate.reached()
    assert client.get(task_id)["status"] == "working"
    gate.open()
    assert client.text(task_id) == "done"


def test_times_are_those_of_the_site(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    before = timezone.now()
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "TASK_TTL": 90, "TASK_POLL_INTERVAL": 0.25}):
        made = client.request("tools/call", {"name": "work"}).result
    assert (made["ttlMs"], made["pollIntervalMs"]) == (90_000, 250)
    created = datetime.datetime.fromisoformat(made["createdAt"])
    assert before - datetime.timedelta(milliseconds=1) <= created <= timezone.now()
    assert made["createdAt"].endswith("Z")
    client.become(made["taskId"], "completed")


def test_the_parameter_of_older_tasks_means_nothing(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    for given in ({"ttl": 1000}, "nonsense", {"ttl": -1}):
        result = client.request("tools/call", {"name": "work", "task": given}).result
        assert result["ttlMs"] == 24 * 60 * 60 * 1000
        assert client.text(result["taskId"]) == "done"


def test_it_does_not_make_a_task_of_a_tool_that_has_none(server: MCPServer, client: TaskClient) -> None:
    tool(server=server, name="quick", task="never")(lambda: "done")
    result = client.request("tools/call", {"name": "quick", "task": {"ttl": 1000}}).result
    assert result["resultType"] == "complete"
    assert Task.objects.count() == 0


def test_what_a_tool_says_went_wrong_is_a_result(server: MCPServer, client: TaskClient) -> None:
    def work(how: str) -> str:
        raise ToolError("There is no more paper.") if how == "told" else ZeroDivisionError

    add(server, work)
    told = client.ended(client.call("work", how="told"))
    assert (told["isError"], told["content"][0]["text"]) == (True, "There is no more paper.")
    surprise = client.ended(client.call("work", how="not told"))
    assert surprise["isError"] is True
    assert "ZeroDivision" not in str(surprise)


def test_a_protocol_error_is_a_failure_with_the_error(server: MCPServer, client: TaskClient) -> None:
    def work() -> str:
        raise InvalidParams("That is no room.", {"room": 7})

    add(server, work)
    failed = client.become(client.call("work"), "failed")
    assert failed["error"] == {"code": -32602, "message": "That is no room.", "data": {"room": 7}}
    assert failed["statusMessage"] == "That is no room."


def test_how_far_it_is_stands_in_its_message(server: MCPServer, client: TaskClient, gate: Gate) -> None:
    def work(ctx: Context) -> str:
        ctx.report_progress(3, 12, "Counting")
        ctx.report_progress(6.5, 12)
        gate.wait()
        return "done"

    add(server, work, read_only=True)
    task_id = client.call("work")
    found = eventually(lambda: client.get(task_id).get("statusMessage"), "nothing is said")
    assert found == "Counting (6.5 of 12)"
    gate.open()
    client.become(task_id, "completed")


@pytest.mark.postgresql
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_cancelled_task_is_stopped_and_leaves_nothing(
    server: MCPServer, client: TaskClient, gate: Gate, rows: Any, kind: str
) -> None:
    ended: list[str] = []
    add(server, endless(kind, gate, rows, ended))
    task_id = client.call("work")
    gate.reached()
    assert set(client.cancel(task_id)) == {"resultType", "_meta"}
    shown = client.become(task_id, "cancelled")
    assert not {"result", "error", "inputRequests"} & set(shown)
    eventually(lambda: ended, "the tool goes on")
    assert rows.written() == []
    assert client.get(task_id)["status"] == "cancelled"


def test_a_task_that_is_over_is_not_cancelled_any_more(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    task_id = client.call("work")
    client.become(task_id, "completed")
    assert set(client.cancel(task_id)) == {"resultType", "_meta"}
    assert client.get(task_id)["status"] == "completed"
    assert set(client.update(task_id, {"name": {"action": "accept"}})) == {"resultType", "_meta"}
    assert client.get(task_id)["status"] == "completed"


@pytest.mark.postgresql
def test_what_json_does_not_know_is_written_as_in_a_call_that_is_waited_for(
    server: MCPServer, client: TaskClient, waiting: Conversation
) -> None:
    def work() -> Any:
        return {"when": datetime.date(2026, 7, 28), "what": [Decimal("1.50"), datetime.timedelta(hours=1)]}

    async def awork() -> Any:
        return work()

    add(server, work)
    tool(server=server, name="awork", task="optional")(awork)
    tool(server=server, name="direct")(work)
    direct = waiting.call("direct").result["structuredContent"]
    for name in ("work", "awork"):
        assert client.ended(client.call(name))["structuredContent"] == direct


@pytest.mark.postgresql
def test_what_cannot_be_said_in_json_at_all_is_an_error(server: MCPServer, client: TaskClient) -> None:
    def work() -> Any:
        return {"what": "\ud800"}

    async def awork() -> Any:
        return {"what": "\ud800"}

    add(server, work)
    tool(server=server, name="awork", task="optional")(awork)
    for name in ("work", "awork"):
        task_id = client.call(name)
        found = client.become(task_id, "failed", "completed")
        assert "error" in found or found["result"]["isError"], found


# Who may ask, and how


def test_who_does_not_declare_the_extension_may_not_ask(server: MCPServer, client: TaskClient, room: Room) -> None:
    add(server, lambda: "done")
    task_id = client.call("work")
    unaware = Conversation(room, "2026-07-28")
    for method in METHODS:
        for capabilities in ({}, {"extensions": {}}, {"extensions": {NAME: True}}):
            unaware.capabilities = capabilities
            outcome = unaware.request(method, {"taskId": task_id, "inputResponses": {}})
            said = (outcome.status, outcome.error["code"], outcome.error["data"])
            assert said == (400, -32021, REQUIRED), (method, capabilities)
    assert client.text(task_id) == "done"


def test_a_tool_that_is_always_a_task_is_for_clients_that_know_them(
    server: MCPServer, client: TaskClient, waiting: Conversation
) -> None:
    ran: list[str] = []
    add(server, lambda: ran.append("ran"), task="required", before_task=lambda: ran.append("before"))
    outcome = waiting.call("work")
    assert (outcome.status, outcome.error["code"], outcome.error["data"]) == (400, -32021, REQUIRED)
    assert ran == []
    client.ended(client.call("work"))
    assert ran == ["before", "ran"]


def test_unknown_expired_and_foreign_tasks_are_unknown_in_the_same_words(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    expired, foreign = client.call("work"), client.call("work")
    for task_id in (expired, foreign):
        client.become(task_id, "completed")
    Task.objects.filter(task_id=expired).update(expires=timezone.now() - datetime.timedelta(seconds=1))
    Task.objects.filter(task_id=foreign).update(principal_id="another")
    errors = []
    for method in METHODS:
        for task_id in ("unknown", expired, foreign):
            outcome = client.request(method, {"taskId": task_id, "inputResponses": {}})
            assert (outcome.status, outcome.error["code"]) == (400, -32602), (method, task_id)
            errors.append(outcome.error["message"].replace(task_id, "unknown"))
    assert len(set(errors)) == 1
    assert "was not found" in errors[0]


@pytest.mark.postgresql
def test_strange_ids_are_unknown(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    for task_id in ("", "a\0b", "x" * 8_000, "é/../ü", "' OR 1=1 --"):
        name = {"mcp-name": "=?base64?" + base64.b64encode(task_id.encode()).decode() + "?="}
        outcome = client.request("tasks/get", {"taskId": task_id}, headers=name)
        assert (outcome.status, outcome.error["code"]) == (400, -32602), task_id
        assert len(outcome.error["message"]) < 500


def test_an_id_of_the_wrong_kind_is_refused(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    for params in ({}, {"taskId": 7}, {"taskId": ["a"]}, {"taskId": {"a": 1}}):
        for method in METHODS:
            outcome = client.request(method, {**params, "inputResponses": {}}, headers={"mcp-name": None})
            assert outcome.error["code"] in {-32602, -32020}, (method, params)
            assert outcome.status == 400


def test_answers_of_the_wrong_kind_are_refused(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    task_id = client.call("work")
    for given in ({}, {"inputResponses": []}, {"inputResponses": "yes"}, {"inputResponses": 1}):
        outcome = client.request("tasks/update", {"taskId": task_id, **given})
        assert outcome.error["code"] == -32602, given
        assert "inputResponses" in outcome.error["message"], given
    client.become(task_id, "completed")


def test_the_header_repeats_the_id_or_is_left_out(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    task_id = client.call("work")
    client.become(task_id, "completed")
    for method in METHODS:
        params = {"taskId": task_id, "inputResponses": {}}
        refused = client.request(method, params, headers={"mcp-name": "another"})
        assert (refused.status, refused.error["code"]) == (400, -32020), method
        assert client.request(method, params, headers={"mcp-name": None}).result["resultType"] == "complete"


def test_other_methods_of_tasks_there_are_not(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    for method in ("tasks/result", "tasks/list", "tasks/delete"):
        outcome = client.request(method, {"taskId": "x"})
        assert (outcome.status, outcome.error["code"]) == (404, -32601), method


def test_an_endpoint_without_such_tools_knows_no_tasks(server: MCPServer, client: TaskClient) -> None:
    tool(server=server, name="quick")(lambda: "done")
    assert "extensions" not in client.request("server/discover").result["capabilities"]
    for method in METHODS:
        outcome = client.request(method, {"taskId": "x", "inputResponses": {}})
        assert (outcome.status, outcome.error["code"]) == (404, -32601), method


def test_an_endpoint_with_one_says_so(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    assert client.request("server/discover").result["capabilities"]["extensions"] == {NAME: {}}


def test_older_clients_have_no_extension(server: MCPServer, room: Room) -> None:
    add(server, lambda: "done")
    old = Conversation(room, LEGACY, knows_tasks())
    assert old.request("tasks/update", {"taskId": "x", "inputResponses": {}}).error["code"] == -32601


def test_arguments_that_do_not_fit_are_told_at_once(server: MCPServer, client: TaskClient) -> None:
    def work(number: int) -> int:
        return number

    add(server, work)
    outcome = client.request("tools/call", {"name": "work", "arguments": {"number": "many"}})
    assert outcome.failed
    assert "number" in outcome.text
    assert Task.objects.count() == 0


def test_capabilities_are_those_of_the_request(server: MCPServer, client: TaskClient) -> None:
    add(server, lambda: "done")
    own = {META + "clientCapabilities": {}}
    result = client.request("tools/call", {"name": "work", "_meta": own}).result
    assert result["resultType"] == "complete"
