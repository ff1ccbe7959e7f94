"""HTTP exchanges in the same process whose answers come in parts, so that more can be sent while one is under way."""

import asyncio
import json
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar
from urllib.parse import urlsplit

from django.core.handlers.asgi import ASGIHandler
from django.test import Client as DjangoClient

from django_mcp import MCPServer
from django_mcp.transports.asgi import MCPApplication
from tests import leftovers
from tests.clients import no_django, urls

T = TypeVar("T")

WITHIN = 15.0
"""Seconds after which something that should have happened has not."""
TIMERS = {
    "tick",  # of keep-alives: goes on as long as there are connections
    "_on_timer",  # of leases: likewise
    "_set_result_unless_cancelled",  # of whoever looks for what is left
}
"""Timers that one event loop has once."""
SERVING = "connection"
"""Name of the tasks that serve connections."""
BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def eventually(condition: Callable[[], T], what: str | Callable[[], str] = "it did not come true") -> T:
    """The first true value of *condition*."""
    deadline = time.monotonic() + WITHIN
    while not (value := condition()):
        assert time.monotonic() < deadline, what() if callable(what) else what
        time.sleep(0.005)
    return value


@dataclass(frozen=True)
class Received:
    """One event of a stream as a client reads it; a comment has no fields."""

    data: str | None = None
    id: str | None = None
    retry: str | None = None
    event: str | None = None

    @classmethod
    def read(cls, block: bytes) -> "Received":
        fields: dict[str, str] = {}
        for line in re.split(r"\r\n|\n|\r", block.decode()):
            name, _, value = line.partition(":")
            if name:
                assert name in {"data", "id", "retry", "event"}, f"{line!r} is no line of an event"
                assert name not in fields, "a message is one line of data"
                fields[name] = value.removeprefix(" ")
        return cls(**fields)

    @property
    def is_comment(self) -> bool:
        return self == Received()

    @property
    def message(self) -> dict[str, Any] | None:
        return json.loads(self.data) if self.data else None


class Exchange:
    """One request, and as much of its answer as came so far. The waiting is done by whoever asks.

    Attributes:
        open: those whose connections are.
    """

    open: "ClassVar[set[Exchange]]" = set()

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.left: Callable[[], None] = lambda: None
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.ended = False
        self.failure: BaseException | None = None
        self._taken = 0
        self._read: list[Received] = []
        self._position = 0

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")

    @property
    def events(self) -> list[Received]:
        """Those that came so far."""
        while end := BLANK_LINE.search(self.body, self._position):
            self._read.append(Received.read(self.body[self._position : end.start()]))
            self._position = end.end()
        assert not self.ended or self._position == len(self.body), f"the stream breaks off: {self.body[-100:]!r}"
        return self._read

    def wait(self, condition: Callable[[], T], what: str) -> T:
        with self.changed:
            self.changed.wait_for(lambda: condition() or self.failure, WITHIN)
            if self.failure is not None:
                raise self.failure
            value = condition()
        assert value, f"{what}; so far: {self.status} {self.body!r}"
        return value

    def begun(self) -> "Exchange":
        """Itself, once the headers are there."""
        self.wait(lambda: self.status, "no answer came")
        return self

    def done(self) -> "Exchange":
        """Itself, once the answer is whole."""
        self.wait(lambda: self.ended, "the answer does not end")
        return self

    def next(self) -> Received | None:
        """The event after the one given last; None at the end of the stream."""
        self.wait(lambda: len(self.events) > self._taken or self.ended, "no more events came")
        if len(self.events) == self._taken:
            return None
        self._taken += 1
        return self.events[self._taken - 1]

    def __iter__(self) -> Iterator[Received]:
        while (event := self.next()) is not None:
            yield event

    def leave(self) -> None:
        """Close the connection, as a client does."""
        self.left()

    @property
    def json(self) -> Any:
        return json.loads(self.done().body)

    def put(self, message: Mapping[str, Any]) -> None:
        """Take what the server sent."""
        with self.changed:
            is_start = message["type"] == "http.response.start"
            if self.ended or is_start is bool(self.status):
                self.failure = AssertionError(f"a server takes no {message} now")
                self.changed.notify_all()
                return
            if is_start:
                self.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
                self.status = message["status"]
            else:
                self.body += message.get("body", b"")
                self.ended = not message.get("more_body")
            self.changed.notify_all()

    def fail(self, error: BaseException | None) -> None:
        with self.changed:
            self.failure = self.failure or error
            self.ended = True
            self.changed.notify_all()


