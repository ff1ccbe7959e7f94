"""One visit to a server process of its own: what many streams cost it, from the first to after the last."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.databases import Databases
from benchmarks.measurement import Measurement
from benchmarks.process import ROOT, ProcessFailedError, RunningServer, cores, environment, free_port, run
from benchmarks.streams.kinds import LIST_CHANGED, LONG
from benchmarks.streams.memory import Memory, cpu_seconds, memory
from benchmarks.targets import EDGE, SDK, Server

SITE = replace(EDGE, app="benchmarks.streams.asgi:application", command=f"{EDGE.command} --backlog 4096")
BARE = replace(SITE, app="benchmarks.streams.bare:application")
SERVERS: dict[str, Server] = {"modern": SITE, "legacy": SITE, "bare": BARE, "sdk": SDK}
OURS = frozenset({"modern", "legacy"})
MOST = {"sdk": 1000}
"""Streams that a kind can have: the official SDK turns down the 1025th."""
STEPS = 3
WARM_UP = 50
"""Streams that are opened and closed before anything is measured: what is made once is not a stream's."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do.

    Attributes:
        idle: for how many seconds the process is watched while nothing happens: one period of keep-alives.
        rounds: how often the speed of calls is measured with and without streams.
        seconds: how long each time.
        tellings: how often all streams are told something.
        settle: seconds until memory is looked at, for what is still going on to end.
    """

    count: int = 10_000
    idle: float = 15.0
    rounds: int = 5
    seconds: float = 2.0
    tellings: int = 3
    settle: float = 2.0


@dataclass(slots=True)
class Found:
    """What was found out about a kind of stream.

    Attributes:
        each: RSS, PSS and USS of a stream in KiB.
        left: the same, once all were closed.
        again: the same, once as many were opened and closed again: a leak would show.
        idle: share of a core.
        rates: calls per second: with streams, and without.
        per_cpu: the same for each second of processor time.
        told: seconds until the first, the median and the last stream heard.
    """

    kind: str
    count: int
    opening: float = 0.0
    closing: float = 0.0
    each: tuple[float, float, float] = (0.0, 0.0, 0.0)
    left: tuple[float, float, float] = (0.0, 0.0, 0.0)
    again: tuple[float, float, float] = (0.0, 0.0, 0.0)
    idle: float = 0.0
    rates: list[tuple[float, float]] = field(default_factory=list)
    per_cpu: list[tuple[float, float]] = field(default_factory=list)
    told: list[tuple[float, float, float]] = field(default_factory=list)
    slowest_call: float = 0.0


class Client:
    """The process that holds the streams."""

    def __init__(self, port: int, core: int | None) -> None:
        command = [sys.executable, "-m", "benchmarks.streams.holder", "--port", str(port)]
        pinned = [] if core is None else ["taskset", "-c", str(core)]
        self._process = subprocess.Popen(
            [*pinned, *command],
            cwd=ROOT,
            env=environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def do(self, what: str, **how: Any) -> dict[str, Any]:
        """Have it do something.

        Raises:
            ProcessFailedError: it could not.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"do": what, **how}), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise ProcessFailedError(f"the process that holds streams ended at {what!r}")
        answer: dict[str, Any] = json.loads(line)
        if answer.get("problems"):
            raise ProcessFailedError(f"{what}: {answer}")
        return answer

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


