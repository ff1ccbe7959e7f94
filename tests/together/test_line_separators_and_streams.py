"""Characters that some readers take for the end of a line, in every kind of message that a stream or stdio carries."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from django_mcp import Context, MCPServer, tool
from django_mcp.protocol.errors import InvalidParams
from django_mcp.protocol.jsonrpc import encode, encode_error, encode_result
from django_mcp.revisions.base import SSEEvent, encode_notification
from django_mcp.transports.sse import frame, frame_for_many
from django_mcp.transports.stdio import LineWriter
from tests.clients import MODERN, Client

SEPARATORS = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1dh\x1ei"
MESSAGES: dict[str, tuple[bytes, Callable[[Any], Any]]] = {
    "result": (encode_result(1, {"text": SEPARATORS}), lambda message: message["result"]["text"]),
    "encoded result": (encode_result(1, encode({"text": SEPARATORS})), lambda message: message["result"]["text"]),
    "id": (encode_result(SEPARATORS, {}), lambda message: message["id"]),
    "error": (encode_error(1, InvalidParams(SEPARATORS)), lambda message: message["error"]["message"]),
    "name of a member": (encode({SEPARATORS: 1}), lambda message: next(iter(message))),
    "notification": (
        encode_notification("notifications/progress", {"progressToken": SEPARATORS}),
        lambda message: message["params"]["progressToken"],
    ),
}


@pytest.mark.parametrize("kind", MESSAGES)
def test_a_message_is_one_line_for_every_reader(kind: str) -> None:
    data, read = MESSAGES[kind]
    for made in (frame(SSEEvent(data)), frame_for_many(SSEEvent(data, id="1"))):
        (line,) = [line for line in made.decode().splitlines() if line.startswith("data: ")]
        assert read(json.loads(line.removeprefix("data: "))) == SEPARATORS
    reading, writing = os.pipe()
    writer = LineWriter(writing, lambda: None)
    writer.write(data)
    writer.close(5)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        (line,) = pipe.read().decode().splitlines()
    assert read(json.loads(line)) == SEPARATORS


@pytest.mark.django_db
def test_the_stream_of_a_call_is_read_by_a_client_that_splits_lines_at_them(server: MCPServer) -> None:
    @tool(read_only=True, server=server)
    def odd(ctx: Context) -> str:
        ctx.report_progress(1, 2, SEPARATORS)
        return SEPARATORS

    client = Client(server, MODERN, "asgi")
    body, headers = client.compose(
        "tools/call", {"name": "odd", "arguments": {}, "_meta": {"progressToken": SEPARATORS}}
    )
    sent = client.post(json.dumps({**body, "id": SEPARATORS}).encode(), headers).body.decode().splitlines()
    progress, answer = (json.loads(line.removeprefix("data: ")) for line in sent if line.startswith("data: "))
    assert (progress["params"]["progressToken"], progress["params"]["message"]) == (SEPARATORS, SEPARATORS)
    assert (answer["id"], answer["result"]["content"][0]["text"]) == (SEPARATORS, SEPARATORS)
