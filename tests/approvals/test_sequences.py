"""Whatever is called, decided, taken back, changed, cancelled or broken off, in whatever order: never more runs than
approvals, never other arguments, never by somebody else.

A second account of the rules, written for this test alone, says beforehand what each step must give.
"""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.conf import settings as site_settings
from django.core.exceptions import PermissionDenied
from django.test import override_settings
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_mcp import Context, MCPServer, tool
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.tool_policies import set_policy
from django_mcp.models import Approval, AutoApprovalRule, Task, ToolPolicy
from django_mcp.protocol.errors import ProtocolError
from django_mcp.tasks import store
from django_mcp.tasks.worker import run
from tests.approvals.asking import META, People, WantsTask, serve
from tests.behaviour.users import ByName

LONG, SHORT = 1000, 300
FINAL = {"consumed", "denied", "expired"}
CALLERS = (("ann", ""), ("ann", "phone"), ("cleo", ""))
Key = tuple[str, str, str, int]

USUAL: Key = ("ann", "", "home", 1)
others = st.tuples(st.sampled_from(CALLERS), st.sampled_from(("home", "shop")), st.sampled_from((1, 2))).map(
    lambda each: (*each[0], each[1], each[2])
)
keys = st.one_of(st.just(USUAL), st.just(("ann", "", "home", 2)), others)
which = st.sampled_from((0, 0, 0, 1, 2))
endpoints = st.sampled_from(("home", "home", "shop"))
by = st.sampled_from(("dora", "dora", "cleo", "ben"))
stand = st.tuples(st.just("stand"), which, st.sampled_from((2, 3, None)), st.booleans())
approval = st.tuples(st.just("approve"), which, by)
one = st.one_of(
    st.tuples(st.just("call"), keys),
    st.tuples(st.just("task"), keys),
    st.tuples(st.just("crash"), keys),
    approval,
    st.tuples(st.just("deny"), which, by),
    stand,
    st.tuples(st.just("revoke"), which),
    st.tuples(st.just("pass"), st.sampled_from((1, SHORT + 1, LONG + 1))),
    st.tuples(st.just("decide"), endpoints, st.sampled_from(("ask", "ask", "allow", "block"))),
    st.tuples(st.just("define"), endpoints),
    st.tuples(st.just("cancel"), which),
).map(lambda each: (each,))
often = st.one_of(  # what by chance alone would come too seldom
    st.tuples(st.tuples(st.sampled_from(("call", "task")), keys), approval),
    st.tuples(st.tuples(st.sampled_from(("call", "task")), keys), stand),
    st.tuples(st.tuples(st.just("task"), keys), st.just(("cancel", 0))),
    st.just((("call", USUAL), ("call", USUAL))),
    st.tuples(st.just(("call", USUAL)), stand, st.tuples(st.just("call"), keys), st.tuples(st.just("call"), keys)),
)
sequences = st.lists(st.one_of(one, often), min_size=6, max_size=20).map(
    lambda phrases: [each for phrase in phrases for each in phrase]
)


@dataclass
class Ticket:
    """As the rules have it."""

    key: Key
    version: tuple[int, int]
    expires: float
    state: str = "pending"
    task: bool = False
    cancelled: bool = False


@dataclass
class Standing:
    """Likewise."""

    key: Key
    named: bool
    version: tuple[int, int]
    left: int | None
    expires: float
    revoked: bool = False

    def lets(self, key: Key, version: tuple[int, int], now: float) -> bool:
        """Whether a call may pass."""
        same = key == self.key if self.named else key[:3] == self.key[:3]
        return same and version == self.version and not self.revoked and self.expires > now and self.left != 0


