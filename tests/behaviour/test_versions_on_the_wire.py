"""Which requests are modern, which are legacy, and what becomes of the mixtures real clients send."""

import json
from typing import Annotated, Any

import pytest

from django_mcp import HeaderParam, MCPServer, tool
from tests.clients import META, MODERN, Answer, Client

ENVELOPE = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
CALL = {"name": "greet", "arguments": {"name": "Ada"}}


@pytest.fixture(autouse=True)
def one_tool(server: MCPServer) -> None:
    @tool(server=server)
    def greet(name: str = "you") -> str:
        return f"Hello, {name}!"


def send(client: Client, params: dict[str, Any], headers: dict[str, str], method: str = "tools/call") -> Answer:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    return client.post(json.dumps(body).encode(), headers)


def test_a_legacy_request_is_served_without_a_session(legacy: Client, subtests: pytest.Subtests) -> None:
    for headers, meta in [
        ({"mcp-protocol-version": "2025-11-25"}, ENVELOPE),
        ({"mcp-protocol-version": "2025-11-25", "mcp-method": "tools/call", "mcp-name": "greet"}, ENVELOPE),
        ({"mcp-protocol-version": "2025-11-25", "mcp-method": "wrong", "mcp-name": "wrong"}, {}),
        ({"mcp-protocol-version": "2025-06-18"}, {}),
        ({"mcp-protocol-version": "2024-11-05"}, {}),
        ({}, {}),
        ({}, {META + "protocolVersion": "2025-11-25"}),
    ]:
        with subtests.test(headers=headers, meta=meta):
            answer = send(legacy, {**CALL, "_meta": meta}, headers)
            assert answer.status == 200
            assert answer.text == "Hello, Ada!"
            assert "resultType" not in answer.result


def test_the_header_may_have_blanks_around_the_version(legacy: Client) -> None:
    assert send(legacy, CALL, {"mcp-protocol-version": " 2025-11-25 "}).status == 200


MODERN_HEADERS = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "greet"}


def without(headers: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key != name}


def test_a_modern_request_that_contradicts_itself_is_told_how(modern: Client, subtests: pytest.Subtests) -> None:
    cases = [
        (MODERN_HEADERS, None, -32602, "_meta"),
        (MODERN_HEADERS, {}, -32602, "protocolVersion"),
        (MODERN_HEADERS, without(ENVELOPE, META + "protocolVersion"), -32602, "protocolVersion"),
        (MODERN_HEADERS, without(ENVELOPE, META + "clientCapabilities"), -32602, "clientCapabilities"),
        (MODERN_HEADERS, {**ENVELOPE, META + "clientCapabilities": []}, -32602, "clientCapabilities"),
        (MODERN_HEADERS, {**ENVELOPE, META + "protocolVersion": 20260728}, -32602, "protocolVersion"),
        (MODERN_HEADERS, {**ENVELOPE, META + "protocolVersion": "2025-11-25"}, -32020, "2025-11-25"),
        (MODERN_HEADERS, {**ENVELOPE, META + "protocolVersion": "v999"}, -32020, "v999"),
        (without(MODERN_HEADERS, "mcp-protocol-version"), ENVELOPE, -32020, "MCP-Protocol-Version"),
        (without(MODERN_HEADERS, "mcp-method"), ENVELOPE, -32020, "Mcp-Method"),
        ({**MODERN_HEADERS, "mcp-method": "TOOLS/CALL"}, ENVELOPE, -32020, "TOOLS/CALL"),
        ({**MODERN_HEADERS, "mcp-method": "tools/list"}, ENVELOPE, -32020, "tools/list"),
        (without(MODERN_HEADERS, "mcp-name"), ENVELOPE, -32020, "Mcp-Name"),
        ({**MODERN_HEADERS, "mcp-name": "other"}, ENVELOPE, -32020, "other"),
        ({**MODERN_HEADERS, "mcp-name": "Greet"}, ENVELOPE, -32020, "Greet"),
        ({**MODERN_HEADERS, "mcp-name": "=?base64?Z3JlZXQ?="}, ENVELOPE, -32020, "Base64"),
        ({**MODERN_HEADERS, "mcp-protocol-version": "1900-01-01"}, None, -32022, "1900-01-01"),
        (
            {**MODERN_HEADERS, "mcp-protocol-version": "v999"},
            {**ENVELOPE, META + "protocolVersion": "v999"},
            -32022,
            "v999",
        ),
        ({**MODERN_HEADERS, "mcp-protocol-version": ""}, None, -32022, "''"),
    ]
    for headers, meta, code, names in cases:
        with subtests.test(headers=headers, meta=meta, code=code, names=names):
            params = CALL if meta is None else {**CALL, "_meta": meta}
            answer = send(modern, params, headers)
            assert (answer.status, answer.code) == (400, code)
            assert names in answer.error["message"]
            assert answer.json["id"] == 7


def test_an_unknown_version_is_answered_with_those_we_have(modern: Client) -> None:
    answer = send(modern, CALL, {"mcp-protocol-version": "1900-01-01"})
    listed = modern.request("server/discover").result["supportedVersions"]
    assert answer.error["data"] == {"supported": listed, "requested": "1900-01-01"}


def test_other_spellings_of_the_same_headers_are_accepted(modern: Client, subtests: pytest.Subtests) -> None:
    """A name may be in Base64 that needs none (SEP-2243; pull request 350 of the conformance suite)."""
    for headers in [
        {**MODERN_HEADERS, "mcp-name": "=?base64?Z3JlZXQ=?="},
        {**MODERN_HEADERS, "mcp-name": "  greet  "},
        {"MCP-Protocol-Version": MODERN, "MCP-METHOD": "tools/call", "Mcp-Name": "greet"},
        {**MODERN_HEADERS, "mcp-session-id": "whatever", "last-event-id": "3"},
    ]:
        with subtests.test(headers=headers):
            answer = send(modern, {**CALL, "_meta": ENVELOPE}, headers)
            assert answer.status == 200
            assert "mcp-session-id" not in answer.headers


