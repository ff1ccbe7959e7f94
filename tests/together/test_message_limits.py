"""Each kind of message at its limits, through every way in: it takes little time, and writes one row at most."""

import gc
import json
import time
from collections.abc import Callable
from queue import Queue
from typing import Any, Literal

import pytest
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.test import override_settings

from django_mcp import Context, MCPServer, Principal, SessionAuthentication, prompt, resource, tool
from django_mcp.models import Event, RequestLog
from django_mcp.transports.stdio import Connection, django_request
from tests.clients import LEGACY, META, MODERN, Client
from tests.conversation import Conversation
from tests.exchange import WITHIN, Room
from tests.together.test_credentials_and_streams import logged_in
from tests.transports.test_http_sse import ON, Listener, Worker, site

pytestmark = pytest.mark.postgresql

Log = Callable[[], list[RequestLog]]
Params = dict[str, Any]

MAX_SECONDS = 1.0
"""Processor time for a message of up to 1 MB, with that of the test's own client."""
MAX_ANSWER = 20_000

MANY = {f"unknown{number}": number for number in range(10_000)}
LONG = "x" * 600_000
DEEP: Any = None
for _ in range(150):
    DEEP = [DEEP]


def call(**arguments: Any) -> tuple[str, Params]:
    return "tools/call", {"name": "paint", "arguments": {"colour": "red", **arguments}}


CASES: dict[str, tuple[str, Params]] = {
    "a long method": (LONG, {}),
    "a long name of a tool": ("tools/call", {"name": LONG}),
    "a name of a tool at its limit": ("tools/call", {"name": "list_" * 1600}),
    "many unknown arguments": call(**MANY),
    "a long name of an argument": call(**{LONG: 1}),
    "a long value": call(colour=LONG),
    "a long text of JSON": call(colour="[" + "0," * 200_000 + "0]"),
    "a deep value": call(colour=DEEP),
    "many values": call(colour=[*range(100_000)]),
    "a large number": call(colour=10**4000),
    "a URI of separators": ("resources/read", {"uri": "note://" + "%26" * 2700}),
    "a URI of parameters": ("resources/read", {"uri": "note://a?" + "&".join(f"a{n}=b" for n in range(1200))}),
    "a long URI": ("resources/read", {"uri": "note://" + LONG}),
    "many arguments of a prompt": ("prompts/get", {"name": "greet", "arguments": MANY}),
    "a long cursor": ("tools/list", {"cursor": "x" * 8000}),
    "a cursor that is too long": ("tools/list", {"cursor": LONG}),
    "a long word to complete": (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "name", "value": "x" * 60_000}},
    ),
    "many members of _meta": ("tools/list", {"_meta": {f"example.com/{number}": 1 for number in range(2500)}}),
    "too many members of _meta": ("tools/list", {"_meta": {f"example.com/{number}": 1 for number in range(30_000)}}),
    "many other members": ("tools/list", dict.fromkeys(MANY, "x")),
    "a subscription to a long URI": ("resources/subscribe", {"uri": "note://" + "x" * 8000}),
    "an unknown method at its limit": ("x" * 1024, {}),
}
IDS = {"a long id": "x" * 1025, "a long number as id": 10**1025}

every_case = pytest.mark.parametrize(("method", "params"), CASES.values(), ids=CASES.keys())


@pytest.fixture(autouse=True)
def offered(server: MCPServer) -> None:
    for number in range(50):
        tool(server=server, name=f"list_orders_{number}")(lambda: "listed")

    @tool(server=server)
    def paint(colour: Literal["red", "green", "blue"], size: int = 1) -> str:
        """Paint."""
        return "painted"

    @prompt(server=server, completions={"name": lambda value: ["Ada"]})
    def greet(name: str = "") -> str:
        """Greet."""
        return name

    @resource("note://{name}/text", server=server)
    def note(name: str) -> str:
        """A note."""
        return name


def measured(act: Callable[[], bytes], log: Log) -> bytes:
    """The answer of *act*, which was quick and wrote one row at most."""
    events, rows = Event.objects.count(), len(log())
    gc.disable()  # a collection looks at all that the tests of this process have left, and takes as long as that
    try:
        began = time.process_time()
        answer = act()
        seconds = time.process_time() - began
    finally:
        gc.enable()
    assert seconds < MAX_SECONDS
    assert len(answer) < MAX_ANSWER
    assert len(log()) - rows <= 1
    assert Event.objects.count() - events <= 3
    return answer


@every_case
def test_over_http(call_log: Log, client: Client, method: str, params: Params) -> None:
    message, headers = client.compose(method, params)
    if len(method) > 100:
        headers.pop("mcp-method", None)
    elif (name := headers.get("mcp-name")) is not None and len(name) > 100:
        headers["mcp-name"] = name[:100]
    body = json.dumps(message).encode()
    measured(lambda: client.post(body, headers).body, call_log)


@pytest.mark.every_way_in
@pytest.mark.parametrize("request_id", IDS.values(), ids=IDS.keys())
def test_an_id_is_limited_over_http(call_log: Log, client: Client, request_id: Any) -> None:
    message, headers = client.compose("tools/list", {})
    body = json.dumps({**message, "id": request_id}).encode()
    assert b"must not be longer than 1024 characters" in measured(lambda: client.post(body, headers).body, call_log)
    token = {"progressToken": request_id}
    body = json.dumps(client.compose("tools/list", {"_meta": token})[0]).encode()
    assert b"must not be longer than 1024 characters" in measured(lambda: client.post(body, headers).body, call_log)


