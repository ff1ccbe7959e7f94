"""The table of boundaries: what may be raised where, and what the caller, the request log and the owner get for it.

Each row raises one thing at one place, some of them through each way in. The next call is served.
"""

import asyncio
import json
import logging
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.db import connections
from django.http import Http404, HttpRequest
from django.test import override_settings

from django_mcp import (
    AllowAny,
    BaseAuthentication,
    Cancelled,
    Context,
    MCPServer,
    Principal,
    RequestHead,
    ToolError,
    prompt,
    request_logged,
    resource,
    tool,
)
from django_mcp.audit import otel, recorder
from django_mcp.client.in_process import send
from django_mcp.core import failures
from django_mcp.core.deadline import DeadlineExceeded
from django_mcp.core.elicitation import InputRequired
from django_mcp.models import RequestLog, Task
from django_mcp.tasks.store import UNFINISHED
from django_mcp.transports.stdio import Connection, django_request
from tests.clients import LEGACY, MODERN, Client, MCPApplication, exchange, no_django
from tests.conversation import Conversation
from tests.exchange import WITHIN, Room, eventually
from tests.transports.test_http_sse import Listener, Worker

every_way_in = pytest.mark.every_way_in

pytestmark = pytest.mark.postgresql

Log = Callable[[], list[RequestLog]]
CRASH = "Internal server error. Details are in the server's log under reference "


class Boom(BaseException):
    """What no library expects."""


class Unprintable(Exception):
    """Its words cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


class Row(NamedTuple):
    """What a tool raises, and what comes of it.

    Attributes:
        words: of the result; "" for a crash.
        outcome: in the request log.
        type: of the exception in the request log, for a crash.
    """

    make: Callable[[], BaseException]
    words: str = ""
    outcome: str = "crashed"
    type: str = ""


def group(*errors: BaseException) -> BaseException:
    return BaseExceptionGroup("several", errors)


UNKNOWN = "Unknown tool: 'fail'"
TABLE = {
    # What the model reads
    "ToolError": Row(lambda: ToolError("Not today."), "Not today.", "error"),
    "ValidationError": Row(lambda: ValidationError("Not today."), "Not today.", "error"),
    "Http404": Row(Http404, failures.NOT_FOUND, "error"),
    "PermissionDenied": Row(PermissionDenied, UNKNOWN, "rejected"),
    # Groups of it
    "a group of a ToolError": Row(lambda: group(ToolError("Not today.")), "Not today.", "error"),
    "a group in a group": Row(lambda: group(group(ToolError("Not today."))), "Not today.", "error"),
    "a group of several": Row(
        lambda: group(ToolError("Not today."), group(ValidationError("Too late."), ToolError("Not today."))),
        "Not today.\nToo late.",
        "error",
    ),
    "a group of an error and a hidden row": Row(
        lambda: group(ToolError("Not today."), PermissionDenied()), UNKNOWN, "rejected"
    ),
    "a group of an error and a question": Row(
        lambda: group(InputRequired({}), ToolError("Not today.")), "Not today.", "error"
    ),
    "a group of rows that do not exist": Row(
        lambda: group(ObjectDoesNotExist(), Http404()), failures.NOT_FOUND, "error"
    ),
    # Crashes
    "KeyError": Row(lambda: KeyError("nope"), type="KeyError"),
    "an error without words": Row(Unprintable, type="tests.behaviour.test_boundaries.Unprintable"),
    "a ToolError and a KeyError": Row(lambda: group(ToolError("Not today."), KeyError("nope")), type="KeyError"),
    "a question and a KeyError": Row(lambda: group(InputRequired({}), KeyError("nope")), type="KeyError"),
    "a group with SystemExit": Row(lambda: group(ToolError("Not today."), SystemExit(3)), type="SystemExit"),
    "SystemExit": Row(lambda: SystemExit(3), type="SystemExit"),
    "KeyboardInterrupt": Row(KeyboardInterrupt, type="KeyboardInterrupt"),
    "GeneratorExit": Row(GeneratorExit, type="GeneratorExit"),
    "StopAsyncIteration": Row(StopAsyncIteration, type="StopAsyncIteration"),
    "CancelledError": Row(asyncio.CancelledError, type="asyncio.exceptions.CancelledError"),
    "Cancelled, of a call that is not": Row(Cancelled, type="django_mcp.core.channel.Cancelled"),
    "DeadlineExceeded, of a call without": Row(DeadlineExceeded, type="django_mcp.core.deadline.DeadlineExceeded"),
    "another BaseException": Row(Boom, type="tests.behaviour.test_boundaries.Boom"),
}
CRASHES = {name: row for name, row in TABLE.items() if row.outcome == "crashed"}


@pytest.fixture(autouse=True)
def _server_handles_ctrl_c() -> Iterator[None]:
    """As servers do; in a test of the view, the main thread runs the site's code."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@dataclass
