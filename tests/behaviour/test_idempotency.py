"""A call that is repeated under the same key runs once."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError
from django.test import override_settings
from django.utils import timezone

from django_mcp import BaseAuthentication, Context, MCPServer, Principal, RequestHead, ToolError, tool
from django_mcp.models import Step
from django_mcp.pubsub import once
from django_mcp.pubsub.cleanup import clear
from tests.behaviour.beside import beside
from tests.clients import LEGACY, MODERN, Client
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, Room, eventually

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]

KEY = "django-mcp/idempotencyKey"
OURS = {KEY: "8e03978e-40d5-43e8-bc93-6894a57f9324"}
YES = accept(confirm=True)


class ByHeader(BaseAuthentication):
    """Calls everybody what they call themselves."""

    blocking = False

    def authenticate(self, head: RequestHead, server: object) -> Principal:
        return Principal("test", head.headers.get("x-user", "somebody"), None)


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint whose callers can be told apart."""
    return make_server(authentication=[ByHeader()])


@pytest.fixture
def runs() -> list[Any]:
    """What the tool was run with."""
    return []


@pytest.fixture
def orders(server: MCPServer, kind: str, runs: list[Any]) -> None:
    """A tool that orders, of each kind."""
    if kind == "sync":

        @tool(server=server)
        def order(book: str) -> dict[str, Any]:
            runs.append(book)
            return {"number": len(runs)}

    else:

        @tool(server=server)
        async def order(book: str) -> dict[str, Any]:
            await asyncio.sleep(0)
            runs.append(book)
            return {"number": len(runs)}


@pytest.mark.usefixtures("orders")
def test_a_repeated_call_has_the_result_of_the_first(talk: Conversation, runs: list[Any]) -> None:
    outcomes = [talk.call("order", meta=OURS, book="Emma") for _ in range(3)]
    assert [outcome.result["structuredContent"] for outcome in outcomes] == [{"number": 1}] * 3
    assert outcomes[0].result == outcomes[2].result
    assert runs == ["Emma"]


@pytest.mark.usefixtures("orders")
def test_another_key_is_another_call_and_so_is_none(talk: Conversation, runs: list[Any]) -> None:
    for meta in (OURS, {KEY: "another"}, None, None):
        talk.call("order", meta=meta, book="Emma")
    assert runs == ["Emma"] * 4


@pytest.mark.usefixtures("orders")
def test_the_same_key_with_other_arguments_is_refused(talk: Conversation, runs: list[Any]) -> None:
    talk.call("order", meta=OURS, book="Emma")
    refused = talk.call("order", meta=OURS, book="Persuasion")
    assert refused.failed
    assert "already used with other arguments" in refused.text
    assert runs == ["Emma"]


def test_the_header_says_it_too(server: MCPServer, client: Client, runs: list[Any]) -> None:
    @tool(server=server)
    def order() -> int:
        runs.append(1)
        return len(runs)

    def call(key: str, meta: dict[str, Any] | None = None) -> str:
        params = {"name": "order", "arguments": {}, **({"_meta": meta} if meta else {})}
        return client.request("tools/call", params, headers={"idempotency-key": key}).text

    assert [call(key) for key in ('"a \\"key\\""', '"a \\"key\\"" ', '"other"', "other", '"other";p=1')] == list(
        "11222"
    )
    assert call('"other"', {KEY: 'a "key"'}) == "1"  # the call's own word goes first


def test_a_header_that_is_no_string_is_refused(
    server: MCPServer, client: Client, runs: list[Any], subtests: pytest.Subtests
) -> None:
    tool(server=server, name="order")(lambda: runs.append(1))
    for key in ['"', '""', '"a" "b"', '"a", "b"', "a b", '"ä"', '"a\\b"']:
        with subtests.test(key=key):
            headers = {"idempotency-key": key.encode().decode("latin-1")}
            answer = client.request("tools/call", {"name": "order", "arguments": {}}, headers=headers)
            assert answer.code == -32602
            assert runs == []


def test_what_is_no_key_is_refused(
    server: MCPServer, client: Client, runs: list[Any], subtests: pytest.Subtests
) -> None:
    tool(server=server, name="order")(lambda: runs.append(1))
    for key in ["", "x" * 256, 5, ["x"], {}]:
        with subtests.test(key=key):
            answer = client.request("tools/call", {"name": "order", "arguments": {}, "_meta": {KEY: key}})
            assert answer.code == -32602
            assert "1 to 255 characters" in answer.error["message"]
            assert runs == []


