"""The soak must not flatter: a lost answer, a second run, a row that is missing and growth are each reported."""

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.process import HOST, ProcessFailedError
from benchmarks.soak import __main__ as command
from benchmarks.soak import judging, report, services
from benchmarks.soak.faults import GRACE, KINDS, plan
from benchmarks.soak.ledger import Entry, Fault, Ledger, Outcome, Rows
from benchmarks.soak.samples import FEWEST, MIB, Series, growing, look
from benchmarks.soak.streams import out_of_order
from benchmarks.soak.wire import Broken, Event, send

HERE, THERE = 21001, 21002
UID = "a1b2"


def entry(outcome: Outcome = Outcome.OK, at: float = 10.0, **fields: object) -> Entry:
    """A call that writes, which took one second."""
    usual = {"kind": "modern call of write", "uid": UID, "rows": Rows.ONE_IF_OK, "tool": "write", "ports": (HERE,)}
    return Entry(began=at, ended=at + 1, outcome=outcome, **{**usual, **fields})


def found(*entries: Entry, rows: int = 1, logged: int = 1, faults: tuple[Fault, ...] = ()) -> list[str]:
    """What is wrong with these calls, where the database has so many rows of them."""
    ledger = Ledger(list(entries), list(faults))
    made = judging.problems(ledger, {UID: rows} if rows else {}, {("write", UID, "ok"): logged})
    return [problem.what for problem in made]


def fault(kind: str, at: float = 10.0, seconds: float = 2.0, port: int | None = None) -> Fault:
    return Fault(kind, at, port, healed=at + seconds, grace=1.0)


class TestJudging:
    def test_a_call_that_was_answered_and_has_its_rows_is_well(self):
        assert found(entry()) == []

    def test_a_call_without_a_right_answer_is_reported_where_nothing_was_away(self, subtests: pytest.Subtests) -> None:
        for outcome, name in [
            (Outcome.TOLD, "lost answer"),
            (Outcome.CLOSED, "lost answer"),
            (Outcome.SILENT, "no answer"),
            (Outcome.WRONG, "wrong answer"),
        ]:
            with subtests.test(outcome=outcome, name=name):
                assert found(entry(outcome)) == [name]

    def test_a_second_run_is_reported_whatever_the_client_was_told(self):
        for outcome in (Outcome.OK, Outcome.TOLD, Outcome.CLOSED):
            assert found(entry(outcome), rows=2, faults=(fault("postgresql"),)) == ["ran twice"]

    def test_an_answer_without_its_row_is_reported(self):
        assert found(entry(), rows=0) == ["told ok, and no row"]

    def test_an_answer_that_is_not_in_the_log_is_reported_and_so_is_one_that_is_there_twice(self):
        assert found(entry(), logged=0) == ["answered, and not in the log"]
        assert found(entry(), logged=2) == ["in the log twice"]
        assert found(entry(repeated=True), logged=2) == []

    def test_a_row_of_a_call_that_was_to_leave_none_is_reported(self, subtests: pytest.Subtests) -> None:
        for outcome in [Outcome.OK, Outcome.TOLD, Outcome.CLOSED]:
            with subtests.test(outcome=outcome):
                away = (fault("postgresql"),)
                assert found(entry(outcome, rows=Rows.NONE), faults=away) == ["not rolled back"]
                assert found(entry(outcome, rows=Rows.NONE), rows=0, faults=away) == []
                assert found(entry(outcome, rows=Rows.ANY), faults=away) == []

    def test_an_unanswered_call_may_have_been_made_or_not(self):
        away = (fault("postgresql"),)
        assert found(entry(Outcome.CLOSED), rows=0, faults=away) == []
        assert found(entry(Outcome.CLOSED), rows=1, faults=away) == []
        ledger = Ledger([entry(Outcome.CLOSED), *(entry(Outcome.CLOSED, uid=other) for other in ("c3", "d4"))])
        assert judging.undecided(ledger, {UID: 1}) == {"closed": judging.Undecided(calls=3, with_row=1)}

    def test_a_row_that_nobody_asked_for_is_named(self):
        assert judging.unknown(Ledger([entry()]), {UID: 1, "stray": 1}) == ["stray"]