class Owner:
    """What the owner of the site finds."""

    caplog: pytest.LogCaptureFixture
    rows: Log

    def tracebacks(self) -> list[str]:
        """The types of the exceptions, or the words, that the package logged as errors since the last look."""
        own = [record for record in self.caplog.records if record.name == "django_mcp"]
        records = [record for record in own if record.levelno >= logging.ERROR]
        self.caplog.clear()
        return [record.exc_info[0].__name__ if record.exc_info else record.getMessage() for record in records]

    def row(self) -> RequestLog:
        """The one row that was written since the last look."""
        (row,) = self.rows()
        row.delete()
        return row


@pytest.fixture
def owner(call_log: Log, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> Owner:
    monkeypatch.setattr(recorder, "REFUSALS_A_MINUTE", 1000)
    return Owner(caplog, call_log)


def add_tools(server: MCPServer, **options: Any) -> list[BaseException]:
    """Add tools that raise what is in the list, one sync and one async, and one that works."""
    raised: list[BaseException] = []

    @tool(server=server, name="fail", **options)
    def fail() -> str:
        raise raised[0]

    @tool(server=server, name="fail_async", **options)
    async def fail_async() -> str:
        await asyncio.sleep(0)
        raise raised[0]

    tool(server=server, name="work")(lambda: "done")
    return raised


def words_of(answer: Any) -> str:
    """The words of a result or of an error, without the reference."""
    found = answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]
    return CRASH if found.startswith(CRASH) else found


def check(row: Row, answer: Any, owner: Owner, name: str) -> None:
    """Check what the caller, the request log and the owner got."""
    expected = (row.words or CRASH).replace("'fail'", f"'{name}'")
    assert words_of(answer).startswith(expected)
    if row.words and row.outcome == "error":
        assert words_of(answer) == expected
    entry = owner.row()
    assert (entry.name, entry.outcome, entry.exception_type) == (name, row.outcome, row.type)
    is_crash = row.outcome == "crashed"
    assert entry.exception_place.startswith("tests/behaviour/test_boundaries.py:") is is_crash
    assert len(owner.tracebacks()) == is_crash


# Tools


@pytest.mark.parametrize("name", ["fail", "fail_async"])
def test_what_a_tool_raises(
    server: MCPServer, client: Client, owner: Owner, subtests: pytest.Subtests, name: str
) -> None:
    raised = add_tools(server)
    for kind, row in TABLE.items():
        raised[:] = [row.make()]
        with subtests.test(kind):
            check(row, client.call(name).json, owner, name)
            assert client.call("work").text == "done"
            assert owner.row().outcome == "ok"


@every_way_in
def test_what_a_tool_raises_is_the_same_at_every_way_in(
    server: MCPServer, client: Client, owner: Owner, subtests: pytest.Subtests
) -> None:
    raised = add_tools(server)
    for kind in ("KeyError", "SystemExit", "KeyboardInterrupt", "CancelledError", "a group of several"):
        raised[:] = [TABLE[kind].make()]
        for name in ("fail", "fail_async"):
            with subtests.test(kind, name=name):
                check(TABLE[kind], client.call(name).json, owner, name)


@pytest.mark.parametrize("options", [{"timeout": 60}, {"concurrency_limit": 1}, {"atomic": False}], ids=str)
def test_what_a_tool_with_a_limit_raises(
    server: MCPServer, client: Client, owner: Owner, subtests: pytest.Subtests, options: dict[str, Any]
) -> None:
    raised = add_tools(server, **options)
    for kind, row in TABLE.items():
        if kind.startswith("DeadlineExceeded"):
            continue
        raised[:] = [row.make()]
        for name in ("fail", "fail_async"):
            with subtests.test(kind, name=name):
                check(row, client.call(name).json, owner, name)


