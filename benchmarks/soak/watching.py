"""Looks every few seconds at what workers, PostgreSQL and Redis hold; and at the end, at what is in the database."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.judging import Logged
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.samples import Series, look
from benchmarks.soak.workers import Workers

EVERY = 2.0
"""Seconds between two looks."""


class Watcher:
    """Collects samples.

    Args:
        workers: whose processes are looked at.
        ledger: says what was restarted. What is new begins a new series.
        database: URL of PostgreSQL.
        redis: URL of Redis.
    """

    def __init__(self, workers: Workers, ledger: Ledger, database: str, redis: str) -> None:
        self._workers, self._ledger, self._database, self._redis = workers, ledger, database, redis
        self._series: dict[tuple[str, str], Series] = {}

    @property
    def series(self) -> list[Series]:
        """All that was seen."""
        return list(self._series.values())

    async def live(self) -> None:
        """Look until cancelled."""
        while True:
            for number, port in enumerate(self._workers.ports, 1):
                pid = self._workers.pid(port)
                for figure, value in (look(pid) or {}).items():
                    self._add(f"worker {number}, process {pid}", figure, value)
            for kind, count in (("postgresql", self._backends), ("redis", self._connections)):
                with suppress(Exception):  # it is away, and there is nothing to count
                    self._add(self._named(kind), "connections", await asyncio.to_thread(count))
            await asyncio.sleep(EVERY)

    def _named(self, kind: str) -> str:
        restarts = sum(fault.kind == kind for fault in self._ledger.faults)
        return f"{kind}, after restart {restarts}" if restarts else kind

    def _add(self, whose: str, figure: str, value: float) -> None:
        self._series.setdefault((whose, figure), Series(whose, figure)).values.append(value)

    def _backends(self) -> float:
        import psycopg  # noqa: PLC0415 - see ``services.missing``

        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        with psycopg.connect(self._database, connect_timeout=2) as connection:
            row = connection.execute(query).fetchone()
        return float(row[0]) if row else 0.0

    def _connections(self) -> float:
        import redis as driver  # noqa: PLC0415 - likewise

        with driver.Redis.from_url(self._redis, socket_timeout=2) as connection:
            return float(connection.info("clients")["connected_clients"]) - 1


@dataclass
class Found:
    """What is in the database when all is over.

    Attributes:
        rows: how many of each id.
        logged: how many calls of a tool with an id and an outcome the log has.
        methods: how many requests of a method it has that were answered.
    """

    rows: Mapping[str, int]
    logged: Logged
    methods: Mapping[str, int] = field(default_factory=dict)


def found_in(database: str) -> Found:
    """Read it."""
    import psycopg  # noqa: PLC0415 - see ``services.missing``

    with psycopg.connect(database) as connection:
        rows: dict[str, int] = dict(
            connection.execute("SELECT uid, count(*) FROM soak_site_mark GROUP BY uid").fetchall()
        )
        calls = connection.execute(
            "SELECT name, arguments, outcome FROM django_mcp_requestlog WHERE method = 'tools/call'"
        ).fetchall()
        methods: dict[str, int] = dict(
            connection.execute(
                "SELECT method, count(*) FROM django_mcp_requestlog WHERE outcome = 'ok' GROUP BY method"
            ).fetchall()
        )
    logged: Counter[tuple[str, str, str]] = Counter()
    for name, arguments, outcome in calls:
        given = json.loads(arguments or "{}") or {}
        logged[name, str(given.get("uid", "")), outcome] += 1
    return Found(rows, logged, methods)


def said(folder: Path, most: int = 12) -> list[tuple[int, str]]:
    """How often the workers wrote which line into their logs, without what differs; the most frequent first."""
    lines: Counter[str] = Counter()
    for file in folder.glob("*.log"):
        for line in file.read_text(errors="replace").splitlines():
            if line and not line[0].isspace() and not line.startswith("Traceback"):
                lines[re.sub(r"[0-9a-f]{8,}|\d+", "N", line)[:160]] += 1
    return [(count, line) for line, count in lines.most_common(most)]
