"""The benchmark of open streams measures every kind, and says what it finds."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.streams.__main__ import broken, cells
from benchmarks.streams.holder import Telling
from benchmarks.streams.memory import Memory, cpu_seconds, memory, parse
from benchmarks.streams.visit import Found

ROOT = Path(__file__).resolve().parents[2]
FEW = 20
ROLLUP = """55d0-7ffe ---p 00000000 00:00 0    [rollup]
Rss:                 100 kB
Pss:                  60 kB
Private_Clean:         8 kB
Private_Dirty:        32 kB
"""


def found(**values: object) -> Found:
    return Found("modern", 1000, each=(12.0, 11.0, 10.0), idle=0.01, rates=[(90.0, 100.0)], **values)


def test_every_kind_of_stream_is_opened_told_and_closed() -> None:
    brief = ["--idle", "0.2", "--settle", "0.2", "--rounds", "0", "--seconds", "0.1", "--slow", "1", "--times", "20"]
    done = subprocess.run(  # noqa: PLW1510 - the test looks at how it ended
        [sys.executable, "-m", "benchmarks.streams", "--kinds", "modern,legacy,bare", "--count", str(FEW), *brief],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line[:2] == "| "]
    assert [row[0] for row in rows[2:]] == [f"modern, {FEW}", f"legacy, {FEW}", f"bare, {FEW}"]
    assert all(len(row) == len(rows[0]) for row in rows)
    assert all(row[13].endswith(" s") for row in rows[2:]), "each was told"
    assert "told of 60 changes" in done.stdout


def test_memory_is_read_as_the_system_writes_it() -> None:
    assert parse(ROLLUP) == Memory(rss=102_400, pss=61_440, uss=40_960)
    assert (parse(ROLLUP) - parse(ROLLUP)).each(10) == (0, 0, 0)
    assert parse(ROLLUP).each(10) == (10, 6, 4)


def test_a_process_has_memory_and_was_computing() -> None:
    assert memory(os.getpid()).rss > memory(os.getpid()).uss > 2**20
    assert cpu_seconds(os.getpid()) > 0


def test_a_promise_that_is_not_kept_is_said(subtests: pytest.Subtests) -> None:
    for each, idle, ratio, words in [
        (12.0, 0.01, 0.9, []),
        (26.0, 0.01, 0.9, ["26.0 KiB"]),
        (12.0, 0.04, 0.9, ["4.0% of a core"]),
        (12.0, 0.01, 0.7, ["70% of their speed"]),
    ]:
        with subtests.test(each=each, idle=idle, ratio=ratio, words=words):
            result = Found("legacy", 1000, each=(each, 0.0, 0.0), idle=idle, rates=[(ratio, 1.0)])
            said = broken(result)
            assert len(said) == len(words)
            assert all(word in line for word, line in zip(words, said, strict=True))


def test_a_kind_that_is_not_ours_promises_nothing() -> None:
    assert broken(Found("bare", 10, each=(99.0, 0.0, 0.0), idle=1.0)) == []


def test_what_was_not_measured_is_left_empty() -> None:
    assert cells(found())[11:14] == ("", "", "")
    assert cells(found(told=[(0.1, 0.2, 0.3), (0.3, 0.4, 0.5)]))[11:14] == ("0.200 s", "0.300 s", "0.400 s")


def test_a_stream_counts_once_as_told() -> None:
    telling = Telling(b"changed", 2)
    one, other = object(), object()
    telling.hear(one, b"list_changed")  # type: ignore[arg-type]
    telling.hear(one, b"list_changed")  # type: ignore[arg-type]
    telling.hear(other, b"something else")  # type: ignore[arg-type]
    assert not telling.over.is_set()
    telling.hear(other, b"list_changed")  # type: ignore[arg-type]
    assert telling.over.is_set()