def test_what_a_tool_raises_inside_of_context_managers(
    server: MCPServer, client: Client, owner: Owner, subtests: pytest.Subtests
) -> None:
    raised = add_tools(server)
    own = {"AUTHENTICATION": ["django_mcp.AllowAny"], "CALL_CONTEXT_MANAGERS": [quiet]}
    with override_settings(DJANGO_MCP=own):
        for kind, row in TABLE.items():
            raised[:] = [row.make()]
            for name in ("fail", "fail_async"):
                with subtests.test(kind, name=name):
                    check(row, client.call(name).json, owner, name)


@contextmanager
def quiet(request: HttpRequest) -> Iterator[None]:
    yield


def test_what_the_tasks_of_a_group_raise(server: MCPServer, client: Client, owner: Owner) -> None:
    @tool(server=server)
    async def fail() -> str:
        async def refuse(words: str) -> None:
            raise ToolError(words)

        async with asyncio.TaskGroup() as tasks:
            for words in ("Not today.", "Too late."):
                tasks.create_task(refuse(words))
        return "never"

    check(Row(ToolError, "Not today.\nToo late.", "error"), client.call("fail").json, owner, "fail")


def test_a_future_that_was_cancelled(server: MCPServer, client: Client, owner: Owner) -> None:
    """As by a library that gives up: no one cancelled the call."""

    @tool(server=server)
    async def fail() -> str:
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        return await future

    check(TABLE["CancelledError"], client.call("fail").json, owner, "fail")
    assert client.call("fail").text.startswith(CRASH)


@pytest.mark.parametrize(
    "kind", ["SystemExit", "Cancelled, of a call that is not", "KeyError", "an error without words"]
)
def test_what_a_value_of_a_tool_raises(server: MCPServer, client: Client, owner: Owner, kind: str) -> None:
    """Lazy values are read after the function has returned."""
    row = TABLE[kind]

    @tool(server=server)
    def fail() -> Iterator[str]:
        yield "one"
        raise row.make()

    check(row, client.call("fail").json, owner, "fail")


def test_a_validation_error_whose_words_cannot_be_made(server: MCPServer, client: Client, owner: Owner) -> None:
    @tool(server=server)
    def fail() -> str:
        raise ValidationError("%(wrong)s", params={"right": 1})

    assert words_of(client.call("fail").json) == CRASH
    entry = owner.row()
    assert (entry.outcome, entry.exception_type) == ("crashed", "KeyError")


@pytest.mark.parametrize("version", [MODERN, LEGACY])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_a_tool_raises_that_has_sent_a_message(
    server: MCPServer, room: Room, owner: Owner, subtests: pytest.Subtests, version: str, is_async: bool
) -> None:
    """Its answer is the end of a stream; in a session it runs in a task of its own."""
    raised: list[BaseException] = []

    def fail(ctx: Context) -> str:
        ctx.report_progress(1)
        raise raised[0]

    async def fail_async(ctx: Context) -> str:
        ctx.report_progress(1)
        await asyncio.sleep(0)
        raise raised[0]

    tool(server=server, name="fail")(fail_async if is_async else fail)
    tool(server=server, name="work")(lambda: "done")
    talk = Conversation(room, version)
    for kind, row in TABLE.items():
        raised[:] = [row.make()]
        with subtests.test(kind):
            outcome = talk.call("fail", meta={"progressToken": "t"})
            assert outcome.told("notifications/progress")
            check(row, outcome.response, owner, "fail")
            assert talk.call("work").text == "done"
            owner.row()


def test_http_and_sse_answers(server: MCPServer, owner: Owner, subtests: pytest.Subtests) -> None:
    raised = add_tools(server)
    settings = {"AUTHENTICATION": ["django_mcp.AllowAny"], "HTTP_SSE": True, "POLL_INTERVAL": 0.02}
    with override_settings(DJANGO_MCP=settings), Worker(server, "asgi") as worker:
        listener = Listener([worker])
        listener.initialize()
        for kind, row in TABLE.items():
            raised[:] = [row.make()]
            for name in ("fail", "fail_async"):
                with subtests.test(kind, name=name):
                    check(row, listener.request("tools/call", {"name": name, "arguments": {}}), owner, name)


