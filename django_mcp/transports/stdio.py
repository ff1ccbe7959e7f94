"""The stdio transport: a client starts the site on its machine and uses the standard streams.

One message per line (2026-07-28, stdio; 2025-11-25, Transports, stdio). Threads read and write, since an event loop
cannot wait for all kinds of files. There are no headers: the version is in the message or negotiated by ``initialize``,
and the session and its GET stream are handled here.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing, suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from django.db import Error as DatabaseError

from django_mcp.auth.protected_resource import path_of
from django_mcp.conf import settings
from django_mcp.core.concurrency import shared_pool
from django_mcp.core.failures import as_call_error
from django_mcp.core.principal import Principal
from django_mcp.core.request import StandInRequest
from django_mcp.core.resources import checking_pool, refresh_principal
from django_mcp.core.server import MCPServer
from django_mcp.protocol import headers
from django_mcp.protocol.errors import InvalidRequest, ProtocolError, RequestId
from django_mcp.protocol.jsonrpc import (
    JSONRPC,
    Message,
    Notification,
    Request,
    decode,
    decode_messages,
    encode_error,
    one_line,
    parse,
)
from django_mcp.pubsub.follower import end_streams
from django_mcp.revisions.base import MCPRequest, MCPResponse, SSEEvent, encode_failure
from django_mcp.revisions.legacy.handler import end_session, open_stream
from django_mcp.revisions.negotiation import choose, effective_version

CHUNK_SIZE = 64 * 1024
MAX_WAITING = 1000
"""Number of lines that wait for a client which does not read; further progress and log messages are dropped."""
MAX_WAITING_BYTES = 1024 * 1024
"""Their bytes, likewise."""
MAX_CHUNKS = 16
"""Maximum number of chunks read ahead."""


def take_streams() -> tuple[int, int]:
    """Return private descriptors of stdin and stdout.

    Then stdin is empty, and ``print``, C libraries and subprocesses write to stderr, buffered text included.
    """
    incoming, outgoing = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    # Buffered text goes to stderr, where descriptor 1 points now.
    sys.stdout.flush()
    sys.stdout = sys.stderr
    return incoming, outgoing


class Lines(Protocol):
    """A source of lines."""

    def lines(self) -> AsyncGenerator[bytes | None, None]:
        """Yield lines without line ends; None for a line that is too long."""


class LineReader:
    """Lines of a file descriptor, of at most *limit* bytes."""

    def __init__(self, descriptor: int, limit: int) -> None:
        self._descriptor = descriptor
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(MAX_CHUNKS)
        threading.Thread(target=self._read, name="django-mcp-in", daemon=True).start()

    async def lines(self) -> AsyncGenerator[bytes | None, None]:
        parts: list[bytes] = []
        length = 0
        while chunk := await self._chunks.get():
            self._room.release()
            *ends, rest = chunk.split(b"\n")
            for end in ends:
                yield b"".join([*parts, end]) if length + len(end) <= self._limit else None
                parts, length = [], 0
            length += len(rest)
            parts = [*parts, rest] if length <= self._limit else []
        if length:
            yield b"".join(parts) if parts else None

    def _read(self) -> None:
        chunk = b"-"
        while chunk:
            # A client that sends faster than its lines are read fills the pipe, not the memory.
            self._room.acquire()
            try:
                chunk = os.read(self._descriptor, CHUNK_SIZE)
            except OSError:  # closed
                chunk = b""
            try:
                self._loop.call_soon_threadsafe(self._chunks.put_nowait, chunk)
            except RuntimeError:  # the loop is closed
                return


class Write(Protocol):
    """Queues a line; an optional one may be dropped."""

    def __call__(self, line: bytes, *, is_optional: bool = False) -> None:
        """Queue a line."""


class LineWriter:
    """Writes whole lines to a file descriptor, in order. Its thread calls *broken* when the reader has closed."""

    def __init__(self, descriptor: int, broken: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._broken = broken
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        # Writing blocks while the client does not read, so it has a thread.
        self._lock = threading.Lock()
        self._queued = self._written = 0  # bytes; each is counted by one thread at a time
        self._thread = threading.Thread(target=self._work, name="django-mcp-out", daemon=True)
        self._thread.start()

    def write(self, line: bytes, *, is_optional: bool = False) -> None:
        # This must not block, because the event loop calls it. Optional lines are dropped if many are waiting.
        line = one_line(line)
        # Lines come from the event loop and from worker threads, and are counted in the order in which they are
        # written.
        with self._lock:
            waiting = self._queued - self._written
            if is_optional and (self._lines.qsize() >= MAX_WAITING or waiting > MAX_WAITING_BYTES):
                return
            self._queued += len(line)
            self._lines.put(line)

    def close(self, patience: float) -> None:
        self._lines.put(None)
        self._thread.join(patience)

    def _work(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line + b"\n")
            except OSError:
                self._broken()
                return
            # Without the lock: only this thread writes it, and an old value drops an optional line too many at worst.
            self._written += len(line)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]


GRACE_SECONDS = 1.0
"""Seconds for calls to finish after the client has closed; it kills the process after about two."""
SHUTDOWN_TIMEOUT = 0.3
"""Seconds for ending the streams, and for ending the session."""
RENEWALS = 20
"""Renewals of an idle session per lifetime."""


class StdioResponse:
    """The response to one message on the shared connection.

    Attributes:
        is_cancelled: the client cancelled its request, so nothing more is sent.
    """

    takes_events = can_hold = is_live = True
    is_request = False

    def __init__(self, write: Write) -> None:
        self.opened = False
        self._write = write
        self.is_cancelled = False
        self._gone: Callable[[], object] | None = None

    def send(self, event: SSEEvent) -> None:
        # Events without data are for clients that reconnect.
        self.opened = True
        if event.data and not self.is_cancelled:
            self._write(event.data, is_optional=event.is_optional)

    def close(self) -> None:
        """Do nothing: a stream here cannot be resumed."""

    def watch(self, gone: Callable[[], object]) -> None:
        self._gone = gone
        # The client may have cancelled before the call began.
        if self.is_cancelled:
            gone()

    def cancel(self) -> None:
        # Nothing more may be sent for this request (2026-07-28, stdio, Cancellation).
        self.is_cancelled = True
        if self._gone is not None:
            self._gone()


class Connection:
    """The connection to the client."""

    def __init__(
        self,
        server: MCPServer,
        principal: Principal,
        get_django_request: Callable[[], Any],
        write: Write,
    ) -> None:
        self._server = server
        self._principal = principal
        self._get_django_request = get_django_request
        self._write = write
        self._agreed: str | None = None
        self._session: Mapping[str, str] = {}
        self._staying: asyncio.Task[None] | None = None
        self._running: dict[RequestId, StdioResponse] = {}
        self._calls: set[asyncio.Task[None]] = set()
        self._is_ending = False
        self._endless: set[asyncio.Task[None]] = set()

    async def read(self, reader: Lines) -> None:
        async for line in reader.lines():
            if line is None:
                self._refuse(InvalidRequest(f"The line exceeds {settings.MAX_BODY_BYTES} bytes."))
            elif line.strip():
                await self._take(line)

    async def end(self) -> None:
        self._is_ending = True
        # Calls come first: their answers are lost once the streams below, and the process, have ended.
        if self._calls:
            await asyncio.wait(self._calls, timeout=GRACE_SECONDS)
        end_streams()
        if self._staying is not None:
            self._staying.cancel()
        if self._endless:
            await asyncio.wait(self._endless, timeout=SHUTDOWN_TIMEOUT)
        for task in (*self._calls, *self._endless):
            task.cancel()
        if self._session:
            # A session that cannot be ended expires.
            with suppress(ProtocolError, DatabaseError, TimeoutError):
                async with asyncio.timeout(SHUTDOWN_TIMEOUT):
                    await end_session(self._inbound(None, StdioResponse(self._write)))

    async def _take(self, line: bytes) -> None:
        try:
            body = decode_messages(line)
            message = None if type(body) is list else parse(body)
        except ProtocolError as error:
            self._refuse(error)
            return
        if isinstance(message, Notification):
            self._note(message)
        task = _start(self._serve(body, message), self._calls)
        if isinstance(message, Request) and message.method == "initialize":
            await task  # later messages need the negotiated version

    def _refuse(self, error: ProtocolError) -> None:
        self._write(encode_error(error.request_id, error))

    def _note(self, message: Notification) -> None:
        if message.method == "notifications/cancelled":
            request_id = message.params.get("requestId")
            response = self._running.get(request_id) if type(request_id) is int or type(request_id) is str else None
            if response is not None:
                response.cancel()
        elif message.method == "notifications/initialized" and self._session and self._staying is None:
            _start(self._hear_changes(), self._endless)
            self._staying = _start(self._stay(), self._endless)

    async def _serve(self, body: Any, message: Message | None) -> None:
        # The message is None for a batch. Only requests and batches are answered.
        request = message if isinstance(message, Request) else None
        response = StdioResponse(self._write)
        if request is not None:
            self._running[request.id] = response
        try:
            answer = await self._answer(body, request, response)
            if request is not None or message is None:
                await self._finish(answer, request, response)
        except asyncio.CancelledError:  # by the client, or at the end
            pass
        except Exception as error:  # noqa: BLE001 - it is logged
            response.send(SSEEvent(encode_failure(None if request is None else request.id, error)))
        finally:
            # The client may have reused the id for a later request.
            if request is not None and self._running.get(request.id) is response:
                del self._running[request.id]

    async def _answer(self, body: Any, request: Request | None, response: StdioResponse) -> MCPResponse:
        mcp_request = self._inbound(body, response)
        try:
            # Permissions may change during the connection, and the user object caches them.
            refresh = partial(refresh_principal, self._principal, self._server)
            principal = await checking_pool(self._server).sync(refresh)
            if principal is None:
                raise InvalidRequest(
                    "This user can no longer sign in.", request_id=None if request is None else request.id
                )
            mcp_request = mcp_request._replace(principal=principal)
            answer = await choose(mcp_request.headers, body).serve(mcp_request)
        except ProtocolError as error:
            return MCPResponse(error.http_status, encode_error(error.request_id, error))
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and (response.is_cancelled or self._is_ending):
                raise
            # Nobody else cancels this task: the tool did, which ran in it.
            while (task := asyncio.current_task()) is not None and task.cancelling():
                task.uncancel()
            return MCPResponse(500, encode_failure(None if request is None else request.id, as_call_error(error)))
        if request is not None and request.method == "initialize":
            self._agree(answer)
        return answer

    async def _finish(self, answer: MCPResponse, request: Request | None, response: StdioResponse) -> None:
        if answer.body:
            response.send(SSEEvent(answer.body))
        if answer.stream is None:
            return
        task = asyncio.current_task()
        assert task is not None  # noqa: S101
        response.watch(task.cancel)
        if request is not None and request.method == "subscriptions/listen":
            # It lasts as long as the connection, so the end does not wait for it as for a call.
            self._calls.discard(task)
            self._endless.add(task)
            task.add_done_callback(self._endless.discard)
        async with aclosing(answer.stream) as stream:
            async for event in stream:
                response.send(event)

    def _agree(self, answer: MCPResponse) -> None:
        # HTTP clients repeat version and session in headers. Here the connection keeps them.
        result = decode(answer.body).get("result")
        if result is not None:
            self._agreed = result["protocolVersion"]
            given = {name.lower(): value for name, value in answer.headers}
            self._session = {name: value for name, value in given.items() if name == headers.SESSION}

    def _inbound(self, body: Any, response: StdioResponse) -> MCPRequest:
        header = {headers.VERSION: effective_version(body, self._agreed), **self._session}
        pool = shared_pool()
        return MCPRequest(
            self._server, self._principal, pool, self._get_django_request, header, body, response, over_http=False
        )

    # Background tasks

    async def _hear_changes(self) -> None:
        response = StdioResponse(self._write)
        with suppress(ProtocolError, asyncio.CancelledError):
            await self._finish(await open_stream(self._inbound(None, response)), None, response)

    async def _stay(self) -> None:
        ping = {"jsonrpc": JSONRPC, "id": 0, "method": "ping"}
        # A silent client sends no requests that would extend its session.
        with suppress(asyncio.CancelledError):
            while True:
                await asyncio.sleep(settings.SESSION_TTL / RENEWALS)
                await self._answer(ping, None, StdioResponse(self._write))


def _start(coroutine: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(coroutine)
    # An event loop keeps weak references to its tasks only.
    among.add(task)
    task.add_done_callback(among.discard)
    return task


def serve(server: MCPServer, principal: Principal, incoming: int, outgoing: int) -> None:
    asyncio.run(_converse(server, principal, incoming, outgoing))


async def _converse(server: MCPServer, principal: Principal, incoming: int, outgoing: int) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(NotImplementedError):  # on Windows
            loop.add_signal_handler(number, stopped.set)
    # Threadsafe, since the thread of the writer calls it when the client has closed its end.
    writer = LineWriter(outgoing, partial(loop.call_soon_threadsafe, stopped.set))
    connection = Connection(server, principal, partial(django_request, server), writer.write)
    reading = loop.create_task(connection.read(LineReader(incoming, settings.MAX_BODY_BYTES)))
    stopping = loop.create_task(stopped.wait())
    try:
        await asyncio.wait({reading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        await connection.end()
    finally:
        stopping.cancel()
        reading.cancel()
        writer.close(GRACE_SECONDS)
    if not reading.cancelled() and reading.done():
        reading.result()


def django_request(server: MCPServer) -> StandInRequest:
    return StandInRequest(path_of(server), {})
