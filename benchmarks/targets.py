"""What is measured: one line per target.

To measure something else, add a line. Targets with the same ``Server`` share one running process.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.peers import PEERS

UVICORN = (
    "uvicorn {app} --host 127.0.0.1 --port {port} --workers 1"
    " --loop uvloop --http httptools --no-access-log --log-level warning"
)
DAPHNE = "daphne --bind 127.0.0.1 --port {port} --verbosity 0 {app}"
GRANIAN = (
    "granian --interface asginl --host 127.0.0.1 --port {port} --workers 1 --loop uvloop"
    " --no-access-log --log-level warning --no-ws {app}"
)
GUNICORN = "gunicorn {app} --bind 127.0.0.1:{port} --config python:benchmarks.servers.gunicorn_conf"

BARE_APP = "benchmarks.servers.bare:application"
SDK_APP = "benchmarks.servers.sdk:application"
EDGE_APP = "benchmarks.site.asgi:application"
VIEW_APP = "benchmarks.site.wsgi:application"

SDK_ADD = "sdk add on uvicorn"
SQLITE, POSTGRESQL, NONE = "sqlite", "postgresql", "none"


@dataclass(frozen=True, slots=True)
class Server:
    """A process to start: a module to run with ``python -m``, its arguments, the application.

    Attributes:
        middleware: of a Django site: that of ``startproject``, or none.
        database: of our Django site, one of ``SQLITE``, ``POSTGRESQL`` and ``NONE``, which is what peers have.
        peer: name of the package in whose environment it runs; empty for ours.
        settings: of a Django site; empty for ours.
    """

    command: str
    app: str
    middleware: str = "default"
    database: str = SQLITE
    peer: str = ""
    settings: str = ""

    @property
    def needs_database(self) -> bool:
        """Whether the application is the Django site."""
        return self.app.startswith("benchmarks.site")

    def arguments(self, port: int) -> list[str]:
        """Return the command's words for this port."""
        return self.command.format(app=self.app, port=port).split()


@dataclass(frozen=True, slots=True)
class Target:
    """One shape of request to one server, and the ratio to another target that it is reported as."""

    name: str
    server: Server
    shape: str
    relative_to: str = SDK_ADD
    at_least: float | None = None
    """The ratio under which ``--check`` fails."""
    aim: float | None = None
    """The ratio that is hoped for."""
    p99_at_most: float | None = None
    """The ratio of the 99th percentiles of the time to an answer, over which ``--check`` fails."""


BARE = Server(UVICORN, BARE_APP)
SDK = Server(UVICORN, SDK_APP)
EDGE = Server(UVICORN, EDGE_APP)
EDGE_GRANIAN = Server(GRANIAN, EDGE_APP)
EDGE_DAPHNE = Server(DAPHNE, EDGE_APP)
EDGE_POSTGRESQL = Server(UVICORN, EDGE_APP, database=POSTGRESQL)
VIEW = Server(GUNICORN, VIEW_APP)
VIEW_ONLY = Server(GUNICORN, VIEW_APP, middleware="none")
VIEW_ALONE = Server(GUNICORN, VIEW_APP, database=NONE)
VIEW_ONLY_ALONE = Server(GUNICORN, VIEW_APP, middleware="none", database=NONE)
VIEW_POSTGRESQL = Server(GUNICORN, VIEW_APP, database=POSTGRESQL)


def _of_peers() -> Iterator[Target]:
    """``add`` of each other package, with the middleware of ``startproject`` and with none."""
    for peer in PEERS:
        command, where = (GUNICORN, "gunicorn") if peer.app.endswith("wsgi:application") else (UVICORN, "uvicorn")
        server = Server(command, peer.app, peer=peer.name, settings=peer.settings)
        yield Target(f"{peer.name} add on {where}", server, peer.shape)
        if peer.settings:
            bare = replace(server, middleware="none")
            yield Target(f"{peer.name} add without middleware on {where}", bare, peer.shape)


FASTEST_PEER = "django-mcpz add on gunicorn"
FASTEST_PEER_ALONE = "django-mcpz add without middleware on gunicorn"

TARGETS: tuple[Target, ...] = (
    Target("bare asgi on uvicorn", BARE, "modern-add"),
    Target(SDK_ADD, SDK, "modern-add"),
    Target("sdk aadd on uvicorn", SDK, "modern-aadd"),
    Target("aadd on uvicorn", EDGE, "modern-aadd", at_least=6.0, aim=9.0, p99_at_most=0.25),
    Target("add on uvicorn", EDGE, "modern-add", at_least=4.0, aim=7.0, p99_at_most=0.25),
    Target("legacy aadd on uvicorn", EDGE, "legacy-aadd"),
    Target("aadd on granian", EDGE_GRANIAN, "modern-aadd"),
    Target("add on granian", EDGE_GRANIAN, "modern-add"),
    Target("aadd on daphne", EDGE_DAPHNE, "modern-aadd"),
    Target("add on daphne", EDGE_DAPHNE, "modern-add", at_least=0.9, aim=1.2),
    Target("view add on gunicorn", VIEW, "modern-add", at_least=0.7, aim=0.9),
    Target("view add without middleware on gunicorn", VIEW_ONLY, "modern-add"),
    Target("full add on uvicorn, SQLite", EDGE, "full-modern-add", at_least=1.5, aim=3.0),
    Target("full add with sixteen keys on uvicorn, SQLite", EDGE, "full-modern-add-keys", at_least=1.5, aim=3.0),
    Target("full aadd on uvicorn, SQLite", EDGE, "full-modern-aadd"),
    Target("full legacy add in a session on uvicorn, SQLite", EDGE, "full-legacy-add"),
    Target("full add on uvicorn, PostgreSQL", EDGE_POSTGRESQL, "full-modern-add", at_least=0.8, aim=1.5),
    Target(
        "full add with sixteen keys on uvicorn, PostgreSQL",
        EDGE_POSTGRESQL,
        "full-modern-add-keys",
        at_least=0.8,
        aim=1.5,
    ),
    Target("full aadd on uvicorn, PostgreSQL", EDGE_POSTGRESQL, "full-modern-aadd"),
    Target("full legacy add in a session on uvicorn, PostgreSQL", EDGE_POSTGRESQL, "full-legacy-add"),
    Target("full view add on gunicorn, PostgreSQL", VIEW_POSTGRESQL, "full-modern-add"),
    *_of_peers(),
    # Beside the fastest peer, in the same project: that has no database, for an addition asks none.
    Target("view add beside django-mcpz on gunicorn", VIEW_ALONE, "modern-add", FASTEST_PEER, at_least=1.0, aim=1.2),
    Target(
        "view add without middleware beside it",
        VIEW_ONLY_ALONE,
        "modern-add",
        FASTEST_PEER_ALONE,
        at_least=1.0,
        aim=1.2,
    ),
    Target("sdk tools/list on uvicorn", SDK, "modern-list"),
    Target(
        "tools/list on uvicorn",
        EDGE,
        "modern-list",
        relative_to="sdk tools/list on uvicorn",
        at_least=30.0,
        aim=45.0,
    ),
)


def selected(words: str | None, targets: tuple[Target, ...] = TARGETS) -> tuple[Target, ...]:
    """Return the targets with one of the comma-separated words in their names, and what they are compared to."""
    if not words:
        return targets
    wanted = [word.strip() for word in words.split(",")]
    named = [target for target in targets if any(word in target.name for word in wanted)]
    needed = {name for target in named for name in (target.name, target.relative_to)}
    return tuple(target for target in targets if target.name in needed)