# What is not a tool


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_what_a_resource_a_prompt_and_a_completer_raise(
    server: MCPServer, client: Client, owner: Owner, subtests: pytest.Subtests, is_async: bool
) -> None:
    raised: list[BaseException] = []

    def fail() -> str:
        raise raised[0]

    async def fail_async() -> str:
        raise raised[0]

    def complete(value: str) -> list[str]:
        raise raised[0]

    function = fail_async if is_async else fail
    resource("test://fail", server=server, name="fail", mime_type="text/plain")(function)
    prompt(server=server, name="fail")(function)
    prompt(server=server, name="plan", completions={"city": complete})(lambda city: city)
    ref = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}}
    requests = {
        "resources/read": {"uri": "test://fail"},
        "prompts/get": {"name": "fail"},
        "completion/complete": ref,
    }
    for kind, row in CRASHES.items():
        raised[:] = [row.make()]
        for method, params in requests.items():
            with subtests.test(kind, method=method):
                assert words_of(client.request(method, params).json) == CRASH
                assert len(owner.tracebacks()) == 1
                if method != "completion/complete":  # which is not logged
                    entry = owner.row()
                    assert (entry.outcome, entry.exception_type) == ("crashed", row.type)
    raised[:] = [group(Http404())]
    assert "not found" in client.request("resources/read", {"uri": "test://fail"}).error["message"].lower()
    raised[:] = [group(ToolError("Not today."), ToolError("Too late."))]
    assert client.request("prompts/get", {"name": "fail"}).error["message"] == "Not today.\nToo late."


def test_what_a_predicate_raises_hides_its_tool(
    server: MCPServer, client: Client, owner: Owner, subtests: pytest.Subtests
) -> None:
    raised: list[BaseException] = []

    def visible(ctx: Context) -> bool:
        raise raised[0]

    tool(server=server, name="hidden", visible=visible)(lambda: "never")
    for kind, row in TABLE.items():
        raised[:] = [row.make()]
        with subtests.test(kind):
            owner.tracebacks()
            assert client.request("tools/list").result["tools"] == []
            assert len(owner.tracebacks()) == 1
            assert client.call("hidden").error["message"].startswith("Unknown tool")


@pytest.mark.parametrize("at", ["before", "after"])
def test_what_a_context_manager_raises(
    server: MCPServer, client: Client, owner: Owner, subtests: pytest.Subtests, at: str
) -> None:
    raised: list[BaseException] = []

    @contextmanager
    def manager(request: HttpRequest) -> Iterator[None]:
        if at == "before" and raised:
            raise raised[0]
        yield
        if raised:
            raise raised[0]

    add_tools(server)
    own = {"AUTHENTICATION": ["django_mcp.AllowAny"], "CALL_CONTEXT_MANAGERS": [manager]}
    with override_settings(DJANGO_MCP=own):
        for kind, row in CRASHES.items():
            if kind.startswith(("StopAsync", "Generator")):  # a generator's own way of ending
                continue
            raised[:] = [row.make()]
            with subtests.test(kind):
                assert words_of(client.call("work").json) == CRASH
                assert len(owner.tracebacks()) == 1
                assert owner.row().outcome == "crashed"
                raised.clear()
                assert client.call("work").text == "done"
                owner.row()


# Who calls


class ByList(BaseAuthentication):
    """Raises what is in a list."""

    def __init__(self, raised: list[BaseException], *, blocking: bool) -> None:
        self.raised, self.blocking = raised, blocking

    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        if self.raised:
            raise self.raised[0]
        return Principal("test", "ada", User(username="ada"))


