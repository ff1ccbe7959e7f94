"""What a tool tells its client while it runs: how far it is, and what it logs."""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_mcp import Context, MCPServer, prompt, resource, tool
from django_mcp.core.channel import LEVELS
from tests.clients import META
from tests.conversation import Conversation, Outcome, accept
from tests.exchange import WITHIN, Room

PROGRESS = "notifications/progress"
LOG = "notifications/message"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def telling(server: MCPServer, kind: str, body: Callable[[Context], Any]) -> None:
    """A tool ``tell`` that does what *body* does, as a function of each kind."""

    def plain(ctx: Context) -> str:
        body(ctx)
        return "done"

    async def coroutine(ctx: Context) -> str:
        body(ctx)
        return "done"

    tool(server=server, name="tell")(plain if kind == "sync" else coroutine)


def listen(talk: Conversation, level: str | None) -> dict[str, Any]:
    """Ask for a log from *level* on, as each version does; what to send with the call."""
    if talk.is_modern:
        return {} if level is None else {META + "logLevel": level}
    if level is not None:
        assert talk.request("logging/setLevel", {"level": level}).result == {}
    return {}


def call(talk: Conversation, *, token: Any = None, level: str | None = None) -> Outcome:
    meta = listen(talk, level)
    if token is not None:
        meta["progressToken"] = token
    outcome = talk.call("tell", meta=meta)
    assert outcome.text == "done"
    assert "method" not in outcome.response
    return outcome


# Progress


def test_progress_goes_to_those_who_asked_under_their_token(
    server: MCPServer, talk: Conversation, kind: str, subtests: pytest.Subtests
) -> None:
    def body(ctx: Context) -> None:
        ctx.report_progress(0)
        ctx.report_progress(0.5, 2)
        ctx.report_progress(2, 2, "Done.")

    telling(server, kind, body)
    for token in ["abc", 7, 0, ""]:
        with subtests.test(token=token):
            assert call(talk, token=token).told(PROGRESS) == [
                {"progressToken": token, "progress": 0},
                {"progressToken": token, "progress": 0.5, "total": 2},
                {"progressToken": token, "progress": 2, "total": 2, "message": "Done."},
            ]


def test_without_a_token_that_is_one_no_progress_is_sent(
    server: MCPServer, talk: Conversation, subtests: pytest.Subtests
) -> None:
    telling(server, "sync", lambda ctx: ctx.report_progress(1))
    for token in [None, True, 1.5, ["x"], {"a": 1}]:
        with subtests.test(token=token):
            outcome = call(talk, token=token)
            assert outcome.messages == [outcome.response]
            assert not outcome.exchanges[0].is_stream


def test_progress_that_does_not_grow_is_not_sent(server: MCPServer, talk: Conversation) -> None:
    def body(ctx: Context) -> None:
        for progress in (1, 1, 0.5, 2, -3, 2.0, 3):
            ctx.report_progress(progress)

    telling(server, "sync", body)
    assert [each["progress"] for each in call(talk, token="t").told(PROGRESS)] == [1, 2, 3]


def test_prompts_and_resources_report_progress_too(server: MCPServer, talk: Conversation) -> None:
    @prompt(server=server)
    def plan(ctx: Context) -> str:
        ctx.report_progress(1, message="prompt")
        return "x"

    @resource("test://{x}", server=server)
    async def read(ctx: Context, x: str) -> str:
        ctx.report_progress(1, message="resource")
        return x

    meta = {"_meta": {"progressToken": "t"}}
    for method, params in (("prompts/get", {"name": "plan"}), ("resources/read", {"uri": "test://y"})):
        (told,) = talk.request(method, {**params, **meta}).told(PROGRESS)
        assert told["message"] == method.partition("/")[0].rstrip("s")


# Logs


def everything(ctx: Context) -> None:
    for level in LEVELS:
        ctx.log(level, level)


def test_a_log_has_what_is_at_least_as_severe_as_was_asked_for(
    server: MCPServer, talk: Conversation, subtests: pytest.Subtests
) -> None:
    telling(server, "sync", everything)
    for level in LEVELS:
        with subtests.test(level=level):
            heard = [each["level"] for each in call(talk, level=level).told(LOG)]
            assert heard == list(LEVELS[LEVELS.index(level) :])


def test_a_modern_client_that_asks_for_no_log_gets_none(
    server: MCPServer, room: Room, modern_talk: Conversation
) -> None:
    telling(server, "sync", everything)
    outcome = call(modern_talk)
    assert outcome.messages == [outcome.response]


