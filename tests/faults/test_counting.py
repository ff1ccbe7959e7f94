"""Redis counts calls for all processes; when it goes away nobody is counted, and nobody is kept waiting."""

import threading
from collections.abc import Iterator

import pytest
from django.core.cache import cache
from django.test import override_settings

from django_mcp.core.throttling import RateThrottle
from django_mcp.primitives.base import parse_rate
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


def may(rate: str) -> bool:
    return RateThrottle("requests", parse_rate(rate)).allow_request("ada")


def test_of_many_at_once_no_more_than_allowed_are_let_through(gate: Gate) -> None:
    barrier, allowed = threading.Barrier(8), []

    def call() -> None:
        barrier.wait()
        allowed.extend(may("10/d") for _ in range(20))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (allowed.count(True), len(allowed)) == (10, 160)


def test_while_it_is_away_nobody_is_counted_and_then_everybody_again(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    assert may("1/d")
    assert not may("1/d")
    gate.shut()
    assert may("1/d")
    assert "are not counted because the cache failed" in caplog.text
    gate.open()
    assert not may("1/d")
