"""What is measured: one line per target.

To measure something else, add a line. Targets with the same ``Server`` share one running process.
"""

from dataclasses import dataclass

UVICORN = (
    "uvicorn {app} --host 127.0.0.1 --port {port} --workers 1"
    " --loop uvloop --http httptools --no-access-log --log-level warning"
)
DAPHNE = "daphne --bind 127.0.0.1 --port {port} --verbosity 0 {app}"
GUNICORN = "gunicorn {app} --bind 127.0.0.1:{port} --config python:benchmarks.servers.gunicorn_conf"

BARE_APP = "benchmarks.servers.bare:application"
SDK_APP = "benchmarks.servers.sdk:application"
EDGE_APP = "benchmarks.site.asgi:application"
VIEW_APP = "benchmarks.site.wsgi:application"

SYNC_AT_LEAST = 3.0
ASYNC_AT_LEAST = 5.0


@dataclass(frozen=True, slots=True)
class Server:
    """A process to start: a module to run with ``python -m``, its arguments, the application."""

    command: str
    app: str
    middleware: str = "default"

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
    relative_to: str = "sdk add on uvicorn"
    at_least: float | None = None
    """The ratio under which ``--check`` fails."""


BARE = Server(UVICORN, BARE_APP)
SDK = Server(UVICORN, SDK_APP)
EDGE = Server(UVICORN, EDGE_APP)
EDGE_DAPHNE = Server(DAPHNE, EDGE_APP)
VIEW = Server(GUNICORN, VIEW_APP)
VIEW_ONLY = Server(GUNICORN, VIEW_APP, middleware="none")

TARGETS: tuple[Target, ...] = (
    Target("bare asgi on uvicorn", BARE, "modern-add"),
    Target("sdk add on uvicorn", SDK, "modern-add"),
    Target("sdk aadd on uvicorn", SDK, "modern-aadd"),
    Target("aadd on uvicorn", EDGE, "modern-aadd", at_least=ASYNC_AT_LEAST),
    Target("add on uvicorn", EDGE, "modern-add", at_least=SYNC_AT_LEAST),
    Target("aadd on daphne", EDGE_DAPHNE, "modern-aadd"),
    Target("add on daphne", EDGE_DAPHNE, "modern-add"),
    Target("view add on gunicorn", VIEW, "modern-add"),
    Target("view add without middleware on gunicorn", VIEW_ONLY, "modern-add"),
    Target("legacy aadd on uvicorn", EDGE, "legacy-aadd"),
    Target("sdk tools/list on uvicorn", SDK, "modern-list"),
    Target("tools/list on uvicorn", EDGE, "modern-list", relative_to="sdk tools/list on uvicorn"),
)


def selected(words: str | None, targets: tuple[Target, ...] = TARGETS) -> tuple[Target, ...]:
    """Return the targets with one of the comma-separated words in their names, and what they are compared to."""
    if not words:
        return targets
    wanted = [word.strip() for word in words.split(",")]
    named = [target for target in targets if any(word in target.name for word in wanted)]
    needed = {name for target in named for name in (target.name, target.relative_to)}
    return tuple(target for target in targets if target.name in needed)