def test_a_modern_client_asks_anew_with_each_request(server: MCPServer, modern_talk: Conversation) -> None:
    telling(server, "sync", everything)
    assert call(modern_talk, level="error").told(LOG)
    assert not call(modern_talk).told(LOG)


def test_a_session_remembers_its_level_and_no_other_does(server: MCPServer, legacy_talk: Conversation) -> None:
    telling(server, "sync", everything)
    other = Conversation(legacy_talk.room, legacy_talk.version)
    assert len(call(legacy_talk, level="alert").told(LOG)) == 2
    assert len(call(legacy_talk).told(LOG)) == 2
    assert [each["level"] for each in call(other).told(LOG)] == list(LEVELS[LEVELS.index("info") :])


def test_without_a_session_nothing_is_logged(server: MCPServer, legacy_talk: Conversation) -> None:
    telling(server, "sync", everything)
    legacy_talk.opened = True
    assert not call(legacy_talk, level="debug").told(LOG)


def test_a_level_that_is_none_is_refused(server: MCPServer, talk: Conversation, subtests: pytest.Subtests) -> None:
    telling(server, "sync", everything)
    for level in ["loud", "", "INFO", 7, ["info"], {"a": 1}]:
        with subtests.test(level=level):
            if talk.is_modern:
                outcome = talk.call("tell", meta={META + "logLevel": level})
                assert outcome.status == 400
            else:
                outcome = talk.request("logging/setLevel", {"level": level})
                assert outcome.status == 200
            assert outcome.error["code"] == -32602
            assert "debug, info" in outcome.error["message"]


def test_the_log_is_declared_where_something_may_write_it(server: MCPServer, legacy_talk: Conversation) -> None:
    tool(server=server, name="silent")(lambda: "x")
    assert legacy_talk.request("logging/setLevel", {"level": "info"}).error["code"] == -32601
    telling(server, "sync", everything)
    assert legacy_talk.request("logging/setLevel", {"level": "info"}).result == {}


@pytest.mark.parametrize("data", ["a line", 7, None, ["x"], {"rows": [1.5, True, None]}])
def test_whatever_is_json_can_be_logged_and_names_its_logger(server: MCPServer, talk: Conversation, data: Any) -> None:
    telling(server, "async", lambda ctx: ctx.log("error", data, logger="hotels"))
    assert call(talk, level="info").told(LOG) == [{"level": "error", "logger": "hotels", "data": data}]


@pytest.mark.parametrize("data", [object(), "\ud800"])
def test_what_no_json_can_hold_is_the_tools_own_error(server: MCPServer, talk: Conversation, data: Any) -> None:
    errors: list[Exception] = []

    def body(ctx: Context) -> None:
        try:
            ctx.log("error", data)
        except TypeError as error:
            errors.append(error)

    telling(server, "sync", body)
    assert call(talk, level="info").told(LOG) == []
    assert "cannot be encoded as JSON" in str(errors[0])


@pytest.mark.parametrize("data", [object(), "\ud800"])
def test_what_no_json_can_hold_does_not_matter_where_nobody_listens(
    server: MCPServer, modern_talk: Conversation, data: Any
) -> None:
    telling(server, "sync", lambda ctx: ctx.log("error", data))
    call(modern_talk)


def test_a_misspelt_level_is_the_tools_own_error(server: MCPServer, talk: Conversation) -> None:
    errors: list[str] = []

    def body(ctx: Context) -> None:
        try:
            ctx.log("fatal", "x")
        except ValueError as error:
            errors.append(str(error))

    telling(server, "sync", body)
    call(talk)
    assert "'fatal' is not a log level; use one of debug, info" in errors[0]


# Order and place


def test_words_come_in_the_order_they_were_said_and_before_the_result(
    server: MCPServer, talk: Conversation, kind: str
) -> None:
    def body(ctx: Context) -> None:
        for number in range(50):
            if number % 2:
                ctx.log("error", number)
            else:
                ctx.report_progress(number + 1)

    telling(server, kind, body)
    *told, response = call(talk, token="t", level="info").messages
    heard = [each["params"].get("data", each["params"].get("progress")) for each in told]
    assert heard == [number if number % 2 else number + 1 for number in range(50)]
    assert "result" in response


