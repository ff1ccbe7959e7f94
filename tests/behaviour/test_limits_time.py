"""A tool has so much time: its caller is answered then, and nothing of it is kept afterwards."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.test import override_settings

from django_mcp import Context, MCPServer, tool
from django_mcp.core import deadline
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN

SOON = 0.05
"""Seconds a tool of these tests has where it is to use them up."""
TOO_LONG = "The tool took longer than 0.05 s and was stopped."
YES = accept(confirm=True)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Set at the end, for tools that wait for it."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets all time pass."""
    passed = [0.0]
    monkeypatch.setattr(deadline, "monotonic", lambda: time.monotonic() + passed[0])

    def pass_time() -> None:
        passed[0] = 1000.0

    return pass_time


def test_a_coroutine_is_cancelled_where_it_waits_and_cleans_up(server: MCPServer, talk: Conversation) -> None:
    seen: list[str] = []

    @tool(server=server, timeout=SOON)
    async def wait() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            seen.append("cleaned up")
        return "done"

    outcome = talk.call("wait")
    assert outcome.failed
    assert outcome.text.startswith(TOO_LONG)
    assert seen == ["cancelled", "cleaned up"]


def test_a_function_stops_at_the_next_use_of_its_context(
    server: MCPServer, talk: Conversation, rows: Any, late: Callable[[], None]
) -> None:
    ended: list[str] = []

    @tool(server=server, timeout=60)
    def work(ctx: Context) -> str:
        rows("written")
        late()
        try:
            ctx.report_progress(1)
        except BaseException as error:
            ended.append(type(error).__name__)
            raise
        return "done"

    outcome = talk.call("work")
    assert outcome.failed
    assert "took longer than 60 s" in outcome.text
    assert "rolled back" in outcome.text
    assert ended == ["DeadlineExceeded"]
    assert rows.written() == []


USES: dict[str, Callable[[Context], Any]] = {
    "log": lambda ctx: ctx.log("info", "x"),
    "progress": lambda ctx: ctx.report_progress(1),
    "check": lambda ctx: ctx.check_cancelled(),
    "ask": lambda ctx: ctx.confirm("Sure?"),
    "sample": lambda ctx: ctx.sample("Hello"),
    "roots": lambda ctx: ctx.roots(),
    "once": lambda ctx: ctx.once("act", lambda: None),
}


@pytest.mark.parametrize("edge", ["asgi", "view"])
@pytest.mark.parametrize("use", USES)
def test_whatever_a_function_does_with_its_context_it_stops_there(
    server: MCPServer, talk: Conversation, late: Callable[[], None], use: str
) -> None:
    went_on: list[str] = []

    @tool(server=server, timeout=60)
    def work(ctx: Context) -> str:
        late()
        USES[use](ctx)
        went_on.append(use)
        return "done"

    outcome = talk.call("work")
    assert "took longer than 60 s" in outcome.text
    assert outcome.asked == []
    assert went_on == []


@pytest.mark.postgresql
def test_a_function_stops_before_the_next_query(
    server: MCPServer, talk: Conversation, rows: Any, late: Callable[[], None]
) -> None:
    went_on: list[str] = []

    @tool(server=server, timeout=60)
    def work() -> str:
        rows("written")
        with transaction.atomic():
            rows("in a savepoint")
            late()
            rows("too late")
        went_on.append("went on")
        return "done"

    assert "took longer than 60 s" in talk.call("work").text
    assert went_on == []
    assert rows.written() == []


@pytest.mark.postgresql
def test_a_function_that_reaches_its_end_too_late_is_rolled_back(
    server: MCPServer, talk: Conversation, rows: Any, late: Callable[[], None]
) -> None:
    @tool(server=server, timeout=60)
    def work() -> str:
        rows("written")
        late()
        return "done"

    outcome = talk.call("work")
    assert outcome.failed
    assert "took longer than 60 s" in outcome.text
    assert rows.written() == []


@pytest.mark.postgresql
@pytest.mark.parametrize("edge", ["asgi"])
def test_the_caller_is_answered_while_the_function_goes_on_and_what_it_wrote_is_rolled_back(
    server: MCPServer, talk: Conversation, rows: Any, release: threading.Event
) -> None:
    ended: list[str] = []

    @tool(server=server, timeout=SOON, concurrency_limit=1)
    def work(again: bool = False) -> str:
        if again:
            return "its turn"
        rows("written")
        assert release.wait(WITHIN)
        ended.append("at its end")
        return "done"

    assert talk.call("work").text.startswith(TOO_LONG)
    assert ended == []
    release.set()
    # The next one has its turn when the thread is done with the first, its transaction included.
    assert talk.call("work", again=True).text == "its turn"
    assert ended == ["at its end"]
    assert rows.written() == []


