"""A run from start to end: services and workers are started, clients live, things fail, and all is judged."""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.process import free_port, run
from benchmarks.soak import judging, report, services
from benchmarks.soak.callers import Caller
from benchmarks.soak.clients import Legacy, Modern
from benchmarks.soak.exchanges import PATIENCE, Soak
from benchmarks.soak.faults import KINDS, Breaker, plan
from benchmarks.soak.ledger import Ledger, Outcome
from benchmarks.soak.listeners import Listener
from benchmarks.soak.samples import growing
from benchmarks.soak.talkers import Talker
from benchmarks.soak.watching import Found, Watcher, found_in, said
from benchmarks.soak.workers import Workers

SETTINGS = "benchmarks.soak.site.settings"
METHODS = ("tools/list", "resources/templates/list", "prompts/list", "resources/read", "prompts/get")
"""Whose rows in the log have no id to find them by, and are counted."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How long, with how many."""

    minutes: float
    workers: int = 3
    callers: int = 10
    talkers: int = 4
    listeners: int = 4
    seed: int = 0


@dataclass
class Site:
    """All that runs."""

    workers: Workers
    services: dict[str, services.Service]
    database: str
    redis: str
    logs: Path
    disk: Path | None

    @property
    def kinds(self) -> list[str]:
        """Return the faults that can be made here."""
        return [kind for kind in KINDS if kind != "disk" or self.disk is not None]


@contextmanager
def running(options: Options, say: Say) -> Iterator[Site]:
    """Everything a run needs, of its own, gone at the end."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        taken: set[int] = set()
        say("starting PostgreSQL and Redis")
        postgresql, database = services.postgresql(directory, free_port(taken))
        redis, redis_url = services.redis(directory, free_port(taken))
        disk = stack.enter_context(services.small_disk(directory))
        if disk is None:
            say("no disk is filled here: a file system of its own takes root's rights")
        for service in (postgresql, redis):
            stack.callback(service.stop)
            service.start()
        environment = {
            "DJANGO_SETTINGS_MODULE": SETTINGS,
            "BENCH_DATABASE": database,
            "SOAK_REDIS_URL": redis_url,
            "SOAK_TABLESPACE": str(disk / "tables") if disk is not None else "",
            "PYTHONUNBUFFERED": "1",
        }
        run(["benchmarks.soak.site.prepare"], None, environment, within=120)
        logs = directory / "workers"
        logs.mkdir()
        workers = Workers(options.workers, environment, logs, taken)
        stack.callback(workers.end)
        say(f"starting {options.workers} workers")
        workers.start()
        yield Site(workers, {"postgresql": postgresql, "redis": redis}, database, redis_url, logs, disk)


async def lived(site: Site, soak: Soak, options: Options, say: Say) -> tuple[Breaker, Watcher, list[str]]:
    """Let the clients live for the time; what went wrong with them themselves."""
    numbers = range(options.callers)
    clients = [
        *(Caller(soak, Legacy() if number % 2 else Modern(), options.seed + number).live() for number in numbers),
        *(Talker(soak, options.seed + number).live() for number in range(options.talkers)),
        *(Listener(soak, Legacy() if number % 2 else Modern()).live() for number in range(options.listeners)),
    ]
    seconds = 60 * options.minutes
    breaker = Breaker(soak, site.services, site.database, site.disk, say)
    watcher = Watcher(site.workers, soak.ledger, site.database, site.redis)
    say(f"{len(clients)} clients, for {options.minutes:g} min")
    living = [asyncio.create_task(client) for client in clients]
    watching = asyncio.create_task(watcher.live())
    breaking = asyncio.create_task(breaker.go_through(plan(seconds, site.kinds)))
    await asyncio.wait(living, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    soak.stopping.set()
    await asyncio.wait(living, timeout=2 * PATIENCE)
    problems = [f"a client of the soak failed: {error!r}" for error in failures(living)]
    for task in (watching, breaking, *living):
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task
    problems += [f"what breaks things failed: {error!r}" for error in failures([breaking])]
    return breaker, watcher, problems


def failures(tasks: list["asyncio.Task[None]"]) -> list[BaseException]:
    """What tasks failed with."""
    ended = (task for task in tasks if task.done() and not task.cancelled())
    return [error for task in ended if (error := task.exception()) is not None]


def of_methods(ledger: Ledger, found: Found) -> Iterator[str]:
    """Lists and readings that were answered more often than they are in the log."""
    answered = Counter(entry.kind.rpartition(" ")[2] for entry in ledger.entries if entry.outcome is Outcome.OK)
    for method in METHODS:
        if found.methods.get(method, 0) < answered[method]:
            yield f"{method}: {answered[method]:,} answers, and {found.methods.get(method, 0):,} rows in the log"


def soaked(options: Options, say: Say) -> tuple[str, bool]:
    """Run it all; the report, and whether all was well."""
    with running(options, say) as site:
        soak = Soak(site.workers, Ledger())
        began = time.monotonic()
        breaker, watcher, others = asyncio.run(lived(site, soak, options, say))
        took = time.monotonic() - began
        others += site.workers.ended()
        say("ending the workers, and reading what they left")
        site.workers.end()
        found, lines = found_in(site.database), said(site.logs)
    ledger = soak.ledger
    problems = judging.problems(ledger, found.rows, found.logged)
    others += of_methods(ledger, found)
    others += [f"a row that nobody asked for: {uid}" for uid in judging.unknown(ledger, found.rows)]
    others += [f"growth: {series.whose}, {series.figure}" for series in growing(watcher.series)]
    missed = [each for each in breaker.recoveries if not each.good]
    others += [f"no good answer after: {each.fault.name}" for each in missed]
    if len(breaker.recoveries) < len(plan(60 * options.minutes, site.kinds)):
        others.append("not all that was planned was made to fail")
    parts = [
        report.traffic(ledger),
        f"{len(ledger.entries) / took:,.0f} a second for {took:,.0f} s. Streams taken up: {ledger.resumptions:,}.",
        report.faults(ledger, breaker.recoveries, site.workers.ports),
        report.growth(watcher.series),
        report.changes(ledger),
        report.silence(ledger),
        report.leftovers(judging.undecided(ledger, found.rows, found.logged)),
        f"Rows: {sum(found.rows.values()):,}. Calls in the log: {sum(found.logged.values()):,}.",
        report.PROMISES,
        "\n".join(["What the workers wrote:", *(f"{count:>6}  {line}" for count, line in lines)]),
        "\n".join(report.complaints(problems, others, ledger.faults)) or "All was well.",
    ]
    return "\n\n".join(parts), not problems and not others
