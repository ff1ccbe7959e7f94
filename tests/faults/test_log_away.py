"""Calls are recorded, and the database for it goes away."""

import json
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.conformance.databases import postgresql
from tests.faults.conftest import Workers, service, until, workers
from tests.faults.gate import Gate
from tests.faults.wire import Modern, Reply, text

pytestmark = pytest.mark.needs("DATABASE_URL")


@pytest.fixture(scope="module")
def gate() -> Iterator[Gate]:
    with Gate(*service("DATABASE_URL")) as made:
        yield made


@pytest.fixture(scope="module")
def there() -> Iterator[str]:
    """The database's URL, past the gate."""
    with postgresql() as database:
        yield database["DATABASE_URL"]


@pytest.fixture
def worker(gate: Gate, there: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    parts = urlsplit(there)
    through = parts._replace(netloc=f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{gate.port}")
    with workers(1, {"DATABASE_URL": through.geturl()}, tmp_path_factory.mktemp("log-away")) as one:
        yield one


def test_a_call_under_way_is_answered_when_it_is_recorded_and_new_ones_are_not_made(
    worker: Workers, gate: Gate, there: str, label: str
) -> None:
    modern = Modern(worker[0])
    assert text(modern.call("plain_async", word="before")) == "before"
    gate.shut()
    under_way = modern.start("count", label=f"{label}-made", to=1)
    worker.saw(f"counted {label}-made")
    until(lambda: "The request log cannot be written" in worker.log(0), "the failure is in the log")

    started = time.monotonic()
    refused = modern.call("count", label=f"{label}-refused", to=1)
    assert time.monotonic() - started < 2
    assert (
        refused["error"]["message"] == "Calls cannot be recorded at the moment, so this call was not run. Retry later."
    )

    gate.open()
    assert text(Reply(under_way).last()) == "counted to 1"
    assert f"counted {label}-refused" not in worker.journal()
    assert text(modern.call("count", label=f"{label}-after", to=1)) == "counted to 1"
    with psycopg.connect(there) as connection:
        rows = connection.execute(
            "SELECT arguments FROM django_mcp_requestlog WHERE name = 'count' ORDER BY id"
        ).fetchall()
    assert [json.loads(arguments)["label"] for (arguments,) in rows] == [f"{label}-made", f"{label}-after"]
