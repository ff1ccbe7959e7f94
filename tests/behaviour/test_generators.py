"""Functions that yield: how far they are, and pieces of their result."""

import functools
import itertools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any

import pytest
from django.db import connection
from pydantic import BaseModel

from django_mcp import Context, ImageContent, MCPServer, Progress, TextContent, ToolError, ToolResult, tool
from django_mcp.primitives import generators
from tests.behaviour.afresh import afresh
from tests.clients import Client
from tests.conversation import Conversation, accept
from tests.exchange import WITHIN, eventually

PROGRESS = "notifications/progress"
YES = accept(confirm=True)


class Row(BaseModel):
    name: str


class Summary(BaseModel):
    rows: int


def yielding(server: MCPServer, kind: str, items: Iterable[Any], returns: Any = ...) -> None:
    """A tool ``give`` that yields *items*, in each kind of function."""

    def give() -> Any:
        yield from items

    async def give_async() -> Any:
        for item in items:
            yield item

    call: Any = give if kind == "sync" else give_async
    call.__annotations__ = {} if returns is ... else {"return": returns}
    tool(server=server, name="give")(call)


def test_what_is_yielded_as_progress_is_told_and_nothing_else(server: MCPServer, talk: Conversation, kind: str) -> None:
    yielding(server, kind, [Progress(1, 3), Progress(2, 3, "Two."), Progress(3, 3)])
    outcome = talk.call("give", meta={"progressToken": "t"})
    assert outcome.told(PROGRESS) == [
        {"progressToken": "t", "progress": 1, "total": 3},
        {"progressToken": "t", "progress": 2, "total": 3, "message": "Two."},
        {"progressToken": "t", "progress": 3, "total": 3},
    ]
    assert outcome.text == "The tool returned nothing."


def test_texts_are_content_and_counted_as_progress(server: MCPServer, talk: Conversation, kind: str) -> None:
    yielding(server, kind, ["One.", "Two.", TextContent("Three.")])
    outcome = talk.call("give", meta={"progressToken": 7})
    assert outcome.told(PROGRESS) == [
        {"progressToken": 7, "progress": 1, "message": "One."},
        {"progressToken": 7, "progress": 2, "message": "Two."},
        {"progressToken": 7, "progress": 3},
    ]
    assert [block["text"] for block in outcome.result["content"]] == ["One.", "Two.", "Three."]
    assert "structuredContent" not in outcome.result


def test_who_counts_progress_is_not_counted_for(server: MCPServer, talk: Conversation, kind: str) -> None:
    yielding(server, kind, [Progress(0.1, 1), "One.", "Two.", Progress(1, 1)])
    outcome = talk.call("give", meta={"progressToken": "t"})
    assert [each["progress"] for each in outcome.told(PROGRESS)] == [0.1, 1]
    assert outcome.text == "One.\nTwo."


def test_who_tells_of_each_piece_loses_none_of_it(server: MCPServer, talk: Conversation, kind: str) -> None:
    yielding(server, kind, ["One.", Progress(1, 2, "m"), "Two.", Progress(2, 2)])
    outcome = talk.call("give", meta={"progressToken": "t"})
    assert outcome.told(PROGRESS) == [
        {"progressToken": "t", "progress": 1, "total": 2, "message": "m"},
        {"progressToken": "t", "progress": 2, "total": 2},
    ]
    assert outcome.text == "One.\nTwo."


def test_who_promises_to_count_is_not_counted_for(server: MCPServer, talk: Conversation) -> None:
    yielding(server, "sync", ["One.", "Two.", "Three.", Progress(1, 2)], Iterator[Progress | str])
    outcome = talk.call("give", meta={"progressToken": "t"})
    assert outcome.told(PROGRESS) == [{"progressToken": "t", "progress": 1, "total": 2}]


