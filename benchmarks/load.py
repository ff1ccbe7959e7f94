"""The load generator: a fixed number of connections, each with one request under way at a time.

A closed loop, on keep-alive HTTP/1.1, written on bare asyncio protocols so that it is faster than what it
measures. Every answer is checked; one that is wrong, missing or cut off is an error, and a measurement with
errors has no throughput. Runs as a process of its own, which prints its measurement as JSON::

    python -m benchmarks.load --port 8000 --shape modern-add --seconds 2
"""

import argparse
import asyncio
import contextlib
import importlib
import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, cast

from benchmarks.measurement import Measurement, group_cpu, quantile
from benchmarks.shapes import SHAPES, Check, Request, Shape
from benchmarks.wire import Head, join_chunks, parse_head

HOST = "127.0.0.1"
MAX_ERRORS = 100
"""A server that is wrong this often is not measured any further."""

_REQUESTS = 4096


class Run:
    """One measurement in progress: what its connections share."""

    def __init__(self, port: int, requests: Sequence[Request], check: Check, enough: float) -> None:
        self.port = port
        self.check = check
        self._enough = enough
        self.requests: Iterator[Request] = itertools.cycle(requests)
        self.latencies: list[float] = []
        self.measuring = False
        self.stopping = False
        self.errors = 0
        self.messages: list[str] = []
        self._over = asyncio.Event()  # there is nothing more to measure
        self._ended = asyncio.Event()  # no connection is left
        self._unfinished = 0
        self._connections: set[Connection] = set()
        self._connecting: set[asyncio.Task[None]] = set()

    def connect(self) -> None:
        """Open one more connection, which goes on by itself until the run stops."""
        self._unfinished += 1
        task = asyncio.create_task(self._connect(time.perf_counter()))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, started: float) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: Connection(self, started), HOST, self.port)
        except OSError as error:
            self.fail(f"could not connect: {error}")
            self._count_down()

    def opened(self, connection: "Connection") -> None:
        """Note a new connection."""
        self._connections.add(connection)

    def closed(self, connection: "Connection") -> None:
        """Note that a connection has ended."""
        self._connections.discard(connection)
        self._count_down()

    def _count_down(self) -> None:
        self._unfinished -= 1
        if not self._unfinished:
            self._ended.set()
            self._over.set()

    def succeed(self, latency: float) -> None:
        """Count a right answer."""
        if self.measuring:
            self.latencies.append(latency)
            if len(self.latencies) >= self._enough:
                self._over.set()

    def fail(self, message: str) -> None:
        """Count an error; the first few are kept to be shown."""
        self.errors += 1
        if len(self.messages) < 3:
            self.messages.append(message)
        if self.errors >= MAX_ERRORS:
            self.stopping = True
            self._over.set()

    async def wait(self, seconds: float) -> None:
        """Let the connections work; come back early when there is nothing left to wait for."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._over.wait(), seconds)

    async def stop(self, patience: float) -> None:
        """Let every connection have the answer it is waiting for, then end those that got none."""
        self.stopping = True
        try:
            await asyncio.wait_for(self._ended.wait(), patience)
        except TimeoutError:
            self.fail(f"{self._unfinished} connections had no answer within {patience:g} s")
        for task in tuple(self._connecting):
            task.cancel()
        for connection in tuple(self._connections):
            connection.abort()


class Connection(asyncio.Protocol):
    """One keep-alive connection: send, receive, check, repeat."""

    __slots__ = ("_buffer", "_request", "_run", "_started", "_transport")

    def __init__(self, run: Run, started: float) -> None:
        self._run = run
        self._started = started  # before the connection was opened: that is part of the latency
        self._buffer = b""
        self._request: Request | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._run.opened(self)
        self._send()

    def _send(self) -> None:
        if self._run.stopping:
            self._transport.close()
            return
        self._request = next(self._run.requests)
        self._transport.write(self._request.encoded)

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer + data if self._buffer else data
        end = buffer.find(b"\r\n\r\n")
        if end < 0:
            self._buffer = buffer
            return
        body = buffer[end + 4 :]
        try:
            head = parse_head(buffer[:end])
            if head.length is None:
                body, length = join_chunks(body) or (b"", None)
                missing = 1 if length is None else end + 4 + length - len(buffer)
            else:
                missing = head.length - len(body)
        except ValueError as error:
            self._refuse(f"not HTTP ({error}): {buffer[:200]!r}")
            return
        if missing > 0:
            self._buffer = buffer
        elif missing < 0 or self._request is None:
            self._refuse(f"more than was asked for: {buffer[:200]!r}")
        else:
            self._buffer = b""
            self._answered(self._request, head, body)

    def _answered(self, request: Request, head: Head, body: bytes) -> None:
        run = self._run
        problem = run.check(body, request) if head.status == 200 else f"HTTP status {head.status}: {body[:200]!r}"
        self._request = None
        now = time.perf_counter()
        if problem:
            run.fail(problem)
        else:
            run.succeed(now - self._started)
        self._started = now
        if not head.closes:
            self._send()
            return
        self._transport.close()
        if not run.stopping:
            run.connect()

    def _refuse(self, message: str) -> None:
        self._run.fail(message)
        self.abort()

    def abort(self) -> None:
        """End the connection at once; the answer it may be waiting for is no longer missed."""
        self._request = None
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._request is not None:
            reason = exc or "closed by the server"
            self._run.fail(f"connection lost before the answer to {self._request.id}: {reason}")
        self._run.closed(self)


async def measure(
    port: int,
    shape: Shape,
    *,
    connections: int = 16,
    warm_up: float = 0.3,
    seconds: float = 2.0,
    patience: float = 5.0,
    enough: float = math.inf,
    group: int | None = None,
    seed: int = 0,
) -> Measurement:
    """Measure one server for one shape of request: for some seconds, or until there are enough answers."""
    run = Run(port, shape.requests(_REQUESTS, f"{HOST}:{port}", seed), shape.check(), enough)
    for _ in range(connections):
        run.connect()
    await run.wait(warm_up)
    run.measuring = True
    before = group_cpu(group)
    began, began_busy = time.perf_counter(), time.process_time()
    await run.wait(seconds)
    took, busy = time.perf_counter() - began, time.process_time() - began_busy
    run.measuring = False
    after = group_cpu(group)
    await run.stop(patience)
    if not run.latencies and not run.errors:
        run.fail("no answer arrived in the time measured")
    latencies = sorted(run.latencies)
    return Measurement(
        answers=len(latencies),
        seconds=took,
        p50_ms=quantile(latencies, 0.50) * 1000,
        p99_ms=quantile(latencies, 0.99) * 1000,
        load_busy=busy / took,
        errors=run.errors,
        messages=run.messages,
        server_cpu=None if before is None or after is None else after - before,
    )


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's event loop where it is installed: the generator is then about twice as fast."""
    try:
        uvloop: Any = importlib.import_module("uvloop")
    except ImportError:
        return None
    return cast(Callable[[], asyncio.AbstractEventLoop], uvloop.new_event_loop)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure once and print the measurement as one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.load", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, required=True, help=f"where on {HOST} the server listens")
    parser.add_argument("--shape", choices=SHAPES, default="modern-add")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--warm-up", type=float, default=0.3, help="seconds")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--group", type=int, help="the server's process group, to measure its processor time")
    parser.add_argument("--seed", type=int, default=0, help="of the arguments")
    options = parser.parse_args(argv)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        measurement = runner.run(
            measure(
                options.port,
                SHAPES[options.shape],
                connections=options.connections,
                warm_up=options.warm_up,
                seconds=options.seconds,
                group=options.group,
                seed=options.seed,
            )
        )
    print(json.dumps(asdict(measurement)))
    return 1 if measurement.errors else 0


if __name__ == "__main__":
    sys.exit(main())
