"""A client that starts a site and talks to it over pipes, in either era. The referee looks at every line."""

import itertools
import json
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import referee
from tests.clients import META, MODERN
from tests.real_clients.sites import PROJECT, Project, environment

LOCAL = Project("tests.transports.local", "CONFORMANCE_DATABASE")
PATIENCE = 30.0
"""Seconds for what should happen soon."""

Message = dict[str, Any]


def until(look: Callable[[], Any], what: str) -> Any:
    """What *look* gives as soon as that is true."""
    end = time.monotonic() + PATIENCE
    while not (seen := look()):
        assert time.monotonic() < end, f"after {PATIENCE:.0f} s still not: {what}"
        time.sleep(0.02)
    return seen


@dataclass
class Pipe:
    """One process and its client."""

    database: Path
    errors: Path
    """The file its standard error goes to."""
    version: str = MODERN
    arguments: tuple[str, ...] = ()
    project: Project = LOCAL
    variables: Mapping[str, str] = field(default_factory=dict)
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    reads: bool = True
    unread: list[Message] = field(default_factory=list)
    """Messages that came while others were waited for."""

    def __post_init__(self) -> None:
        self.ids = itertools.count(1)
        self.asked: dict[Any, tuple[str, str]] = {}
        self.lines: queue.Queue[bytes | None] = queue.Queue()
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "mcp_stdio", *self.arguments],
                cwd=PROJECT,
                # Buffered as usual: what is printed before the command runs must not come out of stdout later.
                env={**environment(self.database, self.project), "PYTHONUNBUFFERED": "", **self.variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self.reading = threading.Thread(target=self._read, daemon=True)
        if self.reads:
            self.reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    @property
    def is_modern(self) -> bool:
        return self.version == MODERN

    @property
    def noise(self) -> str:
        """What it wrote to standard error so far."""
        return self.errors.read_text(encoding="utf-8", errors="replace")

    # Writing

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message: Any) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def notify(self, method: str, **params: Any) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def request(
        self, method: str, params: Message | None = None, *, version: str | None = None, end: bytes = b"\n"
    ) -> int:
        """Send a request as a client of this version does; its id."""
        version = version or self.version
        params = dict(params or {})
        if version == MODERN:
            envelope = {"protocolVersion": MODERN, "clientCapabilities": dict(self.capabilities)}
            own = {META + key: value for key, value in envelope.items()}
            params["_meta"] = {**own, **params.get("_meta", {})}
        request_id = next(self.ids)
        self.asked[request_id] = (method, version)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self.write(json.dumps(message).encode() + end)
        return request_id

    def initialize(self) -> Message:
        """The handshake of an older version."""
        client = {"name": "tests", "version": "1"}
        params = {"protocolVersion": self.version, "capabilities": dict(self.capabilities), "clientInfo": client}
        result = self.answer(self.request("initialize", params))["result"]
        self.notify("notifications/initialized")
        return result

    # Reading

    def next(self, wanted: Callable[[Message], bool], what: str) -> Message:
        """The next message that is *wanted*; the others are kept."""
        for message in self.unread:
            if wanted(message):
                self.unread.remove(message)
                return message
        end = time.monotonic() + PATIENCE
        while True:
            try:
                line = self.lines.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                raise AssertionError(f"{what} did not come; {self.unread} did\n{self.noise}") from None
            assert line is not None, f"it ended without {what}; {self.unread} came\n{self.noise}"
            message = self._judged(line)
            if wanted(message):
                return message
            self.unread.append(message)

    def _judged(self, line: bytes) -> Message:
        assert line.endswith(b"\n")
        message = json.loads(line)
        for each in message if isinstance(message, list) else [message]:
            method, version = self.asked.get(each.get("id"), ("", self.version))
            referee.check_any(each, method, version)
        return message

    def answer(self, request_id: int) -> Message:
        """The response to a request."""
        return self.next(lambda each: "method" not in each and each.get("id") == request_id, f"answer {request_id}")

    def told(self, method: str) -> Message:
        """The next notification, or request, of a method."""
        return self.next(lambda each: each.get("method") == method, method)

    def error(self) -> Message:
        """The next error that answers no request."""
        return self.next(lambda each: "error" in each and "id" not in each, "an error")["error"]

    def call(self, name: str, /, **arguments: Any) -> Message:
        """The result of a tool."""
        response = self.answer(self.request("tools/call", {"name": name, "arguments": arguments}))
        assert "result" in response, response
        return response["result"]

    def text(self, name: str, /, **arguments: Any) -> str:
        return self.call(name, **arguments)["content"][0]["text"]

    # The end

    def finish(self) -> tuple[int, list[Message]]:
        """Close our end: how it ended, and what it still said."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self._ended()

    def terminate(self) -> tuple[int, list[Message]]:
        """The same after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> tuple[int, list[Message]]:
        status = self.process.wait(timeout=PATIENCE)
        self.reading.join(PATIENCE)
        while (line := self.lines.get(timeout=PATIENCE)) is not None:
            self.unread.append(self._judged(line))
        return status, self.unread

    def release(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(timeout=PATIENCE)
        if self.reads:
            self.reading.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None and not pipe.closed:
                with suppress(BrokenPipeError):  # what was not sent has nobody to read it
                    pipe.close()
