"""A client that holds a conversation: it declares what it can do, answers what it is asked, and hears what it is told.

It does so in either era and at any edge, and comes back for the rest of an answer where a stream ended without it.
The referee looks at every message.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django_mcp import MCPServer
from tests import referee
from tests.clients import META, MODERN, Client
from tests.exchange import Exchange, Received, Room
from tests.person import CANCEL, DECLINE, NOBODY, ClientError, Person, Question, accept, said

__all__ = ["CANCEL", "DECLINE", "NOBODY", "Call", "ClientError", "Conversation", "Outcome", "Person", "accept", "said"]

EVERYTHING: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
MAX_ROUNDS = 20
MAX_RETURNS = 20
Message = dict[str, Any]


@dataclass
class Outcome:
    """What became of a request: its response, and all that came before."""

    messages: list[Message] = field(default_factory=list)
    asked: list[Question] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    rounds: list[dict[str, Question]] = field(default_factory=list)
    """In the newest version: the questions of each round by their keys."""

    @property
    def response(self) -> Message:
        return self.messages[-1]

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.response, self.response
        return self.response["result"]

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.response, self.response
        return self.response["error"]

    @property
    def text(self) -> str:
        """The text of a tool's result."""
        return "\n".join(block["text"] for block in self.result["content"] if block["type"] == "text")

    @property
    def failed(self) -> bool:
        return self.result.get("isError", False)

    @property
    def status(self) -> int:
        return self.exchanges[-1].status

    def told(self, method: str) -> list[dict[str, Any]]:
        """The parameters of notifications."""
        return [each["params"] for each in self.messages if each.get("method") == method]


class Call:
    """One request under way, wherever its answer comes from."""

    def __init__(self, conversation: "Conversation", body: Message, exchange: Exchange) -> None:
        self.conversation = conversation
        self.body = body
        self.exchanges = [exchange]
        self.ids: list[str] = []

    @property
    def exchange(self) -> Exchange:
        return self.exchanges[-1]

    def next(self) -> Message | None:
        """The next message; None where nothing more comes."""
        while True:
            exchange = self.exchange.begun()
            if not exchange.is_stream:
                return self._whole(exchange)
            event = exchange.next()
            if event is not None:
                if (message := self._message(event)) is not None:
                    return message
            elif self.ids and not self.conversation.is_modern and len(self.exchanges) < MAX_RETURNS:
                self.come_back()
            else:
                return None

    def come_back(self) -> None:
        """Ask for the rest of the answer."""
        self.exchanges.append(self.conversation.get(self.ids[-1]))

    def _whole(self, exchange: Exchange) -> Message | None:
        if not exchange.done().body or exchange.json is None or getattr(self, "_read", False):
            return None
        self._read = True
        return self.conversation.check(exchange.json, self.body["method"])

    def _message(self, event: Received) -> Message | None:
        if event.id:
            assert event.id not in self.ids, f"the event {event.id} came twice"
            self.ids.append(event.id)
        if event.message is None:
            return None
        assert event.event in {"message", None}
        return self.conversation.check(event.message, self.body["method"])

    def __iter__(self) -> Iterator[Message]:
        """Messages up to the response."""
        while (message := self.next()) is not None:
            yield message
            if "method" not in message:
                assert message.get("id") == self.body["id"]
                return
        raise AssertionError(f"{self.body} got no response: {self.exchange.status} {self.exchange.body!r}")


