"""The workers: processes, each on its own port, which get requests in turn and are replaced when they are killed."""

import itertools
import os
import signal
from collections.abc import Mapping
from pathlib import Path

from benchmarks.process import RunningServer, free_port
from benchmarks.targets import UVICORN

APP = "benchmarks.soak.site.asgi:application"


class Workers:
    """All of a run.

    Args:
        number: how many.
        environment: of each.
        directory: for what they write.
        taken: ports that somebody has.
    """

    def __init__(self, number: int, environment: Mapping[str, str], directory: Path, taken: set[int]) -> None:
        self._environment, self._directory = environment, directory
        self.ports = [free_port(taken) for _ in range(number)]
        self._turn = itertools.cycle(self.ports)
        self._running: dict[int, RunningServer] = {}

    def start(self) -> None:
        """Start all of them."""
        for port in self.ports:
            self._start(port)
        for port in self.ports:
            self.wait_until_ready(port)

    def _start(self, port: int) -> None:
        words = UVICORN.format(app=APP, port=port).split()
        self._running[port] = RunningServer(words, port, None, self._environment, self._directory)

    def wait_until_ready(self, port: int) -> None:
        """Return when a worker accepts connections."""
        self._running[port].wait_until_ready()

    def next(self) -> int:
        """The port for the next request: of whose turn it is, dead or alive. Nothing sticks, and nothing is skipped."""
        return next(self._turn)

    def another(self, port: int) -> int:
        """The port of some other worker."""
        found = self.next()
        return self.next() if found == port else found

    def pid(self, port: int) -> int:
        """The process that serves a port now."""
        return self._running[port].pid

    def kill(self, port: int) -> None:
        """End a worker without a warning, as the kernel does when memory is short."""
        server = self._running[port]
        os.killpg(server.pid, signal.SIGKILL)
        server.end()

    def replace(self, port: int) -> None:
        """Start a new one where one was killed."""
        self._start(port)

    def ended(self) -> list[str]:
        """What those say that ended by themselves."""
        return [
            f"worker at {port} ended by itself: {server.log()}"
            for port, server in self._running.items()
            if server.has_ended
        ]

    def end(self) -> None:
        """End all of them."""
        for server in self._running.values():
            server.end()
