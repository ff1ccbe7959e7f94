"""What is done once in a call, however often the call is run."""

import asyncio
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.cache import cache
from django.db import transaction

from django_mcp import Context, MCPServer, ToolError, tool
from django_mcp.core.execution import slots_of
from django_mcp.models import Step
from django_mcp.protocol.meta import IDEMPOTENCY_KEY
from tests.behaviour.test_idempotency import ByHeader
from tests.conversation import DECLINE, NOBODY, Conversation, Person, accept

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
YES = accept(confirm=True)


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint whose callers can be told apart, so that keys have what calls under them have done."""
    return make_server(authentication=[ByHeader()])


def test_an_act_before_a_question_is_done_once_and_its_result_kept(
    server: MCPServer, talk: Conversation, rows: Any
) -> None:
    runs: list[str] = []

    @tool(server=server)
    def order(ctx: Context) -> str:
        runs.append("run")
        number = ctx.once("order", lambda: rows("order") or {"number": len(runs)})
        sure = ctx.confirm("Really?")
        ctx.confirm("Really really?")
        return f"{number} {sure}"

    assert talk.call("order", answers=[YES, YES]).text == "{'number': 1} True"
    assert runs == ["run"] * 3
    assert rows.written() == ["order"]


def test_an_async_act_is_done_once_too(server: MCPServer, talk: Conversation) -> None:
    acts: list[int] = []

    @tool(server=server)
    async def order(ctx: Context) -> str:
        async def act() -> list[int]:
            await asyncio.sleep(0)
            acts.append(1)
            return [7, None]

        result = await ctx.aonce("order", act)
        return f"{result} {ctx.confirm('Really?')}"

    assert talk.call("order", answers=[YES]).text == "[7, None] True"
    assert acts == [1]


def test_each_call_acts_for_itself(server: MCPServer, talk: Conversation) -> None:
    acts: list[int] = []

    @tool(server=server)
    def order(ctx: Context) -> str:
        return f"{ctx.once('order', lambda: acts.append(1) or len(acts))} {ctx.confirm('?')}"

    assert [talk.call("order", answers=[YES]).text for _ in range(2)] == ["1 True", "2 True"]


def test_acts_are_told_apart_by_their_keys(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    def order(ctx: Context) -> str:
        done = [ctx.once(key, lambda key=key: key.upper()) for key in ("a", "b", "a")]
        ctx.confirm("?")
        return " ".join(done)

    assert talk.call("order", answers=[YES]).text == "A B A"


def test_an_act_stays_though_the_round_is_rolled_back(server: MCPServer, talk: Conversation, rows: Any) -> None:
    @tool(server=server)
    def order(ctx: Context) -> str:
        rows("before")
        ctx.once("order", lambda: rows("act"))
        rows("after")
        if not ctx.confirm("Really?"):
            raise ToolError("Then not.")
        return "done"

    outcome = talk.call("order", answers=[DECLINE])
    assert outcome.failed
    # What was written before is committed with the act, in each round; what follows goes with its round.
    assert rows.written() == ["before", "act", "before"]


def test_an_act_that_fails_is_rolled_back_and_may_be_tried_again(
    server: MCPServer, talk: Conversation, rows: Any
) -> None:
    fails = iter([True, False])

    def act() -> str:
        rows("act")
        if next(fails):
            raise LookupError("the supplier does not answer")
        return "acted"

    @tool(server=server)
    def order(ctx: Context) -> str:
        try:
            return ctx.once("order", act)
        except LookupError:
            return f"{ctx.once('order', act)} at the second try"

    assert talk.call("order").text == "acted at the second try"
    assert rows.written() == ["act"]


def test_a_failed_async_act_may_be_tried_again(server: MCPServer, talk: Conversation) -> None:
    fails = iter([True, False])

    @tool(server=server)
    async def order(ctx: Context) -> str:
        async def act() -> str:
            if next(fails):
                raise LookupError("the supplier does not answer")
            return "acted"

        try:
            return await ctx.aonce("order", act)
        except LookupError:
            return await ctx.aonce("order", act)

    assert talk.call("order").text == "acted"


def test_an_act_whose_outcome_was_lost_is_not_done_again(server: MCPServer, talk: Conversation) -> None:
    acts: list[int] = []

    @tool(server=server)
    def order(ctx: Context) -> str:
        ctx.once("order", lambda: acts.append(1))
        return str(ctx.confirm("?"))

    def lose(question: Any) -> Any:
        assert Step.objects.filter(key="once:order").update(done=False) == 1
        return YES

    outcome = talk.call("order", answers=lose)
    assert outcome.failed
    assert "'order' was started before and its outcome is unknown" in outcome.text
    assert acts == [1]


def test_an_act_belongs_to_its_call_whatever_the_idempotency_keys_of_its_rounds_are(
    server: MCPServer, modern_talk: Conversation, rows: Any, subtests: pytest.Subtests
) -> None:
    """Libraries that send such a key make a fresh one for each request, and so for each round."""

    @tool(server=server, description="Order.")
    def order(ctx: Context, number: int) -> str:
        return f"{ctx.once('order', lambda: rows(str(number)) or number)} {ctx.confirm('Really?')}"

    @tool(server=server, description="Order.")
    async def aorder(ctx: Context, number: int) -> str:
        async def act() -> int:
            await sync_to_async(rows)(str(number))
            return number

        return f"{await ctx.aonce('order', act)} {ctx.confirm('Really?')}"

    keys = [("a", "b"), ("a", None), (None, "a"), ("a", "a"), (None, None)]
    for name in ("order", "aorder"):
        for number, (first, second) in enumerate(keys):
            with subtests.test(name=name, first=first, second=second):
                rows.forget()

                def with_key(params: dict[str, Any], key: str | None, round_name: str) -> dict[str, Any]:
                    return params if key is None else {**params, "_meta": {IDEMPOTENCY_KEY: f"{round_name} {key}"}}

                params = {"name": name, "arguments": {"number": number}}
                begun = modern_talk.begin("tools/call", with_key(params, first, f"{name} {number}"))
                (message,) = begun
                params |= modern_talk.input(message["result"], Person([YES]))
                ended = modern_talk.request("tools/call", with_key(params, second, f"{name} {number}"))
                assert ended.text == f"{number} True"
                assert rows.written() == [str(number)]


def test_an_act_of_a_call_without_a_key_is_known_to_the_key_that_a_later_round_brings(
    server: MCPServer, modern_talk: Conversation, rows: Any
) -> None:
    @tool(server=server)
    def order(ctx: Context) -> str:
        return f"{ctx.once('order', lambda: rows('order') or 1)} {ctx.confirm('Really?')}"

    keyed = {"_meta": {IDEMPOTENCY_KEY: "a"}}
    params: dict[str, Any] = {"name": "order", "arguments": {}}
    (message,) = modern_talk.begin("tools/call", params)
    (again,) = modern_talk.begin(
        "tools/call", {**params, **keyed, **modern_talk.input(message["result"], Person([NOBODY]))}
    )
    assert again["result"]["resultType"] == "input_required"
    assert modern_talk.request("tools/call", {**params, **keyed}, answers=[YES]).text == "1 True"
    assert rows.written() == ["order"]


def test_an_act_within_a_transaction_of_the_tool_is_refused(server: MCPServer, talk: Conversation, rows: Any) -> None:
    errors: list[str] = []

    @tool(server=server)
    def order(ctx: Context) -> str:
        with transaction.atomic():
            try:
                ctx.once("order", lambda: rows("act"))
            except RuntimeError as error:
                errors.append(str(error))
        return "done"

    assert talk.call("order").text == "done"
    assert "cannot be called inside transaction.atomic()" in errors[0]
    assert rows.written() == []


@pytest.mark.parametrize("options", [{"read_only": True}, {"atomic": False}])
def test_tools_without_a_transaction_act_once_too(
    server: MCPServer, talk: Conversation, rows: Any, options: dict[str, Any]
) -> None:
    @tool(server=server, **options)
    def order(ctx: Context) -> str:
        ctx.once("order", lambda: rows("act"))
        return str(ctx.confirm("?"))

    assert talk.call("order", answers=[YES]).text == "True"
    assert rows.written() == ["act"]


def test_an_act_whose_result_is_no_json_stays_done_and_is_not_done_again(
    server: MCPServer, talk: Conversation, rows: Any
) -> None:
    """Were the note forgotten, every repetition of the call would charge the card again."""
    results = [Decimal("9.90"), datetime.date(2031, 1, 1), object(), "\ud800", float("nan"), {1, 2}]

    @tool(server=server, description="Order.")
    def order(ctx: Context, number: int) -> str:
        ctx.once("order", lambda: rows(str(number)) or results[number])
        return "done"

    @tool(server=server, description="Order.")
    async def aorder(ctx: Context, number: int) -> str:
        async def act() -> Any:
            await sync_to_async(rows)(f"async {number}")
            return results[number]

        await ctx.aonce("order", act)
        return "done"

    for name in ("order", "aorder"):
        for number in range(len(results)):
            for _ in range(3):
                params = {"name": name, "arguments": {"number": number}, "_meta": {IDEMPOTENCY_KEY: f"{name} {number}"}}
                assert talk.request("tools/call", params).failed
    assert sorted(rows.written()) == sorted([*map(str, range(6)), *(f"async {number}" for number in range(6))])


@pytest.mark.parametrize("edge", ["asgi"])
def test_once_on_the_event_loop_says_what_to_use(server: MCPServer, talk: Conversation) -> None:
    errors: list[Exception] = []

    @tool(server=server)
    async def order(ctx: Context) -> str:
        try:
            ctx.once("order", lambda: 1)
        except Exception as error:  # noqa: BLE001
            errors.append(error)
        return "done"

    assert talk.call("order").text == "done"
    assert isinstance(errors[0], RuntimeError), errors


# The newest version: whoever has a state could send it twice.


def state_of_a_call(server: MCPServer, talk: Conversation, **options: Any) -> dict[str, Any]:
    @tool(server=server, **options)
    def pay(ctx: Context) -> str:
        return f"paid {ctx.confirm('Pay?')}"

    (message,) = talk.begin_call("pay")
    return {"name": "pay", "arguments": {}, **talk.input(message["result"], Person([YES]))}


def test_a_state_of_a_call_that_changes_something_is_good_for_one_round(
    server: MCPServer, modern_talk: Conversation
) -> None:
    params = state_of_a_call(server, modern_talk)
    assert modern_talk.request("tools/call", params).text == "paid True"
    again = modern_talk.request("tools/call", params)
    assert (again.status, again.error["code"]) == (400, -32602)
    assert "already used" in again.error["message"]


@pytest.mark.parametrize("options", [{"read_only": True}, {"idempotent": True}])
def test_a_state_of_a_call_that_does_no_harm_may_be_used_again(
    server: MCPServer, modern_talk: Conversation, options: dict[str, Any]
) -> None:
    params = state_of_a_call(server, modern_talk, **options)
    for _ in range(2):
        assert modern_talk.request("tools/call", params).text == "paid True"


def test_a_state_is_not_used_up_by_a_call_that_does_not_run(
    server: MCPServer, modern_talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's answer is good for the next try."""
    monkeypatch.setattr("django_mcp.core.execution.WAIT_SECONDS", 0.01)
    params = state_of_a_call(server, modern_talk, concurrency_limit=1)
    slots = slots_of(server.tools["pay"])
    assert slots is not None
    assert slots.acquire()
    assert "busy" in modern_talk.request("tools/call", params).text
    slots.release()
    assert modern_talk.request("tools/call", params).text == "paid True"
    assert "already used" in modern_talk.request("tools/call", params).error["message"]


