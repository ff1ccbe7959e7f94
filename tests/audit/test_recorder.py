"""Every list, read and call is a row, whatever came of it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.cache import cache
from pydantic_core import to_json

from django_mcp import MCPServer, ToolError, ToolResult, prompt, resource, tool
from django_mcp.models import RequestLog
from django_mcp.protocol import jsonrpc
from tests.clients import Client

Log = Callable[[], list[RequestLog]]


@pytest.mark.postgresql
def test_a_call_is_a_row_with_all_that_is_known_of_it(call_log: Log, site: MCPServer, client: Client) -> None:
    assert client.call("add", a=20, b=22).result["structuredContent"] == client.as_sent(42)
    [row] = call_log()
    assert (row.server, row.method, row.name, row.outcome) == ("test", "tools/call", "add", "ok")
    assert row.arguments == {"a": 20, "b": 22}
    assert (row.principal_kind, row.user, row.error) == ("public", None, "")
    assert (row.result_kind, row.approval, row.task_id, row.trace_id) == ("structured", "", "", "")
    assert row.protocol == client.version
    assert (row.client_name, row.client_version) == (("tests", "1") if client.is_modern else ("", ""))
    assert row.result_size == len(b'{"content":[{"type":"text","text":"42"}],"structuredContent":42}')
    assert row.duration > 0


@pytest.mark.every_way_in
def test_a_long_result_is_encoded_once_for_its_size_and_its_answer(
    call_log: Log, server: MCPServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(server=server)
    def table() -> dict[str, list[str]]:
        return {"rows": ["a row of the table"] * 100}

    encoded: list[int] = []

    def counting(value: Any, **options: Any) -> bytes:
        data = to_json(value, **options)
        if b"row of the table" in data:
            encoded.append(len(data))
        return data

    monkeypatch.setattr(jsonrpc, "to_json", counting)
    assert len(client.call("table").result["content"][0]["text"]) > 2000
    assert encoded == [call_log()[0].result_size]


@pytest.mark.every_way_in
def test_an_answer_is_the_same_whether_it_is_logged_or_not(
    call_log: Log, make_server: Callable[..., MCPServer], version: str, edge: str
) -> None:
    answers = []
    for name, is_logged in (("logged", True), ("silent", False)):
        server = make_server(name, log_requests=is_logged)

        @tool(server=server)
        def noted() -> ToolResult[dict[str, int]]:
            return ToolResult({"found": 1}, meta={"com.example/page": 2})

        @tool(server=server)
        def plain() -> int:
            return 7

        @resource("note://me", server=server)
        def note() -> str:
            return "Buy milk"

        @prompt(server=server)
        def ask() -> str:
            return "What is new?"

        client, own = Client(server, version, edge), "io.modelcontextprotocol/serverInfo"  # which names the endpoint
        results = [
            client.request(method, params).result
            for method, params in (
                ("tools/call", {"name": "plain"}),
                ("tools/call", {"name": "noted"}),
                ("resources/read", {"uri": "note://me"}),
                ("prompts/get", {"name": "ask"}),
            )
        ]
        answers.append([{**result, "_meta": {**result.get("_meta", {}), own: None}} for result in results])
    assert answers[0] == answers[1]
    assert len(call_log()) == 4, "those of one endpoint"


@pytest.mark.parametrize("kind", ["result", "error"])
def test_a_tool_cannot_say_in_its_meta_that_its_call_waits_for_an_approval(
    call_log: Log, server: MCPServer, client: Client, kind: str
) -> None:
    """One that passes on what another server answered would have the log and people look for an approval."""
    meta = {"django-mcp/approval": {"kind": "pending", "approval_id": "none"}, "com.example/page": 2}

    @tool(server=server)
    def relay() -> ToolResult[dict[str, int]]:
        if kind == "error":
            error = ToolError("There is none.")
            error.meta = meta
            raise error
        return ToolResult({"found": 1}, meta=meta)

    assert client.call("relay").result["_meta"].items() >= {"com.example/page": 2}.items()
    assert "django-mcp/approval" not in client.call("relay").result["_meta"]
    row = call_log()[-1]
    assert (row.outcome, row.approval) == ({"result": "ok", "error": "error"}[kind], "")


@pytest.mark.postgresql
def test_a_row_has_the_address_that_the_sites_own_proxy_says(
    call_log: Log, site: MCPServer, client: Client, settings: Any
) -> None:
    forwarded = {"x-real-ip": "10.0.0.1, 2001:db8::7"}
    client.request("tools/list", headers=forwarded)
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "CLIENT_ADDRESS_HEADER": "X-Real-IP"}
    client.request("tools/list", headers=forwarded)
    client.request("tools/list", headers={"x-real-ip": "what?"})
    client.request("tools/list")
    assert [row.address for row in call_log()] == ["127.0.0.1", "2001:db8::7", "127.0.0.1", "127.0.0.1"]


def test_a_call_that_goes_on_from_nowhere_is_a_row(call_log: Log, site: MCPServer, client: Client) -> None:
    if not client.is_modern:  # where it means nothing
        return
    params = {"name": "add", "arguments": {"a": 1}, "requestState": "made up"}
    assert "requestState" in client.request("tools/call", params).error["message"]
    [row] = call_log()
    assert (row.name, row.outcome, row.client_name) == ("add", "failed", "tests")
    assert "requestState" in row.error


def test_a_list_and_a_read_are_rows_too(call_log: Log, site: MCPServer, client: Client) -> None:
    expected = []
    for method, params, name, kind in (
        ("tools/list", {}, "", "tools"),
        ("resources/list", {}, "", "resources"),
        ("resources/templates/list", {}, "", "resourceTemplates"),
        ("resources/read", {"uri": "note://me"}, "note://me", "text/plain"),
        ("prompts/list", {}, "", "prompts"),
        ("prompts/get", {"name": "greet", "arguments": {"name": "Ada"}}, "greet", "messages"),
    ):
        for _ in range(2):  # the second time its encoding is kept
            assert client.request(method, params).result
            expected.append((method, name, "ok", kind))
    rows = call_log()
    assert [(row.method, row.name, row.outcome, row.result_kind) for row in rows] == expected
    assert all(row.result_size for row in rows)


def test_completion_and_discovery_are_none(call_log: Log, site: MCPServer, modern: Client) -> None:
    modern.request("server/discover")
    modern.request("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {}})
    assert call_log() == []


@pytest.mark.parametrize(
    ("name", "arguments", "outcome", "words"),
    [
        ("fail", {"why": "rain"}, "error", "It fails because of rain."),
        ("add", {"a": "x"}, "error", "a"),
        ("nothing", {}, "rejected", "Unknown tool: 'nothing'."),
        ("forbid", {}, "rejected", "Unknown tool: 'forbid'."),
        ("add", "no object", "error", None),
    ],
)
def test_what_went_wrong_is_told_in_the_words_the_client_read(
    call_log: Log, site: MCPServer, client: Client, name: str, arguments: Any, outcome: str, words: str | None
) -> None:
    answer = client.request("tools/call", {"name": name, "arguments": arguments}).json
    [row] = call_log()
    if words is None:
        assert row.outcome in {"error", "failed"}
        assert row.error
        return
    assert row.outcome == outcome
    said = answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]
    assert words in row.error
    assert row.error == said


def test_one_call_too_many_is_refused(call_log: Log, site: MCPServer, client: Client) -> None:
    cache.clear()
    for _ in range(2):
        client.call("seldom")
    assert [row.outcome for row in call_log()] == ["ok", "rejected"]
    assert "Too many" in call_log()[1].error


def test_a_call_that_asks_is_a_row_for_each_round(call_log: Log, site: MCPServer, modern: Client) -> None:
    able = {"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}
    asked = modern.request("tools/call", {"name": "confirm", "_meta": able}).result
    answers = {key: {"action": "accept", "content": {"confirm": True}} for key in asked["inputRequests"]}
    again = {"name": "confirm", "_meta": able, "requestState": asked["requestState"], "inputResponses": answers}
    assert modern.request("tools/call", again).text == "yes"
    assert [row.outcome for row in call_log()] == ["asked", "ok"]


@pytest.mark.postgresql
def test_queries_of_the_tool_are_counted(call_log: Log, site: MCPServer, client: Client) -> None:
    client.call("query", times=0)
    client.call("query", times=3)
    without, three = call_log()
    assert three.queries == without.queries + 3


def test_the_trace_of_the_caller_is_kept(call_log: Log, site: MCPServer, modern: Client) -> None:
    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
    modern.request("tools/call", {"name": "add", "arguments": {"a": 1}, "_meta": trace})
    modern.request("tools/call", {"name": "add", "arguments": {"a": 1}, "_meta": {"traceparent": "nonsense"}})
    assert [row.trace_id for row in call_log()] == ["0af7651916cd43dd8448eb211c80319c", ""]


@pytest.mark.postgresql
def test_text_that_no_database_can_hold_is_kept_without_it(call_log: Log, site: MCPServer, legacy: Client) -> None:
    legacy.request("tools/call", {"name": "nul\0and more" + "x" * 400, "arguments": {"\0": "\0"}})
    [row] = call_log()
    assert row.name.startswith("nuland more")
    assert len(row.name) == 255
    assert row.arguments == {"\0": "\0"}


def test_what_a_tool_of_tool_search_names_is_what_was_called(
    call_log: Log, site: MCPServer, modern: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site, "_search_tools", 1)
    modern.call("call_destructive_tool", name="add", arguments={"a": 1})
    [row] = call_log()
    assert (row.name, row.arguments) == ("add", {"a": 1})


def test_an_endpoint_may_have_no_log(call_log: Log, make_server: Any, client: Client) -> None:
    quiet = make_server("quiet", log_requests=False)
    Client(quiet, client.version, client.edge).request("tools/list")
    assert call_log() == []