@dataclass
class Rules:
    """What is to come of each step."""

    now: float = 0
    tickets: list[Ticket] = field(default_factory=list)
    standing: list[Standing] = field(default_factory=list)
    policy: dict[str, str] = field(default_factory=lambda: {"home": "ask", "shop": "ask"})
    decided: dict[str, int] = field(default_factory=lambda: {"home": 0, "shop": 0})
    defined: dict[str, int] = field(default_factory=lambda: {"home": 0, "shop": 0})
    ran: list[Key] = field(default_factory=list)

    def version(self, endpoint: str) -> tuple[int, int]:
        return self.decided[endpoint], self.defined[endpoint]

    def call(self, key: Key, *, as_task: bool) -> str:  # noqa: PLR0911 - one for each thing it can give
        """What a call gives."""
        endpoint = key[2]
        if self.policy[endpoint] == "block":
            return "unknown"
        if self.policy[endpoint] == "allow":
            return self._run(key)
        version = self.version(endpoint)
        for each in self._of(key):
            if each.state in {"pending", "approved"} and (
                each.expires <= self.now or each.version != version or (each.state == "pending" and each.cancelled)
            ):
                each.state = "expired"
        found = [each for each in self._of(key) if each.version == version and each.expires > self.now]
        live = [each for each in found if each.state in {"pending", "approved", "denied"}]
        ticket = live[-1] if live else None
        if ticket is not None and ticket.state == "approved":
            ticket.state = "consumed"
            return self._run(key)
        if ticket is not None and ticket.state == "denied":
            return "denied"
        for each in self.standing:
            if each.lets(key, version, self.now):
                each.left = None if each.left is None else each.left - 1
                self.tickets.append(Ticket(key, version, each.expires, "consumed"))
                return self._run(key)
        if ticket is None:
            self.tickets.append(Ticket(key, version, self.now + LONG, task=as_task))
            return "task" if as_task else "approval_required"
        ticket.task |= as_task
        return "task" if as_task else "pending"

    def _of(self, key: Key) -> list[Ticket]:
        return [each for each in self.tickets if each.key == key]

    def _run(self, key: Key) -> str:
        self.ran.append(key)
        return "ran"

    def set_policy(self, endpoint: str, decision: str) -> None:
        """Withdraw what waits, or is approved and not used: it was asked for under another policy."""
        self.policy[endpoint] = decision
        self.decided[endpoint] += 1
        for each in self.tickets:
            if each.key[2] == endpoint and each.state in {"pending", "approved"}:
                each.state = "expired"

    def decide(self, ticket: Ticket, by: str, state: str) -> bool:
        """Whether somebody decides."""
        if ticket.state == "pending" and state == "approved" and self.version(ticket.key[2]) != ticket.version:
            ticket.state = "expired"  # the tool is another one now
        if ticket.state != "pending" or ticket.expires <= self.now or ticket.key[0] == by or ticket.cancelled:
            return False
        ticket.state = state
        if state == "approved":
            ticket.expires = self.now + SHORT
        if ticket.task and state == "approved":
            self._let_go(ticket)
        return True

    def _let_go(self, ticket: Ticket) -> None:
        endpoint = ticket.key[2]
        ticket.task = False
        if self.policy[endpoint] == "block":
            return
        if self.version(endpoint) != ticket.version:
            ticket.state = "expired"
            return
        ticket.state = "consumed"
        self._run(ticket.key)

    def stand(self, ticket: Ticket, calls: int | None, *, named: bool) -> bool:
        """Whether somebody approves further calls with a ticket."""
        version = ticket.version
        if not self.decide(ticket, "dora", "approved"):
            return False
        left = None if calls is None else calls - 1
        self.standing.append(Standing(ticket.key, named, version, left, self.now + LONG))
        return True


