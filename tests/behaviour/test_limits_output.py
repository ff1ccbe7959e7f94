"""What is longer than a model can read is not sent: it is told how to ask for less."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings
from pydantic import BaseModel

from django_mcp import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    MCPServer,
    ResourceContents,
    TextContent,
    ToolResult,
    prompt,
    resource,
    tool,
)
from django_mcp.protocol import jsonrpc
from tests.clients import Client

PUBLIC = {"AUTHENTICATION": ["django_mcp.AllowAny"]}


class Books(BaseModel):
    titles: list[str]


def test_what_is_too_long_is_not_sent_and_the_arguments_that_help_are_named(server: MCPServer, client: Client) -> None:
    @tool(server=server, read_only=True)
    def export(fields: str = "", limit: int = 10, colour: str = "") -> str:
        return "x" * 523_114

    answer = client.call("export")
    assert answer.result["isError"] is True
    assert answer.text == (
        "This result has 523,114 characters; the limit is 100,000, so it was not sent. "
        "Ask for less, with `limit` or `fields`."
    )
    assert "structuredContent" not in answer.result


def test_where_no_argument_helps_that_is_said_in_general(server: MCPServer, client: Client) -> None:
    @tool(server=server, read_only=True, max_output_chars=5)
    def export() -> str:
        return "123456"

    assert client.call("export").text.endswith("Ask for less: narrow the request, or fetch one part at a time.")


@pytest.mark.parametrize(("length", "fits"), [(10, True), (11, False)])
def test_the_limit_itself_is_allowed(server: MCPServer, client: Client, length: int, fits: bool) -> None:
    @tool(server=server, max_output_chars=10)
    def export() -> str:
        return "ä" * length

    assert client.call("export").result.get("isError", False) is not fits


RESULTS: dict[str, Any] = {
    "a text": "x" * 101,
    "a structure": Books(titles=["x" * 101]),
    "a dict": {"titles": ["x" * 101]},
    "a list": ["x" * 50, "x" * 50],
    "a structure with few words": ToolResult({"titles": ["x" * 101]}, text="One book."),
    "many words about little": ToolResult({"titles": []}, text="x" * 101),
    "many blocks": [TextContent("x" * 60), TextContent("x" * 60)],
    "a text in a resource": EmbeddedResource(ResourceContents("x" * 101, uri="library://books/1")),
    "an image with many words": ToolResult(
        text="x" * 90, content=[ImageContent(b"x", "image/png"), TextContent("x" * 20)]
    ),
}


@pytest.mark.parametrize("what", RESULTS)
def test_every_kind_of_result_is_measured(server: MCPServer, modern: Client, what: str) -> None:
    tool(server=server, name="export", max_output_chars=100)(lambda: RESULTS[what])
    answer = modern.call("export")
    assert answer.result["isError"] is True
    assert "the limit is 100," in answer.text


def test_a_text_and_its_structure_count_once(server: MCPServer, modern: Client) -> None:
    @tool(server=server, max_output_chars=100)
    def export() -> Books:
        return Books(titles=["x" * 80])

    assert modern.call("export").result["structuredContent"] == {"titles": ["x" * 80]}


def test_what_a_tool_wrote_that_says_too_much_is_rolled_back(server: MCPServer, client: Client, rows: Any) -> None:
    @tool(server=server, max_output_chars=100)
    def export() -> str:
        rows("written")
        return "x" * 101

    answer = client.call("export")
    assert "Its unfinished changes to the database were rolled back." in answer.text
    assert rows.written() == []


def test_images_and_files_are_counted_in_bytes_and_by_themselves(server: MCPServer, client: Client) -> None:
    @tool(server=server, max_output_chars=10)
    def show(size: int) -> ImageContent:
        return ImageContent(b"x" * size, "image/png")

    with override_settings(DJANGO_MCP={**PUBLIC, "MAX_BINARY_BYTES": 3000}):
        assert client.call("show", size=3000).result["content"][0]["type"] == "image"
        refused = client.call("show", size=3003)
    assert "has 3,003 bytes of binary content; the limit is 3,000" in refused.text


@pytest.mark.parametrize("kind", [AudioContent, ImageContent])
def test_several_binary_blocks_count_together(server: MCPServer, modern: Client, kind: Any) -> None:
    tool(server=server, name="show")(lambda: [kind(b"x" * 600, "audio/wav"), kind(b"x" * 600, "audio/wav")])
    with override_settings(DJANGO_MCP={**PUBLIC, "MAX_BINARY_BYTES": 1000}):
        assert "1,200 bytes of binary content" in modern.call("show").text
    with override_settings(DJANGO_MCP={**PUBLIC, "MAX_BINARY_BYTES": None}):
        assert len(modern.call("show").result["content"]) == 2


def test_the_setting_counts_for_tools_that_say_nothing(server: MCPServer, modern: Client) -> None:
    @tool(server=server)
    def export() -> str:
        return "x" * 200_000

    @tool(server=server, max_output_chars=0)
    def everything() -> str:
        return "x" * 200_000

    with override_settings(DJANGO_MCP={**PUBLIC, "MAX_OUTPUT_CHARS": 1000}):
        assert "the limit is 1,000" in modern.call("export").text
        assert len(modern.call("everything").text) == 200_000
    with override_settings(DJANGO_MCP={**PUBLIC, "MAX_OUTPUT_CHARS": None}):
        assert len(modern.call("export").text) == 200_000


def test_what_is_no_length_is_refused_in_words(server: MCPServer, subtests: pytest.Subtests) -> None:
    for limit in [-1, 1.5, "100", True]:
        with (
            subtests.test(limit=limit),
            pytest.raises(ImproperlyConfigured, match="max_output_chars must be a number of at least 0"),
        ):
            tool(server=server, name="export", max_output_chars=limit)(lambda: "x")


# Resources, prompts and completions


@pytest.fixture
def small() -> Iterator[None]:
    with override_settings(DJANGO_MCP={**PUBLIC, "MAX_BINARY_BYTES": 1000}):
        yield


LARGE = {"text": "x" * 1001, "bytes": b"x" * 1001, "JSON": ["x" * 500] * 3, "parts": [ResourceContents("x" * 600)] * 2}


@pytest.mark.every_way_in
@pytest.mark.parametrize("large", LARGE.values(), ids=LARGE.keys())
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_resource_that_is_too_large_is_not_sent(
    server: MCPServer, client: Client, small: None, large: Any, is_async: bool
) -> None:
    def read(name: str) -> Any:
        return large if name == "large" else "x" * 900

    async def read_async(name: str) -> Any:
        return read(name)

    resource("note://{name}", server=server)(read_async if is_async else read)
    assert client.request("resources/read", {"uri": "note://small"}).result["contents"][0]["text"] == "x" * 900
    refused = client.request("resources/read", {"uri": "note://large"})
    assert refused.code == -32603
    assert "the limit of this server is 1,000, so it was not sent." in refused.error["message"]


@pytest.mark.every_way_in
@pytest.mark.parametrize("large", ["x" * 1001, ["x" * 501] * 2, ImageContent(b"x" * 1500, "image/png")])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_prompt_that_is_too_large_is_not_sent(
    server: MCPServer, client: Client, small: None, large: Any, is_async: bool
) -> None:
    def greet() -> Any:
        return large

    async def greet_async() -> Any:
        return large

    prompt(server=server, name="greet")(greet_async if is_async else greet)
    refused = client.request("prompts/get", {"name": "greet"})
    assert refused.code == -32603
    assert "the limit of this server is 1,000" in refused.error["message"]


def test_completions_that_are_too_long_are_an_error_of_the_site(server: MCPServer, client: Client) -> None:
    @prompt(server=server, completions={"name": lambda value: [value * 50_000] * 100})
    def greet(name: str) -> str:
        return name

    ask = {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "x"}}
    assert client.request("completion/complete", ask).code == -32603


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("edge", ["asgi"], indirect=True)
def test_a_large_result_is_encoded_in_a_thread_alone(
    server: MCPServer, client: Client, monkeypatch: pytest.MonkeyPatch, is_async: bool, call_log: Any
) -> None:
    on_loop, encode = list[int](), jsonrpc.to_json

    def counted(value: Any, **options: Any) -> bytes:
        data = encode(value, **options)
        if len(data) > 100_000 and threading.current_thread() is threading.main_thread():
            on_loop.append(len(data))
        return data

    monkeypatch.setattr(jsonrpc, "to_json", counted)

    def read() -> Any:
        return "x" * 1_000_000

    async def read_async() -> Any:
        return read()

    resource("note://a", server=server)(read_async if is_async else read)
    prompt(server=server, name="greet")(read_async if is_async else read)
    contents = client.request("resources/read", {"uri": "note://a"}).result["contents"]
    assert [len(each["text"]) for each in contents] == [1_000_000]
    assert len(client.request("prompts/get", {"name": "greet"}).result["messages"][0]["content"]["text"]) == 1_000_000
    assert on_loop == []
    assert [row.result_size > 1_000_000 for row in call_log()] == [True, True]
