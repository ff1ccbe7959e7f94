"""``concurrency_limit`` together with what may end a call between its start and its tool."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError
from django.http import HttpRequest

from django_mcp import Context, MCPServer, tool
from django_mcp.core import dispatch
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Pool, shared_pool
from django_mcp.core.execution import slots_of
from django_mcp.pubsub.once import StepRecord
from tests.clients import MODERN
from tests.conversation import Conversation, accept
from tests.exchange import Room, eventually

every_edge = pytest.mark.parametrize("edge", ["asgi", "view", "view under asgi"])
YES = accept(confirm=True)
KEY = "django-mcp/idempotencyKey"


@pytest.fixture
def talk(server: MCPServer, edge: str, open_database: None) -> Iterator[Conversation]:
    with Room(server, edge) as room:
        yield Conversation(room, MODERN)


@pytest.fixture(params=["sync", "async"])
def pay(request: pytest.FixtureRequest, server: MCPServer) -> list[str]:
    """The payments of a tool that asks first, one call at a time."""
    paid: list[str] = []
    limited = tool(server=server, name="pay", concurrency_limit=1)

    def act(ctx: Context, to: str) -> str:
        """Pay, if the user agrees."""
        if ctx.confirm(f"Pay {to}?"):
            paid.append(to)
        return "paid"

    if request.param == "sync":

        @limited
        def pay_sync(ctx: Context, to: str) -> str:
            return act(ctx, to)

    else:

        @limited
        async def pay_async(ctx: Context, to: str) -> str:
            return act(ctx, to)

    return paid


def taken(server: MCPServer, name: str = "pay") -> int:
    slots = slots_of(server.tools[name])
    assert slots is not None
    return slots._taken


def answered(talk: Conversation, **arguments: Any) -> dict[str, Any]:
    """The second round of a call: its question is answered, and it is not sent yet."""
    asked = talk.begin_call("pay", **arguments).next()
    assert asked is not None
    return {"name": "pay", "arguments": arguments, **talk.input(asked["result"], lambda _: YES)}


def response(talk: Conversation, params: dict[str, Any]) -> dict[str, Any]:
    message = talk.begin("tools/call", params).next()
    assert message is not None
    return message


@every_edge
def test_an_answer_that_is_sent_again_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, pay: list[str]
) -> None:
    round_two = answered(talk, to="ada")
    assert "result" in response(talk, round_two)
    for _ in range(3):
        assert "already used" in response(talk, round_two)["error"]["message"]
    assert talk.call("pay", to="bob", answers=[YES]).text == "paid"
    assert pay == ["ada", "bob"]
    assert taken(server) == 0


@every_edge
def test_a_database_that_is_away_for_the_answer_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, pay: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    round_two = answered(talk, to="ada")

    async def away(context: Context, consume: Any) -> None:
        raise dispatch.request_failure(OperationalError("the connection is lost"), context)

    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "_consume_state", away)
        assert "error" in response(talk, round_two)
    assert taken(server) == 0
    assert "result" in response(talk, round_two)
    assert pay == ["ada"]


@every_edge
@pytest.mark.parametrize("meta", [{KEY: ""}, {KEY: "k" * 300}, {KEY: 7}])
def test_an_idempotency_key_that_is_refused_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, pay: list[str], meta: dict[str, Any]
) -> None:
    assert "error" in response(talk, {"name": "pay", "arguments": {"to": "ada"}, "_meta": meta})
    assert talk.call("pay", to="bob", answers=[YES]).text == "paid"
    assert taken(server) == 0


@every_edge
def test_an_idempotency_key_of_another_call_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, pay: list[str]
) -> None:
    assert talk.call("pay", to="ada", answers=[YES], meta={KEY: "k"}).text == "paid"
    for _ in range(2):
        assert talk.call("pay", to="bob", meta={KEY: "k"}).failed
    assert talk.call("pay", to="eve", answers=[YES]).text == "paid"
    assert pay == ["ada", "eve"]


@every_edge
def test_a_database_that_is_away_for_the_idempotency_key_leaves_tool_and_key_free(
    server: MCPServer, talk: Conversation, pay: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim may be stored although its commit was reported as failed."""
    claim = StepRecord.claim

    def claim_and_lose(self: StepRecord) -> Any:
        claim(self)
        raise OperationalError("the connection is lost")

    with monkeypatch.context() as patch:
        patch.setattr(StepRecord, "claim", claim_and_lose)
        assert talk.call("pay", to="ada", meta={KEY: "k"}).failed
    assert taken(server) == 0
    assert talk.call("pay", to="ada", answers=[YES], meta={KEY: "k"}).text == "paid"
    assert pay == ["ada"]


