"""The client side of the protocol, in any version: requests, answers to elicitation, results."""

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django_mcp.client.in_process import Link, Message, Received, send
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.primitives.markers import mirrored
from django_mcp.protocol import headers, versions
from django_mcp.protocol import meta as envelope
from django_mcp.tasks.extension import NAME as TASKS
from django_mcp.version import __version__

CLI_CLIENT = {"name": "manage.py mcp_call", "version": __version__}
Listen = Callable[[str, Mapping[str, Any]], None]
Answer = Callable[[Mapping[str, Any]], dict[str, Any]]
PROGRESS = "call"


class Refused(Exception):
    """A JSON-RPC error.

    Args:
        error: its object.
    """

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("message", "")))
        self.code = error.get("code")


class Conversation:
    """One client.

    Args:
        link: to the endpoint.
        version: of the protocol.
        capabilities: what the client can do.
        level: the least severe level of log messages.
        listen: takes notifications.
        answer: takes the parameters of an elicitation, gives its result. May block.
    """

    def __init__(
        self, link: Link, version: str, capabilities: Mapping[str, Any], level: str, listen: Listen, answer: Answer
    ) -> None:
        self._link, self._version, self._capabilities = link, version, dict(capabilities)
        self._level, self._listen, self._answer = level, listen, answer
        self._is_modern = version in versions.MODERN
        self._ids = itertools.count(1)

    async def open(self) -> None:
        """The handshake, of versions that have one.

        Raises:
            Refused: the endpoint wants nothing to do with it.
        """
        if self._is_modern:
            return
        asked = {"protocolVersion": self._version, "capabilities": self._capabilities, "clientInfo": CLI_CLIENT}
        agreed = await self._request("initialize", asked)
        self._link.send({"method": "notifications/initialized"})
        if "logging" in agreed["capabilities"]:
            await self._request("logging/setLevel", {"level": self._level})

    async def call(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a tool, after all questions were answered.

        Raises:
            Refused: it was answered with an error.
        """
        params = {"name": name, "arguments": dict(arguments), "_meta": {"progressToken": PROGRESS}}
        result = await self._request("tools/call", params)
        while result.get("resultType") == "input_required":
            again = {**params, "inputResponses": self._answers(result.get("inputRequests", {}))}
            if "requestState" in result:
                again["requestState"] = result["requestState"]
            result = await self._request("tools/call", again)
        return await self._followed(result["taskId"]) if result.get("resultType") == "task" else result

    async def _followed(self, task_id: str) -> dict[str, Any]:
        """The result of a task."""
        said = None
        while True:
            task = await self._request("tasks/get", {"taskId": task_id})
            if (message := task.get("statusMessage")) and message != said:
                self._listen("notifications/message", {"level": "info", "logger": "task", "data": message})
                said = message
            match task["status"]:
                case "completed":
                    result: dict[str, Any] = task["result"]
                    return result
                case "failed":
                    raise Refused(task["error"])
                case "cancelled":
                    raise Refused({"message": "The task was cancelled."})
                case "input_required":
                    answers = self._answers(task.get("inputRequests", {}))
                    await self._request("tasks/update", {"taskId": task_id, "inputResponses": answers})
                case _:
                    await asyncio.sleep(min(task.get("pollIntervalMs", 1000) / 1000, 1))

    def _answers(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._answer(request.get("params", {})) for key, request in asked.items()}

    async def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        own = next(self._ids)
        self._link.send({"id": own, "method": method, "params": self._with_envelope(params)})
        while True:
            message = await self._link.receive()
            if "method" in message:
                self._take(message)
            elif message.get("id") in {own, None}:
                if "error" in message:
                    raise Refused(message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def _with_envelope(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self._is_modern:
            return dict(params)
        meta = envelope.fields(self._version, CLI_CLIENT, self._capabilities, self._level)
        return {**params, "_meta": {**meta, **params.get("_meta", {})}}

    def _take(self, message: Message) -> None:
        """A notification, or a question of versions that ask in the middle of a call."""
        method, params = message["method"], message.get("params", {})
        if "id" not in message:
            self._listen(method, params)
        elif method == "elicitation/create":
            self._link.send({"id": message["id"], "result": self._answer(params)})
        elif method == "ping":
            self._link.send({"id": message["id"], "result": {}})
        else:
            error = {"code": -32601, "message": f"manage.py mcp_call does not answer {method}."}
            self._link.send({"id": message["id"], "error": error})


def with_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    """The same, of a client that knows the Tasks extension."""
    return {**capabilities, "extensions": {TASKS: {}}}


CLIENT = {"name": "django_mcp.test", "version": __version__}
CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
MOST_ROUNDS = 100
"""Questions in a call, before it is taken to ask without end."""

Respond = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes a request of the server, such as ``elicitation/create``, and returns the result that answers it."""


class Ended(NamedTuple):
    """How a request ended.

    Attributes:
        status: of HTTP.
        response: JSON-RPC; empty where there was none.
        told: notifications that came before it.
        challenge: what a client without the right credential is told (RFC 9110, section 11.6.1).
        raised: what the site's code raised and nobody expected.
    """

    status: int
    response: dict[str, Any]
    told: Sequence[dict[str, Any]]
    challenge: str = ""
    raised: BaseException | None = None


@dataclass
class Speaker:
    """Who sends requests, in one version of the protocol.

    Attributes:
        principal: who it says it is; None where the headers say that.
        credentials: further headers.
        capabilities: what it declares.
        session: id of the one it has opened.
    """

    server: MCPServer
    version: str
    principal: Principal | None
    credentials: Mapping[str, str]
    capabilities: Mapping[str, Any]
    session: str = ""
    ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def is_modern(self) -> bool:
        """Whether each request stands for itself."""
        return self.version in versions.MODERN

    def open(self) -> None:
        """Shake hands, where the version has that and it was not done yet."""
        if self.is_modern or self.session:
            return
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": CLIENT}
        received = self._post("initialize", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        self.session = received.headers.get(headers.SESSION, "")
        if self.session:
            self._post("", {"jsonrpc": "2.0", "method": "notifications/initialized"})
            level = {"jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": {"level": "debug"}}
            self._post("logging/setLevel", level)

    def request(
        self, method: str, params: Mapping[str, Any], respond: Respond, schema: Mapping[str, Any] | None = None
    ) -> Ended:
        """Send a request, answer what it asks, and come to its end.

        Args:
            method: of the request.
            params: of it.
            respond: answers the questions.
            schema: of the arguments, some of which may have to be repeated in headers.
        """
        self.open()
        if self.is_modern:
            return self._in_rounds(method, dict(params), respond, schema)
        ended = self._in_session(method, params, respond)
        if ended.status == 404 and self.session:  # noqa: PLR2004 - it is gone, as after a rollback
            self.session = ""
            self.open()
            return self._in_session(method, params, respond)
        return ended

    # The newest version: a question ends a round, and the answer comes with the request made again

    def _in_rounds(
        self, method: str, params: dict[str, Any], respond: Respond, schema: Mapping[str, Any] | None
    ) -> Ended:
        told: list[dict[str, Any]] = []
        meta = envelope.fields(self.version, CLIENT, self.capabilities, "debug")
        mirrors = [(each.header, each.path) for each in mirrored(schema or {}, "the tool")]
        repeated = headers.parameters(mirrors, params.get("arguments", {}))
        raised = None
        for _ in range(MOST_ROUNDS):
            number = next(self.ids)
            whole = {**params, "_meta": {**meta, "progressToken": number}}
            body = {"jsonrpc": "2.0", "id": number, "method": method, "params": whole}
            received = self._post(method, body, repeated)
            raised = received.raised or raised
            *before, response = received.messages or [{}]
            told += before
            result = response.get("result", {})
            if result.get("resultType") != "input_required":
                return Ended(received.status, response, told, received.headers.get("www-authenticate", ""), raised)
            params["inputResponses"] = {key: respond(each) for key, each in result["inputRequests"].items()}
            params["requestState"] = result["requestState"]
        raise _endless(method, received.messages)

    # Before it: questions come on the stream, answers are requests of their own

    def _in_session(self, method: str, params: Mapping[str, Any], respond: Respond) -> Ended:
        number = next(self.ids)
        meta = {**envelope.meta_of(params), "progressToken": number}
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": meta}}
        received = self._post(method, body)
        told: list[dict[str, Any]] = []
        raised = None
        for _ in range(MOST_ROUNDS):
            for message in received.messages:
                if "method" not in message:
                    challenge = received.headers.get("www-authenticate", "")
                    return Ended(received.status, message, told, challenge, raised or received.raised)
                if "id" in message:
                    answer = {"jsonrpc": "2.0", "id": message["id"], "result": respond(message)}
                    raised = self._post("", answer).raised or raised
                else:
                    told.append(message)
            if not received.last:
                return Ended(received.status, {}, told)
            received = self._send("GET", {headers.LAST_EVENT: received.last})
        raise _endless(method, received.messages)

    # HTTP

    def _post(self, method: str, body: Mapping[str, Any], more: Mapping[str, str] | None = None) -> Received:
        own = {"accept": "application/json, text/event-stream", **(more or {})}
        if self.is_modern:
            own[headers.METHOD] = method
            if (name := body["params"].get(headers.NAMED_BY.get(method))) is not None:
                own[headers.NAME] = headers.encode_value(str(name))
        return self._send("POST", own, json.dumps(body).encode())

    def _send(self, verb: str, more: Mapping[str, str], body: bytes = b"") -> Received:
        own = {"content-type": "application/json", "accept": "text/event-stream", headers.VERSION: self.version}
        if self.session:
            own[headers.SESSION] = self.session
        return send(self.server, self.principal, verb, {**own, **more, **self.credentials}, body)


def _endless(method: str, last: Sequence[Any]) -> AssertionError:
    return AssertionError(f"{method} asks without end: {MOST_ROUNDS} rounds, in the last of which came {last}")
