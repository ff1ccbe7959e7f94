"""The database goes away for five seconds, and comes back. All tests look at the same five seconds."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

from django_mcp.core import rate_limited_log
from tests.conformance.databases import postgresql
from tests.faults.conftest import Workers, service, workers
from tests.faults.gate import Gate
from tests.faults.wire import Legacy, Modern, Reply, question_of, text

pytestmark = pytest.mark.needs("DATABASE_URL")

AWAY = 5.0
"""Seconds for which it is away."""
STEPS = 200


@dataclass
class Outage:
    """What was seen while the database was away, and what is still open after it."""

    worker: Workers
    plain: list[str] = field(default_factory=list)
    refused: list[Reply] = field(default_factory=list)
    slowest: float = 0.0
    seconds: float = 0.0
    streams: dict[str, Reply] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def modern(self) -> Modern:
        return Modern(self.worker[0])

    def begin(self) -> None:
        """Open what is to survive."""
        self.legacy = Legacy(self.worker[0]).open()
        self.streams["listen"] = self.modern.listen()
        self.streams["GET"] = self.legacy.listen()
        self.streams["GET"].event()
        self.streams["progress"] = self.legacy.start("count", token=1, label="away", to=STEPS)
        self.streams["progress"].event()
        self.streams["question"] = self.legacy.start("ask", label="away")
        self.kept["question"] = question_of(self.streams["question"]).message
        self.kept["state"] = self.modern.call("ask", label="state")

    def live_through(self) -> None:
        """Do what can be done, and try what cannot."""
        end = time.monotonic() + AWAY
        while time.monotonic() < end:
            started = time.monotonic()
            self.plain += [text(self.modern.call(name, word="fine")) for name in ("plain_async", "plain_sync")]
            self.refused.append(self.legacy.post({"id": 1, "method": "tools/list"}))
            self.refused.append(self.legacy.post({"id": self.kept["question"]["id"], "result": {"action": "accept"}}))
            self.refused.append(self.legacy.listen())
            self.refused.append(self.legacy.send("DELETE", self.legacy.headers))
            self.slowest = max(self.slowest, time.monotonic() - started)
        self.kept["handshake"] = Legacy(self.worker[0]).open()
        self.kept["needs it"] = self.modern.call("notes", label="none")
        self.kept["used state"] = self.modern.go_on("ask", self.kept["state"], label="state")
        self.streams["opened meanwhile"] = self.modern.listen()
        self.streams["the first of its process"] = self.modern.at(self.worker[1]).listen()
        assert text(self.modern.call("announce")) == "announced"


@pytest.fixture(scope="module")
def outage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outage]:
    """Two processes whose database was behind a shut gate for five seconds; most is done to the first."""
    with Gate(*service("DATABASE_URL")) as gate, postgresql() as database:
        there = urlsplit(database["DATABASE_URL"])
        through = there._replace(netloc=f"{there.netloc.rpartition('@')[0]}@127.0.0.1:{gate.port}")
        with workers(
            2, {"DATABASE_URL": through.geturl(), "FAULTS_LOG": "off"}, tmp_path_factory.mktemp("faults-away")
        ) as worker:
            seen = Outage(worker)
            seen.begin()
            began = time.monotonic()
            gate.shut()
            seen.live_through()
            gate.open()
            seen.seconds = time.monotonic() - began
            yield seen


@pytest.fixture
def closed_connections() -> None:
    """The streams of the outage are for all tests here."""


def test_tools_that_need_no_database_go_on(outage: Outage) -> None:
    assert len(outage.plain) > 10
    assert set(outage.plain) == {"fine"}


def test_nothing_hangs(outage: Outage) -> None:
    assert outage.slowest < AWAY / 2


def test_requests_in_a_session_are_told_to_try_again(outage: Outage) -> None:
    assert {each.status for each in outage.refused} == {503}
    assert outage.refused[0].message()["error"]["message"] == "Sessions are temporarily unavailable. Retry later."


def test_a_handshake_gives_a_client_without_a_session(outage: Outage) -> None:
    assert outage.kept["handshake"].session == ""


def test_a_tool_that_needs_it_fails_and_works_again(outage: Outage) -> None:
    assert text(outage.kept["needs it"]).startswith("Internal server error.")
    assert text(outage.modern.call("notes", label="none")) == "0"


def test_a_session_works_again(outage: Outage) -> None:
    assert text(outage.legacy.call("plain_sync", word="again")) == "again"


@pytest.mark.parametrize("stream", ["listen", "GET", "opened meanwhile", "the first of its process"])
def test_a_stream_of_changes_survives_and_tells_what_was_announced_meanwhile(outage: Outage, stream: str) -> None:
    assert outage.streams[stream].message()["method"] == "notifications/tools/list_changed"


def test_a_call_under_way_says_all_it_said_meanwhile(outage: Outage) -> None:
    *progress, result = [event.message for event in outage.streams["progress"].events() if event.data]

    assert [each["params"]["progress"] for each in progress] == list(range(1, STEPS + 1))
    assert text(result) == f"counted to {STEPS}"


def test_a_question_can_be_answered_again(outage: Outage) -> None:
    assert outage.legacy.answer(outage.kept["question"]) == 202

    assert text(outage.streams["question"].last()) == "away: yes to What of away?"


def test_a_state_that_could_not_be_used_can_be_used_again(outage: Outage) -> None:
    assert "error" in outage.kept["used state"]

    assert text(outage.modern.go_on("ask", outage.kept["state"], label="state")) == "state: yes to reply"


def test_the_log_says_now_and_then_that_streams_cannot_be_read_and_nothing_breaks_unnoticed(outage: Outage) -> None:
    log = outage.worker.log(0)
    assert 1 <= log.count("the event log cannot be read") <= 1 + outage.seconds // rate_limited_log.LOG_INTERVAL
    assert "never retrieved" not in log