def test_threads_of_a_tool_may_speak(server: MCPServer, talk: Conversation) -> None:
    def body(ctx: Context) -> None:
        threads = [threading.Thread(target=ctx.log, args=("error", number)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ctx.log("error", "last")

    telling(server, "sync", body)
    heard = [each["data"] for each in call(talk, level="info").told(LOG)]
    assert heard[-1] == "last"
    assert sorted(heard[:-1]) == list(range(5))


@pytest.mark.parametrize("edge", ["asgi"])
def test_the_last_words_before_the_result_are_not_lost(server: MCPServer, talk: Conversation, kind: str) -> None:
    """They are on their way into the log when the result comes."""
    telling(server, kind, lambda ctx: ctx.log("error", "last words"))
    for _ in range(40):
        outcome = call(talk, level="info")
        assert [each["data"] for each in outcome.told(LOG)] == ["last words"]
        ids = {event.id.partition(".")[0] for event in outcome.exchanges[0].events if event.id}
        assert len(ids) <= 1, "a call has one stream"


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_stream_of_a_running_call_is_kept_alive_by_comments(server: MCPServer, talk: Conversation) -> None:
    """A proxy ends a connection that is silent, and with it the call of a client of the newest version."""
    go_on = threading.Event()

    def wait(ctx: Context) -> str:
        ctx.log("error", "begun")
        return str(go_on.wait(WITHIN))

    tool(server=server, name="wait", read_only=True)(wait)
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "KEEP_ALIVE_INTERVAL": 0.05}):
        call = talk.begin("tools/call", {"name": "wait", "_meta": listen(talk, "info")})
        assert call.next()["params"]["data"] == "begun"
        assert call.exchange.next().is_comment
        assert call.exchange.next().is_comment
        go_on.set()
        answer = next(event for event in call.exchange if not event.is_comment)
    assert answer.message["result"]["content"][0]["text"] == "True"


@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.parametrize("has_context", [False, True])
def test_a_long_call_that_says_nothing_becomes_a_stream_with_comments(
    server: MCPServer, talk: Conversation, kind: str, has_context: bool
) -> None:
    """A proxy ends a connection that is silent, whether or not the tool could have said something."""
    go_on = threading.Event()

    def plain() -> str:
        return str(go_on.wait(WITHIN))

    def with_context(ctx: Context) -> str:
        return str(go_on.wait(WITHIN))

    async def coroutine() -> str:
        return str(await asyncio.to_thread(go_on.wait, WITHIN))

    async def coroutine_with_context(ctx: Context) -> str:
        return str(await asyncio.to_thread(go_on.wait, WITHIN))

    functions = {("sync", False): plain, ("sync", True): with_context}
    functions |= {("async", False): coroutine, ("async", True): coroutine_with_context}  # type: ignore[dict-item]
    tool(server=server, name="wait", read_only=True)(functions[kind, has_context])
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "KEEP_ALIVE_INTERVAL": 0.05}):
        call = talk.begin("tools/call", {"name": "wait"})
        assert call.exchange.next().is_comment
        assert call.exchange.next().is_comment
        go_on.set()
        answer = next(event for event in call.exchange if not event.is_comment)
    assert answer.message["result"]["content"][0]["text"] == "True"
    assert call.exchange.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_silent_call_still_stops_when_its_client_goes_away(server: MCPServer, modern_talk: Conversation) -> None:
    stopped = threading.Event()

    async def wait(ctx: Context) -> str:
        try:
            await asyncio.sleep(WITHIN)
        finally:
            stopped.set()
        return "done"

    tool(server=server, read_only=True)(wait)
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "KEEP_ALIVE_INTERVAL": 0.05}):
        call = modern_talk.begin("tools/call", {"name": "wait"})
        assert call.exchange.next().is_comment
        call.exchange.leave()
        assert stopped.wait(WITHIN / 3)


@pytest.mark.parametrize("edge", ["asgi"])
def test_a_quick_call_is_plain_json_however_many_come(server: MCPServer, talk: Conversation) -> None:
    tool(server=server, name="quick", read_only=True)(lambda: "done")
    for _ in range(3):
        outcome = talk.call("quick")
        assert outcome.exchanges[0].headers["content-type"] == "application/json"


@pytest.mark.parametrize("edge", ["asgi"])
def test_words_go_out_while_the_tool_runs(server: MCPServer, talk: Conversation, kind: str) -> None:
    go_on = threading.Event()

    # Without a transaction, for in one it has the write lock of a SQLite database, and the log is written afterwards.
    def wait(ctx: Context) -> str:
        ctx.log("error", "begun")
        return str(go_on.wait(WITHIN))

    async def wait_on_the_loop(ctx: Context) -> str:
        ctx.log("error", "begun")
        return str(await asyncio.to_thread(go_on.wait, WITHIN))

    tool(server=server, name="wait", read_only=True)(wait if kind == "sync" else wait_on_the_loop)
    meta = listen(talk, "info")
    call = talk.begin("tools/call", {"name": "wait", "_meta": meta})
    assert call.next()["params"]["data"] == "begun"
    go_on.set()
    assert call.next()["result"]["content"][0]["text"] == "True"