@dataclass
class Conversation:
    """A client of a version in a room. A legacy one opens its session with its first request."""

    room: Room
    version: str
    capabilities: Mapping[str, Any] = field(default_factory=lambda: dict(EVERYTHING))
    headers: Mapping[str, str] = field(default_factory=dict)
    session: str | None = None
    heard: list[Message] = field(default_factory=list)
    opened: bool = False

    def __post_init__(self) -> None:
        self.client = Client(self.room.server, self.version, self.room.edge)

    @property
    def server(self) -> MCPServer:
        return self.room.server

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def edge(self) -> str:
        return self.room.edge

    @property
    def can_hold(self) -> bool:
        """Whether streams stay open at this edge."""
        return self.edge != "view"

    def check(self, message: Message, method: str) -> Message:
        self.heard.append(message)
        referee.check_any(message, method, self.version)
        return message

    # Opening

    def open(self) -> "Conversation":
        """Shake hands, where the version has that."""
        if not self.is_modern and not self.opened:
            self.opened = True
            client = {"name": "tests", "version": "1"}
            params = {"protocolVersion": self.version, "capabilities": dict(self.capabilities), "clientInfo": client}
            body, _ = self.client.compose("initialize", params)
            exchange = self.post(body, {"mcp-protocol-version": None})
            assert self.check(exchange.json, "initialize")["result"]["protocolVersion"] == self.version
            self.session = exchange.headers["mcp-session-id"]
            assert self.notify("notifications/initialized").status == 202
        return self

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Exchange:
        return self.post({"jsonrpc": "2.0", "method": method, "params": dict(params or {})}).done()

    # HTTP

    def post(self, body: Any, headers: Mapping[str, str | None] | None = None) -> Exchange:
        own = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
        return self.send("POST", {**own, **(headers or {})}, json.dumps(body).encode())

    def get(self, last_event_id: str | None = None, headers: Mapping[str, str | None] | None = None) -> Exchange:
        return self.send("GET", {"accept": "text/event-stream", "last-event-id": last_event_id, **(headers or {})})

    def delete(self, headers: Mapping[str, str | None] | None = None) -> Exchange:
        return self.send("DELETE", headers or {}).done()

    def send(self, verb: str, headers: Mapping[str, str | None], body: bytes = b"") -> Exchange:
        own = {
            "host": "testserver",
            "mcp-protocol-version": self.version,
            "mcp-session-id": self.session,
            **self.headers,
        }
        given = {name: value for name, value in {**own, **headers}.items() if value is not None}
        return self.room.send(verb, given, body)

    # Requests

    def begin(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
        request_id: Any = None,
    ) -> Call:
        """Send a request."""
        self.open()
        params = dict(params or {})
        if self.is_modern:
            capabilities = {META + "clientCapabilities": dict(self.capabilities)}
            params["_meta"] = {**capabilities, **params.get("_meta", {})}
        body, own = self.client.compose(method, params)
        if request_id is not None:
            body["id"] = request_id
        return Call(self, body, self.post(body, {**own, **(headers or {})}))

    def begin_call(self, name: str, /, **arguments: Any) -> Call:
        return self.begin("tools/call", {"name": name, "arguments": arguments})

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        answers: Callable[[Question], Any] | Sequence[Any] | Mapping[str, Any] = (),
        **options: Any,
    ) -> Outcome:
        """Run a request to its end, and answer what it asks."""
        person = answers if isinstance(answers, Person) else Person(answers)
        outcome = Outcome(asked=person.asked)
        params = dict(params or {})
        for _ in range(MAX_ROUNDS):
            self._run(self.begin(method, params, **options), person, outcome)
            result = outcome.response.get("result", {})
            if result.get("resultType") != "input_required":
                return outcome
            params |= self.input(result, person)
            outcome.rounds.append(result["inputRequests"])
        raise AssertionError(f"it asks without end: {outcome.asked}")

    def _run(self, call: Call, person: Person, outcome: Outcome) -> None:
        outcome.exchanges = call.exchanges
        for message in call:
            outcome.messages.append(message)
            if "method" in message and "id" in message:
                self.reply(message, person(message))

    @staticmethod
    def input(result: Mapping[str, Any], person: Callable[[Question], Any]) -> dict[str, Any]:
        """What the next round of a modern call brings."""
        given = {key: person(question) for key, question in result["inputRequests"].items()}
        responses = {
            key: {"error": answer.wire} if isinstance(answer, ClientError) else answer
            for key, answer in given.items()
            if answer is not NOBODY
        }
        return {"inputResponses": responses, "requestState": result["requestState"]}

    def reply(self, question: Question, answer: Any) -> None:
        """Answer a question of a legacy server."""
        if answer is not NOBODY:
            outcome = {"error": answer.wire} if isinstance(answer, ClientError) else {"result": answer}
            exchange = self.post({"jsonrpc": "2.0", "id": question["id"], **outcome}).done()
            assert (exchange.status, exchange.body) == (202, b"")

    def call(
        self, name: str, /, *, answers: Any = (), meta: Mapping[str, Any] | None = None, **arguments: Any
    ) -> Outcome:
        """Call a tool to its end."""
        params = {"name": name, "arguments": arguments, **({"_meta": dict(meta)} if meta else {})}
        return self.request("tools/call", params, answers)
