"""The rounds: every target once in each, in random order, on servers that run all the time.

An idle server costs nothing, and one that has run for a while is what production has. Random order within a
round keeps anything that comes and goes with time on the machine from always meeting the same target.
"""

import json
import random
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.databases import Databases
from benchmarks.measurement import Measurement
from benchmarks.peers import PEERS, python_of
from benchmarks.process import ProcessFailedError, RunningServer, cores, free_port, run
from benchmarks.targets import Server, Target

Say = Callable[[str], None]
_PEERS = {peer.name: peer for peer in PEERS}


@dataclass(frozen=True, slots=True)
class Plan:
    """How long and how often to measure.

    Many short rounds: how fast a virtual machine is changes within seconds, and a ratio is taken of what was measured
    within one of them.
    """

    rounds: int = 21
    seconds: float = 0.7
    warm_up: float = 0.3
    connections: int = 16
    seed: int = 0


@dataclass(slots=True)
class Results:
    """What was measured, round by round, and what went wrong."""

    rounds: list[dict[str, Measurement]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    """The first failure of each target that had one. It is not visited again."""


class Bench:
    """The servers of some targets, running."""

    def __init__(self, targets: Sequence[Target], plan: Plan, say: Say) -> None:
        self._targets = targets
        self._plan = plan
        self._say = say
        pair: tuple[int | None, int | None] = cores() or (None, None)
        self._server_core, self._load_core = pair
        self._running: dict[Server, RunningServer] = {}
        self._databases = Databases()
        self._results = Results()

    def measure(self) -> Results:
        """Start the servers, go through the rounds, end the servers."""
        order = random.Random(self._plan.seed)
        with self._servers():
            for number in range(1, self._plan.rounds + 1):
                self._say(f"round {number} of {self._plan.rounds}")
                self._results.rounds.append(self._round(order.sample(self._targets, k=len(self._targets))))
        return self._results

    def _round(self, targets: Sequence[Target]) -> dict[str, Measurement]:
        measured = {}
        for target in targets:
            if target.name in self._results.failures:
                continue
            try:
                measured[target.name] = self._visit(target)
            except ProcessFailedError as error:
                self._fail(target, str(error))
        return measured

    def _visit(self, target: Target) -> Measurement:
        plan = self._plan
        server = self._running[target.server]
        options = {
            "--port": server.port,
            "--group": server.pid,
            "--shape": target.shape,
            "--connections": plan.connections,
            "--warm-up": plan.warm_up,
            "--seconds": plan.seconds,
            "--seed": plan.seed,
        }
        words = ["benchmarks.load", *(str(word) for pair in options.items() for word in pair)]
        output = run(words, self._load_core, {}, within=plan.warm_up + plan.seconds + 30)
        measurement = Measurement(**json.loads(output))
        if measurement.errors:
            shown = "; ".join(measurement.messages)
            raise ProcessFailedError(f"{measurement.errors} errors: {shown}\n{server.log()}".strip())
        return measurement

    @contextmanager
    def _servers(self) -> Iterator[None]:
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as name:
            directory = Path(name)
            try:
                self._start(directory)
                yield
            finally:
                for server in self._running.values():
                    server.end()
                self._databases.drop()

    def _start(self, directory: Path) -> None:
        """Start every server that some target needs; a target whose server does not start has failed."""
        ports: set[int] = set()
        for server in dict.fromkeys(target.server for target in self._targets):
            needing = [target for target in self._targets if target.server == server]
            try:
                database = self._databases.prepared(server.database, directory) if server.needs_database else ""
                port = free_port(ports)
                whose = server.peer or server.app
                self._say(f"starting {server.arguments(port)[0]} {whose}, middleware {server.middleware}")
                variables = {"BENCH_DATABASE": database, "BENCH_MIDDLEWARE": server.middleware}
                if server.settings:
                    variables["DJANGO_SETTINGS_MODULE"] = server.settings
                python = str(python_of(_PEERS[server.peer])) if server.peer else sys.executable
                running = RunningServer(server.arguments(port), port, self._server_core, variables, directory, python)
                self._running[server] = running
                running.wait_until_ready()
            except ProcessFailedError as error:
                for target in needing:
                    self._fail(target, str(error))

    def _fail(self, target: Target, message: str) -> None:
        self._results.failures[target.name] = message
        self._say(f"FAILED {target.name}: {message}")