def test_without_a_token_the_answer_is_plain(server: MCPServer, talk: Conversation, kind: str) -> None:
    yielding(server, kind, [Progress(1), "One."])
    outcome = talk.call("give")
    assert outcome.messages == [outcome.response]
    assert not outcome.exchanges[0].is_stream


def test_rows_are_the_result_and_their_schema_is_told(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    for colours, returns in [
        ("sync", Iterator[Row]),
        ("sync", Iterable[Row | Progress]),
        ("sync", Generator[Row, None, None]),
        ("async", AsyncIterator[Row]),
        ("async", AsyncGenerator[Row | Progress, None]),
    ]:
        with subtests.test(colours=colours, returns=returns), afresh():
            yielding(server, colours, [Progress(1, 2), Row(name="a"), {"name": "b"}], returns)
            (listed,) = client.list("tools/list")
            rows = listed["outputSchema"] if client.is_modern else listed["outputSchema"]["properties"]["result"]
            assert rows["items"]["required"] == ["name"]
            assert client.call("give").result["structuredContent"] == client.as_sent([{"name": "a"}, {"name": "b"}])


def test_no_rows_are_a_result_too(server: MCPServer, client: Client) -> None:
    yielding(server, "sync", [], Iterator[Row])
    assert client.call("give").result["structuredContent"] == client.as_sent([])


def test_values_that_nobody_annotated_are_json(server: MCPServer, client: Client) -> None:
    yielding(server, "sync", [{"a": 1}, 2])
    assert client.call("give").text == '[{"a":1},2]'


def test_what_is_returned_is_the_result_and_what_was_yielded_is_content(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def give() -> Generator[str | Progress, None, Summary]:
        yield "First."
        yield Progress(1)
        yield "Second."
        return Summary(rows=2)

    (listed,) = client.list("tools/list")
    assert set(listed["outputSchema"]["properties"]) == {"rows"}
    result = client.call("give").result
    assert result["structuredContent"] == {"rows": 2}
    assert [block["text"] for block in result["content"]] == ['{"rows":2}', "First.", "Second."]


@pytest.mark.parametrize(
    ("end", "texts"),
    [
        ("Done.", ["First.", "Done."]),
        ({"a": 1}, ['{"a":1}', "First."]),
        (ToolResult({"a": 1}, text="One a."), ["One a.", "First."]),
        (TextContent("Done."), ["First.", "Done."]),
    ],
)
def test_what_is_returned_without_an_annotation(server: MCPServer, client: Client, end: Any, texts: list[str]) -> None:
    @tool(server=server)
    def give():  # type: ignore[no-untyped-def] # that is what it is about
        yield "First."
        return end

    assert [block["text"] for block in client.call("give").result["content"]] == texts


def test_images_are_yielded_as_they_are(server: MCPServer, client: Client) -> None:
    yielding(server, "sync", ["Here:", ImageContent(b"\x89PNG", "image/png")], Iterator[str | ImageContent])
    assert [block["type"] for block in client.call("give").result["content"]] == ["text", "image"]


def test_a_generator_that_takes_the_context_and_arguments(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    def give(ctx: Context, most: int) -> Iterator[str]:
        for number in range(most):
            ctx.report_progress(number + 10)
            yield str(number)

    outcome = talk.call("give", meta={"progressToken": "t"}, most=2)
    assert outcome.text == "0\n1"
    assert [each["progress"] for each in outcome.told(PROGRESS)] == [10, 11]


def test_a_decorated_generator_and_one_of_a_service(server: MCPServer, client: Client) -> None:
    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inner(*positional: Any, **keywords: Any) -> Any:
            return function(*positional, **keywords)

        return inner

    class Service:
        """Yields."""

        def rows(self) -> Iterator[int]:
            yield from (1, 2)

        async def arows(self) -> AsyncIterator[int]:
            for number in (1, 2):
                yield number

    for name in ("rows", "arows"):
        tool(server=server)(getattr(Service(), name))
        tool(server=server, name=f"decorated_{name}")(decorated(getattr(Service(), name)))
        assert client.call(name).result["structuredContent"] == client.as_sent([1, 2])
        assert client.call(f"decorated_{name}").result["structuredContent"] == client.as_sent([1, 2])


def test_a_function_that_returns_an_iterator(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def squares() -> Iterable[int]:
        return map(abs, (1, 2))

    @tool(server=server)
    def plain() -> Any:
        return (number for number in (1, 2))

    @tool(server=server)
    async def later() -> AsyncIterator[int]:
        async def inner() -> AsyncIterator[int]:
            yield 1

        return inner()

    assert client.call("squares").result["structuredContent"] == client.as_sent([1, 2])
    assert client.call("plain").text == "[1,2]"
    assert client.call("later").result["structuredContent"] == client.as_sent([1])


def test_an_error_in_the_middle_rolls_back_and_is_told(server: MCPServer, talk: Conversation, rows: Any) -> None:
    @tool(server=server)
    def give() -> Iterator[str]:
        assert connection.in_atomic_block
        rows("written")
        yield "One."
        raise ToolError("There is no second.")

    outcome = talk.call("give")
    assert (outcome.failed, outcome.text) == (True, "There is no second.")
    assert rows.written() == []


def test_a_question_in_the_middle_runs_it_again_from_the_top(
    server: MCPServer, talk: Conversation, kind: str, rows: Any
) -> None:
    starts = []

    @tool(server=server)
    def give(ctx: Context) -> Iterator[str]:
        starts.append(1)
        rows("written")
        yield "One."
        yield "Yes." if ctx.confirm("Go on?") else "No."

    assert talk.call("give", answers=[YES]).text == "One.\nYes."
    assert len(starts) == 2
    assert rows.written() == ["written"]


@pytest.mark.parametrize("edge", ["asgi"])
@pytest.mark.parametrize("says", ["progress", "pieces", "pieces after progress"])
def test_a_cancelled_generator_ends_at_its_next_yield_and_cleans_up(
    server: MCPServer, legacy_talk: Conversation, rows: Any, says: str
) -> None:
    running, ended = threading.Event(), []

    @tool(server=server)
    def give(ctx: Context) -> Iterator[Any]:
        rows("written")
        try:
            if says == "pieces after progress":
                yield Progress(1)
            running.set()
            eventually(lambda: ctx.cancelled)
            yield Progress(2) if says == "progress" else "piece"
            ended.append("went on")
        finally:
            ended.append("cleaned up")

    call = legacy_talk.begin("tools/call", {"name": "give", "arguments": {}}, request_id="it")
    assert running.wait(WITHIN)
    legacy_talk.notify("notifications/cancelled", {"requestId": "it"})
    call.exchange.done()
    eventually(lambda: ended)
    assert ended == ["cleaned up"]
    eventually(lambda: rows.written() == [])


def test_an_endless_generator_is_stopped(server: MCPServer, client: Client, kind: str) -> None:
    ended = []

    def numbers() -> Iterator[int]:
        try:
            yield from itertools.count()
        finally:
            ended.append(True)

    yielding(server, kind, numbers())
    answer = client.call("give")
    assert answer.result["isError"] is True
    assert answer.text == "The tool was stopped because it yielded more than 10000 items. Request fewer."


def test_a_generator_of_long_texts_is_stopped_before_it_fills_the_memory(
    server: MCPServer, client: Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generators, "MAX_CHARACTERS", 1000)
    yielding(server, kind, ("x" * 100 for _ in range(50)))
    assert (
        client.call("give").text == "The tool was stopped because it yielded more than 1000 characters. Request less."
    )


def test_decorating_leaves_a_generator_as_it_was(server: MCPServer) -> None:
    @tool(server=server)
    def give(most: int) -> Iterator[int]:
        yield from range(most)

    assert list(give(3)) == [0, 1, 2]