def test_an_error_comes_after_what_was_said(server: MCPServer, talk: Conversation) -> None:
    @prompt(server=server)
    def fail(ctx: Context) -> str:
        ctx.report_progress(1)
        raise LookupError("no")

    outcome = talk.request("prompts/get", {"name": "fail", "_meta": {"progressToken": 1}})
    assert len(outcome.told(PROGRESS)) == 1
    assert outcome.error["code"] == -32603
    assert outcome.status == 200


def test_what_is_said_in_each_round_is_heard(server: MCPServer, talk: Conversation) -> None:
    def body(ctx: Context) -> None:
        ctx.log("error", "again")
        ctx.log("error", ctx.elicit("Who?", NAME).data["name"])

    telling(server, "sync", body)
    meta = listen(talk, "info")
    outcome = talk.call("tell", meta=meta, answers=[accept(name="Ada")])
    heard = [each["params"]["data"] for each in talk.heard if each.get("method") == LOG]
    assert heard == ["again", "again", "Ada"]
    assert outcome.text == "done"


def test_progress_grows_over_all_rounds_of_one_request(server: MCPServer, talk: Conversation) -> None:
    """In the newest version each round is a request of its own, and begins anew."""

    def body(ctx: Context) -> None:
        ctx.report_progress(1)
        ctx.elicit("Who?", NAME)
        ctx.report_progress(2)

    telling(server, "sync", body)
    talk.call("tell", meta={"progressToken": "t"}, answers=[accept(name="Ada")])
    heard = [each["params"]["progress"] for each in talk.heard if each.get("method") == PROGRESS]
    assert heard == ([1, 1, 2] if talk.is_modern else [1, 2])


def test_who_takes_no_stream_is_told_nothing_and_answered_all_the_same(
    server: MCPServer, talk: Conversation, subtests: pytest.Subtests
) -> None:
    telling(server, "sync", everything)
    for taken in ["application/json", "*/*", None]:
        with subtests.test(taken=taken):
            params = {"name": "tell", "_meta": {**listen(talk, "debug"), "progressToken": 1}}
            outcome = talk.request("tools/call", params, headers={"accept": taken})
            assert outcome.text == "done"
            assert outcome.exchanges[0].headers["content-type"] == "application/json"


def test_a_stream_tells_proxies_not_to_hold_it_back(server: MCPServer, talk: Conversation) -> None:
    telling(server, "sync", everything)
    headers = call(talk, level="debug").exchanges[0].headers
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"


def test_a_call_in_a_batch_says_nothing_and_asks_nothing(server: MCPServer, room: Room) -> None:
    talk = Conversation(room, "2025-03-26", {"elicitation": {}, "sampling": {}}).open()

    @tool(server=server)
    def tell(ctx: Context) -> str:
        ctx.log("error", "x")
        ctx.report_progress(1)
        return str(ctx.supports("sampling"))

    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "tell", "_meta": {"progressToken": 1}},
    }
    exchange = talk.post([body, {**body, "id": 2}]).done()
    assert [each["id"] for each in exchange.json] == [1, 2]
    assert [each["result"]["content"][0]["text"] for each in exchange.json] == ["False", "False"]


def test_a_call_in_a_batch_acts_once_and_is_refused_its_question_in_words(server: MCPServer, room: Room) -> None:
    talk = Conversation(room, "2025-03-26", {"elicitation": {}}).open()
    acts: list[str] = []

    @tool(server=server)
    def act(ctx: Context) -> str:
        ctx.once("act", lambda: acts.append("done"))
        return str(ctx.confirm("Really?"))

    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "act"}}
    (answer,) = talk.post([body]).done().json
    assert acts == ["done"]
    assert answer["result"]["isError"]
    assert "'elicitation'" in answer["result"]["content"][0]["text"]


def test_a_message_is_one_line_of_data_whatever_is_in_it(server: MCPServer, talk: Conversation) -> None:
    text = "one\r\ntwo\rthree\n\n\u2028four: \x00 data: x"
    telling(server, "sync", lambda ctx: ctx.log("error", text))
    assert call(talk, level="info").told(LOG)[0]["data"] == text
    assert json.dumps(text)