class TestExcuses:
    def test_a_fault_excuses_what_met_it_and_nothing_before_or_after(self, subtests: pytest.Subtests) -> None:
        for at, excused in [(8.9, False), (9.5, True), (11.5, True), (12.9, True), (13.1, False)]:
            with subtests.test(at=at, excused=excused):
                assert (found(entry(Outcome.TOLD, at), rows=0, faults=(fault("postgresql"),)) == []) is excused

    def test_the_death_of_a_worker_excuses_its_own_calls_only(self):
        dead = (fault("worker", port=HERE),)
        assert found(entry(Outcome.CLOSED), rows=0, faults=dead) == []
        assert found(entry(Outcome.CLOSED, ports=(THERE,)), rows=0, faults=dead) == ["lost answer"]

    def test_redis_and_locks_are_no_excuse(self):
        for kind in ("redis", "lock"):
            assert found(entry(Outcome.TOLD), rows=0, faults=(fault(kind),)) == ["lost answer"]

    def test_nothing_but_the_death_of_its_worker_excuses_silence(self):
        assert found(entry(Outcome.SILENT), rows=0, faults=(fault("postgresql"),)) == ["no answer"]
        assert found(entry(Outcome.SILENT), rows=0, faults=(fault("worker", port=HERE),)) == []

    def test_a_call_that_was_repeated_long_enough_has_to_be_answered_at_last(self):
        gave_up = entry(Outcome.TOLD, insists=True)
        assert found(gave_up, rows=0, faults=(fault("postgresql"),)) == ["lost answer"]

    def test_a_wrong_answer_has_no_excuse(self, subtests: pytest.Subtests) -> None:
        for kind in KINDS:
            with subtests.test(kind=kind):
                assert found(entry(Outcome.WRONG), rows=0, faults=(fault(kind, port=HERE),)) == ["wrong answer"]

    def test_a_fault_without_an_end_is_still_going_on(self):
        assert Fault("postgresql", 10.0).overlaps(entry(at=1000.0))


