"""Clients of every kind, each of which meets its decision in a way of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.clients import LEGACY, META
from tests.faults.conftest import until
from tests.faults.wire import Legacy, Modern, Reply, ids, text
from tests.tasks.workers.processes import NAME

ACCEPT = {"action": "accept"}


class Kind:
    """A client that makes one call.

    Attributes:
        url: of the page that it shows to somebody; empty for a client that cannot.
    """

    url = ""

    def __init__(self, port: int) -> None:
        self.port = port

    def begin(self, **arguments: Any) -> None:
        """Make the call, and do not wait for what comes of it."""
        raise NotImplementedError

    def end(self) -> str:
        """What comes of it in the end."""
        raise NotImplementedError

    def move(self, port: int) -> None:
        """Go on at another process."""
        self.port = port


@dataclass(frozen=True)
class Declared(Modern):
    """A client with chosen capabilities."""

    capabilities: Any = None

    def compose(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
        meta = {META + "clientCapabilities": self.capabilities or {}, **params.get("_meta", {})}
        return super().compose(method, {**params, "_meta": meta})


class Plain(Kind):
    """Knows neither tasks nor pages, and waits."""

    def begin(self, **arguments: Any) -> None:
        self.waiting = Declared(self.port).start("pay", **arguments)

    def end(self) -> str:
        return text(Reply(self.waiting).last())


class WithTasks(Kind):
    """Gets a task, and asks for it."""

    declared = {"extensions": {NAME: {}}}

    def begin(self, **arguments: Any) -> None:
        result = self.client.call("pay", **arguments)["result"]
        assert result["resultType"] == "task", result
        self.task = result["taskId"]

    @property
    def client(self) -> Declared:
        return Declared(self.port, capabilities=self.declared)

    def get(self) -> dict[str, Any]:
        return self.client.request("tasks/get", {"taskId": self.task}).last()["result"]

    def end(self) -> str:
        over = {"completed", "failed", "cancelled"}
        return text(until(lambda: found if (found := self.get())["status"] in over else None, "the task ends"))


class WithPages(Kind):
    """Shows somebody a page, and goes on when they agreed to open it."""

    def begin(self, **arguments: Any) -> None:
        self.arguments = arguments
        self.client = Declared(self.port, capabilities={"elicitation": {"url": {}}})
        self.asked = self.client.call("pay", **arguments)["result"]
        assert self.asked["resultType"] == "input_required", self.asked
        (question,) = self.asked["inputRequests"].values()
        assert question["params"]["mode"] == "url"
        self.url = question["params"]["url"]

    def end(self) -> str:
        responses = dict.fromkeys(self.asked["inputRequests"], ACCEPT)
        params = {"name": "pay", "arguments": self.arguments, "requestState": self.asked["requestState"]}
        return text(self.client.request("tools/call", {**params, "inputResponses": responses}).last())


@dataclass(frozen=True)
class DeclaredLegacy(Legacy):
    """A client with a session, and chosen capabilities."""

    capabilities: Any = None

    def open(self) -> "DeclaredLegacy":
        client = {"name": "bills-desk", "version": "1"}
        params = {"protocolVersion": LEGACY, "capabilities": self.capabilities or {}, "clientInfo": client}
        reply = self.send("POST", {}, {"jsonrpc": "2.0", "id": next(ids), "method": "initialize", "params": params})
        opened = replace(self, session=reply.header("mcp-session-id") or "")
        assert "result" in reply.message()
        return opened

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return self.post({"id": next(ids), "method": method, "params": params}).last()


class OldPlain(Kind):
    """The same with a session; hears on its stream that it waits."""

    def begin(self, **arguments: Any) -> None:
        self.reply = DeclaredLegacy(self.port).open().start("pay", token=7, **arguments)
        told = self.reply.message()
        assert told["method"] == "notifications/progress", told
        assert "Waiting for approval" in told["params"]["message"]

    def end(self) -> str:
        return text(self.reply.last())


class OldWithTasks(Kind):
    """Asks for a task by a parameter, and for its result."""

    def begin(self, **arguments: Any) -> None:
        self.client = DeclaredLegacy(self.port).open()
        made = self.client.ask("tools/call", name="pay", arguments=arguments, task={"ttl": 60_000})
        self.task = made["result"]["task"]["taskId"]

    def end(self) -> str:
        return text(self.client.ask("tasks/result", taskId=self.task))


class OldWithPages(Kind):
    """Is asked on its stream to show somebody a page."""

    def begin(self, **arguments: Any) -> None:
        self.client = DeclaredLegacy(self.port, capabilities={"elicitation": {"url": {}}}).open()
        self.reply = self.client.start("pay", **arguments)
        self.question = self.reply.message()
        assert self.question["method"] == "elicitation/create", self.question
        self.url = self.question["params"]["url"]

    def end(self) -> str:
        with self.client.post({"id": self.question["id"], "result": ACCEPT}) as answered:
            assert answered.status == 202
        return text(self.reply.last())


KINDS = (Plain, WithTasks, WithPages, OldPlain, OldWithTasks, OldWithPages)
