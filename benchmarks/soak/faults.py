"""What is made to fail, and when: planned beforehand, spread over the run."""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks.soak.clients import Modern, call_of
from benchmarks.soak.exchanges import Soak, says, verdict_on
from benchmarks.soak.ledger import Fault, Outcome
from benchmarks.soak.services import Service
from benchmarks.soak.wire import Broken

KINDS = ("worker", "redis", "postgresql", "backends", "lock", "disk")
ROUND_MINUTES = 3.0
"""In about this time everything fails once."""
FIRST, LAST = 0.15, 0.9
"""Shares of the run before and after which nothing fails: clients are to be at work, and to end in peace."""
GRACE = {"worker": 1.0, "redis": 0.0, "postgresql": 6.0, "backends": 6.0, "lock": 0.0, "disk": 6.0}
"""Seconds after the first good answers. A thread of a worker that slept for less than 5 s, which is
``django_mcp.core.database.IDLE_SECONDS``, finds out by an error that its connection to PostgreSQL is gone."""
REDIS_AWAY = 3.0
"""Seconds for which Redis stays away; a restart by itself takes too little for anybody to notice."""
LOCKED = 3.0
"""Seconds for which tables stay locked; everybody waits, and nobody is refused."""
FULL = 3.0
"""Seconds for which the disk is full."""
LOCK_ATTEMPTS = 20
LOCKS = "soak_site_mark", "django_mcp_requestlog", "django_mcp_event", "django_mcp_call", "django_mcp_task"
BACKENDS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
"""
LOOK = 0.05
GOOD_WITHIN = 60.0
"""Seconds within which a worker has to give a good answer again."""


class Planned(NamedTuple):
    """A fault and its moment, in seconds from the start."""

    at: float
    kind: str


def plan(seconds: float, kinds: Sequence[str] = KINDS) -> list[Planned]:
    """All faults of a run of that length: each kind at least once, at equal distances."""
    rounds = max(1, round(seconds / 60 / ROUND_MINUTES))
    kinds = [*kinds] * rounds
    step = (LAST - FIRST) * seconds / len(kinds)
    return [Planned(FIRST * seconds + number * step, kind) for number, kind in enumerate(kinds)]


@dataclass
class Recovery:
    """How long it took after a fault.

    Attributes:
        away: seconds until the service, or the new process, accepted connections.
        good: by the worker's port: seconds from the fault to its first good answer.
    """

    fault: Fault
    at: float
    away: float = 0.0
    good: dict[int, float] = field(default_factory=dict)


class Breaker:
    """Makes things fail, and sees how long they need.

    Args:
        soak: what clients share.
        services: by the kind of fault.
        database: URL of PostgreSQL.
        disk: the directory of its tables, on a disk of its own that can be filled; None where there is none.
        say: tells whoever watches.
    """

    def __init__(
        self,
        soak: Soak,
        services: dict[str, Service],
        database: str,
        disk: Path | None,
        say: Callable[[str], None],
    ) -> None:
        self._soak, self._services, self._say = soak, services, say
        self._database, self._disk = database, disk
        # The first worker is never killed: it is the one whose memory is looked at from start to end.
        self._victims = itertools.cycle(soak.workers.ports[1:])
        self._began = time.monotonic()
        self.recoveries: list[Recovery] = []

    async def go_through(self, planned: Sequence[Planned]) -> None:
        """Make each happen at its moment."""
        for each in planned:
            await asyncio.sleep(max(0.0, self._began + each.at - time.monotonic()))
            await self._break(each.kind)

    async def _break(self, kind: str) -> None:
        match kind:
            case "worker":
                await self._kill()
            case "backends":
                await self._disturb(kind, partial(self._execute, BACKENDS))
            case "lock":
                lock = f"LOCK TABLE {', '.join(LOCKS)} IN ACCESS EXCLUSIVE MODE"
                await self._disturb(kind, partial(self._execute, lock, LOCKED))
            case "disk":
                await self._disturb(kind, self._fill)
            case _:
                await self._restart(kind)

    async def _disturb(self, kind: str, do: Callable[[], None]) -> None:
        with self._soak.ledger.fault(kind, GRACE[kind]) as fault:
            recovery = self._noted(fault)
            await asyncio.to_thread(do)
            recovery.away = time.monotonic() - fault.began
            await self._all_good(recovery, self._soak.workers.ports)

    def _execute(self, statement: str, seconds: float = 0.0) -> None:
        import psycopg  # noqa: PLC0415 - see ``services.missing``

        for _ in range(LOCK_ATTEMPTS):
            # Whoever takes these locks one after the other may be the one that the server ends.
            with suppress(psycopg.errors.DeadlockDetected):
                with psycopg.connect(self._database, connect_timeout=5) as connection:  # one transaction
                    connection.execute(statement)
                    time.sleep(seconds)
                return

    def _fill(self) -> None:
        assert self._disk is not None
        ballast = self._disk / "ballast"
        try:
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                while file.write(bytes(1 << 16)):
                    pass
            time.sleep(FULL)
        finally:
            ballast.unlink()

    async def _kill(self) -> None:
        port, workers = next(self._victims), self._soak.workers
        with self._soak.ledger.fault("worker", GRACE["worker"], port) as fault:
            recovery = self._noted(fault)
            await asyncio.to_thread(workers.kill, port)
            workers.replace(port)
            await asyncio.to_thread(workers.wait_until_ready, port)
            recovery.away = time.monotonic() - fault.began
            await self._all_good(recovery, [port])

    async def _restart(self, kind: str) -> None:
        service = self._services[kind]
        with self._soak.ledger.fault(kind, GRACE[kind]) as fault:
            recovery = self._noted(fault)
            await asyncio.to_thread(service.stop)
            if kind == "redis":
                # Without it everybody goes on: that is looked at while it is away.
                await self._all_good(recovery, self._soak.workers.ports)
                await asyncio.sleep(REDIS_AWAY)
            await asyncio.to_thread(service.start)
            recovery.away = time.monotonic() - fault.began
            if kind != "redis":
                await self._all_good(recovery, self._soak.workers.ports)

    def _noted(self, fault: Fault) -> Recovery:
        recovery = Recovery(fault, fault.began - self._began)
        self.recoveries.append(recovery)
        self._say(f"{recovery.at:5.0f} s: {fault.name}")
        return recovery

    async def _all_good(self, recovery: Recovery, ports: Iterable[int]) -> None:
        await asyncio.gather(*(self._good(recovery, port) for port in ports))

    async def _good(self, recovery: Recovery, port: int) -> None:
        """Ask a worker for something that is in the database until it knows."""
        end = time.monotonic() + GOOD_WITHIN
        while time.monotonic() < end:
            try:
                async with asyncio.timeout(5):
                    reply = await Modern().request(port, "tools/call", call_of("read", {"uid": "probe"}))
                    outcome, _ = await verdict_on(reply, says("0"))
            except (Broken, TimeoutError):
                outcome = Outcome.CLOSED
            if outcome is Outcome.OK:
                recovery.good[port] = time.monotonic() - recovery.fault.began
                return
            await asyncio.sleep(LOOK)
