"""The benchmark of several workers notices what is lost, and the configuration it uses is the one that is shown."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.databases import Databases
from benchmarks.process import ProcessFailedError
from benchmarks.scale import faults, nginx, throughput
from benchmarks.scale.__main__ import main
from benchmarks.targets import POSTGRESQL

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "scaling.md"
HAS_NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:" + os.environ.get("PATH", "")) is not None


def plain_blocks() -> list[str]:
    """What the page shows that is no Python."""
    return re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def shown() -> str:
    """The configuration on the page."""
    return next(code for code in plain_blocks() if "upstream" in code)


def test_the_page_shows_the_configuration_that_is_measured() -> None:
    workers = re.findall(r"server (\S+:\d+) ", shown())
    assert shown() == nginx.pool("mcp", workers) + "\n" + nginx.site("mcp", "80")
    of_benchmark = nginx.configuration([(8001, [8002])], Path("/x")).replace(nginx.SAY_WHO, "")
    own = shown().replace("mcp", "mcp_8001").replace("listen 80;", "listen 127.0.0.1:8001;")
    for line in own.splitlines():
        assert line in of_benchmark or line.strip().startswith("server 10."), line


@pytest.mark.skipif(not HAS_NGINX, reason="nginx is not installed")
def test_nginx_takes_the_configuration_on_the_page(tmp_path: Path) -> None:
    file = tmp_path / "nginx.conf"
    file.write_text(
        nginx.AROUND.format(user="", directory=tmp_path, sites=shown().replace("listen 80;", "listen 8001;"))
    )
    done = subprocess.run(  # noqa: PLW1510 - the test looks at how it ended
        [nginx.program(), "-t", "-p", str(tmp_path), "-c", str(file)], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.needs("DATABASE_URL")
def test_a_table_is_cut_into_parts_as_the_page_says(tmp_path: Path) -> None:
    import psycopg

    statements = next(code for code in plain_blocks() if "PARTITION" in code)
    call = "INSERT INTO django_mcp_requestlog SELECT (json_populate_record(NULL::django_mcp_requestlog, %s)).*"
    keys = "SELECT tableoid::regclass::text, id FROM django_mcp_requestlog ORDER BY id"
    row = dict.fromkeys(
        ["server", "method", "name", "outcome", "error", "principal_kind", "principal_id", "caller", "credential"], ""
    )
    row |= dict.fromkeys(
        [
            *(
                "client_id",
                "client_name",
                "client_version",
                "protocol",
                "result_kind",
                "approval",
                "task_id",
                "trace_id",
            ),
            *("exception_type", "exception_place", "history_id", "log_entries"),
        ],
        "",
    )
    databases = Databases()
    try:
        with psycopg.connect(databases.prepared(POSTGRESQL, tmp_path)) as connection:
            for pk in (1, 41):
                connection.execute(call, [json.dumps({**row, "id": pk, "started_at": "2026-01-01", "duration": 1.0})])
            connection.execute(statements)
            (following,) = connection.execute(
                "SELECT nextval(pg_get_serial_sequence('django_mcp_requestlog', 'id'))"
            ).fetchone()
            assert following == 42
            late = {**row, "id": 100_000_000, "started_at": "2027-01-01", "duration": 1.0}
            connection.execute(call, [json.dumps(late)])
            found = connection.execute(keys).fetchall()
    finally:
        databases.drop()
    first, second = "django_mcp_requestlog_1", "django_mcp_requestlog_2"
    assert found == [(first, 1), (first, 41), (second, 100_000_000)]


def test_a_post_that_was_sent_to_a_worker_is_never_sent_to_another() -> None:
    """It would be carried out twice."""
    assert "non_idempotent" not in shown()
    assert re.search(r"proxy_next_upstream error timeout;", shown())
    assert "ip_hash" not in shown(), "nothing has to be sticky"


def test_without_nginx_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(ProcessFailedError, match="apt-get install"):
        nginx.program()
    assert main([]) == 1
    assert "apt-get install nginx" in capsys.readouterr().out


class TestLosses:
    answered = faults.Call("a", "", "w")
    failed = faults.Call("b", "HTTP 502", "")

    def compare(self, calls: list[faults.Call], notes: dict[str, int], logged: dict[str, int]) -> faults.Outcome:
        return faults.compared("killed", calls, Counter(notes), Counter(logged))

    def test_an_answer_with_its_effect_and_its_row_is_no_loss(self) -> None:
        found = self.compare([self.answered, self.failed], {"a": 1}, {"a": 1})
        assert (found.answered, found.failures, found.done_all_the_same) == (1, {"HTTP 502": 1}, 0)
        assert found.problems == []

    def test_what_is_missing_or_twice_is_a_problem(self, subtests: pytest.Subtests) -> None:
        for notes, logged, problem in [
            ({}, {"a": 1}, "has no effect"),
            ({"a": 1}, {}, "has no row"),
            ({"a": 2}, {"a": 1}, "carried out twice"),
            ({"a": 1}, {"a": 2}, "carried out twice"),
        ]:
            with subtests.test(notes=notes, logged=logged, problem=problem):
                (words,) = self.compare([self.answered], notes, logged).problems
                assert problem in words

    def test_work_whose_answer_was_lost_is_counted(self) -> None:
        assert self.compare([self.failed], {"b": 1}, {}).done_all_the_same == 1


def test_ratios_are_taken_within_a_round() -> None:
    def visit(rate: float, cpu: float) -> throughput.Visit:
        return throughput.Visit(rate, 1, 1, cpu, 0, 0, 1)

    rounds = [
        {("x", 1): visit(100, 0.01), ("x", 2): visit(180, 0.01)},
        {("x", 1): visit(10, 0.1), ("x", 2): visit(19, 0.2)},  # the machine was slow, the ratio is not
        {("x", 1): visit(100, 0.01), ("x", 2): visit(200, 0.005)},
    ]
    row = throughput._row(rounds, "x", 2)
    assert (row.ratio, row.least, row.most, row.cpu_ratio) == (1.9, 1.8, 2.0, 1.0)
    assert "1.90 (1.80 - 2.00)" in throughput.markdown([row])


@pytest.mark.skipif(not HAS_NGINX, reason="nginx is not installed")
@pytest.mark.needs("DATABASE_URL")
def test_a_worker_goes_away_and_nothing_is_lost() -> None:
    words = ["--quick", "--rounds", "1", "--seconds", "0.2", "--workers", "1", "2", "--connections", "4"]
    done = subprocess.run(  # noqa: PLW1510 - the test looks at how it ended
        [sys.executable, "-m", "benchmarks.scale", *words], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "one worker killed" in done.stdout
    assert "2 of 2 sessions went on at another worker; nothing lost" in done.stdout
    assert "each came once" in done.stdout
    assert "told what had happened meanwhile" in done.stdout
