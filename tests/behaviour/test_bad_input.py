"""Whatever a client sends, it gets the right error: never a 500, never a traceback, never silence."""

import json

import pytest

from django_mcp import MCPServer, tool
from tests import referee
from tests.clients import LEGACY, MODERN, Client


@pytest.fixture(autouse=True)
def one_tool(server: MCPServer) -> None:
    @tool(server=server)
    def count(number: int, word: str = "") -> int:
        return number


def refused(client: Client, body: bytes, status: int, code: int) -> str:
    answer = client.post(body, {"mcp-protocol-version": client.version, "mcp-method": "ping"})
    assert (answer.status, answer.code) == (status, code), answer.body
    assert answer.headers["content-type"] == "application/json"
    assert "Traceback" not in answer.body.decode()
    referee.check(answer.json, "ping", client.version)
    return answer.error["message"]


def test_what_is_not_json_is_a_parse_error(client: Client, subtests: pytest.Subtests) -> None:
    cases = [
        b"",
        b"{",
        b"hello",
        b"'single'",
        b'{"jsonrpc":"2.0","id":1,"method":"ping"} trailing',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":-Infinity}}',
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":1,"a":2}}}',
        b'{ "jsonrpc" : "2.0", "id" : 1, "method" : "ping", "params" : {"a" : 1, "\\u0061" : 2} }',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\\ud800"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"\xff\xfe"}}',
        '{"jsonrpc":"2.0","id":1,"method":"ping"}'.encode("utf-16"),
        b'{"jsonrpc":"2.0","id":' + b"9" * 10_000 + b',"method":"ping"}',
        b"\x00" * 100,
    ]
    for body in cases:
        with subtests.test(body=body):
            message = refused(client, body, 400, -32700)
            assert "not valid JSON" in message


def test_json_that_is_no_message_is_an_invalid_request(client: Client, subtests: pytest.Subtests) -> None:
    cases = [
        b"null",
        b"3",
        b'"ping"',
        b"{}",
        b'{"id":1,"method":"ping"}',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
        b'{"jsonrpc":2.0,"id":1,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
        b'{"jsonrpc":"2.0","id":[1],"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1}',
        b'{"jsonrpc":"2.0","id":1,"method":7}',
        b'{"jsonrpc":"2.0","id":1,"method":null}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"x"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":""}',
        b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    ]
    for body in cases:
        with subtests.test(body=body):
            refused(client, body, 400, -32600)


def test_an_error_names_the_request_where_its_id_can_be_read(client: Client) -> None:
    answer = client.post(b'{"jsonrpc":"2.0","id":"abc","method":"ping","params":[1]}')
    assert answer.json["id"] == "abc"


def test_the_widest_ids_come_back_unchanged(client: Client) -> None:
    for request_id in (0, -1, 2**63, 10**40, "", "ü" * 1000, "1"):
        body, headers = client.compose("tools/list", {})
        answer = client.post(json.dumps({**body, "id": request_id}).encode(), headers)
        assert answer.status == 200
        assert answer.json["id"] == request_id
        assert type(answer.json["id"]) is type(request_id)


def test_a_call_of_the_wrong_shape_is_invalid_params(client: Client, subtests: pytest.Subtests) -> None:
    cases = [
        ({}, '"params.name" must be a string'),
        ({"name": 3}, '"params.name" must be a string'),
        ({"name": "count", "arguments": [1]}, '"params.arguments" must be an object'),
        ({"name": "count", "arguments": "number=3"}, '"params.arguments" must be an object'),
        ({"name": "count", "arguments": "[1]"}, "not a string that holds it"),
        ({"name": "count", "arguments": '{"a": 1, "a": 2}'}, '"params.arguments" must be an object'),
        ({"name": "count", "arguments": "[" * 5000}, '"params.arguments" must be an object'),
        ({"name": "nope"}, "Unknown tool: 'nope'"),
        ({"name": "n" * 5000}, "Unknown tool"),
        ({"name": "Count"}, "Unknown tool: 'Count'"),
    ]
    for params, says in cases:
        with subtests.test(params=params, says=says):
            answer = client.request("tools/call", params)
            assert answer.code == -32602
            assert answer.status == (400 if client.is_modern else 200)
            assert says in answer.error["message"]
            assert len(answer.error["message"]) < 300


def test_a_cursor_that_is_not_ours_is_invalid_params(client: Client, subtests: pytest.Subtests) -> None:
    for cursor in ["x", " ", 5, {}, [], True, "AAAA", "YWZ0ZXI6LTE", "YWZ0ZXI6" + "OTk5" * 2000]:
        with subtests.test(cursor=cursor):
            answer = client.request("tools/list", {"cursor": cursor})
            assert answer.code == -32602
            assert "Invalid cursor" in answer.error["message"]


