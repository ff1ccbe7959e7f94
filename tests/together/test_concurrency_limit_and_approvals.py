"""``concurrency_limit`` together with calls that somebody has to approve, and that come back for the result."""

from collections.abc import Iterator
from typing import Any

import pytest

from django_mcp import Context, MCPServer, tool
from django_mcp.approvals.decisions import approve
from django_mcp.core.execution import slots_of
from tests.approvals.asking import call, kind, newest
from tests.approvals.conftest import _quickly, people, server  # noqa: F401 - fixtures
from tests.clients import MODERN, Client
from tests.conftest import end_tasks

every_edge = pytest.mark.parametrize("edge", ["asgi", "view"])


@pytest.fixture
def client(server: MCPServer, edge: str) -> Iterator[Client]:  # noqa: F811 - the fixture
    yield Client(server, MODERN, edge)
    end_tasks()


@pytest.fixture
def paid(server: MCPServer) -> list[str]:  # noqa: F811 - the fixture
    """What a tool paid that pays one at a time, each payment approved; the first one fails."""
    paid: list[str] = []

    @tool(server=server, policy="ask", concurrency_limit=1)
    def pay(ctx: Context, to: str) -> str:
        """Pay money to somebody."""
        paid.append(to)
        if len(paid) == 1:
            raise LookupError
        return f"Paid {to}."

    return paid


def is_free(server: MCPServer) -> bool:  # noqa: F811 - not the fixture
    slots = slots_of(server.tools["pay"])
    assert slots is not None
    return slots._taken == 0


@every_edge
def test_a_call_that_waits_for_its_approver_holds_no_slot_and_neither_does_one_whose_approval_is_used(
    server: MCPServer,  # noqa: F811 - the fixture
    client: Client,
    paid: list[str],
    people: dict[str, Any],  # noqa: F811 - the fixture
    caplog: pytest.LogCaptureFixture,
) -> None:
    ann, cleo = people["ann"], people["cleo"]
    for number, name in enumerate(["first", "second", "third"]):
        assert kind(call(client, ann, to=name)) == "approval_required"
        assert is_free(server), "while it waits"
        approve(newest(), cleo)
        answer = call(client, ann, to=name)
        assert answer.result.get("isError", False) is (number == 0)
        assert is_free(server), "after it ran"
        assert kind(call(client, ann, to=name)) == "approval_required", "the approval is used up"
        assert is_free(server), "after it came again"
    assert paid == ["first", "second", "third"]


@every_edge
def test_an_approval_that_cannot_be_used_leaves_the_tool_free(
    server: MCPServer,  # noqa: F811 - the fixture
    client: Client,
    paid: list[str],
    people: dict[str, Any],  # noqa: F811 - the fixture
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from django.db import OperationalError

    def lost(*_: Any) -> bool:
        raise OperationalError("the connection is lost")

    ann = people["ann"]
    call(client, ann, to="first")
    approve(newest(), people["cleo"])
    with monkeypatch.context() as patch:
        patch.setattr("django_mcp.approvals.approval_requests.use", lost)
        assert call(client, ann, to="first").result["isError"]
    assert is_free(server)
    assert paid == []
    call(client, ann, to="first")
    assert paid == ["first"], "the approval is still good"