def test_an_argument_of_the_tool_can_be_the_key(server: MCPServer, talk: Conversation, runs: list[Any]) -> None:
    @tool(server=server, idempotency_key="request_id")
    def order(book: str, request_id: str | None = None) -> int:
        runs.append(book)
        return len(runs)

    texts = [talk.call("order", book="Emma", request_id=key).text for key in ("a", "b", "a", None, None)]
    assert texts == ["1", "2", "1", "3", "4"]
    assert "other arguments" in talk.call("order", book="Persuasion", request_id="a").text
    assert "Argument 'request_id' must have 1 to 255 characters" in talk.call("order", book="Emma", request_id="").text


def test_a_key_that_is_no_argument_is_refused_at_the_start(server: MCPServer) -> None:
    with pytest.raises(ImproperlyConfigured, match="must be the name of one of its arguments"):
        tool(server=server, name="order", idempotency_key="request_id")(lambda: 1)


def test_a_call_that_failed_may_be_repeated(
    server: MCPServer, talk: Conversation, kind: str, runs: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    ends = iter([ToolError("There is none left."), LookupError("broken"), "ordered"])

    def end() -> str:
        runs.append(1)
        outcome = next(ends)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    if kind == "sync":

        @tool(server=server)
        def order() -> str:
            return end()

    else:

        @tool(server=server)
        async def order() -> str:
            return end()

    outcomes = [talk.call("order", meta=OURS) for _ in range(4)]
    assert [outcome.failed for outcome in outcomes] == [True, True, False, False]
    assert outcomes[3].text == "ordered"
    assert len(runs) == 3


def test_a_tool_that_only_reads_is_run_each_time_and_leaves_no_note(
    server: MCPServer, talk: Conversation, runs: list[Any]
) -> None:
    @tool(server=server, read_only=True)
    def look() -> int:
        runs.append(1)
        return len(runs)

    assert [talk.call("look", meta=OURS).text for _ in range(2)] == ["1", "2"]
    assert not Step.objects.exists()


def test_a_call_without_a_key_costs_no_query(
    server: MCPServer, modern_talk: Conversation, runs: list[Any], rows: Any
) -> None:
    @tool(server=server)
    def order() -> None:
        runs.append(1)

    modern_talk.call("order")
    assert not Step.objects.exists()


def test_a_key_is_good_for_one_host_which_may_be_a_tenant_s(server: MCPServer, client: Client, runs: list[Any]) -> None:
    @tool(server=server)
    def order() -> int:
        runs.append(1)
        return len(runs)

    def call(host: str) -> str:
        params = {"name": "order", "arguments": {}, "_meta": OURS}
        return client.request("tools/call", params, headers={"host": host}).text

    assert [call(host) for host in ("testserver", "localhost", "testserver:8000", "LOCALHOST")] == ["1", "2", "1", "2"]


# While the first is under way


@pytest.mark.parametrize("tool_kind", ["atomic", "not atomic", "async"])
def test_while_the_first_is_under_way_others_are_told_so(
    server: MCPServer, talk: Conversation, runs: list[Any], tool_kind: str
) -> None:
    running, go_on = threading.Event(), threading.Event()

    def work() -> str:
        runs.append(1)
        running.set()
        assert go_on.wait(WITHIN)
        return "ordered"

    if tool_kind == "async":

        @tool(server=server)
        async def order() -> str:
            return await asyncio.get_running_loop().run_in_executor(None, work)

    else:

        @tool(server=server, atomic=tool_kind == "atomic")
        def order() -> str:
            return work()

    talk.open()
    texts: list[str] = []
    first = beside(lambda: texts.append(talk.call("order", meta=OURS).text))
    assert running.wait(WITHIN)
    second = talk.call("order", meta=OURS)
    assert second.failed
    assert "started 0 s ago and has no result yet" in second.text
    go_on.set()
    first.join(WITHIN)
    assert [*texts, talk.call("order", meta=OURS).text] == ["ordered", "ordered"]
    assert runs == [1]


def test_of_many_at_once_one_runs(server: MCPServer, open_database: None, runs: list[Any], edge: str) -> None:
    @tool(server=server)
    def order() -> str:
        runs.append(1)
        return "ordered"

    barrier, texts = threading.Barrier(6), []

    def repeat(room: Room) -> None:
        talk = Conversation(room, MODERN)
        barrier.wait()
        while (outcome := talk.call("order", meta=OURS)).text != "ordered":
            assert "has no result yet" in outcome.text
        texts.append(outcome.text)

    with Room(server, edge) as room:
        for thread in [beside(lambda: repeat(room)) for _ in range(6)]:
            thread.join(WITHIN)
    assert texts == ["ordered"] * 6
    assert runs == [1]


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_client_that_lost_its_connection_has_the_result_when_it_repeats_the_call(
    server: MCPServer, talk: Conversation, rows: Any
) -> None:
    running, go_on = threading.Event(), threading.Event()

    @tool(server=server)
    def order() -> str:
        running.set()
        assert go_on.wait(WITHIN)
        rows("ordered")
        return "ordered"

    call = talk.begin("tools/call", {"name": "order", "arguments": {}, "_meta": OURS})
    assert running.wait(WITHIN)
    call.exchange.leave()
    go_on.set()
    eventually(rows.written)
    assert talk.call("order", meta=OURS).text == "ordered"
    assert rows.written() == ["ordered"]


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_call_that_was_stopped_and_rolled_back_is_run_again(
    server: MCPServer, modern_talk: Conversation, rows: Any
) -> None:
    running, cancelled, ended = threading.Event(), threading.Event(), threading.Event()

    @tool(server=server)
    def order(ctx: Context) -> str:
        rows("ordered")
        if not running.is_set():
            running.set()
            try:
                while not cancelled.wait(0.002):
                    ctx.check_cancelled()
            finally:
                ended.set()
        return "ordered"

    call = modern_talk.begin("tools/call", {"name": "order", "arguments": {}, "_meta": OURS})
    assert running.wait(WITHIN)
    call.exchange.leave()
    assert ended.wait(WITHIN)
    assert eventually(lambda: modern_talk.call("order", meta=OURS).text == "ordered")
    assert rows.written() == ["ordered"]


@pytest.mark.leaves("the claim of a call whose result could not be stored, until the key expires")
@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.parametrize("kind", ["async", "without a transaction"])
def test_a_call_that_ended_is_not_run_again_if_its_result_could_not_be_stored(
    server: MCPServer, modern_talk: Conversation, runs: list[Any], kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "async":

        @tool(server=server, name="order")
        async def order_async() -> str:
            runs.append(1)
            return "ordered"

    else:

        @tool(server=server, atomic=False)
        def order() -> str:
            runs.append(1)
            return "ordered"

    def fail(*_: Any) -> None:
        raise DatabaseError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(once.StepRecord, "store", fail)
        assert modern_talk.call("order", meta=OURS).failed
    assert "check the outcome before you call again" in modern_talk.call("order", meta=OURS).text
    assert runs == [1]


@pytest.mark.leaves("the claim of a call whose outcome is unknown, until the key expires")
@pytest.mark.parametrize("edge", ["asgi"])
def test_a_call_that_was_cut_off_and_left_nobody_knows_what_is_not_run_again(
    server: MCPServer, modern_talk: Conversation, runs: list[Any]
) -> None:
    running, ended = threading.Event(), threading.Event()

    @tool(server=server)
    async def order() -> str:
        runs.append(1)
        running.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "ordered"

    call = modern_talk.begin("tools/call", {"name": "order", "arguments": {}, "_meta": OURS})
    assert running.wait(WITHIN)
    call.exchange.leave()
    assert ended.wait(WITHIN)
    eventually(lambda: modern_talk.room.tasks == 0)
    assert "check the outcome before you call again" in modern_talk.call("order", meta=OURS).text
    assert runs == [1]


def test_what_came_too_late_for_its_caller_is_there_for_a_repeated_call_where_it_was_done_all_the_same(
    server: MCPServer, talk: Conversation, runs: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.core import deadline

    now = [0.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])

    @tool(server=server, timeout=60, atomic=False)
    def order() -> str:
        runs.append(1)
        now[0] += 100
        return "ordered"

    assert "took longer than 60 s" in talk.call("order", meta=OURS).text
    assert talk.call("order", meta=OURS).text == "ordered"
    assert runs == [1]


def test_what_came_too_late_and_was_rolled_back_runs_again(
    server: MCPServer, talk: Conversation, rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.core import deadline

    now, lateness = [0.0], iter([100, 0])
    monkeypatch.setattr(deadline, "monotonic", lambda: now[0])

    @tool(server=server, timeout=60)
    def order() -> str:
        rows("ordered")
        now[0] += next(lateness)
        return "ordered"

    assert "took longer than 60 s" in talk.call("order", meta=OURS).text
    assert rows.written() == []
    assert talk.call("order", meta=OURS).text == "ordered"
    assert rows.written() == ["ordered"]


# Tools that ask, and acts that are done once


def test_a_call_that_asks_is_kept_when_it_is_done(
    server: MCPServer, talk: Conversation, kind: str, runs: list[Any]
) -> None:
    if kind == "sync":

        @tool(server=server)
        def order(ctx: Context) -> str:
            sure = ctx.confirm("Sure?")
            runs.append(sure)
            return f"ordered {len(runs)}"

    else:

        @tool(server=server)
        async def order(ctx: Context) -> str:
            sure = ctx.confirm("Sure?")
            runs.append(sure)
            return f"ordered {len(runs)}"

    first = talk.call("order", meta=OURS, answers=[YES])
    again = talk.call("order", meta=OURS, answers=[YES])
    assert (first.text, again.text) == ("ordered 1", "ordered 1")
    assert len(first.asked) == 1
    assert again.asked == []
    assert runs == [True]


def test_the_header_of_the_first_request_holds_for_all_rounds(
    server: MCPServer, talk: Conversation, runs: list[Any]
) -> None:
    @tool(server=server)
    def order(ctx: Context) -> str:
        ctx.confirm("Sure?")
        runs.append(1)
        return f"ordered {len(runs)}"

    for _ in range(2):
        params = {"name": "order", "arguments": {}}
        outcome = talk.request("tools/call", params, [YES], headers={"idempotency-key": '"ours"'})
        assert outcome.text == "ordered 1"


def test_while_somebody_thinks_a_repeated_call_asks_too_and_one_of_them_acts(
    server: MCPServer, talk: Conversation, runs: list[Any]
) -> None:
    @tool(server=server)
    def order(ctx: Context) -> str:
        ctx.confirm("Sure?")
        runs.append(1)
        return f"ordered {len(runs)}"

    between: list[str] = []

    def think(_: Any) -> Any:
        between.append(talk.call("order", meta=OURS, answers=[YES]).text)
        return YES

    assert talk.call("order", meta=OURS, answers=think).text == "ordered 1"
    assert between == ["ordered 1"]
    assert runs == [1]


def test_an_act_is_done_once_in_all_tries_of_a_call(server: MCPServer, talk: Conversation, runs: list[Any]) -> None:
    tries: list[int] = []

    @tool(server=server)
    def order(ctx: Context, book: str) -> str:
        paid = ctx.once("pay", lambda: runs.append(book) or f"paid for {book}")
        tries.append(1)
        if len(tries) == 1:
            raise ToolError("The shop is closed.")
        return paid

    assert talk.call("order", meta=OURS, book="Emma").failed
    assert talk.call("order", meta=OURS, book="Emma").text == "paid for Emma"
    assert runs == ["Emma"]


def test_other_arguments_after_a_failed_call_are_another_act(
    server: MCPServer, talk: Conversation, runs: list[Any]
) -> None:
    @tool(server=server)
    def order(ctx: Context, book: str) -> str:
        paid = ctx.once("pay", lambda: runs.append(book) or f"paid for {book}")
        if book == "Emma":
            raise ToolError("There is no Emma.")
        return paid

    assert talk.call("order", meta=OURS, book="Emma").failed
    assert talk.call("order", meta=OURS, book="Persuasion").text == "paid for Persuasion"


# Whose it is, and for how long


@pytest.fixture
def two_servers(make_server: Callable[..., MCPServer], runs: list[Any]) -> Iterator[list[MCPServer]]:
    servers = [make_server(name, authentication=[ByHeader()]) for name in ("one", "two")]

    @tool(server=servers)
    def order() -> int:
        runs.append(1)
        return len(runs)

    @tool(server=servers)
    def reserve() -> int:
        runs.append(1)
        return len(runs)

    return servers


@pytest.mark.usefixtures("open_database")
def test_a_key_belongs_to_a_caller_an_endpoint_and_a_tool(two_servers: list[MCPServer]) -> None:
    def call(server: MCPServer, name: str, user: str, version: str = MODERN) -> str:
        params = {"name": name, "arguments": {}, "_meta": OURS}
        return Client(server, version, "asgi").request("tools/call", params, headers={"x-user": user}).text

    one, two = two_servers
    calls = [(one, "order", "ada"), (one, "order", "ben"), (one, "reserve", "ada"), (two, "order", "ada")]
    assert [call(*each) for each in calls] == ["1", "2", "3", "4"]
    assert [call(*each, LEGACY) for each in calls] == ["1", "2", "3", "4"]  # whatever version it is repeated in


@pytest.fixture
def public(make_server: Callable[..., MCPServer], edge: str, open_database: None) -> Iterator[Conversation]:
    """A caller of an endpoint for everybody, at each edge."""
    with Room(make_server("public"), edge) as room:
        yield Conversation(room, MODERN)


def test_nobody_has_the_result_of_another_caller_who_is_not_signed_in(
    public: Conversation, kind: str, runs: list[Any]
) -> None:
    """Two of them may come upon the same key, and the same arguments."""

    def answer() -> str:
        runs.append(1)
        return "the first caller's secret"

    if kind == "sync":

        @tool(server=public.room.server)
        def order() -> str:
            return answer()

    else:

        @tool(server=public.room.server)
        async def order() -> str:
            return answer()

    assert public.call("order", meta=OURS).text == "the first caller's secret"
    second = public.call("order", meta=OURS)
    assert second.failed
    assert "secret" not in second.text
    assert "has already run" in second.text
    assert runs == [1]
    assert public.call("order", meta={KEY: "another"}).text == "the first caller's secret"


def test_nor_of_an_act_of_a_call_that_failed_which_is_not_done_again(public: Conversation, rows: Any) -> None:
    @tool(server=public.room.server)
    def pay(ctx: Context) -> str:
        number = ctx.once("charge", lambda: rows("charge") or "the first caller's receipt")
        raise ToolError(f"Not now. {number}")

    @tool(server=public.room.server)
    async def apay(ctx: Context) -> str:
        async def charge() -> str:
            await asyncio.to_thread(lambda: None)
            return "the first caller's receipt"

        raise ToolError(f"Not now. {await ctx.aonce('charge', charge)}")

    for name in ("pay", "apay"):
        assert public.call(name, meta=OURS).text == "Not now. the first caller's receipt"
        second = public.call(name, meta=OURS)
        assert "receipt" not in second.text
        assert "'charge' has already run" in second.text
    assert rows.written() == ["charge"]


def test_an_act_of_a_call_whose_caller_is_not_signed_in_is_done_once_for_all_its_rounds(
    public: Conversation, rows: Any
) -> None:
    @tool(server=public.room.server)
    def pay(ctx: Context) -> str:
        number = ctx.once("charge", lambda: rows("charge") or "receipt")
        return f"{number} {ctx.confirm('Really?')}"

    assert public.call("pay", meta=OURS, answers=[YES]).text == "receipt True"
    assert rows.written() == ["charge"]


@pytest.mark.usefixtures("orders")
def test_a_result_is_kept_for_a_day_and_then_cleared(talk: Conversation, runs: list[Any]) -> None:
    talk.call("order", meta=OURS, book="Emma")
    left = Step.objects.get(key="repeat").expires - timezone.now()
    assert 86_390 < left.total_seconds() <= 86_400
    clear()
    assert Step.objects.filter(key="repeat").exists()
    Step.objects.filter(key="repeat").update(expires=timezone.now())
    assert talk.call("order", meta=OURS, book="Persuasion").result["structuredContent"] == {"number": 2}
    Step.objects.filter(key="repeat").update(expires=timezone.now())
    clear()
    assert not Step.objects.filter(key="repeat").exists()


@pytest.mark.usefixtures("orders")
@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "IDEMPOTENCY_TTL": 60})
def test_how_long_is_a_setting(talk: Conversation) -> None:
    talk.call("order", meta=OURS, book="Emma")
    assert (Step.objects.get(key="repeat").expires - timezone.now()).total_seconds() <= 60


def test_in_a_batch_the_header_says_nothing(server: MCPServer, open_database: None, runs: list[Any]) -> None:
    """It cannot say which of the calls it means; their own keys can."""

    @tool(server=server)
    def order() -> int:
        runs.append(1)
        return len(runs)

    def message(number: int, meta: dict[str, Any]) -> dict[str, Any]:
        params = {"name": "order", "arguments": {}, "_meta": meta}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    import json

    client = Client(server, LEGACY, "asgi")
    body = [message(number, meta) for number, meta in enumerate([{}, {}, OURS, OURS])]
    headers = {"mcp-protocol-version": "2025-03-26", "idempotency-key": '"key"'}
    answers = client.post(json.dumps(body).encode(), headers).json
    assert [each["result"]["content"][0]["text"] for each in answers] == ["1", "2", "3", "3"]
