"""Clients over real sockets, one for each era. A dropped connection is dropped for good, and nothing is retried."""

import http.client
import itertools
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from tests.clients import LEGACY, META, MODERN, NAMED_BY
from tests.conformance.balancer import HOST

WITHIN = 20.0
"""Seconds within which what is waited for has to come."""
ids = itertools.count(1)
"""Request ids, never the same twice."""
opened: "list[http.client.HTTPConnection | Reply]" = []
"""What may still be open; closed after each test."""


OF_EVERY_CALL = ("django_mcp_toolpolicy", "django_mcp_clientpolicy", "django_mcp_requestlog")


def close_all() -> None:
    """Close what tests left open."""
    while opened:
        opened.pop().close()


class Event(NamedTuple):
    """One event as it came."""

    id: str
    data: str

    @property
    def message(self) -> dict[str, Any]:
        return json.loads(self.data)


class Reply:
    """The answer to one HTTP request, on a connection of its own; a stream is read as it comes."""

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        opened.append(self)
        self.status = self._response.status
        self.is_stream = self._response.headers.get_content_type() == "text/event-stream"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def header(self, name: str) -> str | None:
        return self._response.headers[name]

    def close(self) -> None:
        """Close the connection, whatever may still come."""
        self._response.close()
        self._connection.close()

    def body(self) -> bytes:
        """All of it; the connection is closed then."""
        with self:
            return self._response.read()

    def event(self) -> Event | None:
        """The next event; None at the end. Comments are passed over, and no reason to wait for ever."""
        found: dict[str, str] = {}
        end = time.monotonic() + WITHIN
        while line := self._response.readline().decode():
            name, colon, value = line.rstrip("\r\n").partition(":")
            if name:
                found[name] = value.strip()
            elif not colon and found:
                return Event(found.get("id", ""), found.get("data", ""))
            assert time.monotonic() < end, "there is no event"
        return None

    def events(self) -> Iterator[Event]:
        """Those that are still to come, to the end of the stream."""
        with self:
            while (event := self.event()) is not None:
                yield event

    def message(self) -> dict[str, Any]:
        """The next JSON-RPC message, which is the body where this is no stream. A stream stays open."""
        if not self.is_stream:
            return json.loads(self.body())
        while (event := self.event()) is not None:
            if event.data:
                return event.message
        raise AssertionError("the stream ended without a message")

    def last(self) -> dict[str, Any]:
        """The last JSON-RPC message; the connection is closed then."""
        if not self.is_stream:
            return self.message()
        return [event for event in self.events() if event.data][-1].message


def text(message: Mapping[str, Any]) -> str:
    """What a tool said."""
    assert "result" in message, message
    return "".join(block["text"] for block in message["result"]["content"])


@dataclass(frozen=True)
class Caller:
    """Somebody at one server process."""

    port: int
    user: str = "ann"
    path: str = "/mcp"

    def at(self, port: int) -> Self:
        """The same client, at another process."""
        return replace(self, port=port)

    def begin(self, verb: str, headers: Mapping[str, str], body: Any = None) -> http.client.HTTPConnection:
        """Send a request, and do not wait for the answer."""
        own = {"accept": "application/json, text/event-stream", "x-user": self.user}
        if body is not None:
            own["content-type"] = "application/json"
        connection = http.client.HTTPConnection(HOST, self.port, timeout=WITHIN)
        opened.append(connection)
        connection.request(verb, self.path, json.dumps(body) if body is not None else None, {**own, **headers})
        return connection

    def send(self, verb: str, headers: Mapping[str, str], body: Any = None) -> Reply:
        """Send a request, and wait for the head of its answer."""
        return Reply(self.begin(verb, headers, body))