class Place:
    """Where servers run: a directory, databases, ports, cores."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._ports: set[int] = set()
        pair: tuple[int | None, int | None] = cores() or (None, None)
        self._server_core, self.load_core = pair
        self.databases = Databases()

    @contextmanager
    def server(self, server: Server, **more: str) -> Iterator[RunningServer]:
        """A running server."""
        database = self.databases.prepared(server.database, self._directory) if server is SITE else ""
        extra = {"BENCH_DATABASE": database, **more}
        port = free_port(self._ports)
        running = RunningServer(server.arguments(port), port, self._server_core, extra, self._directory)
        try:
            running.wait_until_ready()
            yield running
        finally:
            running.end()

    @contextmanager
    def client(self, port: int) -> Iterator[Client]:
        """A process that holds streams of the server at a port."""
        client = Client(port, self.load_core)
        try:
            yield client
        finally:
            client.end()

    def calls(self, server: RunningServer, seconds: float) -> Measurement:
        """How fast it answers calls.

        Raises:
            ProcessFailedError: an answer was wrong.
        """
        words = ["--port", str(server.port), "--group", str(server.pid), "--seconds", str(seconds)]
        output = run(["benchmarks.load", *words], self.load_core, {}, within=seconds + 60)
        measurement = Measurement(**json.loads(output))
        if measurement.errors:
            raise ProcessFailedError(f"{measurement.errors} errors: {measurement.messages} {server.log()}")
        return measurement


def visit(kind: str, plan: Plan, place: Place) -> Found:
    """Measure a kind of stream."""
    plan = replace(plan, count=min(plan.count, MOST.get(kind, plan.count)))
    found = Found(kind, plan.count)
    with place.server(SERVERS[kind]) as server, place.client(server.port) as client:
        if kind in OURS:
            place.calls(server, plan.seconds)
        client.do("open", kind=kind, count=min(WARM_UP, plan.count))
        client.do("close")
        time.sleep(plan.settle)
        before = memory(server.pid)
        found.opening = client.do("open", kind=kind, count=plan.count)["seconds"]
        time.sleep(plan.settle)
        found.each = (memory(server.pid) - before).each(plan.count)
        found.idle = idle(server.pid, plan.idle)
        if kind in OURS and plan.rounds:
            with place.server(SERVERS[kind]) as without:
                place.calls(without, plan.seconds)
                place.calls(
                    server, plan.seconds
                )  # which also has the collection of garbage that opening so much was due for
                _compare(found, plan, place, server, without)
        if kind != "sdk":
            found.told = [_told(client, kind, plan.count) for _ in range(plan.tellings)]
        found.closing = client.do("close")["seconds"]
        found.left = _settled(server.pid, before, plan).each(plan.count)
        client.do("open", kind=kind, count=plan.count)
        client.do("close")
        found.again = _settled(server.pid, before, plan).each(plan.count)
    return found


def _compare(found: Found, plan: Plan, place: Place, server: RunningServer, without: RunningServer) -> None:
    """Alternately, so that what comes and goes on the machine meets both."""
    for _ in range(plan.rounds):
        ours, theirs = place.calls(server, plan.seconds), place.calls(without, plan.seconds)
        found.rates.append((ours.rate, theirs.rate))
        if ours.server_cpu and theirs.server_cpu:
            found.per_cpu.append((ours.answers / ours.server_cpu, theirs.answers / theirs.server_cpu))


def _told(client: Client, kind: str, count: int) -> tuple[float, float, float]:
    told = client.do("tell", kind=kind, word=LIST_CHANGED)
    if told["heard"] != count:
        raise ProcessFailedError(f"not all {count} streams heard: {told}")
    return told["first"], told["median"], told["last"]


def _settled(pid: int, before: Memory, plan: Plan) -> Memory:
    time.sleep(2 * plan.settle)
    return memory(pid) - before


def idle(pid: int, seconds: float) -> float:
    """Share of a core that a process uses while nobody asks it for anything."""
    began, before = time.monotonic(), cpu_seconds(pid)
    time.sleep(seconds)
    return (cpu_seconds(pid) - before) / (time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class Slow:
    """What clients that do not read cost.

    Attributes:
        grown: bytes by which the process grew, after each of the steps.
        told: how many changes of how many bytes they were told in all.
    """

    streams: int
    told: int
    size: int
    grown: Sequence[int]


def slow_readers(streams: int, times: int, plan: Plan, place: Place) -> Slow:
    """Tell clients that do not read of thousands of changes, again and again, and watch the process grow."""
    with place.server(SITE) as server, place.client(server.port) as client:
        place.calls(server, plan.seconds)
        client.do("deafen", count=1)
        client.do("fill", times=times)  # with one stream: what reading so much of the log costs is not counted
        time.sleep(2 * plan.settle)
        client.do("close")
        client.do("deafen", count=streams)
        time.sleep(plan.settle)
        before = memory(server.pid)
        grown = []
        for _ in range(STEPS):
            client.do("fill", times=times)
            time.sleep(2 * plan.settle)
            grown.append((memory(server.pid) - before).uss)
    return Slow(streams, STEPS * times, len(LONG), grown)


def middle(pairs: Sequence[tuple[float, float]]) -> Mapping[str, float]:
    """The medians of both, and of their ratio."""
    if not pairs:
        return {}
    return {
        "with": median(ours for ours, _ in pairs),
        "without": median(theirs for _, theirs in pairs),
        "ratio": median(ours / theirs for ours, theirs in pairs),
    }