def test_arguments_sent_as_one_text_are_those_that_it_holds(client: Client) -> None:
    """As single values that a client sends as text."""
    answer = client.request("tools/call", {"name": "count", "arguments": '{"number": "3"}'})
    assert answer.text == client.request("tools/call", {"name": "count", "arguments": {"number": 3}}).text
    assert not answer.result.get("isError")


@pytest.mark.parametrize("empty", [None, [], "", " ", "{}", "null", "[]"])
def test_arguments_that_are_empty_in_another_language_are_none(client: Client, empty: list[object] | None) -> None:
    answer = client.request("tools/call", {"name": "count", "arguments": empty})
    assert "Missing argument 'number'" in answer.text


def test_an_empty_cursor_is_none(client: Client) -> None:
    assert client.request("tools/list", {"cursor": ""}).result["tools"]


def test_wrong_arguments_are_told_to_the_model_in_words(client: Client, subtests: pytest.Subtests) -> None:
    cases = [
        ({}, "Missing argument 'number'"),
        ({"number": "many"}, "'number' must be an integer"),
        ({"number": None}, "'number'"),
        ({"number": 1.5}, "must be an integer, not 1.5."),
        ({"number": [1] * 10_000}, "'number'"),
        ({"number": 1, "word": 3}, "'word' must be a string"),
        ({"number": 1, "Word": "x"}, "Unknown argument 'Word'. Did you mean 'word'?"),
        ({"number": 1, "confirm": True}, "Unknown argument 'confirm'. It takes 'number', 'word'."),
        ({"self": 1, "number": 1}, "Unknown argument 'self'"),
        ({"number": 1, "_meta": {}}, "Unknown argument '_meta'"),
    ]
    for arguments, says in cases:
        with subtests.test(arguments=arguments, says=says):
            answer = client.request("tools/call", {"name": "count", "arguments": arguments})
            assert answer.status == 200
            assert answer.result["isError"] is True
            assert says in answer.text
            assert len(answer.text) < 400


def test_huge_integers_arrive_whole(client: Client) -> None:
    assert client.call("count", number=10**300).result["structuredContent"] == client.as_sent(10**300)


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_header_sent_twice_is_not_taken_for_one(server: MCPServer, version: str, open_database: None) -> None:
    """Two readers of such a request could each believe another copy."""
    client = Client(server, MODERN, "asgi")
    answer = client.request("tools/list", headers={"mcp-method": "tools/list, tools/list"})
    assert (answer.status, answer.code) == (400, -32020)


def test_strings_that_a_client_chooses_have_a_limit(client: Client, subtests: pytest.Subtests) -> None:
    """They are kept, logged and repeated in each message."""
    cases: list[tuple[str, dict[str, object]]] = [
        ("id", {"id": "i" * 1025}),
        ("method", {"method": "m" * 1025}),
        ("params.name", {"method": "tools/call", "params": {"name": "n" * 8193}}),
        ("params.uri", {"method": "resources/read", "params": {"uri": "test://" + "u" * 8186}}),
        ("params.uri", {"method": "resources/subscribe", "params": {"uri": "test://" + "u" * 8186}}),
        ("params.cursor", {"method": "tools/list", "params": {"cursor": "c" * 8193}}),
        ("params.clientInfo", {"method": "initialize", "params": {"clientInfo": {"name": "c" * 65_536}}}),
        ("params.capabilities", {"method": "initialize", "params": {"capabilities": {"c" * 65_536: {}}}}),
        ("params._meta", {"params": {"_meta": {"name": "c" * 65_536}}}),
        ("params._meta.progressToken", {"params": {"_meta": {"progressToken": "t" * 1025}}}),
        ("params.ref", {"method": "completion/complete", "params": {"ref": {"uri": "u" * 65_536}}}),
        ("params.notifications", {"params": {"notifications": {"resourceSubscriptions": ["u" * 5000] * 60}}}),
    ]
    for named, members in cases:
        with subtests.test(named=named, method=members.get("method")):
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", **members}).encode()
            message = refused(client, body, 400, -32600)
            assert message.startswith(f'"{named}" must not be ')
            assert len(message) < 200


def test_what_a_tool_works_with_has_no_limit_but_that_of_the_body(client: Client) -> None:
    assert client.call("count", number=1, word="w" * 1_000_000).result["structuredContent"] == client.as_sent(1)


def test_the_limits_hold_in_each_message_of_a_batch(server: MCPServer, open_database: None) -> None:
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": "i" * 1025, "method": "ping"}]
    answer = Client(server, "2025-03-26", "asgi").post(
        json.dumps(batch).encode(), {"mcp-protocol-version": "2025-03-26"}
    )
    assert (answer.status, answer.code) == (400, -32600)
