"""One start of one server: how long to its first answer, and how much memory then."""

import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers import PEERS, python_of
from benchmarks.process import HOST, ProcessFailedError, RunningServer, free_port
from benchmarks.shapes import Request
from benchmarks.startup.memory import Memory, computed, memory_of
from benchmarks.startup.sites import Site
from benchmarks.wire import join_chunks, parse_head

WITHIN = 60.0
"""Seconds for a start."""
LOOK = 0.002
"""Seconds between two attempts to connect: what a start seems to take longer than it does is half of that."""
_PEERS = {peer.name: peer for peer in PEERS}


@dataclass(frozen=True, slots=True)
class Start:
    """What one start took.

    Attributes:
        seconds: from starting the process to the end of the first answer.
        memory: after it, where the system tells.
        cpu: seconds of processor time until then, which other load on the machine changes less.
    """

    seconds: float
    memory: Memory | None
    cpu: float | None = None


def start(site: Site, directory: Path, core: int | None, database: str) -> Start:
    """Start a server, ask once, and end it.

    Args:
        site: which.
        directory: what it works in.
        core: to pin it to.
        database: the path of its SQLite file.

    Raises:
        ProcessFailedError: it does not answer, or wrongly.
    """
    port = free_port(set())
    # Compiled modules are kept for this measurement alone, wherever else they may be and whoever may write there.
    kept = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory / "compiled")}
    variables = {"BENCH_DATABASE": database, **kept}
    if site.settings:
        variables["DJANGO_SETTINGS_MODULE"] = site.settings
    python = str(python_of(_PEERS[site.peer])) if site.peer else sys.executable
    request = site.request(f"{HOST}:{port}")
    began = time.perf_counter()
    server = RunningServer(site.arguments(port), port, core, variables, directory, python)
    try:
        body = _first_answer(server, request)
        seconds = time.perf_counter() - began
        if (wrong := site.check(body, request)) is not None:
            raise ProcessFailedError(f"{site.name}: {wrong}\n{server.log()}")
        return Start(seconds, memory_of(server.pid), computed(server.pid))
    finally:
        server.end()


def _first_answer(server: RunningServer, request: Request) -> bytes:
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline:
        try:
            with socket.create_connection((HOST, server.port), timeout=WITHIN) as connection:
                connection.sendall(request.encoded)
                return _body(connection)
        except ConnectionError:
            time.sleep(LOOK)
    raise ProcessFailedError(f"there was no answer within {WITHIN:.0f} s: {server.log()}")


def _body(connection: socket.socket) -> bytes:
    data = b""
    while True:
        chunk = connection.recv(65_536)
        if not chunk:
            raise ConnectionError("no whole answer")
        data += chunk
        head, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            continue
        length = parse_head(head).length
        if length is not None and len(rest) >= length:
            return rest[:length]
        if length is None and (joined := join_chunks(rest)) is not None:
            return joined[0]
