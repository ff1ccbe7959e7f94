"""Tools, from the decorator to the answer."""

import base64
import dataclasses
import datetime
import logging
from typing import Any

import jsonschema
import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404
from django.test import override_settings
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from django_mcp import (
    Annotations,
    AudioContent,
    Context,
    EmbeddedResource,
    Icon,
    ImageContent,
    MCPServer,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolError,
    ToolResult,
    tool,
)
from tests.behaviour.afresh import afresh
from tests.clients import Client

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)


class Stay(BaseModel):
    hotel: str
    nights: int = Field(ge=1)
    arrival: datetime.date


@dataclasses.dataclass
class Point:
    x: float
    y: float


class Pair(TypedDict):
    left: int
    right: int


def test_a_tool_is_listed_with_all_that_was_said_of_it(server: MCPServer, client: Client) -> None:
    @tool(
        server=server,
        title="Book a hotel",
        icons=[Icon("https://example.com/bed.png", mime_type="image/png", sizes=["48x48"])],
        destructive=False,
        idempotent=True,
        open_world=False,
        meta={"com.example/team": "stays"},
    )
    def book(hotel: str, nights: int = 1) -> Stay:
        """Book a stay.

        Longer words about it.

        Args:
            hotel: The hotel's name.
            nights: How long.
        """
        raise NotImplementedError

    (listed,) = client.list("tools/list")
    assert listed["name"] == "book"
    assert listed["title"] == "Book a hotel"
    assert listed["description"] == "Book a stay.\n\nLonger words about it."
    assert listed["annotations"] == {"destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
    assert listed["icons"] == [{"src": "https://example.com/bed.png", "mimeType": "image/png", "sizes": ["48x48"]}]
    assert listed["_meta"] == {"com.example/team": "stays"}
    assert listed["inputSchema"] == {
        "type": "object",
        "properties": {
            "hotel": {"type": "string", "description": "The hotel's name."},
            "nights": {"type": "integer", "description": "How long.", "default": 1},
        },
        "required": ["hotel"],
        "additionalProperties": False,
    }
    assert listed["outputSchema"]["properties"]["nights"] == {"type": "integer", "minimum": 1}


def test_a_tool_without_arguments_takes_an_empty_object(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def now() -> str:
        return "noon"

    (listed,) = client.list("tools/list")
    assert listed["inputSchema"] == {"type": "object", "properties": {}, "additionalProperties": False}
    assert client.request("tools/call", {"name": "now"}).text == "noon"
    assert client.call("now").text == "noon"


def test_decorating_leaves_the_function_as_it_was(server: MCPServer) -> None:
    def plain(x: int) -> int:
        return x

    assert tool(server=server)(plain) is plain
    assert plain(3) == 3


def test_sync_and_async_tools_look_alike(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def add(a: int, b: int = 2) -> int:
        return a + b

    @tool(server=server)
    async def aadd(a: int, b: int = 2) -> int:
        return a + b

    first, second = client.list("tools/list")
    assert first["inputSchema"] == second["inputSchema"]
    expected = {"content": [{"type": "text", "text": "7"}], "structuredContent": client.as_sent(7)}
    for name in ("add", "aadd"):
        assert client.call(name, a=5).result.items() >= expected.items()


@pytest.mark.parametrize(
    ("returns", "value", "structured", "text"),
    [
        (Stay, Stay(hotel="Ritz", nights=2, arrival=datetime.date(2026, 5, 1)), None, None),
        (Stay, {"hotel": "Ritz", "nights": 2, "arrival": "2026-05-01"}, None, None),
        (Point, Point(1.5, 2), {"x": 1.5, "y": 2.0}, '{"x":1.5,"y":2.0}'),
        (Pair, {"left": 1, "right": 2}, {"left": 1, "right": 2}, '{"left":1,"right":2}'),
        (dict[str, int], {"a": 1}, {"a": 1}, '{"a":1}'),
        (list[int], [1, 2], [1, 2], "[1,2]"),
        (list[Point], [Point(0, 1)], [{"x": 0.0, "y": 1.0}], '[{"x":0.0,"y":1.0}]'),
        (bool, True, True, "true"),
        (int | None, None, {"result": None}, "null"),
        (datetime.date, datetime.date(2026, 5, 1), "2026-05-01", '"2026-05-01"'),
    ],
)
def test_structured_content_follows_the_schema_that_was_announced(
    server: MCPServer, client: Client, returns: Any, value: Any, structured: Any, text: str | None
) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = returns
    tool(server=server)(give)
    (listed,) = client.list("tools/list")
    result = client.call("give").result
    jsonschema.validate(result["structuredContent"], listed["outputSchema"])
    expected = structured or {"hotel": "Ritz", "nights": 2, "arrival": "2026-05-01"}
    assert result["structuredContent"] == client.as_sent(expected)
    assert result["content"][0]["text"] == (text or '{"hotel":"Ritz","nights":2,"arrival":"2026-05-01"}')


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_json_does_not_have_breaks_no_promise(
    server: MCPServer, client: Client, value: float, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(server=server)
    def ratio() -> float:
        return value

    @tool(server=server)
    def word() -> list[str]:
        return ["NaN", "Infinity"]

    assert client.call("ratio").result["isError"] is True
    assert "ValueError" in caplog.text
    assert client.call("word").result["structuredContent"] == client.as_sent(["NaN", "Infinity"])


def test_words_and_data_may_differ(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def where() -> ToolResult[Point]:
        return ToolResult(Point(1, 2), text="One east, two north.", content=[TextContent("!")], meta={"a/b": 1})

    (listed,) = client.list("tools/list")
    assert set(listed["outputSchema"]["properties"]) == {"x", "y"}
    result = client.call("where").result
    assert result["structuredContent"] == {"x": 1.0, "y": 2.0}
    assert [block["text"] for block in result["content"]] == ["One east, two north.", "!"]
    assert result["_meta"]["a/b"] == 1


def test_all_kinds_of_content_arrive(server: MCPServer, client: Client) -> None:
    blocks = [
        TextContent("words", annotations=Annotations(audience=["user"], priority=0.5)),
        ImageContent(PNG, "image/png"),
        AudioContent(b"RIFF", "audio/wav"),
        ResourceLink("travel://cities", "cities", mime_type="application/json", size=3),
        EmbeddedResource(ResourceContents("hello", "file:///a.txt", "text/plain")),
        EmbeddedResource(ResourceContents(b"\0\1", "file:///b.bin")),
    ]

    @tool(server=server)
    def everything() -> list[TextContent | ImageContent | AudioContent | ResourceLink | EmbeddedResource]:
        return blocks

    @tool(server=server)
    def picture() -> ImageContent:
        return ImageContent(PNG, "image/png")

    assert all("outputSchema" not in listed for listed in client.list("tools/list"))
    text, image, audio, link, embedded, blob = client.call("everything").result["content"]
    assert text == {"type": "text", "text": "words", "annotations": {"audience": ["user"], "priority": 0.5}}
    assert base64.b64decode(image["data"]) == PNG
    assert (audio["type"], audio["mimeType"]) == ("audio", "audio/wav")
    assert (link["type"], link["uri"], link["size"]) == ("resource_link", "travel://cities", 3)
    assert embedded["resource"] == {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "hello"}
    assert blob["resource"] == {"uri": "file:///b.bin", "blob": "AAE="}
    assert client.call("picture").result["content"][0]["type"] == "image"


def test_a_tool_that_returns_nothing_says_so(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def quiet() -> None:
        return None

    result = client.call("quiet").result
    assert result["content"] == [{"type": "text", "text": "The tool returned nothing."}]
    assert "structuredContent" not in result


def test_the_context_is_found_by_its_annotation_and_hidden_from_the_schema(server: MCPServer, client: Client) -> None:
    seen: list[Context] = []

    @tool(server=server)
    def look(word: str, ctx: Context) -> str:
        seen.append(ctx)
        return f"{word} {ctx.request.method} {ctx.request.headers['X-Shoe-Size']} {ctx.user.is_anonymous}"

    (listed,) = client.list("tools/list")
    assert list(listed["inputSchema"]["properties"]) == ["word"]
    params = {"name": "look", "arguments": {"word": "hi"}, "_meta": {"traceparent": "00-1-2-03"}}
    answer = client.request("tools/call", params, headers={"x-shoe-size": "43"})
    assert answer.text == "hi POST 43 True"
    (ctx,) = seen
    assert ctx.server is server
    assert ctx.principal.kind == "public"
    assert ctx.request.user is ctx.user
    assert ctx.method == "tools/call"
    assert ctx.meta["traceparent"] == "00-1-2-03"
    assert ctx.client.name == ("tests" if client.is_modern else "")


def test_arguments_may_have_the_names_we_use_inside(
    server: MCPServer, client: Client, subtests: pytest.Subtests
) -> None:
    for colour in ["sync", "async"]:
        with subtests.test(colour=colour), afresh():

            def names(function: int, context: int, name: int, keywords: int, coroutine: int) -> int:
                return function + context + name + keywords + coroutine

            async def anames(function: int, context: int, name: int, keywords: int, coroutine: int) -> int:
                return function + context + name + keywords + coroutine

            tool(server=server, name="names")(names if colour == "sync" else anames)
            arguments = {"function": 1, "context": 2, "name": 3, "keywords": 4, "coroutine": 5}
            assert client.request("tools/call", {"name": "names", "arguments": arguments}).text == "15"


def test_an_argument_named_ctx_cannot_be_smuggled_in(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def look(ctx: Context) -> str:
        return ctx.method

    answer = client.call("look", ctx={"user": "root"})
    assert answer.result["isError"] is True
    assert "Unknown argument 'ctx'" in answer.text


class Secret(Exception):
    pass


def test_errors_meant_for_the_model_reach_it(server: MCPServer, client: Client, subtests: pytest.Subtests) -> None:
    for error, says in [
        (ToolError("There is no hotel ‘Ritz’. Use search_hotels."), "There is no hotel ‘Ritz’. Use search_hotels."),
        (ValidationError("Too many nights."), "Too many nights."),
        (ValidationError({"nights": ["Too many.", "Odd."]}), "nights: Too many. Odd."),
    ]:
        for colour in ["sync", "async"]:
            with subtests.test(colour=colour, error=error, says=says), afresh():
                register_failing(server, colour, error)
                answer = client.call("fail")
                assert answer.status == 200
                assert answer.result["isError"] is True
                assert answer.text == says


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("error", [Secret("password=hunter2"), KeyError("hunter2"), AssertionError("hunter2")])
def test_any_other_error_is_told_to_the_log_and_not_to_the_client(
    server: MCPServer, client: Client, colour: str, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    register_failing(server, colour, error)
    with caplog.at_level(logging.ERROR, "django_mcp"):
        answer = client.call("fail")
    assert answer.status == 200
    assert answer.result["isError"] is True
    assert b"hunter2" not in answer.body
    assert type(error).__name__.encode() not in answer.body
    (record,) = caplog.records
    reference = answer.text.split()[-1].rstrip(".")
    assert reference in record.getMessage()
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def register_failing(server: MCPServer, colour: str, error: Exception) -> None:
    def fail() -> str:
        raise error

    async def afail() -> str:
        raise error

    tool(server=server, name="fail")(fail if colour == "sync" else afail)


def test_a_value_that_breaks_its_promise_is_our_fault_not_the_clients(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(server=server)
    def wrong() -> Stay:
        return {"hotel": "hunter2"}  # type: ignore[return-value]

    answer = client.call("wrong")
    assert answer.result["isError"] is True
    assert b"hunter2" not in answer.body
    assert "ValidationError" in caplog.text


def test_text_that_has_no_utf8_is_an_error_with_an_answer(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    @tool(server=server)
    def lone() -> str:
        return "\ud800"

    answer = client.call("lone")
    assert answer.status == 200
    assert answer.result["isError"]
    assert "surrogates not allowed" in caplog.text


def test_permission_denied_inside_a_tool_reads_like_an_unknown_tool(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def mine() -> str:
        raise PermissionDenied("because hunter2")

    denied, missing = client.call("mine"), client.call("gone")
    assert denied.status == missing.status
    assert denied.error["code"] == missing.error["code"]
    assert denied.error["message"].replace("mine", "gone") == missing.error["message"]


@pytest.mark.parametrize("error", [Http404("flight 7 of Bob"), Permission.DoesNotExist("flight 7 of Bob")])
def test_what_a_tool_does_not_find_is_told_in_fixed_words(
    server: MCPServer, client: Client, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    @tool(server=server)
    def find() -> str:
        raise error

    answer = client.call("find")
    assert answer.result["isError"] is True
    assert answer.text == "Not found: no object matches the given values."
    logged = [(each.levelname, each.getMessage(), each.exc_info) for each in caplog.records]
    if isinstance(error, Http404):
        assert logged == []
    else:  # it may be the site's own mistake
        ((level, words, (_, raised, _)),) = logged
        assert (level, words, raised) == ("WARNING", "tools/call find looked up an object that does not exist", error)


def test_a_tool_somebody_may_not_call_does_not_exist_for_them(server: MCPServer, client: Client) -> None:
    @tool(server=server)
    def open_door() -> str:
        return "open"

    @tool(server=server, permission="auth.change_user")
    def back_door() -> str:
        return "never"

    assert [listed["name"] for listed in client.list("tools/list")] == ["open_door"]
    hidden, missing = client.call("back_door"), client.call("nack_door")
    assert hidden.status == missing.status
    assert hidden.error["message"].replace("back", "nack") == missing.error["message"]
    if client.is_modern:
        assert client.request("tools/list").result["cacheScope"] == "private"


def test_returning_a_lazy_object_reads_it_while_the_tool_still_runs(server: MCPServer, client: Client) -> None:
    from django.contrib.contenttypes.models import ContentType

    @tool(server=server)
    def kinds() -> list[str]:
        return ContentType.objects.order_by("model").values_list("model", flat=True)  # type: ignore[return-value]

    assert '"permission"' in client.call("kinds").text


def test_arguments_that_the_site_ignores_are_as_if_they_had_not_been_sent(server: MCPServer, client: Client) -> None:
    """n8n adds keys of its own to the arguments of every call."""

    @tool(server=server)
    def lend(title: str, action: str = "lend") -> str:
        return f"{action} {title}"

    extra = {"toolCallId": "call_1", "sessionId": "s", "action": "return", "chatInput": "hello"}
    refused = client.call("lend", title="Emma", **extra)
    assert refused.result["isError"] is True
    assert "Unknown argument 'toolCallId'" in refused.text
    ignored = ["toolCallId", "sessionId", "action", "chatInput"]
    with override_settings(DJANGO_MCP={**settings.DJANGO_MCP, "IGNORED_ARGUMENTS": ignored}):
        # One that the tool has is the tool's.
        assert client.call("lend", title="Emma", **extra).text == "return Emma"
        assert "Unknown argument 'other'" in client.call("lend", title="Emma", other=1, **extra).text
