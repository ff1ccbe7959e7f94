"""Where more wait than may wait, further requests are refused at once, and those who wait are served."""

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.test import override_settings

from django_mcp import AllowAny, MCPServer, Principal, RequestHead, tool
from django_mcp.conf import settings
from django_mcp.core.concurrency import shared_pool
from tests.conversation import Conversation
from tests.exchange import WITHIN, Exchange, eventually

LIMIT = 3

pytestmark = pytest.mark.parametrize("edge", ["asgi"])


@pytest.fixture
def limit() -> Iterator[None]:
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "MAX_QUEUED_CALLS": LIMIT}):
        yield


class Gate:
    """A tool that holds its thread."""

    def __init__(self, server: MCPServer) -> None:
        self.open = threading.Event()
        self.inside = threading.Semaphore(0)

        @tool(server=server, read_only=True)
        def work() -> str:
            self.inside.release()
            assert self.open.wait(WITHIN)
            return "done"

    def fill(self, talk: Conversation, waiting: int) -> list[Exchange]:
        """Have every thread at work, and *waiting* calls without one."""
        calls = []
        for _ in range(shared_pool().size):  # one by one, for on its way a call may be more jobs than this
            calls.append(call(talk))
            assert self.inside.acquire(timeout=WITHIN)
        return calls + [self.queue(talk, number) for number in range(1, waiting + 1)]

    def queue(self, talk: Conversation, number: int) -> Exchange:
        """Have one more wait, which is the one with this number."""
        exchange = call(talk)
        eventually(lambda: shared_pool()._jobs.qsize() == number)
        return exchange


@pytest.fixture
def door(server: MCPServer) -> Iterator[Gate]:
    gate = Gate(server)
    yield gate
    gate.open.set()


def call(talk: Conversation) -> Exchange:
    body, headers = talk.client.compose("tools/call", {"name": "work", "arguments": {}})
    return talk.post(body, headers)


def error_of(exchange: Exchange) -> Any:
    return exchange.json["error"]


@pytest.mark.usefixtures("limit")
def test_one_too_many_is_refused_at_once_with_when_to_come_back_and_the_others_are_served(
    modern_talk: Conversation, door: Gate
) -> None:
    calls = door.fill(modern_talk, LIMIT + 1)
    refused = call(modern_talk).done()  # while nothing moves
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    assert error_of(refused)["message"] == "The server is overloaded. Retry later."
    door.open.set()
    assert [each.json["result"]["content"][0]["text"] for each in calls] == ["done"] * len(calls)
    assert call(modern_talk).done().status == 200


@pytest.mark.usefixtures("limit")
def test_one_too_many_is_refused_before_anybody_is_looked_up(
    modern_talk: Conversation, door: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.fill(modern_talk, LIMIT + 1)
    looked_up: list[RequestHead] = []
    authenticate = AllowAny.authenticate

    def noting(self: AllowAny, head: RequestHead, server: MCPServer) -> Principal:
        looked_up.append(head)
        return authenticate(self, head, server)

    monkeypatch.setattr(AllowAny, "authenticate", noting)
    assert call(modern_talk).done().status == 503
    assert looked_up == []
    door.open.set()
    eventually(lambda: not shared_pool().is_overloaded)
    assert call(modern_talk).done().status == 200
    assert len(looked_up) == 1


@pytest.mark.usefixtures("limit")
def test_as_many_as_may_wait_do(modern_talk: Conversation, door: Gate) -> None:
    calls = door.fill(modern_talk, LIMIT)
    calls.append(door.queue(modern_talk, LIMIT + 1))
    door.open.set()
    assert {each.done().status for each in calls} == {200}


@pytest.mark.usefixtures("limit")
def test_the_log_has_one_warning_for_all_of_them(
    modern_talk: Conversation, door: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    door.fill(modern_talk, LIMIT + 1)
    with caplog.at_level(logging.WARNING, "django_mcp"):
        assert {call(modern_talk).done().status for _ in range(3)} == {503}
    (record,) = [each for each in caplog.records if "MAX_QUEUED_CALLS" in each.getMessage()]
    assert record.levelno == logging.WARNING
    assert str(LIMIT) in record.getMessage()
    door.open.set()


def test_without_a_limit_nobody_is_refused(modern_talk: Conversation, door: Gate) -> None:
    with override_settings(DJANGO_MCP={**django_settings.DJANGO_MCP, "MAX_QUEUED_CALLS": None}):
        assert settings.MAX_QUEUED_CALLS is None
        calls = door.fill(modern_talk, LIMIT + 2)
        door.open.set()
        assert {each.done().status for each in calls} == {200}


@pytest.mark.usefixtures("policies")
def test_an_async_tool_waits_for_no_thread_though_what_was_decided_has_to_be_looked_up(
    server: MCPServer, modern_talk: Conversation, door: Gate
) -> None:
    @tool(server=server)
    async def quick() -> str:
        return "quick"

    calls = door.fill(modern_talk, 0)
    assert modern_talk.call("quick").text == "quick"
    assert not any(each.ended for each in calls)
    door.open.set()
