"""Which tests ``make test`` runs, which it leaves to ``make test-all``, and at which ways in each test runs.

A way in is an edge (the ASGI application, the Django view under WSGI or under ASGI) with a protocol version. A rule is
tested at the first of them; what must be seen at each is in ``tests/behaviour/matrix.py``, or is marked
``every_way_in``.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.clients import EDGES, LEGACY, MODERN

ROOT = Path(__file__).resolve().parent.parent

LEFT_OUT = {
    "tests/auth_check": "outside tools against the login pages",
    "tests/benchmarks": "servers under load",
    "tests/management": "commands in processes of their own",
    "tests/conformance": "the official conformance suite",
    "tests/deploy": "the Docker image's files, nginx",
    "tests/docs": "the documentation, typed in",
    "tests/doctor": "mcp_doctor against broken sites",
    "tests/faults": "killed processes, lost databases",
    "tests/packaging": "the built distributions",
    "tests/real_browser": "Chromium",
    "tests/real_clients": "Python and JavaScript clients",
    "tests/real_logins": "clients that sign in",
    "tests/tasks/workers": "workers of Django Tasks, Celery, RQ",
    "tests/approvals/processes": "approvals in several processes",
}
"""Folders whose tests start processes, and what those are."""

NIGHTLY = {
    "tests/benchmarks": "whether the benchmarks run",
    "tests/docs/test_third_party_apps.py": "Wagtail and other packages, installed for it",
    "tests/integrations/admin_site/test_third_party.py": "packages that replace parts of the admin, installed for it",
    "tests/real_clients/test_fastmcp.py": "FastMCP's client, installed for it",
}
"""What .ci/run leaves to the nightly workflow, so that a change waits twenty minutes at most; see decision 31."""


def at_night(value: Any, *marks: pytest.MarkDecorator) -> Any:
    """Return a parameter's value whose tests .ci/run leaves to the nightly workflow likewise."""
    return pytest.param(value, marks=[pytest.mark.nightly, *marks])


LONGEST = (
    "tests/docs/test_blocks.py",
    "tests/sites/test_sites.py",
    "tests/doctor/test_broken.py",
    "tests/transports/test_stdio.py",
    "tests/approvals/processes/test_queue.py",
    "tests/real_browser/test_approvals.py",
    "tests/real_browser/test_journeys.py",
    "tests/real_logins/test_javascript_clients.py",
    "tests/docs/test_site.py",
    "tests/docs/test_tutorial.py",
    "tests/real_logins/test_python_client.py",
    "tests/tasks/workers/test_database_queue.py",
    "tests/approvals/notices/test_restarts.py",
    "tests/docs/test_cookbook.py",
    "tests/management/test_make_demo.py",
    "tests/real_clients/test_javascript_conversations.py",
    "tests/real_browser/apps/test_demo.py",
    "tests/tasks/workers/test_brokers.py",
    "tests/faults/test_graceful_stop.py",
    "tests/docs/test_conversations.py",
    "tests/approvals/policies/test_processes.py",
    "tests/integrations/test_late_site.py",
)
"""Files whose tests take longest, which ``--rest`` begins with: at the end no process should be alone with one."""

SLOW = 2.0
"""Seconds from which on a test is listed at the end of a run."""

WAYS_IN = {"edge": EDGES, "version": (MODERN, LEGACY)}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lanes")
    group.addoption("--fast", action="store_true", help="leave out what starts processes or needs services")
    group.addoption("--rest", action="store_true", help="run what --fast leaves out, but for what only runs each night")
    group.addoption(
        "--ways-in",
        choices=["first", "others", "all"],
        default="first",
        help="run tests that could run at each edge and version at the first (default), at the others, or at all",
    )


def pytest_configure(config: pytest.Config) -> None:
    hypothesis.settings.register_profile("fast", max_examples=25, deadline=None)
    if config.getoption("fast"):
        hypothesis.settings.load_profile("fast")


# Folders, and single tests with the mark ``slow``.


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if config.getoption("fast") and is_left_out(collection_path) else None


def is_left_out(path: Path) -> bool:
    """Return True for the folders whose tests start processes, and all that is in them."""
    return is_in(path, LEFT_OUT)