@pytest.mark.parametrize("place", ["blocking class", "class on the loop", "user_passes_test"])
def test_what_finds_out_who_calls(
    make_server: Callable[..., MCPServer],
    version: str,
    edge: str,
    owner: Owner,
    subtests: pytest.Subtests,
    place: str,
) -> None:
    raised: list[BaseException] = []

    def passes(user: Any) -> bool:
        if raised:
            raise raised[0]
        return True

    by_list = ByList(raised, blocking=place == "blocking class")
    is_test = place == "user_passes_test"
    options = {"authentication": [AllowAny()], "user_passes_test": passes} if is_test else {"authentication": [by_list]}
    server = make_server(**options)
    tool(server=server, name="work")(lambda: "done")
    client = Client(server, version, edge)
    body, headers = client.compose("tools/list", {})
    for kind, row in TABLE.items():
        raised[:] = [row.make()]
        with subtests.test(kind):
            answer = client.post(json.dumps(body).encode(), headers)
            assert (answer.status, answer.headers["content-type"]) == (500, "application/json")
            assert words_of(answer.json) == CRASH
            assert len(owner.tracebacks()) == 1
            entry = owner.row()
            assert entry.outcome == "crashed"
            assert entry.exception_type
            raised.clear()
            assert client.call("work").text == "done"
            owner.row()


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({}, "has no authentication"),
        ({"AUTHENTICATON": ["django_mcp.AllowAny"]}, "Did you mean 'AUTHENTICATION'?"),
        ({"AUTHENTICATION": "django_mcp.AllowAny"}, "must be a list"),
        ({"AUTHENTICATION": ["django_mcp.AllowAll"]}, "Did you mean 'django_mcp.AllowAny'?"),
        ({"AUTHENTICATION": ["no.such.module.Class"]}, "cannot be imported"),
        ({"AUTHENTICATION": ["django_mcp.JWTAuthentication"]}, "argument"),
        ({"AUTHENTICATION": ["django.http.HttpRequest"]}, "is not an authentication class"),
        ({"AUTHENTICATION": ["django_mcp.AllowAny"], "RATE_LIMIT": 60}, "RATE_LIMIT"),
        ({"AUTHENTICATION": ["django_mcp.AllowAny"], "RATE_LIMTI": "60/m"}, "Did you mean 'RATE_LIMIT'?"),
        (["AUTHENTICATION"], "must be a dict"),
    ],
    ids=str,
)
def test_an_endpoint_that_is_not_configured_right_serves_nobody(
    make_server: Callable[..., MCPServer], version: str, edge: str, owner: Owner, settings: Any, reason: str
) -> None:
    with override_settings(DJANGO_MCP=settings):
        client = Client(make_server(authentication=None), version, edge)
        body, headers = client.compose("tools/list", {})
        answers = [client.post(json.dumps(body).encode(), headers) for _ in range(3)]
    assert [(answer.status, answer.headers["content-type"]) for answer in answers] == [(503, "application/json")] * 3
    assert "is not configured correctly" in answers[0].error["message"]
    assert reason not in answers[0].error["message"]
    (logged,) = owner.tracebacks()
    assert reason in logged
    assert "AllowAny']" not in logged or "AllowAny" in str(settings)


# What looks on


@pytest.mark.parametrize("kind", [*CRASHES])
@pytest.mark.parametrize("place", ["start", "end"])
def test_what_a_span_raises_changes_no_answer(
    server: MCPServer,
    client: Client,
    owner: Owner,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    place: str,
) -> None:
    row = CRASHES[kind]

    class BadSpan(otel.Span):
        def end(self, *_: Any) -> None:
            raise row.make()

    @contextmanager
    def bad_start(context: Context) -> Iterator[otel.Span]:
        if place == "start" and kind not in {"GeneratorExit", "StopAsyncIteration"}:
            raise row.make()
        yield BadSpan()

    add_tools(server)
    monkeypatch.setattr(otel, "spanned", bad_start)
    monkeypatch.setattr(recorder.wanted, "look", lambda: None)
    monkeypatch.setattr(recorder.wanted, "spans", True)
    assert client.call("work").text == "done"
    assert owner.row().outcome == "ok"
    assert len(owner.tracebacks()) == 1