class Room:
    """Where a server is reached over an edge, by several requests at a time. A context manager."""

    def __init__(self, server: MCPServer, edge: str) -> None:
        self.server = server
        self.edge = edge
        self._stack = ExitStack()
        self._exchanges: list[Exchange] = []
        self._serving: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="room", daemon=True)

    def __enter__(self) -> Self:
        if self.edge != "asgi":
            self._stack.enter_context(urls(self.server))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WITHIN)
        self._loop.close()
        self._stack.close()
        for exchange in self._exchanges:
            if exchange.failure is not None:  # perhaps after the test had what it wanted
                raise exchange.failure
        assert not self._left, f"left on the event loop: {self._left}"

    async def _end(self) -> None:
        """Close all connections, then end what still runs, as a server does that goes down."""
        for exchange in self._exchanges:
            exchange.left()
        if self._serving:
            await asyncio.wait(self._serving, timeout=1)
        self._left = await self._not_ended()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), WITHIN)
        await self._loop.shutdown_asyncgens()
        await self._loop.shutdown_default_executor()

    async def _not_ended(self) -> list[str]:
        """Say what does not end on the event loop although all clients are gone."""
        deadline = time.monotonic() + leftovers.WITHIN
        while (left := [*self._tasks_and_timers()]) and time.monotonic() < deadline:  # noqa: ASYNC110 - nobody says so
            await asyncio.sleep(0.002)
        return left

    def _tasks_and_timers(self) -> Iterator[str]:
        yield from (repr(task) for task in asyncio.all_tasks(self._loop) - {asyncio.current_task()})
        for timer in list(self._loop._scheduled):
            if not timer.cancelled() and getattr(timer._callback, "__name__", "") not in TIMERS:
                yield repr(timer)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the server."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WITHIN)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function on the event loop of the server."""

        async def main() -> T:
            return function()

        return self.run(main())

    @property
    def tasks(self) -> int:
        """How many tasks are on the event loop."""
        return self.call(lambda: len(asyncio.all_tasks())) - 1

    def send(self, verb: str, headers: Mapping[str, str], body: bytes = b"") -> Exchange:
        """Send a request; at the edge without streams its answer is there already."""
        path = f"/{self.server.path}"
        exchange = Exchange()
        if self.edge == "view":
            self._by_django(exchange, verb, path, dict(headers), body)
        else:
            # Made at once, so that what was registered before the request is served.
            application = MCPApplication(no_django) if self.edge == "asgi" else ASGIHandler()
            self.call(lambda: self._begin(application, exchange, scope_of(verb, path, headers, body), body))
        return exchange

    def _by_django(self, exchange: Exchange, verb: str, path: str, headers: dict[str, str], body: bytes) -> None:
        kind = headers.pop("content-type", "")
        response = DjangoClient().generic(verb, path, body, content_type=kind, headers=headers, CONTENT_TYPE=kind)
        named = [(name.encode(), value.encode()) for name, value in response.items()]
        exchange.put({"type": "http.response.start", "status": response.status_code, "headers": named})
        exchange.put({"type": "http.response.body", "body": response.content})

    def _begin(self, application: Any, exchange: Exchange, scope: dict[str, Any], body: bytes) -> None:
        left = asyncio.Event()
        exchange.left = lambda: self._loop.call_soon_threadsafe(left.set)
        self._exchanges.append(exchange)
        Exchange.open.add(exchange)
        incoming = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in incoming:
                return message
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            if not left.is_set():
                try:
                    exchange.put(message)
                except OSError:
                    left.set()  # as a server that cannot send any more
                    raise

        def ended(task: asyncio.Task[None]) -> None:
            self._serving.discard(task)
            Exchange.open.discard(exchange)
            exchange.fail(None if task.cancelled() else task.exception())

        task = self._loop.create_task(application(scope, receive, send), name=SERVING)
        task.add_done_callback(ended)
        self._serving.add(task)


def scope_of(verb: str, path: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """An ASGI scope."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": verb,
        "scheme": "http",
        "path": urlsplit(path).path,
        "raw_path": path.encode(),
        "query_string": urlsplit(path).query.encode(),
        "headers": [
            (name.lower().encode(), value.encode("latin-1"))
            for name, value in {"content-length": str(len(body)), **headers}.items()
        ],
        "server": ("testserver", 80),
        "client": ("127.0.0.1", 12345),
    }
