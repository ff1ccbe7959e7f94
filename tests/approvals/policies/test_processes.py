"""Somebody decides in the admin of one process, and it counts in another."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.process import run_to_end
from tests.approvals.policies.browser import Browser
from tests.clients import LEGACY
from tests.conformance.databases import postgresql, sqlite
from tests.faults import wire
from tests.faults.conftest import Workers, service, until, workers
from tests.faults.wire import Legacy, Modern, text

WITHIN = 1.0
"""Seconds in which a decision counts everywhere: ``POLICY_CACHE_TTL``, and as much again for busy machines."""
LISTEN = [Modern, Legacy]


@pytest.fixture(autouse=True)
def _seen_by_nobody() -> None:
    """There is a database for each process here, and none in this one."""


@pytest.fixture(autouse=True)
def closed_connections() -> Iterator[None]:
    yield
    wire.close_all()


pytestmark = pytest.mark.slow
BOTH = pytest.param("postgresql with redis", marks=pytest.mark.needs("DATABASE_URL", "REDIS_URL"))


@pytest.fixture(scope="module", params=["sqlite", BOTH])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """Two processes on one database; those with PostgreSQL hear of each other through Redis."""
    folder, environment = tmp_path_factory.mktemp("policies"), {}
    if request.param != "sqlite":
        host, port = service("REDIS_URL")
        environment = {"CONFORMANCE_REDIS_URL": f"redis://{host}:{port}/0"}
    with sqlite(folder) if request.param == "sqlite" else postgresql() as database:
        environment |= {**database, "DJANGO_SETTINGS_MODULE": "tests.approvals.policies.site.settings"}
        with workers(2, environment, folder) as made:
            login = {
                "DJANGO_SUPERUSER_USERNAME": "owner",
                "DJANGO_SUPERUSER_PASSWORD": "owner",
                "DJANGO_SUPERUSER_EMAIL": "owner@example.com",
            }
            run_to_end("manage.py", "createsuperuser", "--noinput", environment={**made.environment, **login})
            yield made


@pytest.fixture
def admin(pair: Workers) -> Iterator[Browser]:
    """The owner, in the admin of the first process."""
    browser = Browser(pair[0])
    browser.sign_in("owner", "owner")
    yield browser
    browser.decide("default default.plain_sync")


def is_refused(caller: Any) -> bool:
    answer = caller.call("plain_sync", word="fine")
    return "Unknown tool" in str(answer.get("error", ""))


def listed(caller: Modern) -> list[str]:
    answer = caller.request("tools/list", {}).message()
    return [each["name"] for each in answer["result"]["tools"]]


def test_a_decision_in_one_process_counts_in_another_within_a_second(
    pair: Workers, admin: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there = Modern(pair[0]), Modern(pair[1])
    assert text(there.call("plain_sync", word="fine")) == "fine"
    took = []
    for _ in range(3):
        admin.decide("block default.plain_sync")
        began = time.monotonic()
        assert is_refused(here), "at once where it was decided"
        until(lambda: is_refused(there), "it is refused")
        took.append(time.monotonic() - began)
        assert "plain_sync" not in listed(there)
        admin.decide("default default.plain_sync")
        until(lambda: not is_refused(there), "it is allowed")
    with capsys.disabled():
        print(f"\na decision counted in another process after {', '.join(f'{each:.2f} s' for each in took)}")  # noqa: T201
    assert max(took) < WITHIN


@pytest.mark.parametrize("revision", ["modern", LEGACY])
def test_whoever_listens_anywhere_hears_of_it_and_is_shown_the_truth_wherever_they_look(
    pair: Workers, admin: Browser, revision: str
) -> None:
    there = Modern(pair[1])
    assert "plain_sync" in listed(there)
    for listening, looking in ((pair[0], pair[1]), (pair[1], pair[0])):
        stream = Modern(listening).listen() if revision == "modern" else Legacy(listening).open().listen()
        if revision != "modern":
            stream.event()
        for decision in ("block", "default"):
            assert ("plain_sync" in listed(there.at(looking))) is (decision == "block")
            admin.decide(f"{decision} default.plain_sync")
            assert stream.message()["method"] == "notifications/tools/list_changed"
            assert ("plain_sync" in listed(there.at(looking))) is (decision == "default")
        stream.close()