def test_what_the_log_raises_changes_no_answer(
    server: MCPServer, client: Client, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no row can be made")

    add_tools(server)
    with monkeypatch.context() as patched:
        patched.setattr(recorder.entry, "of_call", refuse)
        assert client.call("work").text == "done"
        assert owner.tracebacks() == ["RuntimeError"]
    assert client.call("work").text == "done"
    owner.row()


def test_what_a_handler_of_the_log_raises_changes_no_answer(
    server: MCPServer, client: Client, owner: Owner, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise RuntimeError("the disk is full")

    raised = add_tools(server)
    raised.append(KeyError("nope"))
    logger, handler = logging.getLogger("django_mcp"), Broken()
    logger.addHandler(handler)
    try:
        assert words_of(client.call("fail").json) == CRASH
    finally:
        logger.removeHandler(handler)
    assert "the disk is full" in capsys.readouterr().err
    assert owner.row().exception_type == "KeyError"


@pytest.mark.parametrize("kind", ["KeyError", "SystemExit", "another BaseException"])
def test_what_a_receiver_raises_changes_no_answer(server: MCPServer, client: Client, owner: Owner, kind: str) -> None:
    def receive(**_: Any) -> None:
        raise TABLE[kind].make()

    add_tools(server)
    request_logged.connect(receive)
    try:
        assert client.call("work").text == "done"
        assert client.call("work").text == "done"
    finally:
        request_logged.disconnect(receive)
    assert [row.outcome for row in owner.rows()] == ["ok", "ok"]
    eventually(lambda: owner.caplog.records)


def test_receivers_hear_what_was_raised_and_where(server: MCPServer, client: Client, owner: Owner) -> None:
    heard: list[RequestLog] = []

    def receive(entry: RequestLog, **_: Any) -> None:
        heard.append(entry)

    raised = add_tools(server)
    raised.append(KeyError("nope"))
    request_logged.connect(receive)
    try:
        client.call("fail")
        (call,) = eventually(lambda: heard)
    finally:
        request_logged.disconnect(receive)
    assert (call.outcome, call.exception_type) == ("crashed", "KeyError")
    assert call.exception_place.startswith("tests/behaviour/test_boundaries.py:")


# Tasks


@pytest.mark.parametrize("name", ["fail", "fail_async"])
def test_what_a_task_raises(
    server: MCPServer, modern: Client, owner: Owner, subtests: pytest.Subtests, name: str
) -> None:
    raised = add_tools(server, task="optional")
    for kind, row in TABLE.items():
        raised[:] = [row.make()]
        with subtests.test(kind):
            answer = modern.call(name)
            eventually(lambda: not Task.objects.filter(status__in=UNFINISHED).exists())
            assert words_of(answer.json).startswith((row.words or CRASH).replace("'fail'", f"'{name}'"))
            run = [each for each in owner.rows() if each.exception_type or each.outcome == row.outcome]
            assert row.type in {each.exception_type for each in run}
            assert len(owner.tracebacks()) == (row.outcome == "crashed")
            RequestLog.objects.all().delete()


# Standard streams


async def aside(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function that reads the database in a thread, which leaves no connection behind."""

    def run() -> Any:
        try:
            return function(*arguments)
        finally:
            connections.close_all()

    return await asyncio.to_thread(run)


class Talk:
    """A client of the stdio transport in this process."""

    def __init__(self, server: MCPServer) -> None:
        self.server = server
        self.answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.questions: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def lines(self) -> AsyncGenerator[bytes | None, None]:
        while (line := await self.questions.get()) is not None:
            yield line

    async def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        await self.questions.put(json.dumps(body).encode())
        async with asyncio.timeout(WITHIN):
            return await self.answers.get()

    async def run(self, ask: Callable[["Talk"], Any]) -> None:
        principal = Principal("public", "public", AnonymousUser())
        loop = asyncio.get_running_loop()

        def write(line: bytes, *, is_optional: bool = False) -> None:  # in any thread
            loop.call_soon_threadsafe(self.answers.put_nowait, json.loads(line))

        connection = Connection(self.server, principal, lambda: django_request(self.server), write)
        reading = asyncio.create_task(connection.read(self))
        await ask(self)
        await self.questions.put(None)
        await reading
        await connection.end()


def talk(server: MCPServer, ask: Callable[[Talk], Any]) -> None:
    async def main() -> None:
        await Talk(server).run(ask)

    asyncio.run(main())


@pytest.mark.parametrize("name", ["fail", "fail_async"])
def test_standard_streams_always_answer(
    server: MCPServer, version: str, owner: Owner, subtests: pytest.Subtests, name: str
) -> None:
    raised = add_tools(server)
    client = Client(server, version, "asgi")

    def body(tool: str) -> dict[str, Any]:
        return client.compose("tools/call", {"name": tool, "arguments": {}})[0]

    async def ask(client: Talk) -> None:
        if version != MODERN:
            hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
            await client.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        for kind, row in TABLE.items():
            raised[:] = [row.make()]
            with subtests.test(kind):
                await aside(check, row, await client.ask(body(name)), owner, name)
                assert words_of(await client.ask(body("work"))) == "done"
                assert (await aside(owner.row)).outcome == "ok"

    talk(server, ask)


def test_a_tool_that_cancels_its_own_task_is_answered_over_standard_streams(server: MCPServer, owner: Owner) -> None:
    @tool(server=server)
    async def fail() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    add = Client(server, MODERN, "asgi")

    async def ask(client: Talk) -> None:
        answer = await client.ask(add.compose("tools/call", {"name": "fail", "arguments": {}})[0])
        assert words_of(answer) == CRASH
        assert "result" in await client.ask(add.compose("tools/list", {})[0])

    talk(server, ask)


@pytest.mark.parametrize("kind", [*TABLE])
def test_who_calls_over_standard_streams(make_server: Callable[..., MCPServer], owner: Owner, kind: str) -> None:
    def passes(user: Any) -> bool:
        raise TABLE[kind].make()

    server = make_server(user_passes_test=passes)
    add = Client(server, MODERN, "asgi")

    async def ask(client: Talk) -> None:
        assert words_of(await client.ask(add.compose("tools/list", {})[0])) == CRASH

    talk(server, ask)
    assert len(owner.tracebacks()) == 1


# Cancellation and Ctrl-C, which are no errors


def test_a_server_that_cancels_a_call_has_its_way(server: MCPServer, owner: Owner) -> None:
    began: list[asyncio.Event] = []

    @tool(server=server)
    async def wait() -> str:
        began[0].set()
        await asyncio.Event().wait()
        return "never"

    async def main() -> None:
        began.append(asyncio.Event())
        client = Client(server, MODERN, "asgi")
        message, headers = client.compose("tools/call", {"name": "wait", "arguments": {}})
        given = {"content-type": "application/json", "host": "testserver", **headers}
        call = exchange(MCPApplication(no_django), "POST", "/test/mcp", given, json.dumps(message).encode())
        task = asyncio.create_task(call)
        await began[0].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert eventually(owner.rows)[0].outcome == "cancelled"
    assert owner.tracebacks() == []


def test_ctrl_c_stops_a_command_that_runs_a_tool(server: MCPServer, owner: Owner) -> None:
    @tool(server=server)
    def wait() -> str:
        signal.raise_signal(signal.SIGINT)
        return "never"

    signal.signal(signal.SIGINT, signal.default_int_handler)
    message, headers = Client(server, MODERN, "asgi").compose("tools/call", {"name": "wait", "arguments": {}})
    principal = Principal("public", "public", AnonymousUser())
    own = {"content-type": "application/json", "accept": "application/json", **headers}
    with pytest.raises(KeyboardInterrupt):
        send(server, principal, "POST", own, json.dumps(message).encode())


# Callers in this process


def test_a_caller_in_this_process_gets_the_exception_of_its_own_call(
    server: MCPServer, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what another thread logs meanwhile, and at any level of the log."""
    raised = add_tools(server)
    raised.append(KeyError("nope"))

    @tool(server=server)
    def log() -> str:
        try:
            sys.exit(3)
        except SystemExit:
            logging.getLogger("django_mcp").exception("another call failed")
        return "done"

    logger = logging.getLogger("django_mcp")
    monkeypatch.setattr(logger, "level", logging.CRITICAL)
    before = list(logger.handlers)
    found = {}
    for name in ("fail", "fail_async", "log"):
        message, headers = Client(server, MODERN, "asgi").compose("tools/call", {"name": name, "arguments": {}})
        own = {"content-type": "application/json", "accept": "application/json", **headers}
        principal = Principal("public", "public", AnonymousUser())
        found[name] = send(server, principal, "POST", own, json.dumps(message).encode()).raised
        assert logger.handlers == before
    assert found == {"fail": raised[0], "fail_async": raised[0], "log": None}


def test_debug_says_what_was_raised_and_where_to_the_model(server: MCPServer, modern: Client, owner: Owner) -> None:
    raised = add_tools(server)
    raised.append(KeyError("nope"))
    with override_settings(DEBUG=True):
        text = modern.call("fail").text
    assert "DEBUG: KeyError at tests/behaviour/test_boundaries.py:" in text
    assert "nope" not in text
