"""Every query of a request has an index, and the benchmark that says so would say if one had none."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection

from benchmarks.growth import plans, report, watching
from tests.settings import ON_POSTGRESQL

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.postgresql
def test_every_query_of_a_request_has_an_index() -> None:
    on = "postgresql" if ON_POSTGRESQL else "sqlite"
    words = ["--base", "400", "--factors", "1", "--repeats", "1", "--plans-only", "--on", on]
    done = subprocess.run(  # noqa: PLW1510 - the test looks at how it ended
        [sys.executable, "-m", "benchmarks.growth", *words], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    seen = [line for line in done.stdout.splitlines() if line.startswith(("ok", "FAIL"))]
    tables = {table.removeprefix("django_mcp_") for table in report.GROWING}
    assert len(seen) > 60
    assert {table for table in tables if not any(f" {table}" in line for line in seen)} <= {
        "oauth2_provider_application",  # brought along with the token
        "oauth2_provider_refreshtoken",
        "clientpolicy",
    }


@pytest.fixture
def no_short_cut(db: None) -> None:
    if connection.vendor == "postgresql":  # which reads short tables from end to end whatever indexes they have
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL enable_seqscan = off")


@pytest.mark.postgresql
def test_a_query_without_an_index_is_noticed(no_short_cut: None) -> None:
    without = watching.Seen('SELECT "id" FROM "django_mcp_requestlog" WHERE "error" = %s', ["x"])
    assert plans.explain(without).scanned == ("django_mcp_requestlog",)
    walked = watching.Seen('SELECT "id" FROM "django_mcp_event" WHERE "data" = %s ORDER BY "id"', ["x"])
    assert plans.explain(walked).scanned == ("django_mcp_event",)
    with_one = watching.Seen('SELECT "id" FROM "django_mcp_requestlog" WHERE "trace_id" = %s', ["x"])
    assert plans.explain(with_one).scanned == ()


def test_the_plans_of_postgresql_are_read() -> None:
    scan = {"Node Type": "Seq Scan", "Relation Name": "long", "Filter": "(a = 1)"}
    walk = {"Node Type": "Index Scan", "Relation Name": "long", "Index Name": "long_pkey", "Filter": "(a = 1)"}
    search = {**walk, "Index Cond": "(id > 1)"}
    first = {key: value for key, value in walk.items() if key != "Filter"}
    for node, scanned in ((scan, ("long",)), (walk, ("long",)), (search, ()), (first, ())):
        assert plans.of_postgresql({"Node Type": "Aggregate", "Plans": [node]}).scanned == scanned
    sort = {"Node Type": "Sort", "Plans": [walk]}
    assert plans.of_postgresql({"Node Type": "Limit", "Plans": [sort]}).scanned == ("long",)
    assert plans.of_postgresql({"Node Type": "Limit", "Plans": [walk]}).scanned == (), "how far, the times tell"


def test_the_plans_of_sqlite_are_read() -> None:
    lines = ["SCAN U0", "SEARCH other USING INDEX one (a=?)", "SCAN third USING INDEX some"]
    aliases = plans.tables_of('SELECT 1 FROM "long" U0 INNER JOIN "other" ON (1) INNER JOIN "third" ON (1)')
    assert plans.of_sqlite(lines, aliases, {"some"}).scanned == ("long",)
    assert plans.of_sqlite(lines, aliases).scanned == ("long", "third")


def test_a_statement_is_flat_or_not() -> None:
    def measured(*ms: float) -> report.Statement:
        found = report.Statement("SELECT 1")
        for size, each in enumerate(ms):
            found.add(size=size, ms=each, plan="", scanned=[], callers=[], times=1)
        return found

    assert measured(1.0, 5.0, 2.0).is_flat, "noise, or the longest tables count"
    assert not measured(1.0, 1.0, 2.1).is_flat
    assert list(measured(1.0, 9.0).problems()) == ["takes 9.0 times as long"]


def test_statements_that_differ_in_the_lengths_of_lists_are_one() -> None:
    one = "SELECT a FROM b WHERE c IN (%s, %s)"
    assert watching.shape(one) == watching.shape("SELECT a FROM b WHERE c IN (%s, %s, %s)") != one
    two = "INSERT INTO b (c, d) VALUES (%s, %s), (%s, %s)"
    assert watching.shape(two) == watching.shape("INSERT INTO b (c, d) VALUES (%s, %s)")


def test_without_postgresql_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from benchmarks.growth.__main__ import databases

    monkeypatch.setitem(os.environ, "DATABASE_URL", "")
    assert len(list(databases(None, tmp_path))) == 1
    with pytest.raises(SystemExit, match="DATABASE_URL"):
        list(databases("postgresql", tmp_path))