def is_in(path: Path, places: Iterable[str]) -> bool:
    """Return True for what is one of *places*, files or folders, or in one."""
    return any(path.is_relative_to(ROOT / each) for each in places)


@pytest.hookimpl(trylast=True)  # after the order is random
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    dropped = [item for item in items if not is_wanted(item, config)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]
    if config.getoption("rest"):
        places = {ROOT / name: place for place, name in enumerate(LONGEST)}
        assert all(path.exists() for path in places), "LONGEST names a file that is gone"
        items.sort(key=lambda item: places.get(item.path, len(places)))
    config.stash[MARKED] = sum(item.get_closest_marker("slow") is not None for item in dropped)


MARKED = pytest.StashKey[int]()


def is_wanted(item: pytest.Item, config: pytest.Config) -> bool:
    is_slow = item.get_closest_marker("slow") is not None
    if config.getoption("fast") and is_slow:
        return False
    if config.getoption("rest") and not (is_slow or is_left_out(item.path)):
        return False
    if config.getoption("rest") and (is_in(item.path, NIGHTLY) or item.get_closest_marker("nightly")):
        return False
    return config.getoption("ways_in") != "others" or item.get_closest_marker("other_way_in") is not None


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for variable in mark.args:
            if not os.environ.get(variable):
                pytest.skip(f"{variable} is not set")


# Ways in.


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    chosen = metafunc.config.getoption("ways_in")
    everywhere = metafunc.definition.get_closest_marker("every_way_in") is not None
    for name, values in WAYS_IN.items():
        if not is_open(metafunc, name):
            continue
        if everywhere:
            metafunc.parametrize(name, values, indirect=True)
        elif chosen == "first":
            metafunc.parametrize(name, values[:1], indirect=True)
        else:
            others = [pytest.param(value, marks=pytest.mark.other_way_in) for value in values[1:]]
            metafunc.parametrize(name, [values[0], *others], indirect=True)


def is_open(metafunc: pytest.Metafunc, name: str) -> bool:
    """Return True if the test takes the fixture and neither a mark nor another fixture says which values."""
    if name not in metafunc.fixturenames:
        return False
    for mark in metafunc.definition.iter_markers("parametrize"):
        named = mark.args[0] if mark.args else mark.kwargs["argnames"]
        if name in (named.replace(",", " ").split() if isinstance(named, str) else named):
            return False
    return metafunc._arg2fixturedefs[name][-1].func.__module__ == "tests.conftest"


# What is said at the end.


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: Any) -> None:
    node.config.stash[MARKED] = max(
        node.config.stash.get(MARKED, 0), getattr(node, "workeroutput", {}).get("marked", 0)
    )


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["marked"] = session.config.stash.get(MARKED, 0)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    slow = Counter[str]()
    for reports in terminalreporter.stats.values():
        for report in reports:
            # The seconds of a subtest are those of its test too.
            if isinstance(report, pytest.TestReport) and not isinstance(report, pytest.SubtestReport):
                slow[report.nodeid] += report.duration
    over = [(nodeid, seconds) for nodeid, seconds in slow.most_common() if seconds >= SLOW]
    if over:
        terminalreporter.section(f"{len(over)} tests took {SLOW:g} s or longer")
        for nodeid, seconds in over:
            terminalreporter.write_line(f"{seconds:6.1f} s  {nodeid}")
    if config.getoption("fast"):
        terminalreporter.section("left out; make test-all runs it")
        for line in left_out(config.stash.get(MARKED, 0)):
            terminalreporter.write_line(line)
    if config.getoption("rest"):
        terminalreporter.section("left out; make test-all runs it, and so does the nightly workflow")
        for place, what in NIGHTLY.items():
            terminalreporter.write_line(f"{place}: {what}")
        terminalreporter.write_line("the edges and versions besides the first, but for the rows of the matrix")
        terminalreporter.write_line("values of parameters that are given by at_night: further servers and databases")


def left_out(marked: int) -> Iterator[str]:
    for folder, what in LEFT_OUT.items():
        files = len(list((ROOT / folder).rglob("test_*.py")))
        yield f"{folder}: {what} ({files} files)"
    yield f"elsewhere: {marked} tests with the mark `slow`"
    yield "PostgreSQL; the edges and protocol versions besides the first, where tests are not marked every_way_in"