@pytest.mark.parametrize("edge", ["asgi"])
def test_what_waits_for_a_thread_too_long_is_never_begun(
    server: MCPServer, talk: Conversation, release: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    from django_mcp.core.concurrency import Pool
    from django_mcp.transports import asgi

    pool, began = Pool(1), []
    monkeypatch.setattr(asgi, "shared_pool", lambda: pool)
    running = threading.Event()

    @tool(server=server, read_only=True)
    def hold() -> str:
        running.set()
        assert release.wait(WITHIN)
        return "held"

    @tool(server=server, timeout=SOON)
    def work() -> str:
        began.append("began")
        return "done"

    talk.open()
    talk.session = None  # looking for a session takes the thread too
    holding = talk.begin_call("hold")
    assert running.wait(WITHIN)
    assert talk.call("work").text.startswith(TOO_LONG)
    release.set()
    assert holding.next()["result"]["content"][0]["text"] == "held"
    pool.close()
    assert began == []


def test_what_cannot_be_undone_is_said(server: MCPServer, talk: Conversation, late: Callable[[], None]) -> None:
    @tool(server=server, timeout=60, atomic=False)
    def send_letters() -> str:
        late()
        return "done"

    assert "may have taken effect; check before retrying" in talk.call("send_letters").text


def test_a_reading_tool_is_told_how_to_ask_for_less(
    server: MCPServer, talk: Conversation, late: Callable[[], None]
) -> None:
    @tool(server=server, timeout=60, read_only=True)
    def read(words: str = "", limit: int = 1) -> str:
        late()
        return "done"

    expected = "The tool took longer than 60 s and was stopped. Ask for less, with `limit` or `words`."
    assert talk.call("read").text == expected


def test_a_tool_knows_how_much_time_it_has(server: MCPServer, talk: Conversation, late: Callable[[], None]) -> None:
    seen: list[Any] = []

    @tool(server=server, timeout=60)
    def work(ctx: Context) -> None:
        seen.extend([ctx.remaining, ctx.cancelled])
        late()
        seen.extend([ctx.remaining, ctx.cancelled])

    talk.call("work")
    assert 0 < seen[0] <= 60
    assert seen[1:] == [False, 0.0, True]


def test_without_a_limit_there_is_no_end(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    def at_leisure(ctx: Context) -> str:
        return str(ctx.remaining)

    assert talk.call("at_leisure").text == "None"


def test_the_time_of_each_round_counts_by_itself(
    server: MCPServer, talk: Conversation, late: Callable[[], None]
) -> None:
    @tool(server=server, timeout=60)
    def ask(ctx: Context) -> str:
        answer = ctx.confirm("Sure?")
        return f"{answer} {ctx.remaining > 50}"

    def think(_: Any) -> Any:
        late()
        return YES

    assert talk.call("ask", answers=think).text == "True True"


@override_settings(DJANGO_MCP={"AUTHENTICATION": ["django_mcp.AllowAny"], "TOOL_TIMEOUT": 60})
def test_the_setting_counts_for_tools_that_say_nothing(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    def work(ctx: Context) -> str:
        return str(ctx.remaining is not None and ctx.remaining > 50)

    @tool(server=server, timeout=0)
    def at_leisure(ctx: Context) -> str:
        return str(ctx.remaining)

    assert talk.call("work").text == "True"
    assert talk.call("at_leisure").text == "None"


def test_a_timeout_of_the_tools_own_is_no_limit_of_ours(
    server: MCPServer, talk: Conversation, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(server=server, timeout=60)
    async def fetch() -> str:
        raise TimeoutError("the supplier does not answer")

    @tool(server=server, timeout=60)
    def fetch_too() -> str:
        raise TimeoutError("the supplier does not answer")

    for name in ("fetch", "fetch_too"):
        assert "Internal server error" in talk.call(name).text
    assert len(caplog.records) == 2


@pytest.mark.postgresql
def test_a_statement_is_ended_by_the_database_where_it_can(
    server: MCPServer, talk: Conversation, late: Callable[[], None]
) -> None:
    """PostgreSQL can. Elsewhere the statement comes to its own end, and then the tool does."""

    @tool(server=server, timeout=0.2)
    def slow() -> str:
        with connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                cursor.execute(f"SELECT pg_sleep({WITHIN})")
            late()
            cursor.execute("SELECT 1")
        return "done"

    @tool(server=server)
    def quick() -> int:
        return ContentType.objects.filter(app_label="nobody").count()

    began = time.monotonic()
    assert "took longer than 0.2 s" in talk.call("slow").text
    assert time.monotonic() - began < WITHIN
    assert talk.call("quick").text == "0"  # the connection is of further use


def test_what_is_no_time_is_refused_in_words(server: MCPServer, subtests: pytest.Subtests) -> None:
    for options in [{"timeout": -1}, {"timeout": "30"}, {"timeout": True}, {"timeout": float("nan")}]:
        with (
            subtests.test(options=options),
            pytest.raises(ImproperlyConfigured, match="timeout must be a number of at least 0"),
        ):
            tool(server=server, name="work", **options)(lambda: "x")
