"""A client that leaves before its approved call begins: the approval is still good."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from django_mcp import Context, MCPServer, tool
from django_mcp.approvals.decisions import approve
from django_mcp.core import dispatch
from django_mcp.core.concurrency import checks_pool, shared_pool
from django_mcp.models import Approval
from tests.approvals.asking import newest
from tests.approvals.conftest import _quickly, people, room, server  # noqa: F401 - fixtures
from tests.behaviour.users import as_user
from tests.clients import MODERN
from tests.conversation import Conversation
from tests.exchange import WITHIN, Room, eventually


@pytest.fixture
def taken() -> Iterator[threading.Event]:
    """Sets all threads free when it is set."""
    gate = threading.Event()
    yield gate
    gate.set()


def take_all_threads(gate: threading.Event) -> None:
    for pool in (shared_pool(), checks_pool()):  # the latter's use the approvals of async tools
        together = threading.Barrier(pool.size + 1)
        for _ in range(pool.size):
            pool.post(partial(wait, together, gate))
        together.wait(WITHIN)


def wait(together: threading.Barrier, gate: threading.Event) -> None:
    together.wait(WITHIN)
    gate.wait(WITHIN)


@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_an_approval_is_still_good_if_the_client_left_before_the_tool_began(
    server: MCPServer,  # noqa: F811 - the fixture
    room: Room,  # noqa: F811 - the fixture
    kind: str,
    people: dict[str, Any],  # noqa: F811 - the fixture
    taken: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paid: list[str] = []
    ask_first = tool(server=server, name="pay", policy="ask")

    if kind == "sync":

        @ask_first
        def pay(ctx: Context) -> str:
            """Pay."""
            paid.append("ada")
            return "paid"

    else:

        @ask_first
        async def pay_async(ctx: Context) -> str:
            """Pay."""
            paid.append("ada")
            return "paid"

    talk = Conversation(room, MODERN, headers=as_user(people["ann"]), capabilities={})
    assert talk.call("pay").failed
    approve(newest(), people["cleo"])

    # The threads are taken as soon as the gate has let the call through.
    gate, left = dispatch.approval_gate, []
    assert gate is not None

    async def let_through(context: Context, *rest: Any) -> Any:
        answer = await gate(context, *rest)
        take_all_threads(taken)
        left.append(context.channel)
        return answer

    monkeypatch.setattr(dispatch, "approval_gate", let_through)
    call = talk.begin_call("pay")
    eventually(lambda: left)
    call.exchange.leave()
    eventually(lambda: left[0].cancelled)
    monkeypatch.undo()
    taken.set()
    assert talk.call("pay").text == "paid"
    assert paid == ["ada"]
    assert Approval.objects.count() == 1
