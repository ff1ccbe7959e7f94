"""Fixtures for all tests."""

import contextvars
import os
import socket
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from _pytest.runner import runtestprotocol
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import setup_databases, teardown_databases
from django.urls import resolvers

from django_mcp import AllowAny, MCPServer
from django_mcp.approvals import tool_policies
from django_mcp.audit import recorder
from django_mcp.audit.writer import log_pool, writer
from django_mcp.core import dispatch, rate_limited_log
from django_mcp.core import server as registry
from django_mcp.core.concurrency import async_threads, checks_pool, free_pool, shared_pool
from django_mcp.core.policies import NONE, policy_cache
from django_mcp.model_resources.writes import has_history
from django_mcp.models import (
    Approval,
    AutoApprovalRule,
    Call,
    ClientPolicy,
    Event,
    PendingRequest,
    RequestLog,
    Session,
    Step,
    Task,
    ToolPolicy,
)
from django_mcp.tasks.backends import _pool as task_pool
from django_mcp.tasks.store import UNFINISHED
from django_mcp.tasks.worker import heartbeat
from tests import leftovers
from tests.clients import LEGACY, MODERN, Client

pytest_plugins = ["tests.lanes"]

# Many tests have a URLconf of their own, and Django takes the patterns of the admin apart again for each.
resolvers.normalize = cache(resolvers.normalize)

for _each in registry.every_server():  # what the demo's tools say of themselves; see the fixture ``policies``
    _each.policies = NONE

SERVICES = {"DATABASE_URL": "PostgreSQL", "MARIADB_URL": "MariaDB", "REDIS_URL": "Redis"}


def reachable(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "127.0.0.1", parts.port or 0), timeout=2):
            return True
    except OSError:
        return False


def pytest_report_header() -> list[str]:
    """Say loudly what the run does without."""
    lines = [f"database: {settings.DATABASES['default']['ENGINE'].rpartition('.')[2]}"]
    for variable, service in SERVICES.items():
        url = os.environ.get(variable)
        if not url:
            lines.append(f"*** {service}: NOT USED, {variable} is not set ***")
        else:
            state = "reachable" if reachable(url) else "NOT REACHABLE ***"
            lines.append(f"{service}: {urlsplit(url).hostname}:{urlsplit(url).port} {state}")
    return lines


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Run each test in a context of its own, as a server runs each request.

    A URLconf sets a context variable for each of its parts, for ever. After a thousand tests that make URLconfs each
    change between sync and async would take thousands of them along.
    """
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    contextvars.copy_context().run(runtestprotocol, item, nextitem=nextitem)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


OTHERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def wait_for_others() -> None:
    """Threads that are just ending still hold connections, and PostgreSQL drops no database that is in use."""
    deadline = time.monotonic() + 10
    while connection.vendor == "postgresql" and time.monotonic() < deadline:
        with connection.cursor() as cursor:
            cursor.execute(OTHERS)
            if cursor.fetchone() == (0,):
                return
        time.sleep(0.05)


@pytest.fixture(scope="session")
def django_db_setup(django_test_environment: None, django_db_blocker: Any) -> Iterator[None]:
    """Every database, whatever the tests at hand are marked with: worker threads need no mark."""
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False)
        # Which Django asks SQLite once in a process; tests that count queries are not to count that.
        assert connection.features.supports_json_field
        assert has_history()  # likewise
    yield
    shared_pool().close()
    checks_pool().close()
    free_pool().close()
    async_threads().close()
    log_pool().close()
    task_pool().close()
    with django_db_blocker.unblock():
        wait_for_others()
        teardown_databases(made, verbosity=0)
    # Connections of threads that are gone leave what SQLite keeps beside its file.
    if name := settings.DATABASES["default"].get("TEST", {}).get("NAME"):
        for beside in ("-wal", "-shm"):
            Path(f"{name}{beside}").unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def _nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Nothing that calls take is held after them. It is the first fixture, so that all others are gone by then."""
    before = leftovers.Before()
    yield
    left = before.left()
    assert not left or request.node.get_closest_marker("leaves"), f"left by the test: {'; '.join(left)}"


@pytest.fixture(autouse=True)
def _unsaid(_nothing_left: None) -> None:
    """What is logged seldom was not yet logged."""
    rate_limited_log.reset()
    policy_cache._say_again = 0.0


