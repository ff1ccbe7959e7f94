"""A server that is told to stop answers the calls that run, ends its streams as answers end, and is gone soon."""

import asyncio
import datetime
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from django_mcp.pubsub.follower import listen_for_stop, server_stops
from django_mcp.transports import asgi
from django_mcp.transports.asgi import GracefulShutdown
from tests.faults.reading import read
from tests.faults.stopping import HOLDS_STREAMS, SERVERS, running
from tests.faults.wire import text

WITHIN = 5.0
"""Seconds from the signal to the end of the process, one of which its calls take."""
PATIENCE = 20.0
CODES = {"uvicorn": -signal.SIGTERM, "uvicorn, view": -signal.SIGTERM}
"""uvicorn ends itself by the signal when it is done; others give 0."""
TELL_NOBODY = {"uvicorn, view", "granian", "granian, view"}
"""These end without ``lifespan.shutdown`` and without Python's ``atexit``, so the lease of a task runs on."""


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_that_is_told_to_stop_lets_calls_and_streams_end_and_ends(name: str, tmp_path: Path) -> None:
    with running(SERVERS[name], tmp_path) as site:
        if name in HOLDS_STREAMS:
            site.listen()
        for tool in ("work_sync", "work_async", "work_and_tell"):
            site.call(tool)
        site.call("work_and_tell", "legacy")
        assert not [line for line in site.journal() if line.startswith("worked")], "they were to be under way still"

        code = site.stop(PATIENCE)

        assert site.ended - site.told < WITHIN, site.output()
        assert code == CODES.get(name, 0), site.output()
        assert {key: each.failure for key, each in site.answers.items()} == dict.fromkeys(site.answers)
        answers = {key: each.messages[-1] for key, each in site.answers.items() if key.startswith("work")}
        assert {key: text(message) for key, message in answers.items()} == {key: f"worked {key}" for key in answers}
        rows = read(site.environment, "SELECT name, outcome FROM django_mcp_requestlog ORDER BY name")
        assert [(row["name"], row["outcome"]) for row in rows] == [
            *[("work_and_tell", "ok"), ("work_and_tell", "ok"), ("work_async", "ok"), ("work_sync", "ok")]
        ]
        if name in HOLDS_STREAMS:
            assert "result" in site.answers["listen"].messages[-1], "the end is said in the words of the protocol"
        assert "Traceback" not in site.output()


@pytest.mark.parametrize("name", SERVERS)
def test_calls_that_wait_are_told_how_to_go_on_and_tasks_are_given_back_where_the_server_says_that_it_ends(
    name: str, tmp_path: Path
) -> None:
    with running(SERVERS[name], tmp_path) as site:
        site.call("wait_as_task")
        site.wait_for_approval()

        code = site.stop(PATIENCE)

        assert site.ended - site.told < WITHIN, site.output()
        assert code == CODES.get(name, 0), site.output()
        assert {key: each.failure for key, each in site.answers.items()} == dict.fromkeys(site.answers)
        answers = {key: text(each.messages[-1]) for key, each in site.answers.items()}
        assert "still running, as task" in answers["wait_as_task-modern"]
        assert "requires approval" in answers["approval"]
        (task,) = read(site.environment, "SELECT status, lease FROM django_mcp_task")
        assert task["status"] == "working"
        lease = datetime.datetime.fromisoformat(task["lease"]).replace(tzinfo=datetime.UTC)
        if name not in TELL_NOBODY:
            assert lease < datetime.datetime.now(datetime.UTC), "whoever looks next takes the task over"


class TestSignal:
    """Under granian nobody can be asked, so the signal is heard beside the server."""

    @pytest.fixture
    def handled(self) -> Iterator[Callable[[object], None]]:
        before = signal.getsignal(signal.SIGTERM)
        yield lambda handler: signal.signal(signal.SIGTERM, handler)
        signal.signal(signal.SIGTERM, before)

    def test_it_is_heard_and_the_server_has_it_too(self, handled: Callable[[object], None]) -> None:
        heard: list[int] = []
        handled(lambda number, frame: heard.append(number))
        listen_for_stop()
        listen_for_stop()
        assert not server_stops()
        signal.raise_signal(signal.SIGTERM)
        assert server_stops()
        assert heard == [signal.SIGTERM]

    @pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
    def test_a_process_that_does_not_handle_it_is_left_alone(
        self, handled: Callable[[object], None], handler: signal.Handlers
    ) -> None:
        handled(handler)
        listen_for_stop()
        assert signal.getsignal(signal.SIGTERM) is handler
        assert not server_stops()

    def test_a_server_that_can_be_asked_is_asked(self, handled: Callable[[object], None]) -> None:
        class Server:
            should_exit = False

            def handle(self, number: int, frame: object) -> None:
                self.should_exit = True

        server = Server()
        handled(server.handle)
        listen_for_stop()
        assert signal.getsignal(signal.SIGTERM) == server.handle
        assert not server_stops()
        signal.raise_signal(signal.SIGTERM)
        assert server_stops()


class TestPatience:
    """What daphne cancels goes on, if it is because daphne stops."""

    async def _cancelled(self, *, stops: bool, seconds: float) -> list[str]:
        seen: list[str] = []
        began = asyncio.Event()

        async def serving() -> None:
            seen.append("began")
            began.set()
            try:
                await asyncio.sleep(seconds)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise
            seen.append("done")

        patience = GracefulShutdown()
        outer = asyncio.create_task(patience.serve(serving()))
        await began.wait()
        import twisted.internet.defer  # noqa: F401 - as daphne has done

        held = patience._stop() if stops else None
        outer.cancel()
        await asyncio.wait([outer])
        assert outer.cancelled()
        if held is not None:
            await held.asFuture(asyncio.get_running_loop())
        return seen

    def test_a_call_is_done_before_the_server_may_go(self) -> None:
        assert asyncio.run(self._cancelled(stops=True, seconds=0.05)) == ["began", "done"]

    def test_a_call_that_takes_too_long_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(asgi, "GRACE_SECONDS", 0.02)
        assert asyncio.run(self._cancelled(stops=True, seconds=60)) == ["began", "cancelled"]

    def test_a_call_whose_client_has_gone_is_cut_off_at_once(self) -> None:
        assert asyncio.run(self._cancelled(stops=False, seconds=60)) == ["began", "cancelled"]

    def test_another_server_is_not_waited_for(self) -> None:
        patience = GracefulShutdown()
        assert patience.detect() is False
        assert patience.is_needed is False
