"""A client of any protocol version, as far as calling a tool takes one."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any

from django_mcp.management.calling.link import Link, Message
from django_mcp.protocol import meta as envelope
from django_mcp.protocol import versions
from django_mcp.tasks.extension import NAME as TASKS
from django_mcp.version import __version__

CLIENT = {"name": "manage.py mcp_call", "version": __version__}
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
        asked = {"protocolVersion": self._version, "capabilities": self._capabilities, "clientInfo": CLIENT}
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
        meta = envelope.fields(self._version, CLIENT, self._capabilities, self._level)
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