def test_a_repeated_parameter_that_is_absent_needs_no_header(
    server: MCPServer, modern: Client, subtests: pytest.Subtests
) -> None:
    """SEP-2243, Server Behavior for Custom Headers; pull request 325 of the conformance suite.

    That a required one is missing is told to the model, who can add it (2026-07-28, Tools, Error Handling). The pull
    request still expects a JSON-RPC error, as a draft of the SEP did.
    """

    @tool(server=server)
    def ship(
        region: Annotated[str, HeaderParam("Region")], zone: Annotated[str | None, HeaderParam("Zone")] = None
    ) -> str:
        return f"{region} {zone}"

    region = {"mcp-param-region": "north"}
    for arguments, headers, text, is_error in [
        ({"region": "north"}, region, "north None", False),
        ({"region": "north", "zone": None}, region, "north None", False),
        ({}, {}, "Missing argument 'region'.", True),
        ({"zone": "a"}, {"mcp-param-zone": "a"}, "Missing argument 'region'.", True),
    ]:
        with subtests.test(arguments=arguments):
            answer = modern.request("tools/call", {"name": "ship", "arguments": arguments}, headers=headers)
            assert (answer.text, answer.result.get("isError", False)) == (text, is_error)


def test_a_client_need_not_say_who_it_is(modern: Client, subtests: pytest.Subtests) -> None:
    for info in [None, {"name": "x"}, "x", {"name": 3, "version": []}]:
        with subtests.test(info=info):
            meta = ENVELOPE if info is None else {**ENVELOPE, META + "clientInfo": info}
            assert send(modern, {**CALL, "_meta": meta}, MODERN_HEADERS).status == 200


def test_a_session_nobody_opened_is_not_found(legacy: Client) -> None:
    answer = legacy.request("tools/list", headers={"mcp-session-id": "0123"})
    assert (answer.status, answer.code) == (404, -32600)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    assert legacy.request("initialize", hello, headers={"mcp-session-id": "0123"}).status == 200


def test_an_answer_nobody_waits_for_is_refused(legacy: Client, subtests: pytest.Subtests) -> None:
    for headers in [{"mcp-protocol-version": MODERN}, {"mcp-protocol-version": "2025-11-25"}]:
        with subtests.test(headers=headers):
            answer = legacy.post(b'{"jsonrpc":"2.0","id":3,"result":{}}', headers)
            assert (answer.status, answer.code) == (400, -32600)


def batch(*messages: Any) -> bytes:
    return json.dumps(list(messages)).encode()


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
LIST = {"jsonrpc": "2.0", "id": "two", "method": "tools/list"}
NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def test_a_batch_of_2025_03_26_is_answered_in_one_array(legacy: Client, subtests: pytest.Subtests) -> None:
    for headers in [{"mcp-protocol-version": "2025-03-26"}, {}]:
        with subtests.test(headers=headers):
            answer = legacy.post(batch(PING, NOTE, LIST, {"jsonrpc": "2.0", "id": 3, "method": "nope"}, 5), headers)
            assert answer.status == 200
            one, two, three, four = answer.json
            assert one == {"jsonrpc": "2.0", "id": 1, "result": {}}
            assert two["id"] == "two"
            assert two["result"]["tools"][0]["name"] == "greet"
            assert (three["id"], three["error"]["code"]) == (3, -32601)
            assert ("id" in four, four["error"]["code"]) == (False, -32600)


def test_a_batch_in_any_newer_version_is_refused_as_a_whole(server: MCPServer, open_database: None, edge: str) -> None:
    for version in ("2025-06-18", "2025-11-25", "2026-07-28"):
        client = Client(server, version, edge)
        _, headers = client.compose("tools/list", {})
        answer = client.post(batch(PING, LIST), headers)
        assert (answer.status, answer.code) == (400, -32600), version


def test_a_batch_of_notifications_has_no_answer(legacy: Client) -> None:
    answer = legacy.post(batch(NOTE, NOTE))
    assert (answer.status, answer.body) == (202, b"")


def test_a_batch_has_a_size(legacy: Client, subtests: pytest.Subtests) -> None:
    for body in [b"[]", batch(*[PING] * 51)]:
        with subtests.test(body=body):
            answer = legacy.post(body)
            assert (answer.status, answer.code) == (400, -32600)
            assert "1 to 50" in answer.error["message"]


def test_a_handshake_is_no_part_of_a_batch(legacy: Client) -> None:
    answer = legacy.post(batch({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}))
    assert answer.json[0]["error"]["code"] == -32600


def test_an_id_that_is_none_is_not_repeated_from_a_batch(legacy: Client, subtests: pytest.Subtests) -> None:
    for request_id in [{"a": 1}, [1], 1.5, True, None]:
        with subtests.test(request_id=request_id):
            (answer,) = legacy.post(batch({"jsonrpc": "2.0", "id": request_id, "method": "initialize"})).json
            assert answer["error"]["code"] == -32600
            assert "id" not in answer


@pytest.mark.parametrize("version", ["2025-11-25", "2025-06-18", "2024-11-05", MODERN])
def test_a_batch_is_refused_where_the_version_has_none(legacy: Client, version: str) -> None:
    answer = legacy.post(batch(PING), {"mcp-protocol-version": version})
    assert (answer.status, answer.code) == (400, -32600)
