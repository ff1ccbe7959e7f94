"""What every request would say is said now and then, and nothing is said to be less than it was."""

import logging
import time

import pytest

from django_mcp.core import rate_limited_log
from django_mcp.core.rate_limited_log import log_rate_limited


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [time.monotonic()]
    monkeypatch.setattr(rate_limited_log, "monotonic", lambda: now[0])
    return now


def test_the_same_words_are_logged_once_in_a_while_and_counted_meanwhile(
    caplog: pytest.LogCaptureFixture, clock: list[float]
) -> None:
    for number in range(4):
        log_rate_limited(logging.ERROR, "away: %s", number)
    clock[0] += rate_limited_log.LOG_INTERVAL
    log_rate_limited(logging.ERROR, "away: %s", "still")
    clock[0] += rate_limited_log.LOG_INTERVAL
    log_rate_limited(logging.ERROR, "away: %s", "yet")
    assert said(caplog) == ["away: 0", "away: still (and 3 times since this was last logged)", "away: yet"]
    assert {record.levelno for record in caplog.records} == {logging.ERROR}


def test_other_words_wait_for_nothing(caplog: pytest.LogCaptureFixture) -> None:
    log_rate_limited(logging.WARNING, "the cache is away")
    log_rate_limited(logging.WARNING, "the database is away")
    assert said(caplog) == ["the cache is away", "the database is away"]
