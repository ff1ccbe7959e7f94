"""Three hundred open streams on one process."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.databases import sqlite
from tests.faults.conftest import LOOK, Workers, until, workers
from tests.faults.wire import Legacy, Modern, Reply, text

HALF = 150
SILENCE = 2.0
"""Seconds in which nothing happens."""
POLLS = 2 * SILENCE
"""How often the log is read in that time, POLL_INTERVAL being what it is."""
MAX_BYTES = 100 * 1024
"""Memory that one stream may take."""


@pytest.fixture
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    folder = tmp_path_factory.mktemp("faults-many")
    with sqlite(folder) as database, workers(1, database, folder) as made:
        yield made


def in_silence(worker: Workers) -> list[str]:
    """The queries of some seconds in which nothing happens."""
    Modern(worker[0]).queries()
    end = time.monotonic() + SILENCE
    while time.monotonic() < end:
        time.sleep(LOOK)
    return Modern(worker[0]).queries()


def memory(worker: Workers) -> int:
    """Bytes that the process has in memory."""
    status = Path(f"/proc/{worker.pid(0)}/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


def half_of_each(worker: Workers) -> list[Reply]:
    """Open streams, of both eras in turn."""
    streams: list[Reply] = []
    for _ in range(HALF):
        streams.append(Modern(worker[0]).listen())
        streams.append(Legacy(worker[0]).open().listen())
        streams[-1].event()
    return streams


def test_three_hundred_streams_cost_one_query_a_poll_and_little_memory_and_leave_nothing(
    worker: Workers, capsys: pytest.CaptureFixture[str]
) -> None:
    # What is made once, for the first stream of each kind, is not counted.
    Modern(worker[0]).listen().close()
    first = Legacy(worker[0]).open().listen()
    first.event()
    first.close()
    until(lambda: not in_silence(worker), "nothing is read without streams")
    tasks, bytes_before = len(Modern(worker[0]).tasks()), memory(worker)

    streams = half_of_each(worker)
    each = (memory(worker) - bytes_before) / len(streams)
    with capsys.disabled():
        print(f"\n{len(streams)} open streams: {each / 1024:.0f} KiB each")  # noqa: T201
    assert each < MAX_BYTES

    queries = in_silence(worker)
    assert 1 <= len(queries) <= POLLS + 1, queries

    assert text(Modern(worker[0]).call("announce")) == "announced"
    assert {stream.message()["method"] for stream in streams} == {"notifications/tools/list_changed"}

    for stream in streams:
        stream.close()
    until(lambda: len(Modern(worker[0]).tasks()) <= tasks, f"there are {tasks} tasks again")
    until(lambda: not in_silence(worker), "nothing is read any more")
