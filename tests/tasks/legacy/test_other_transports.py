"""Tasks of 2025-11-25 over standard input and output, and over HTTP+SSE."""

import json
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from django_mcp import AllowAny, MCPServer, Principal
from django_mcp.transports.stdio import Connection, django_request
from tests import referee
from tests.clients import LEGACY
from tests.conversation import accept
from tests.exchange import WITHIN, Room
from tests.tasks.legacy.conftest import add_tools
from tests.tasks.legacy.test_waiting import UNDER_ASGI
from tests.tasks.legacy.work import RELATED, Work
from tests.transports.test_http_sse import ON, Listener, Worker, site

Message = dict[str, Any]
ADA = accept(name="Ada")


@pytest.fixture
def server(make_server: Callable[..., MCPServer], work: Work) -> MCPServer:
    server = make_server(authentication=[AllowAny()])
    add_tools(server, work)
    return server


class Lines:
    """The client at the other end of a connection that carries everything."""

    def __init__(self, server: MCPServer, room: Room) -> None:
        self.room, self.incoming = room, Queue[Message]()
        principal = Principal("test", "ada", AnonymousUser())
        self.methods: dict[Any, str] = {}

        def write(line: bytes, *, is_optional: bool = False) -> None:
            self.incoming.put(json.loads(line))

        self.connection = room.call(lambda: Connection(server, principal, lambda: django_request(server), write))

    def send(self, message: Message) -> None:
        self.methods[message.get("id")] = message.get("method", "")
        self.room.run(self.connection._take(json.dumps({"jsonrpc": "2.0", **message}).encode()))

    def next(self) -> Message:
        message = self.incoming.get(timeout=WITHIN)
        referee.check_any(message, self.methods.get(message.get("id"), ""), LEGACY)
        return message

    def request(self, request_id: Any, method: str, **params: Any) -> Message:
        self.send({"id": request_id, "method": method, "params": params})
        return self.next()


@pytest.fixture
def lines(server: MCPServer) -> Iterator[Lines]:
    with Room(server, "asgi") as room:
        lines = Lines(server, room)
        client = {"name": "tests", "version": "1"}
        greeting = {"protocolVersion": LEGACY, "capabilities": {"elicitation": {}}, "clientInfo": client}
        assert "tasks" in lines.request(0, "initialize", **greeting)["result"]["capabilities"]
        yield lines
        room.run(lines.connection.end())


def test_over_stdio_a_task_asks_who_waits_for_it(lines: Lines) -> None:
    made = lines.request(1, "tools/call", name="ask", arguments={}, task={})
    task_id = made["result"]["task"]["taskId"]
    question = lines.request(2, "tasks/result", taskId=task_id)
    assert question["params"]["_meta"] == {RELATED: {"taskId": task_id}}
    lines.send({"id": question["id"], "result": ADA})
    answer = lines.next()
    assert answer["id"] == 2
    assert answer["result"]["content"][0]["text"] == "Ada"


def test_over_stdio_who_gives_up_waiting_leaves_the_task_alone(lines: Lines, work: Work) -> None:
    task_id = lines.request(1, "tools/call", name="wait", arguments={}, task={})["result"]["task"]["taskId"]
    lines.send({"id": 2, "method": "tasks/result", "params": {"taskId": task_id}})
    lines.send({"method": "notifications/cancelled", "params": {"requestId": 2}})
    assert lines.request(3, "tasks/get", taskId=task_id)["result"]["status"] == "working"
    work.end()
    lines.send({"id": 4, "method": "tasks/result", "params": {"taskId": task_id}})
    while "method" in (message := lines.next()):
        assert message["method"] == "notifications/message"
    assert message["id"] == 4


@pytest.mark.parametrize("edge", ["asgi", UNDER_ASGI])
def test_over_http_sse_a_task_asks_who_waits_for_it(server: MCPServer, edge: str) -> None:
    with site(**ON), Worker(server, edge) as first, Worker(server, edge) as second:
        listener = Listener([first, second], LEGACY)
        assert "tasks" in listener.initialize()["capabilities"]
        made = listener.request("tools/call", {"name": "ask", "arguments": {}, "task": {}})
        waiting = listener.begin("tasks/result", {"taskId": made["result"]["task"]["taskId"]})
        question = listener.told("elicitation/create")
        listener.send({"jsonrpc": "2.0", "id": question["id"], "result": ADA})
        assert listener.answer(waiting)["result"]["content"][0]["text"] == "Ada"