class Site:
    """What really happens."""

    def __init__(self, servers: dict[str, MCPServer], people: People, ran: list[Any]) -> None:
        self.servers, self.people, self.ran = servers, people, ran
        self.rules = Rules()
        self.start = timezone.now()
        self.over: dict[int, str] = {}
        self.crashes = False

    def now(self) -> datetime.datetime:
        return self.start + datetime.timedelta(seconds=self.rules.now)

    def call(self, key: Key, *, as_task: bool = False) -> None:
        user, client, endpoint, amount = key
        options: dict[str, Any] = {"channel": WantsTask()} if as_task else {}
        crashes = self.crashes
        expected, before = self.rules.call(key, as_task=as_task), len(self.ran)
        try:
            result = serve(
                self.servers[endpoint],
                self.people[user],
                "pay",
                {"amount": amount},
                client_id=client or None,
                **options,
            )
        except ProtocolError:
            got = "unknown"
        else:
            got = result.get("resultType") or result.get("_meta", {}).get(META, {}).get("kind") or "ran"
        assert got == expected
        assert len(self.ran) - before == (got == "ran")
        assert not (got == "ran" and crashes) or result["isError"]

    def ticket(self, number: int) -> tuple[Ticket, Approval] | None:
        """One of the last."""
        found = self.rules.tickets[::-1]
        if number >= len(found):
            return None
        place = len(found) - 1 - number
        return found[number], Approval.objects.order_by("pk")[place]

    def step(self, name: str, *given: Any) -> None:
        self.rules.now += 0.01
        match name, given:
            case "call", (key,):
                self.call(key)
            case "task", (key,):
                self.call(key, as_task=True)
            case "crash", (key,):
                self.crashes = True
                self.call(key)
                self.crashes = False
            case "pass", (seconds,):
                self.rules.now += seconds
            case "decide", (endpoint, decision):
                set_policy(self.servers[endpoint], self.servers[endpoint].tools["pay"], decision)
                self.rules.set_policy(endpoint, decision)
            case "define", (endpoint,):
                changed = self.servers[endpoint].tools["pay"]
                self.rules.defined[endpoint] += 1
                words = f"Pay, version {self.rules.defined[endpoint]}."
                changed.definition = {**changed.definition, "description": words}
            case "revoke", (number,) if number < len(self.rules.standing):
                self.rules.standing[number].revoked = True
                row = AutoApprovalRule.objects.order_by("pk")[number]
                AutoApprovalRule.objects.filter(pk=row.pk).update(revoked=timezone.now())
            case _, (number, *more) if (found := self.ticket(number)) is not None and name != "revoke":
                self.decide(name, *found, *more)

    def decide(self, name: str, ticket: Ticket, row: Approval, *more: Any) -> None:
        match name:
            case "cancel":
                if row.task is not None and store.cancel(row.task):
                    ticket.cancelled = True
            case "stand":
                calls, named = more
                expected = self.rules.stand(ticket, calls, named=named)
                names = ["amount"] if named else []
                dora = self.people["dora"]
                assert approve(row, dora, names=names, calls=calls, seconds=LONG) is expected
            case _ if more[0] == "ben":
                with pytest.raises(PermissionDenied):
                    (approve if name == "approve" else deny)(row, self.people["ben"])
            case _:
                expected = self.rules.decide(ticket, more[0], "approved" if name == "approve" else "denied")
                assert (approve if name == "approve" else deny)(row, self.people[more[0]]) is expected

    def look(self) -> None:
        """What must be true after each step."""
        assert self.ran == self.rules.ran
        found = dict(Approval.objects.values_list("pk", "state"))
        assert [found[pk] for pk in sorted(found)] == [each.state for each in self.rules.tickets]
        for pk, state in self.over.items():
            assert found[pk] == state, "nothing leaves a final state"
        self.over = {pk: state for pk, state in found.items() if state in FINAL}
        assert all(each.remaining is None or each.remaining >= 0 for each in AutoApprovalRule.objects.all())


@pytest.fixture
def edge() -> str:
    """None is needed."""
    return "view"


@pytest.fixture
def make_site(
    make_server: Callable[..., MCPServer], people: People, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], Site]]:
    ran: list[Any] = []
    sites: list[Site] = []
    servers = {name: make_server(name, authentication=[ByName()], scopes=[]) for name in ("home", "shop")}

    def pay_at(name: str) -> Callable[..., str]:
        def pay(ctx: Context, amount: int) -> str:
            ran.append((ctx.user.username.partition("-")[0], ctx.principal.client_id or "", name, amount))
            if sites[-1].crashes:
                msg = "in the middle"
                raise RuntimeError(msg)
            return "paid"

        return pay

    def make() -> Site:
        for model in (Approval, AutoApprovalRule, Task, ToolPolicy):
            model.objects.all().delete()
        for name, server in servers.items():
            server.remove(lambda _: True)
            tool(server=server, policy="ask", name="pay")(pay_at(name))
        ran.clear()
        sites.append(Site(servers, people, ran))
        return sites[-1]

    monkeypatch.setattr(timezone, "now", lambda: sites[-1].now() if sites else datetime.datetime.now(datetime.UTC))
    monkeypatch.setattr("django_mcp.tasks.backends.InProcessBackend.start", lambda _, task: run(task.task_id))
    times = {"APPROVAL_REQUEST_TTL": LONG, "APPROVAL_GRANT_TTL": SHORT, "APPROVAL_WAIT_TIMEOUT": 0.001}
    with override_settings(DJANGO_MCP={**site_settings.DJANGO_MCP, **times}):
        yield make


USUAL_SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.postgresql
@settings(USUAL_SETTINGS, max_examples=12)
@given(sequence=sequences)
def test_nothing_runs_that_was_not_approved(make_site: Callable[[], Site], sequence: list[Any]) -> None:
    play(make_site(), sequence)


@pytest.mark.slow
@pytest.mark.nightly
@settings(USUAL_SETTINGS, max_examples=80)
@given(sequence=sequences)
def test_nothing_runs_that_was_not_approved_in_many_more_orders(
    make_site: Callable[[], Site], sequence: list[Any]
) -> None:
    play(make_site(), sequence)


def play(site: Site, sequence: list[Any]) -> None:
    for name, *more in sequence:
        site.step(name, *more)
        site.look()