@pytest.mark.every_way_in
def test_a_rate_counts_a_call_once_however_often_it_asks(server: MCPServer, talk: Conversation) -> None:
    cache.clear()

    @tool(server=server, rate_limit="1/d")
    def pay(ctx: Context) -> str:
        return f"paid {ctx.confirm('Pay?', key='a')} {ctx.confirm('Really?', key='b')}"

    assert talk.call("pay", answers=[YES, YES]).text == "paid True True"
    assert talk.begin_call("pay").next()["error"]["code"] == -32000


def test_a_state_that_is_used_again_counts_as_a_call(server: MCPServer, modern_talk: Conversation) -> None:
    cache.clear()
    params = state_of_a_call(server, modern_talk, idempotent=True, rate_limit="2/d")
    assert [modern_talk.request("tools/call", params).status for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize("edge", ["asgi"])
def test_of_two_that_use_a_state_at_the_same_time_one_is_served(server: MCPServer, modern_talk: Conversation) -> None:
    params = state_of_a_call(server, modern_talk)
    calls = [modern_talk.begin("tools/call", params) for _ in range(6)]
    answers = [call.next() for call in calls]
    assert sorted("result" in answer for answer in answers) == [False] * 5 + [True]


def test_what_no_database_takes_back_is_undone_after_a_rollback_last_first(
    server: MCPServer, talk: Conversation, rows: Any, caplog: pytest.LogCaptureFixture
) -> None:
    undone: list[str] = []

    def fail_to_undo() -> None:
        undone.append("second")
        raise OSError("the disk is away")

    @tool(server=server)
    def upload(ctx: Context, name: str) -> str:
        ctx.on_rollback(lambda: undone.append(f"first, of {name}"))
        rows(name)
        ctx.on_rollback(fail_to_undo)
        if name == "bad":
            raise ToolError("It is no picture.")
        return "kept"

    assert "It is no picture." in talk.call("upload", name="bad").text
    assert undone == ["second", "first, of bad"]
    assert "a ctx.on_rollback function failed" in caplog.text
    undone.clear()
    assert talk.call("upload", name="good").text == "kept"
    assert undone == []
    assert rows.written() == ["good"]


def test_what_once_has_committed_is_not_undone(server: MCPServer, talk: Conversation) -> None:
    undone: list[str] = []

    @tool(server=server)
    def upload(ctx: Context) -> str:
        ctx.on_rollback(lambda: undone.append("before"))
        ctx.once("pay", lambda: 1)
        ctx.on_rollback(lambda: undone.append("after"))
        transaction.set_rollback(True)
        return "done"

    talk.call("upload")
    assert undone == ["after"]


def test_an_async_tool_is_told_that_it_has_no_transaction(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    async def upload(ctx: Context) -> str:
        with pytest.raises(RuntimeError, match="has none"):
            ctx.on_rollback(list)
        return "told"

    assert talk.call("upload").text == "told"


def test_a_state_is_good_at_the_host_that_was_asked_which_may_be_a_tenant_s(
    server: MCPServer, modern_talk: Conversation
) -> None:
    params = state_of_a_call(server, modern_talk)
    elsewhere = modern_talk.request("tools/call", params, headers={"host": "localhost"})
    assert "belongs to another call" in elsewhere.error["message"]
    assert modern_talk.request("tools/call", params).text == "paid True"