LONG_ANSWERS: dict[str, Params] = {
    "a long value": {"result": {"action": "accept", "content": {"name": LONG}}},
    "many values": {"result": {"action": "accept", "content": MANY}},
    "a deep value": {"result": {"action": "accept", "content": {"name": DEEP}}},
    "a long name": {"result": {"action": "accept", "content": {LONG: "x"}}},
    "a large number": {"result": {"action": "accept", "content": {"name": 10**4000}}},
    "a long action": {"result": {"action": LONG}},
    "many members": {"result": MANY},
    "a long error": {"error": {"code": -1, "message": LONG, "data": MANY}},
}


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_answers_to_questions(call_log: Log, server: MCPServer, version: str, subtests: pytest.Subtests) -> None:
    """The call goes on, and its client reads what is wrong with its answer in a few words."""

    @tool(server=server)
    def ask(ctx: Context) -> str:
        return str(ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}}).action)

    with Room(server, "asgi") as room:
        talk = Conversation(room, version).open()
        for name, given in LONG_ANSWERS.items():
            with subtests.test(name):
                asked = talk.begin("tools/call", {"name": "ask", "arguments": {}})
                question = asked.next()
                assert question is not None

                def answer() -> bytes:
                    if version == MODERN:
                        return again(talk, question["result"], given)  # noqa: B023 - called at once
                    post = talk.post({"jsonrpc": "2.0", "id": question["id"], **given})  # noqa: B023 - likewise
                    told = asked.next()  # noqa: B023 - likewise: the next question, or the result
                    return post.done().body + json.dumps(told).encode()

                measured(answer, call_log)
                talk.delete()
                talk.opened = False
                talk.open()


def again(talk: Conversation, result: Params, given: Params) -> bytes:
    """Repeat a call with the same answer to each question."""
    responses = {key: given.get("result", given) for key in result["inputRequests"]}
    params = {"name": "ask", "arguments": {}, "inputResponses": responses, "requestState": result["requestState"]}
    return talk.begin("tools/call", params).exchange.done().body


def test_an_answer_to_no_question_writes_nothing(call_log: Log, server: MCPServer) -> None:
    with Room(server, "asgi") as room:
        talk = Conversation(room, LEGACY).open()
        for answer_id in ("x" * 1024, "x" * 1025, 10**1000, LONG):
            body = {"jsonrpc": "2.0", "id": answer_id, "result": MANY}
            measured(lambda: talk.post(body).done().body, call_log)  # noqa: B023 - called at once


@pytest.mark.slow
def test_with_a_session_of_the_site(
    call_log: Log, make_server: Callable[..., MCPServer], make_user: Callable[..., Any], subtests: pytest.Subtests
) -> None:
    server = make_server("signed-in", authentication=[SessionAuthentication()], scopes=[])
    tool(server=server, name="paint")(lambda colour: "painted")
    own = {**settings.DJANGO_MCP, "BASE_URL": "http://testserver"}
    with override_settings(DJANGO_MCP=own), Room(server, "asgi") as room:
        session, headers = logged_in(make_user())
        talk = Conversation(room, LEGACY, headers=headers).open()
        for name, (method, params) in CASES.items():
            with subtests.test(name):
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                measured(lambda: talk.post(body).done().body, call_log)  # noqa: B023 - called at once
        session.delete()


@pytest.mark.slow
@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_over_stdio(call_log: Log, server: MCPServer, version: str, subtests: pytest.Subtests) -> None:
    incoming = Queue[bytes]()

    def write(line: bytes, *, is_optional: bool = False) -> None:
        incoming.put(line)

    with Room(server, "asgi") as room:
        principal = Principal("test", "ada", AnonymousUser())
        connection = room.call(lambda: Connection(server, principal, lambda: django_request(server), write))

        def send(method: str, params: Params) -> bytes:
            if version == MODERN:
                meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
                params = {**params, "_meta": {**meta, **params.get("_meta", {})}}
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            room.run(connection._take(json.dumps(message).encode()))
            return incoming.get(timeout=WITHIN)

        if version == LEGACY:
            send("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tests"}})
        for name, (method, params) in CASES.items():
            with subtests.test(name):
                measured(lambda: send(method, params), call_log)  # noqa: B023 - called at once


@pytest.mark.slow
def test_over_http_and_sse(call_log: Log, server: MCPServer, subtests: pytest.Subtests) -> None:
    with site(**ON), Worker(server, "asgi") as worker:
        listener = Listener([worker])
        listener.initialize()

        def send(method: str, params: Params) -> bytes:
            request_id = next(listener.ids)
            listener.methods[request_id] = method
            posted = listener.post({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
            if posted.status != 202:
                return posted.body
            return json.dumps(listener.answer(request_id)).encode()

        for name, (method, params) in CASES.items():
            with subtests.test(name):
                measured(lambda: send(method, params), call_log)  # noqa: B023 - called at once
