"""Redis goes away, and comes back: the log is read less promptly meanwhile, and nothing is lost."""

import os
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import redis

from django_mcp.pubsub.notify import GROUP
from tests.conformance.databases import sqlite
from tests.faults.conftest import LOOK, Workers, service, until, workers
from tests.faults.gate import Gate
from tests.faults.wire import Legacy, Modern, Reply, text

pytestmark = pytest.mark.needs("REDIS_URL")

SILENCE = 1.2
"""Seconds in which a process that polls has polled."""
SOON = 2.0
"""Seconds within which a ring has been heard; without one the log is read every 15."""
AWAY = 3.0
"""Seconds for which Redis is away: long enough for a word each second to be noticed."""


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    """The way to Redis."""
    with Gate(*service("REDIS_URL")) as made:
        yield made


@pytest.fixture(scope="module")
def two(gate: Gate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two processes that ring each other's bell through the gate."""
    folder = tmp_path_factory.mktemp("faults-redis")
    url = f"redis://127.0.0.1:{gate.port}{urlsplit(os.environ['REDIS_URL']).path}"
    with sqlite(folder) as database, workers(2, {**database, "CONFORMANCE_REDIS_URL": url}, folder) as made:
        yield made


def polls(port: int) -> int:
    """How often a process with open streams looks into the log while nothing happens."""
    modern = Modern(port)
    modern.queries()
    end = time.monotonic() + SILENCE
    while time.monotonic() < end:
        time.sleep(LOOK)
    return len(modern.queries())


def heard(streams: list[Reply]) -> float:
    """Wait until each stream has told of a change; after how many seconds the last had."""
    began = time.monotonic()
    assert {stream.message()["method"] for stream in streams} == {"notifications/tools/list_changed"}
    return time.monotonic() - began


def lost(log: str) -> list[str]:
    """Futures of ours whose error nobody looked at. The layer has such of its own when it is cut off in mid-receive."""
    futures = [line for line in log.splitlines() if line.startswith("future: ")]
    return [future for future in futures if "/django_mcp/" in future]


def test_changes_arrive_without_redis_and_at_once_when_it_is_back(two: Workers, gate: Gate) -> None:
    legacy = Legacy(two[0]).open().listen()
    legacy.event()
    streams = [Modern(two[0]).listen(), legacy]
    # The teller follows the log too, so that it has something to lose.
    also = Modern(two[1]).listen()
    announce = Modern(two[1])

    until(lambda: polls(two[0]) == 0, "the bell is heard, so there is no need to poll")
    assert text(announce.call("announce")) == "announced"
    assert heard([*streams, also]) < SOON

    gate.shut()
    end = time.monotonic() + AWAY
    while time.monotonic() < end:
        assert text(announce.call("announce")) == "announced"
        heard([*streams, also])
    assert polls(two[0]) > 0

    gate.open()
    until(lambda: polls(two[0]) == 0, "the bell is heard again")
    for _ in range(3):
        assert text(announce.call("announce")) == "announced"
        assert heard([*streams, also]) < SOON

    for index in range(2):
        assert two.log(index).count("the channel layer is unavailable") == 1, two.log(index)
        assert not lost(two.log(index))


def test_a_process_is_one_listener_however_often_streams_come_and_go(two: Workers) -> None:
    group = f"conformance:{two.environment['CONFORMANCE_DATABASE']}:group:{GROUP}"
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as layer:
        idle = len(Modern(two[0]).tasks())
        for _ in range(5):
            stream = Modern(two[0]).listen()
            until(lambda: any("eventsequence" in sql for sql in Modern(two[0]).queries()), "it listens, and reads once")
            until(lambda: layer.zcard(group), "its process is in the group")
            stream.close()
            until(lambda: len(Modern(two[0]).tasks()) <= idle, "the stream is gone")

        assert 1 <= layer.zcard(group) <= len(two.servers)
