"""The site's processes: servers, and workers of each kind."""

import os
import secrets
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.process import RunningServer
from tests.clients import META
from tests.conformance.legs import migrate
from tests.faults.conftest import Workers, ended, until
from tests.faults.wire import Modern, accepted, text

NAME = "io.modelcontextprotocol/tasks"
COMMANDS: Mapping[str, Sequence[str]] = {
    "db": ("django", "db_worker", "--interval", "0.1", "--no-startup-delay", "--no-reload", "--queue-name"),
    "rq": ("django", "rqworker", "--job-class", "django_tasks_rq.Job", "--worker-ttl", "20"),
    "celery": (
        *("celery", "-A", "django_tasks_fennel.app", "worker", "-c", "2", "-l", "warning"),
        *("--without-gossip", "--without-mingle", "--without-heartbeat", "-Q"),
    ),
}


class Patient(Modern):
    """A client that knows tasks."""

    def compose(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
        declared = {META + "clientCapabilities": {"elicitation": {}, "extensions": {NAME: {}}}}
        return super().compose(method, {**params, "_meta": declared})

    def make(self, name: str, /, **arguments: Any) -> str:
        """Call a tool; the id of its task."""
        result = self.call(name, **arguments)["result"]
        assert result["resultType"] == "task", result
        return result["taskId"]

    def ask_for(self, task: str) -> dict[str, Any]:
        """The response to ``tasks/get``."""
        return self.request("tasks/get", {"taskId": task}).last()

    def get(self, task: str) -> dict[str, Any]:
        return self.ask_for(task)["result"]

    def till(self, task: str, *statuses: str) -> dict[str, Any]:
        """A task when it is in one of these states."""
        return until(lambda: found if (found := self.get(task))["status"] in statuses else None, f"it is {statuses}")

    def over(self, task: str) -> dict[str, Any]:
        """A task that has ended."""
        return self.till(task, "completed", "failed", "cancelled")

    def result(self, task: str) -> str:
        """What the tool of a task says in the end."""
        return text(self.over(task))

    def answer(self, task: str, asked: Mapping[str, Any]) -> None:
        """Say yes to all its questions."""
        responses = {key: accepted(key) for key in asked["inputRequests"]}
        assert "result" in self.request("tasks/update", {"taskId": task, "inputResponses": responses}).last()

    def cancel(self, task: str) -> None:
        assert "result" in self.request("tasks/cancel", {"taskId": task}).last()


@dataclass
class Site(Workers):
    """Servers, and workers beside them.

    Attributes:
        hands: the workers; dead ones are replaced when the site is next used.
    """

    hands: list[RunningServer] = field(default_factory=list)

    @property
    def client(self) -> Patient:
        return Patient(self[0])

    def hire(self) -> None:
        """Start a worker."""
        command = [*COMMANDS[self.environment["TASKS_ENGINE"]], self.environment["TASKS_QUEUE"]]
        worker = RunningServer(command, 0, None, self.environment, self.folder)
        self.stack.callback(worker.end)
        self.hands.append(worker)

    def staff(self, number: int) -> None:
        """Have that many workers alive."""
        self.hands = [each for each in self.hands if not ended(each)]
        while len(self.hands) > number:
            self.hands.pop().end()
        while len(self.hands) < number:
            self.hire()

    def go(self, label: str) -> None:
        """Let what holds go on."""
        with Path(self.environment["FAULTS_JOURNAL"]).open("a") as file:
            file.write(f"go {label}\n")

    def began(self, label: str, times: int = 1) -> int:
        """Wait until a tool runs; the id of the process in which it last began."""
        self.saw(f"began {label}", times)
        return int([line for line in self.journal() if line.startswith(f"pid {label} ")][-1].split()[-1])

    def works_till(self, task: str, words: str, times: int) -> None:
        """Ask for a task, which goes on, until tools have written *words* down so often."""

        def look() -> bool:
            seen = self.client.get(task)
            assert seen["status"] == "working", seen
            return self.journal().count(words) >= times

        until(look, f"{words!r} {times} times")

    def kill_runner(self, label: str) -> None:
        """Kill the process in which a tool runs."""
        pid = self.began(label)
        os.kill(pid, signal.SIGKILL)
        for own in (*self.hands, *self.servers):  # what these forked is for them to bury
            until(lambda own=own: own.pid != pid or ended(own), "the process is gone")


@contextmanager
def site(engine: str, folder: Path, environment: Mapping[str, str], servers: int = 1) -> Iterator[Site]:
    """A site with tables in the database that *environment* names.

    Args:
        engine: what runs its tasks.
        folder: for logs and the journal.
        environment: of all processes.
        servers: how many.
    """
    complete = {
        "DJANGO_SETTINGS_MODULE": "tests.tasks.workers.site.settings",
        "PYTHONUNBUFFERED": "1",
        "CONFORMANCE_REDIS_URL": "",
        "FAULTS_JOURNAL": str(folder / "journal"),
        "TASKS_ENGINE": engine,
        "TASKS_QUEUE": f"q{secrets.token_hex(4)}",
        **environment,
    }
    (folder / "journal").touch()
    migrate(complete)
    with ExitStack() as stack:
        made = Site(complete, folder, stack)
        stack.callback(made.go, "all")
        made.servers = [made.start() for _ in range(servers)]
        yield made
        made.go("all")