def failing_at(entry: int) -> Callable[[HttpRequest], Any]:
    """A context manager that raises when it is entered for the *entry*-th time: arguments come first, then the tool."""
    entered: list[int] = []

    @contextmanager
    def manager(request: HttpRequest) -> Iterator[None]:
        entered.append(1)
        if len(entered) == entry:
            raise LookupError
        yield

    return manager


def failing_when_left(request: HttpRequest) -> Any:
    @contextmanager
    def manager() -> Iterator[None]:
        yield
        raise LookupError

    return manager()


@every_edge
@pytest.mark.parametrize("manager", [failing_at(1), failing_at(2), failing_when_left], ids=["1st", "2nd", "exit"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_context_manager_that_raises_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, settings: Any, kind: str, manager: Any, caplog: pytest.LogCaptureFixture
) -> None:
    limited = tool(server=server, read_only=True, concurrency_limit=1)

    if kind == "sync":

        @limited
        def work() -> str:
            return "done"

    else:

        @limited
        async def work() -> str:
            return "done"

    usual = settings.DJANGO_MCP
    settings.DJANGO_MCP = {**usual, "CALL_CONTEXT_MANAGERS": [manager]}
    talk.call("work")
    assert taken(server, "work") == 0
    settings.DJANGO_MCP = usual
    assert talk.call("work").text == "done"


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_client_that_leaves_while_its_answer_is_checked_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, pay: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    round_two = answered(talk, to="ada")
    came, left = asyncio.Event(), asyncio.Event()

    async def wait(context: Context, consume: Any) -> None:
        came.set()
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "_consume_state", wait)
        call = talk.begin("tools/call", round_two)
        eventually(came.is_set)
        call.exchange.leave()
        eventually(left.is_set)
    eventually(lambda: taken(server) == 0)
    assert "result" in response(talk, round_two)


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_thread_that_cannot_be_started_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(server=server, read_only=True, concurrency_limit=1)
    def work() -> str:
        return "done"

    def refuse(*_: Any) -> None:
        raise RuntimeError("can't start new thread")

    shared_pool().close()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert talk.call("work").failed
    assert taken(server, "work") == 0
    assert talk.call("work").text == "done"


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_call_whose_time_is_over_before_its_thread_begins_does_not_run_and_leaves_the_tool_free(
    server: MCPServer, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    queued: list[Any] = []
    submit = Pool.submit

    @tool(server=server, concurrency_limit=1, timeout=0.05)
    def work(name: str) -> str:
        ran.append(name)
        return name

    def submit_or_wait(pool: Pool, job: Any, future: Any = None) -> Any:
        """As if all threads were busy: the job of the tool waits."""
        if "run_in_thread" not in str(job):
            return submit(pool, job, future)
        queued.append(job)
        return asyncio.get_running_loop().create_future()

    with monkeypatch.context() as patch:
        patch.setattr(Pool, "submit", submit_or_wait)
        assert "took longer" in talk.call("work", name="late").text
    assert taken(server, "work") == 0
    with pytest.raises(Cancelled):
        queued[0]()
    assert talk.call("work", name="next").text == "next"
    assert ran == ["next"]
    assert taken(server, "work") == 0
