"""How decisions come to where calls are: few queries, and nothing that opens where it should not."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext

from django_mcp import MCPServer, tool
from django_mcp.approvals import tool_policies
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.core import policies as core
from django_mcp.core.policies import PolicyCache, policy_cache
from django_mcp.models import Event, ToolPolicy
from django_mcp.protocol.errors import InternalError
from tests.approvals.policies.conftest import tool_of
from tests.clients import MODERN, Client

Make = Callable[..., Any]

pytestmark = pytest.mark.postgresql


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("django_mcp.core.policies.monotonic", clock)
    monkeypatch.setattr("django_mcp.core.dispatch.monotonic", clock)
    monkeypatch.setattr(policy_cache, "reload", tool_policies.reload_policies)
    policy_cache.expire()
    return clock


@pytest.fixture
def site(make_server: Make, policies: None) -> MCPServer:
    server = make_server("everybody")
    tool(server=server, name="pay", read_only=True)(lambda: "paid")
    return server


@pytest.fixture
def caller(site: MCPServer, clock: Clock) -> Client:
    """At the Django view, in the test's own thread, where queries are counted."""
    return Client(site, MODERN, "view")


def asked(caller: Client, times: int = 1) -> list[str]:
    """The queries about decisions that some calls make."""
    with CaptureQueriesContext(
        connection,
    ) as seen:
        for _ in range(times):
            assert caller.call("pay").text == "paid"
    return [each["sql"] for each in seen.captured_queries if "policy" in each["sql"] or "toolsnapshot" in each["sql"]]


def test_a_look_is_two_queries_and_calls_within_half_a_second_make_no_other(caller: Client, clock: Clock) -> None:
    assert len(asked(caller)) == 2
    clock.now += 0.49
    assert asked(caller, 20) == []
    clock.now += 0.02
    assert len(asked(caller, 20)) == 2


def test_what_another_process_decided_counts_after_half_a_second(caller: Client, clock: Clock, site: MCPServer) -> None:
    assert caller.call("pay").text == "paid"
    ToolPolicy.objects.bulk_create([ToolPolicy(server=site.name, tool="pay", decision="block")])  # tells nobody
    assert caller.call("pay").text == "paid"
    clock.now += 0.51
    assert "error" in caller.call("pay").json
    told = Event.objects.filter(topic="server:everybody", data__contains="tools/list_changed")
    assert told.count() == 1, "clients hear of it all the same"


def test_what_was_decided_here_counts_at_once(caller: Client, site: MCPServer) -> None:
    assert caller.call("pay").text == "paid"
    set_policy(site, tool_of(site, "pay"), "block")
    assert "error" in caller.call("pay").json


def test_what_is_decided_while_somebody_looks_is_looked_at_anew() -> None:
    policy_cache, looks = PolicyCache(), []

    def renew() -> float:
        looks.append(1)
        if len(looks) == 1:
            policy_cache.expire()  # what is committed now was not read
        return 100.0

    policy_cache.reload = renew
    policy_cache.expire()
    policy_cache.reload_if_due()
    policy_cache.reload_if_due()
    policy_cache.reload_if_due()
    assert len(looks) == 2


def test_of_threads_that_come_together_one_looks() -> None:
    policy_cache, looks, many = PolicyCache(), [], 8
    together, another = threading.Barrier(many), threading.Event()

    def renew() -> float:
        looks.append(1)
        if len(looks) > 1:
            another.set()
        another.wait(0.3)  # as long as a query, so that the others are there too
        return 100.0

    def come(_: int) -> None:
        together.wait(10)
        policy_cache.reload_if_due()

    policy_cache.reload = renew
    policy_cache.expire()
    with ThreadPoolExecutor(many) as pool:
        list(pool.map(come, range(many)))
    assert len(looks) == 1


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Takes the table of decisions away."""

    def fail() -> Any:
        raise OperationalError("the database is away")

    return lambda: monkeypatch.setattr(tool_policies, "_read_policies", fail)


def test_where_decisions_cannot_be_read_those_known_before_count(
    caller: Client, clock: Clock, site: MCPServer, away: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tool(server=site, name="look")(lambda: "looked")
    set_policy(site, tool_of(site, "pay"), "block")
    assert "error" in caller.call("pay").json
    away()
    clock.now += 60
    assert "error" in caller.call("pay").json
    assert caller.call("look").text == "looked"
    assert [each.getMessage() for each in caplog.records if "last known ones still apply" in each.getMessage()] != []
    clock.now += core.RETRY_SECONDS / 2
    caplog.clear()
    assert caller.call("look").text == "looked"
    assert not caplog.records, "it is not tried again with every call"


def test_while_decisions_were_never_read_the_database_and_the_log_are_spared(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    policy_cache, looks = PolicyCache(), []

    def renew() -> float:
        looks.append(clock.now)
        if len(looks) < 4:
            raise OperationalError("the database is away")
        return 100.0

    def refused() -> int:
        with pytest.raises(InternalError):
            policy_cache.reload_if_due()
        return len([each for each in caplog.records if "cannot be read" in each.getMessage()])

    policy_cache.reload = renew
    policy_cache.expire()
    assert [refused() for _ in range(50)] == [1] * 50
    assert len(looks) == 1
    clock.now += core.RETRY_SECONDS
    assert refused() == 1
    clock.now += core.LOG_SECONDS + 0.1
    assert refused() == 2
    clock.now += core.RETRY_SECONDS
    policy_cache.reload_if_due()
    assert len(looks) == 4


def test_while_the_database_is_away_the_log_is_spared_too_where_decisions_were_read(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    policy_cache = PolicyCache()
    policy_cache.reload, policy_cache.is_read = _fail, True
    policy_cache.expire()

    def logged() -> int:
        policy_cache.reload_if_due()
        return len([each for each in caplog.records if "last known ones still apply" in each.getMessage()])

    counted = []
    for _ in range(10):
        counted.append(logged())
        clock.now += core.RETRY_SECONDS
    assert counted == [1] * 10
    clock.now += core.LOG_SECONDS
    assert logged() == 2


def _fail() -> float:
    raise OperationalError("the database is away")


def test_before_decisions_were_read_no_call_is_let_through(caller: Client, away: Any, monkeypatch: Any) -> None:
    away()
    monkeypatch.setattr(policy_cache, "is_read", False)
    for _ in range(2):
        answer = caller.call("pay")
        assert answer.error["message"] == "Internal server error."
    assert "error" in caller.request("tools/list").json
