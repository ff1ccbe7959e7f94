"""Redis counts calls for all processes; when it goes away nobody is counted, and nobody is kept waiting."""

import threading
from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import override_settings

from django_mcp.core import throttling
from tests.faults.conftest import service
from tests.faults.gate import Gate

pytestmark = pytest.mark.needs("REDIS_URL")


@pytest.fixture
def gate() -> Iterator[Gate]:
    """The way to Redis, the site's cache."""
    with Gate(*service("REDIS_URL")) as made:
        location = f"redis://127.0.0.1:{made.port}/9"
        caches = {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": location, "KEY_PREFIX": "mcp"}
        with override_settings(CACHES={"default": caches}):
            cache.clear()
            yield made


def test_of_many_at_once_no_more_than_allowed_are_let_through(gate: Gate) -> None:
    barrier, waits = threading.Barrier(8), []

    def call() -> None:
        barrier.wait()
        waits.extend(throttling.seconds_to_wait("10/d", "ada") for _ in range(20))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (waits.count(0), len(waits)) == (10, 160)


def test_while_it_is_away_nobody_is_counted_and_then_everybody_again(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    assert throttling.seconds_to_wait("1/d", "ada") == 0
    assert throttling.seconds_to_wait("1/d", "ada") > 0
    gate.shut()
    assert throttling.seconds_to_wait("1/d", "ada") == 0
    assert "are not counted, for the cache fails" in caplog.text
    gate.open()
    assert throttling.seconds_to_wait("1/d", "ada") > 0
