"""A call is finished or given up, never both."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from django_mcp import Cancelled
from django_mcp.core import deadline as deadlines
from django_mcp.core.deadline import Deadline, DeadlineExceeded


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(deadlines, "monotonic", lambda: now[0])
    return now


def test_time_runs_out(clock: list[float]) -> None:
    deadline = Deadline(3)
    assert (deadline.remaining, deadline.has_passed) == (3.0, False)
    clock[0] += 2
    assert (deadline.remaining, deadline.has_passed) == (1.0, False)
    clock[0] += 2
    assert (deadline.remaining, deadline.has_passed) == (0.0, True)


def test_what_is_finished_is_not_given_up_however_late_it_gets(clock: list[float]) -> None:
    deadline = Deadline(3)
    deadline.finish()
    clock[0] += 5
    assert not deadline.give_up()
    assert not deadline.has_passed


def test_what_was_given_up_is_not_finished_though_there_seems_to_be_time(clock: list[float]) -> None:
    deadline = Deadline(3)
    assert deadline.give_up()
    assert (deadline.remaining, deadline.has_passed) == (0.0, True)
    with pytest.raises(DeadlineExceeded):
        deadline.finish()


def test_what_is_late_is_not_finished_before_anybody_gave_it_up(clock: list[float]) -> None:
    deadline = Deadline(3)
    clock[0] += 3
    with pytest.raises(Cancelled):
        deadline.finish()
    assert deadline.give_up()


def test_two_threads_agree_on_the_end() -> None:
    def give_up(deadline: Deadline, barrier: threading.Barrier) -> bool:
        barrier.wait()
        return deadline.give_up()

    def finish(deadline: Deadline, barrier: threading.Barrier) -> bool:
        barrier.wait()
        try:
            deadline.finish()
        except DeadlineExceeded:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        for _ in range(300):
            deadline, barrier = Deadline(60), threading.Barrier(2)
            ends = [pool.submit(each, deadline, barrier) for each in (give_up, finish)]
            assert sorted(end.result() for end in ends) == [False, True]
