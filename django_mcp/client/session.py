"""The client side of the protocol in any version: requests, elicitation responses, tasks."""

import itertools
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.http import HttpRequest

from django_mcp.client.in_process import Listen, Message, Received, send
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.primitives.markers import mirrored
from django_mcp.protocol import headers, meta, versions
from django_mcp.tasks.extension import NAME as TASKS
from django_mcp.version import __version__

CAPABILITIES: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
MAX_ROUNDS = 100
"""Limit of rounds of questions in one call."""

Respond = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Callback that takes a server request, such as ``elicitation/create``, and returns its result."""


class Ended(NamedTuple):
    """The outcome of a request.

    Attributes:
        response: JSON-RPC response, empty if there was none.
        notifications: notifications received before it.
        challenge: ``WWW-Authenticate`` (RFC 9110, section 11.6.1).
        raised: unexpected exception in the site's code.
    """

    status: int
    response: Message
    notifications: Sequence[Message]
    challenge: str = ""
    raised: BaseException | None = None

    @property
    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = self.response.get("result", {})
        return found

    @property
    def error(self) -> dict[str, Any]:
        """The JSON-RPC or HTTP error (RFC 6750, section 3), or {} for a result."""
        error = self.response.get("error", {})
        if isinstance(error, str):
            error = {"message": self.response.get("error_description", error)}
        return {**error, "challenge": self.challenge} if self.challenge else error


def with_tasks(capabilities: Mapping[str, Any]) -> dict[str, Any]:
    return {**capabilities, "extensions": {**capabilities.get("extensions", {}), TASKS: {}}}


@dataclass
class ClientSession:
    """A client with one protocol version.

    Attributes:
        principal: the caller; None to authenticate by ``credentials``.
        credentials: additional headers.
        client: its ``Implementation``.
        level: minimum level of log messages.
        request, listen, waits: see ``send``.
    """

    server: MCPServer
    version: str
    principal: Principal | None = None
    credentials: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=lambda: CAPABILITIES)
    client: Mapping[str, str] = field(default_factory=lambda: {"name": "django_mcp.test", "version": __version__})
    level: str = "debug"
    request: HttpRequest | None = None
    listen: Listen | None = None
    waits: bool = False
    session_id: str = ""
    ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def is_modern(self) -> bool:
        return self.version in versions.MODERN

    def open(self) -> None:
        """Initialize a session if the version has sessions and none is open."""
        if self.is_modern or self.session_id:
            return
        params = {"protocolVersion": self.version, "capabilities": self.capabilities, "clientInfo": self.client}
        received = self._post("initialize", {"id": 0, "method": "initialize", "params": params})
        self.session_id = received.headers.get(headers.SESSION, "")
        if self.session_id:
            self._post("", {"method": "notifications/initialized"})
            level = {"id": 0, "method": "logging/setLevel", "params": {"level": self.level}}
            self._post("logging/setLevel", level)

    def close(self) -> None:
        if self.session_id:
            self._send("DELETE", {})
            self.session_id = ""

    def call(
        self, method: str, params: Mapping[str, Any], respond: Respond, schema: Mapping[str, Any] | None = None
    ) -> Ended:
        """Send a request, answer its questions with *respond*, and return the outcome.

        Arguments of a tool that *schema* marks are mirrored in headers.
        """
        self.open()
        if self.is_modern:
            return self._in_rounds(method, dict(params), respond, schema)
        ended = self._in_session(method, params, respond)
        if ended.status == 404 and self.session_id:  # noqa: PLR2004 - session lost, for example by a rollback
            self.session_id = ""
            self.open()
            return self._in_session(method, params, respond)
        return ended

    def follow_task(self, task_id: str, respond: Respond) -> Ended:
        """Poll a task, answer its questions, and return its outcome. Status messages are passed to ``listen``."""
        said = None
        while True:
            ended = self.call("tasks/get", {"taskId": task_id}, respond)
            task = ended.result
            if self.listen is not None and (message := task.get("statusMessage")) and message != said:
                said = message
                log = {"level": "info", "logger": "task", "data": message}
                self.listen({"method": "notifications/message", "params": log})
            match task.get("status"):
                case "working":
                    time.sleep(min(task.get("pollIntervalMs", 1000) / 1000, 1))
                case "input_required":
                    answers = {key: respond(question) for key, question in task.get("inputRequests", {}).items()}
                    self.call("tasks/update", {"taskId": task_id, "inputResponses": answers}, respond)
                case "cancelled":
                    return ended._replace(response={"error": {"message": "The task was cancelled."}})
                case status:
                    member = {"completed": "result", "failed": "error"}.get(status or "")
                    return ended._replace(response={member: task[member]}) if member else ended

    # Modern versions: a question ends a round; the request is repeated with the answer

    def round(self, method: str, params: Mapping[str, Any], schema: Mapping[str, Any] | None = None) -> Ended:
        """Send a request once. The result may be questions (2026-07-28, Multi Round-Trip Requests)."""
        number = next(self.ids)
        own = meta.fields(self.version, self.client, self.capabilities, self.level)
        mirrors = [(mirror.header, mirror.path) for mirror in mirrored(schema or {}, "the tool")]
        repeated = headers.parameters(mirrors, params.get("arguments", {}))
        whole = {**params, "_meta": {**own, "progressToken": number}}
        received = self._post(method, {"id": number, "method": method, "params": whole}, repeated)
        *before, response = received.messages or [{}]
        return Ended(received.status, response, before, received.headers.get("www-authenticate", ""), received.raised)

    def _in_rounds(
        self, method: str, params: dict[str, Any], respond: Respond, schema: Mapping[str, Any] | None
    ) -> Ended:
        notifications: list[Message] = []
        raised = None
        for _ in range(MAX_ROUNDS):
            ended = self.round(method, params, schema)
            raised = ended.raised or raised
            notifications += ended.notifications
            if ended.result.get("resultType") != "input_required":
                return ended._replace(notifications=notifications, raised=raised)
            requests = ended.result["inputRequests"]
            params["inputResponses"] = {key: respond(question) for key, question in requests.items()}
            params["requestState"] = ended.result["requestState"]
        raise _endless(method, ended.response)

    # Legacy versions: questions arrive on the stream; answers are separate requests

    def _in_session(self, method: str, params: Mapping[str, Any], respond: Respond) -> Ended:
        number = next(self.ids)
        own = {**meta.meta_of(params), "progressToken": number}
        received = self._post(method, {"id": number, "method": method, "params": {**params, "_meta": own}})
        notifications: list[Message] = []
        raised = None
        for _ in range(MAX_ROUNDS):
            for message in received.messages:
                if "method" not in message:
                    challenge = received.headers.get("www-authenticate", "")
                    return Ended(received.status, message, notifications, challenge, raised or received.raised)
                if "id" in message:
                    raised = self._post("", {"id": message["id"], "result": respond(message)}).raised or raised
                else:
                    notifications.append(message)
            if not received.last:
                return Ended(received.status, {}, notifications)
            received = self._send("GET", {headers.LAST_EVENT: received.last})
        raise _endless(method, received.messages)

    # HTTP

    def _post(self, method: str, body: Mapping[str, Any], more: Mapping[str, str] | None = None) -> Received:
        own = {"accept": "application/json, text/event-stream", **(more or {})}
        if self.is_modern:
            own[headers.METHOD] = method
            if (name := body["params"].get(headers.NAMED_BY.get(method))) is not None:
                own[headers.NAME] = headers.encode_value(str(name))
        return self._send("POST", own, json.dumps({"jsonrpc": "2.0", **body}).encode())

    def _send(self, verb: str, more: Mapping[str, str], body: bytes = b"") -> Received:
        own = {"content-type": "application/json", "accept": "text/event-stream", headers.VERSION: self.version}
        if self.session_id:
            own[headers.SESSION] = self.session_id
        return send(
            self.server,
            self.principal,
            verb,
            {**own, **more, **self.credentials},
            body,
            request=self.request,
            listen=self.listen,
            waits=self.waits,
        )


def _endless(method: str, last: Any) -> AssertionError:
    return AssertionError(f"{method} still asks questions after {MAX_ROUNDS} rounds; the last message was {last}")