@pytest.fixture(autouse=True)
def _undecided(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is decided about tools, and nobody looks, in tests without the fixture ``policies``."""
    if "policies" not in request.fixturenames:
        monkeypatch.setattr(policy_cache, "reload", None)
        policy_cache.expire()
    yield
    for each in registry.every_server():
        each.policies = NONE


@pytest.fixture
def policies(monkeypatch: pytest.MonkeyPatch, open_database: None) -> None:
    """What was decided about tools counts, and is looked at before each call."""
    monkeypatch.setattr(policy_cache, "reload", lambda: tool_policies.reload_policies() and 0.0)
    monkeypatch.setattr(policy_cache, "is_read", False)
    policy_cache.expire()


@pytest.fixture
def make_server() -> Iterator[Callable[..., MCPServer]]:
    """Makes servers that are gone after the test. Everybody may call them unless said otherwise."""
    before = registry.snapshots()

    def make(name: str = "test", **options: object) -> MCPServer:
        options.setdefault("authentication", [AllowAny()])
        return MCPServer(name, **options)

    yield make
    registry.restore_all(before)


@pytest.fixture
def server(make_server: Callable[..., MCPServer]) -> MCPServer:
    """An endpoint with nothing on it."""
    return make_server()


@pytest.fixture
def edge(request: pytest.FixtureRequest) -> str:
    """A way in: the ASGI application, or the Django view under WSGI or under ASGI; ``tests/lanes.py`` says which."""
    return request.param


@pytest.fixture
def version(request: pytest.FixtureRequest) -> str:
    """The newest version of an era; ``tests/lanes.py`` says which."""
    return request.param


@pytest.fixture
def client(server: MCPServer, version: str, edge: str, open_database: None) -> Client:
    """A client of each era at each edge."""
    return Client(server, version, edge)


@pytest.fixture
def modern(server: MCPServer, edge: str, open_database: None) -> Client:
    return Client(server, MODERN, edge)


@pytest.fixture
def legacy(server: MCPServer, edge: str, open_database: None) -> Client:
    return Client(server, LEGACY, edge)


LEFT = (
    PendingRequest,
    Call,
    Session,
    Event,
    Step,
    Approval,
    AutoApprovalRule,
    Task,
    ToolPolicy,
    ClientPolicy,
    RequestLog,
)
"""What endpoints keep, in the order in which it can be deleted."""


@pytest.fixture
def open_database(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Lets worker threads reach the test database; for tests that leave nothing in it but what the endpoint keeps."""
    with django_db_blocker.unblock():
        Event.objects.all().delete()  # of users whom other tests made: what was told of their rights
        before = people_and_groups()
        yield
        end_tasks()
        end_jobs()
        rows = leftovers.rows()
        for model in LEFT:
            if model.objects.exists():  # a deletion looks for what points to the rows, for nothing most times
                model.objects.all().delete()
        is_flushed = {"db", "transactional_db"} & {*request.fixturenames} or request.node.get_closest_marker(
            "django_db"
        )
        left = set() if is_flushed else people_and_groups() - before
        for each in left:
            each.delete()
        assert not left, f"left for the tests after this one: {left}"
        assert not rows or request.node.get_closest_marker("leaves"), f"left by the test: {'; '.join(rows)}"


def people_and_groups() -> set[User | Group]:
    """Return what tests make most that is the site's own."""
    return {*User.objects.all(), *Group.objects.all()}


def end_tasks() -> None:
    """Cancel what still runs in this process, and wait for it: a thread that loses the database in the middle of a
    transaction keeps its locks.
    """
    Task.objects.filter(status__in=UNFINISHED).update(status=Task.Status.CANCELLED)
    deadline = time.monotonic() + 20
    while heartbeat._running or heartbeat._queued:
        assert time.monotonic() < deadline, f"a task does not end: {[*heartbeat._running, *heartbeat._queued]}"
        time.sleep(0.02)


def end_jobs() -> None:
    """Wait, not for ever, for what worker threads still do: a stream that has just ended may have begun to read.

    A thread that loses the database in the middle of a transaction keeps its locks.
    """
    deadline = time.monotonic() + 5
    for pool in (shared_pool(), checks_pool(), free_pool()):
        counter = pool._submit.__self__  # type: ignore[attr-defined]
        while int(repr(counter)[len("count(") : -1]) - 1 > pool._finished and time.monotonic() < deadline:
            time.sleep(0.002)


@pytest.fixture(autouse=True)
def _unwatched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests have no database for the log of calls: without the fixture ``call_log`` nothing is written."""
    if "call_log" not in request.fixturenames:
        monkeypatch.setattr(dispatch, "observer", None)


@pytest.fixture
def call_log(open_database: None) -> Iterator[Callable[[], list[RequestLog]]]:
    """The log of calls is on; gives what is in it, the oldest first."""
    RequestLog.objects.all().delete()
    free_pool().close()
    async_threads().close()
    shared_pool().close()
    checks_pool().close()  # connections of threads that began in a test without it count no queries
    recorder.count_queries()
    writer.is_failing = False  # as the last call of another test may have left it
    yield lambda: list(RequestLog.objects.order_by("pk"))
    RequestLog.objects.all().delete()
