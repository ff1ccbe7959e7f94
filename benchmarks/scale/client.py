"""A client over real sockets, for what the load generator does not do: streams, questions, tasks, and faults.

Nothing is retried: what failed is told.
"""

import http.client
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from benchmarks.credentials import KEY
from benchmarks.process import HOST
from benchmarks.shapes import FULL, LEGACY, MODERN

META = "io.modelcontextprotocol/"
TASKS = "io.modelcontextprotocol/tasks"
SERVED_BY = "X-Served-By"
"""The header in which nginx says which worker answered."""
NAMED_BY = {"tools/call": "name", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
"""What a modern request repeats in its header."""
_ids = itertools.count(1)

Fields = dict[str, Any]
Headers = Mapping[str, str]


class CallFailedError(Exception):
    """There was no good answer; the message says what there was."""


class Event(NamedTuple):
    """One event of a stream: its id, and the message it carries."""

    id: str
    message: Fields


class Reply:
    """The answer to one request, read as it comes.

    Attributes:
        worker: which of those behind nginx answered, as host and port; empty where nobody says.
    """

    def __init__(self, connection: http.client.HTTPConnection) -> None:
        self._connection = connection
        self._response = connection.getresponse()
        self.status = self._response.status
        self.worker = self.header(SERVED_BY).rpartition(", ")[2]  # the last of those that were tried
        self._is_stream = self._response.headers.get_content_type() == "text/event-stream"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def header(self, name: str) -> str:
        """A header's value; empty where there is none."""
        return str(self._response.headers.get(name, ""))

    def close(self) -> None:
        """Drop the connection, whatever may still come."""
        self._response.close()
        self._connection.close()

    def events(self) -> Iterator[Event]:
        """Events with messages, to the end of the stream. Comments and empty events are passed over."""
        found: dict[str, str] = {}
        while line := self._response.readline().decode():
            name, colon, value = line.rstrip("\r\n").partition(":")
            if name:
                found[name] = value.strip()
            elif not colon and found:
                if found.get("data"):
                    yield Event(found.get("id", ""), json.loads(found["data"]))
                elif "id" in found:
                    yield Event(found["id"], {})
                found = {}

    def result(self) -> Fields:
        """The result of the request; the connection is closed then.

        Raises:
            CallFailedError: the status or the message is an error's.
        """
        with self:
            if self._is_stream:
                message = next((each.message for each in self.events() if "id" in each.message), {})
            else:
                body = self._response.read()
                message = json.loads(body) if body.startswith(b"{") else {"body": body[:100].decode(errors="replace")}
            if "result" not in message:
                said = message.get("error") or message.get("body", "")
                raise CallFailedError(f"HTTP {self.status}" if self.status >= 300 else f"no result: {said}")
            return dict(message["result"])


@dataclass(frozen=True)
class Client:
    """One caller at one address.

    Attributes:
        port: on this machine.
        credential: a bearer token.
        session: id of a session; empty for none.
        patience: seconds within which something has to come.
    """

    port: int
    path: str = FULL
    credential: str = KEY
    session: str = ""
    patience: float = 20.0
    capabilities: Fields = field(default_factory=dict)

    def at(self, port: int) -> Self:
        """The same caller, at another address."""
        return replace(self, port=port)

    def modern(self, method: str, params: Fields | None = None, *, meta: Fields | None = None) -> Reply:
        """A request of 2026-07-28, as far as the head of its answer."""
        own = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientInfo": {"name": "bench", "version": "1"},
            f"{META}clientCapabilities": self.capabilities,
        }
        given: Fields = {**(params or {}), "_meta": {**own, **(meta or {})}}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if name := given.get(NAMED_BY.get(method, "")):
            headers["Mcp-Name"] = str(name)
        return self.send("POST", headers, _request(method, given))

    def legacy(self, method: str, params: Fields | None = None) -> Reply:
        """A request of 2025-11-25, in the session if there is one."""
        return self.send("POST", self._legacy_headers(), _request(method, params or {}))

    def call(self, name: str, /, **arguments: Any) -> Fields:
        """The result of a tool, asked for in the session if there is one, else as modern clients do.

        Raises:
            CallFailedError: it is an error.
        """
        ask = self.legacy if self.session else self.modern
        result = ask("tools/call", {"name": name, "arguments": arguments}).result()
        if result.get("isError"):
            raise CallFailedError(f"tool error: {result['content']}")
        return result

    def open(self) -> Self:
        """Shake hands; the client in its session."""
        given = {
            "protocolVersion": LEGACY,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "bench", "version": "1"},
        }
        reply = self.legacy("initialize", given)
        session = reply.header("Mcp-Session-Id")
        reply.result()
        return replace(self, session=session)

    def answer(self, question: Fields, value: Fields) -> None:
        """Fill in the form of a question."""
        body = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": value}}
        self.send("POST", self._legacy_headers(), body).close()

    def listen(self, last_event_id: str = "") -> Reply:
        """GET: the stream that an event id is of, else that of changes."""
        headers = {**self._legacy_headers(), **({"Last-Event-ID": last_event_id} if last_event_id else {})}
        return self.send("GET", headers)

    def leave(self) -> None:
        """End the session."""
        self.send("DELETE", self._legacy_headers()).close()

    def send(self, verb: str, headers: Headers, body: Fields | None = None) -> Reply:
        """One request, on a connection of its own.

        Raises:
            OSError, http.client.HTTPException: the connection failed.
        """
        connection = http.client.HTTPConnection(HOST, self.port, timeout=self.patience)
        own = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {self.credential}"}
        encoded = None
        if body is not None:
            own["Content-Type"] = "application/json"
            encoded = json.dumps(body, separators=(",", ":"))
        try:
            connection.request(verb, self.path, encoded, {**own, **headers})
            return Reply(connection)
        except BaseException:
            connection.close()
            raise

    def _legacy_headers(self) -> dict[str, str]:
        return {"MCP-Protocol-Version": LEGACY, **({"Mcp-Session-Id": self.session} if self.session else {})}


def _request(method: str, params: Fields) -> Fields:
    return {"jsonrpc": "2.0", "id": next(_ids), "method": method, "params": params}
