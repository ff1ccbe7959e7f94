"""Sites with workers of each kind."""

import os
from collections.abc import Iterator

import pytest
import redis

from tests.conformance.databases import postgresql, sqlite
from tests.faults.conftest import closed_connections, label
from tests.lanes import at_night
from tests.tasks.workers.processes import Site, site

__all__ = ["closed_connections", "label"]


@pytest.fixture(scope="session", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.needs("DATABASE_URL"))])
def shared_queue(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose queue is in its database, for all tests that want no more."""
    folder = tmp_path_factory.mktemp(f"tasks-{request.param}")
    made = sqlite(folder) if request.param == "sqlite" else postgresql()
    with made as database, site("db", folder, database) as running:
        yield running


@pytest.fixture
def queue(shared_queue: Site) -> Site:
    """The same, with a server and a worker alive."""
    shared_queue.replace_dead()
    shared_queue.staff(1)
    return shared_queue


@pytest.fixture
def postgresql_queue(queue: Site) -> Site:
    """Where a tool in a transaction keeps nobody else from writing."""
    if not queue.environment["DATABASE_URL"]:
        pytest.skip("on SQLite nobody can cancel what holds the one write lock")
    return queue


NEEDS_REDIS = pytest.mark.needs("REDIS_URL")
IN_REDIS = [at_night("rq", NEEDS_REDIS), pytest.param("celery", marks=NEEDS_REDIS)]


@pytest.fixture(scope="session", params=IN_REDIS)
def shared_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose queue is in Redis."""
    folder = tmp_path_factory.mktemp(f"tasks-{request.param}")
    made = postgresql() if os.environ.get("DATABASE_URL") else sqlite(folder)
    with made as database, site(request.param, folder, {**database, "TASKS_REDIS_URL": os.environ["REDIS_URL"]}) as it:
        yield it
    forget(it.environment["TASKS_QUEUE"])


def forget(queue: str) -> None:
    """Delete what is left of a queue."""
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as connection:
        for key in [*connection.scan_iter(f"{queue}:*"), *connection.scan_iter(f"rq:*:{queue}")]:
            connection.delete(key)
        connection.srem("rq:queues", f"rq:queue:{queue}")


@pytest.fixture
def broker(shared_broker: Site) -> Site:
    """The same, with a worker alive."""
    shared_broker.staff(1)
    return shared_broker