@dataclass(frozen=True)
class Modern(Caller):
    """A client that says everything in each request."""

    def compose(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
        """Headers and body of a request."""
        meta = {
            META + "protocolVersion": MODERN,
            META + "clientInfo": {"name": "faults", "version": "1"},
            META + "clientCapabilities": {"elicitation": {}},
            **params.get("_meta", {}),
        }
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method}
        if (named_by := NAMED_BY.get(method)) is not None:
            headers["mcp-name"] = params[named_by]
        body = {"jsonrpc": "2.0", "id": next(ids), "method": method, "params": {**params, "_meta": meta}}
        return headers, body

    def request(self, method: str, params: Mapping[str, Any]) -> Reply:
        return self.send("POST", *self.compose(method, params))

    def start(self, name: str, /, **arguments: Any) -> http.client.HTTPConnection:
        """Begin a call, and do not wait for its answer."""
        return self.begin("POST", *self.compose("tools/call", {"name": name, "arguments": arguments}))

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool to its end; the JSON-RPC response."""
        return self.request("tools/call", {"name": name, "arguments": arguments}).last()

    def go_on(self, name: str, asked: Mapping[str, Any], /, **arguments: Any) -> dict[str, Any]:
        """Call it again with an answer to each question of *asked*."""
        return self.again(name, asked["result"]["requestState"], list(asked["result"]["inputRequests"]), **arguments)

    def again(self, name: str, state: Any, keys: Any, /, **arguments: Any) -> dict[str, Any]:
        responses = {key: accepted(key) for key in keys}
        params = {"name": name, "arguments": arguments, "requestState": state, "inputResponses": responses}
        return self.request("tools/call", params).last()

    def tasks(self) -> set[str]:
        """Those of the process, by names that are given once; without what answers this."""
        return set(self.call("watch_process")["result"]["structuredContent"]["tasks"])

    def queries(self) -> list[str]:
        """Those of the process since this was last asked, but for what every call does beside its work."""
        found = self.call("watch_process")["result"]["structuredContent"]["queries"]
        return [sql for sql in found if not any(table in sql for table in OF_EVERY_CALL)]

    def listen(self) -> Reply:
        """Listen for changes of the list of tools, from the acknowledgement on."""
        reply = self.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        assert reply.message()["method"] == "notifications/subscriptions/acknowledged"
        return reply


@dataclass(frozen=True)
class Legacy(Caller):
    """A client with a session."""

    session: str = field(default="")

    def open(self) -> Self:
        """Shake hands; the client in its session."""
        params = {
            "protocolVersion": LEGACY,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "faults", "version": "1"},
        }
        reply = self.send("POST", {}, {"jsonrpc": "2.0", "id": next(ids), "method": "initialize", "params": params})
        opened = replace(self, session=reply.header("mcp-session-id") or "")
        assert "result" in reply.message()
        return opened

    @property
    def headers(self) -> dict[str, str]:
        return {"mcp-protocol-version": LEGACY, "mcp-session-id": self.session}

    def post(self, message: Mapping[str, Any]) -> Reply:
        return self.send("POST", self.headers, {"jsonrpc": "2.0", **message})

    def start(self, name: str, /, *, token: int | None = None, **arguments: Any) -> Reply:
        """Call a tool; the answer as it begins."""
        meta = {} if token is None else {"_meta": {"progressToken": token}}
        params = {"name": name, "arguments": arguments, **meta}
        return self.post({"id": next(ids), "method": "tools/call", "params": params})

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool to its end; the JSON-RPC response."""
        return self.start(name, **arguments).last()

    def answer(self, question: Mapping[str, Any]) -> int:
        """Say yes to a question; the status."""
        reply = self.post({"id": question["id"], "result": accepted(question["params"]["message"])})
        reply.close()
        return reply.status

    def listen(self, last_event_id: str | None = None) -> Reply:
        """GET: the stream that an event id is of, else that of changes."""
        given = {} if last_event_id is None else {"last-event-id": last_event_id}
        return self.send("GET", {**self.headers, **given})


def accepted(key: str) -> dict[str, Any]:
    """A form, filled in."""
    return {"action": "accept", "content": {"value": f"yes to {key}"}}


def question_of(reply: Reply) -> Event:
    """The next question in a stream."""
    while (event := reply.event()) is not None:
        if event.data and event.message.get("method") == "elicitation/create":
            return event
    raise AssertionError("the stream ended without a question")