def series(*thirds: float, figure: str = "memory", samples: int = FEWEST) -> Series:
    made = Series("worker 1", figure)
    for each in thirds:
        made.values += [each] * (samples // 3)
    return made


class TestGrowth:
    def test_more_than_the_bound_is_growth(self, subtests: pytest.Subtests) -> None:
        for figure, middle, last, grows in [
            ("memory", 100 * MIB, 106.9 * MIB, False),
            ("memory", 100 * MIB, 107.1 * MIB, True),
            ("threads", 12, 14, False),
            ("threads", 12, 15, True),
            ("open files", 40, 45, False),
            ("open files", 40, 46, True),
            ("connections", 30, 39, False),
            ("connections", 30, 40, True),
        ]:
            with subtests.test(figure=figure, middle=middle, last=last, grows=grows):
                assert (list(growing([series(1, middle, last, figure=figure)])) != []) is grows

    def test_warming_up_is_no_growth(self):
        assert not series(50 * MIB, 100 * MIB, 100 * MIB).grows

    def test_one_peak_is_no_growth(self):
        made = series(100 * MIB, 100 * MIB, 100 * MIB)
        made.values[-1] = 900 * MIB
        assert not made.grows

    def test_a_life_that_is_too_short_is_not_judged_and_named(self):
        short = series(100 * MIB, 100 * MIB, 900 * MIB, samples=FEWEST - 3)
        assert short.grows
        assert list(growing([short])) == []
        assert "lived too shortly: worker 1" in report.growth([short])

    def test_what_was_not_looked_at_is_said(self):
        assert "there is no /proc here" in report.growth([series(1, 1, 1, figure="connections")])
        assert "there is no /proc here" not in report.growth([series(1, 1, 1)])

    def test_growth_stands_in_the_report(self):
        assert "GROWS" in report.growth([series(1, 10, 20, figure="threads")])

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell")
    def test_a_process_is_looked_at(self):
        import os

        seen = look(os.getpid())
        assert seen["memory"] > MIB
        assert seen["threads"] >= 1
        assert seen["open files"] >= 3
        assert look(2**22 + 1) is None


def progress(number: int) -> dict:
    return {"method": "notifications/progress", "params": {"progress": number}}


def logged(number: int) -> dict:
    return {"method": "notifications/message", "params": {"data": {"number": number}}}


class TestStreams:
    WHOLE = (*map(progress, range(1, 6)), logged(5), {"id": 1, "result": {}})

    def test_a_whole_stream_and_the_beginning_of_one_are_in_order(self):
        assert out_of_order(self.WHOLE, 5) is None
        assert out_of_order(self.WHOLE[:3], 5) is None
        assert out_of_order([], 5) is None

    def test_an_event_that_is_lost_or_repeated_is_reported(self, subtests: pytest.Subtests) -> None:
        for case, places in {
            "a gap": (0, 2, 3, 4, 5, 6),
            "twice": (0, 1, 1, 2, 3, 4, 5, 6),
            "in another order": (1, 0, 2, 3, 4, 5, 6),
            "the end too early": (0, 1, 2, 6),
            "without its log": (0, 1, 2, 3, 4, 6),
            "without the first": (1, 2),
        }.items():
            with subtests.test(case):
                assert "expected" in out_of_order([self.WHOLE[place] for place in places], 5)


class TestPlan:
    def test_everything_fails_and_the_more_often_the_longer_it_takes(self, subtests: pytest.Subtests) -> None:
        for minutes, each in [(1, 1), (3, 1), (6, 2), (10, 3)]:
            with subtests.test(minutes=minutes, each=each):
                planned = plan(60 * minutes)
                assert [fault.kind for fault in planned] == [*KINDS] * each
                assert 0 < planned[0].at < planned[-1].at < 0.9 * 60 * minutes
                assert set(GRACE) == set(KINDS)


def conversation(answer: bytes, use: Callable[[int], object]) -> object:
    """Have a server answer everything with these bytes and hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def go() -> object:
        server = await asyncio.start_server(serve, HOST, 0)
        async with server:
            return await asyncio.wait_for(use(server.sockets[0].getsockname()[1]), 10)

    return asyncio.run(go())


def chunks(*parts: bytes) -> bytes:
    body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + body


class TestWire:
    @staticmethod
    async def events(port: int) -> list[Event]:
        async with await send(port, "GET", "/", {}) as reply:
            return [event async for event in reply.events()]

    @staticmethod
    async def body(port: int) -> bytes:
        return await (await send(port, "POST", "/", {}, b"{}")).body()

    def test_events_are_read_across_chunks_and_comments_are_passed_over(self):
        sent = chunks(b'id: k.1\ndata: {"a"', b": 1}\n\n: still here\n\n", b"id: k.2\ndata: \n\n", b"")
        assert conversation(sent, self.events) == [Event("k.1", '{"a": 1}'), Event("k.2", "")]

    def test_an_answer_that_is_cut_off_is_no_answer(self, subtests: pytest.Subtests) -> None:
        for sent in [
            b"",
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            chunks(b"data: 1\n\n"),
            chunks(b"ab")[:-3],
        ]:
            with subtests.test(sent=sent), pytest.raises(Broken):
                conversation(sent, self.body)


class TestServices:
    def test_what_is_missing_is_named_and_the_run_fails(self, monkeypatch, capsys):
        monkeypatch.setattr(services, "find_postgresql", lambda: None)
        monkeypatch.setattr(services.shutil, "which", lambda name, path=None: None)
        assert command.main(["--minutes", "1"]) == 2
        said = capsys.readouterr().err
        assert "PostgreSQL's server (initdb, postgres): install it" in said
        assert "redis-server: install it" in said

    def test_a_service_that_does_not_start_says_why(self, tmp_path):
        def never() -> None:
            raise OSError("nobody there")

        words = [sys.executable, "-c", "raise SystemExit('no room')"]
        service = services.Service(words, signal.SIGTERM, never, tmp_path / "log")
        try:
            with pytest.raises(ProcessFailedError, match="no room"):
                service.start()
        finally:
            service.stop()

    def test_one_worker_is_too_few(self, capsys):
        with pytest.raises(SystemExit):
            command._options(["--workers", "1"])
        assert "two workers or more" in capsys.readouterr().err
