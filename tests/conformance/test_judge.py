"""The judge must not flatter: whatever the suite could not check has failed."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.conformance import run
from tests.conformance.judge import judge
from tests.conformance.legs import LEGS
from tests.conformance.listing import FIXTURES, complaints_of
from tests.conformance.suite import REQUIREMENTS, Suite

STAMP = "2026-07-28T12-00-00-000Z"
SCORED = {"ping", "tools-list"}

Record = Callable[..., None]


def check(status: str, message: str | None = None) -> dict[str, str | None]:
    return {"id": "the-check", "name": "Check", "description": "", "status": status, "errorMessage": message}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Where the suite wrote."""
    return tmp_path / "results"


@pytest.fixture
def record(results: Path) -> Record:
    """Writes what the suite writes for a scenario; nothing but the folder where no status is given."""

    def write(scenario: str, *statuses: str, message: str | None = None, stamp: str = STAMP) -> None:
        folder = results / f"server-{scenario}-{stamp}"
        folder.mkdir(parents=True)
        if statuses:
            (folder / "checks.json").write_text(json.dumps([check(status, message) for status in statuses]))

    return write


def test_scenarios_without_failures_and_warnings_pass(results: Path, record: Record) -> None:
    record("ping", "SUCCESS", "INFO")
    record("tools-list", "SUCCESS", "SKIPPED")

    verdict = judge(results, SCORED, 2)

    assert verdict.offences == []
    assert str(verdict) == "2/2 scored, 0 unscored passed, 0 warnings"


def test_a_failure_is_a_failure_and_its_words_are_told(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")
    record("tools-list", "SUCCESS", "FAILURE", message="no\ntools")

    verdict = judge(results, SCORED, 1)

    assert verdict.offences == ["tools-list: FAILURE the-check: no tools"]
    assert verdict.scored_passed == 1


def test_a_warning_is_a_failure(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")
    record("tools-list", "SUCCESS", "WARNING", message="better not")

    verdict = judge(results, SCORED, 1)

    assert verdict.offences == ["tools-list: WARNING the-check: better not"]
    assert verdict.warnings == 1


def test_a_missing_checks_json_is_a_failure(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")
    record("tools-list")

    assert judge(results, SCORED, 1).offences == ["tools-list: it crashed: there is no checks.json that can be read"]


def test_half_a_checks_json_is_a_failure(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")
    record("tools-list", "SUCCESS")
    file = next(results.glob("server-tools-list-*/checks.json"))
    file.write_text(file.read_text()[:20])

    assert judge(results, SCORED, 1).offences == ["tools-list: it crashed: there is no checks.json that can be read"]


def test_a_scenario_that_crashed_once_has_failed_whatever_came_of_it_later(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")
    record("tools-list")
    record("tools-list", "SUCCESS", stamp="2026-07-28T12-00-01-000Z")

    assert len(judge(results, SCORED, 1).offences) == 1


def test_a_scored_scenario_that_was_not_run_is_a_failure(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")

    assert judge(results, SCORED, 1).offences == ["tools-list: it was not run"]


def test_a_scored_scenario_that_only_skipped_is_a_failure(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")
    record("tools-list", "SKIPPED", "INFO")

    assert judge(results, SCORED, 1).offences == ["tools-list: it checked nothing"]


def test_another_that_only_skipped_did_not_pass_and_is_told(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")
    record("server-sse-polling", "INFO")

    verdict = judge(results, {"ping"}, 1)

    assert verdict.offences == []
    assert str(verdict) == "1/1 scored, 0 unscored passed, 1 unscored checked nothing, 0 warnings"


def test_too_few_scenarios_are_a_failure_even_if_the_suite_wants_no_more(results: Path, record: Record) -> None:
    record("ping", "SUCCESS")

    assert judge(results, {"ping"}, 2).offences == ["1 scored scenarios passed; 2 is the least"]


def test_no_results_at_all_are_a_failure(results: Path) -> None:
    assert len(judge(results, SCORED, 2).offences) == 3


@pytest.mark.parametrize("status", ["FAILURE", "WARNING"])
def test_what_an_unscored_scenario_fails_is_not_forgiven(results: Path, record: Record, status: str) -> None:
    record("ping", "SUCCESS")
    record("http-header-validation", "SUCCESS", status)

    assert len(judge(results, {"ping"}, 1).offences) == 1


@pytest.mark.parametrize("method", FIXTURES)
def test_a_fixture_missing_from_a_list_is_noticed(method: str) -> None:
    fixtures = FIXTURES[method]
    entries = [{fixtures.identifier: name} for name in fixtures.names]
    assert complaints_of(method, entries) == []

    assert complaints_of(method, entries[:-1])[0] == f"{fixtures.names[-1]} is missing"
    assert complaints_of(method, [*entries, entries[-1]]) == [f"{fixtures.names[-1]} is there twice"]


def test_another_tool_before_the_one_that_can_be_called_is_noticed() -> None:
    names = FIXTURES["tools/list"].names

    assert complaints_of("tools/list", [{"name": name} for name in reversed(names)]) == [
        "test_simple_text is not the first entry"
    ]


class RecordedSuite:
    """Stands in for the suite: every scored scenario passed."""

    def __init__(self, record: Record, status: int = 0, warns: bool = False) -> None:
        self.record = record
        self.status = status
        self.warns = warns

    def scored(self, requirements: object) -> set[str]:
        return {f"scenario-{number}" for number in range(30)}

    def run(self, requirements: object, url: str, results: Path) -> tuple[int, str]:
        for name in sorted(self.scored(requirements)):
            self.record(name, "SUCCESS")
        if self.warns:
            self.record("json-schema-2020-12", "SUCCESS", "WARNING", message="not nice")
        return self.status, "what was printed"


@dataclass(frozen=True)
class OneByOne(Suite):
    """Does not run the suite, but notes what it would be told."""

    asked: list[tuple[str, ...]] = field(default_factory=list)

    def _run(self, *arguments: str) -> tuple[int, str]:
        if arguments[0] == "list":
            return (
                0,
                "Server scenarios\n  - ping [2026-07-28]\n  - sep-2640-skills-b [extension]\n  - sep-2640-skills-a\n\n",
            )
        self.asked.append(arguments[-2:])
        return int(arguments[-1].endswith("a")), f"said of {arguments[-1]}. "


def test_scenarios_of_an_extension_are_run_one_by_one_and_one_failure_is_enough(tmp_path: Path, results: Path) -> None:
    suite = OneByOne(Path("node"), tmp_path)

    assert suite.scored(REQUIREMENTS["skills"]) == {"sep-2640-skills-a", "sep-2640-skills-b"}
    status, said = suite.run(REQUIREMENTS["skills"], "http://127.0.0.1:1/mcp", results)

    assert suite.asked == [("--scenario", "sep-2640-skills-a"), ("--scenario", "sep-2640-skills-b")]
    assert (status, said) == (1, "said of sep-2640-skills-a. said of sep-2640-skills-b. ")


def run_set(suite: RecordedSuite, results: Path) -> bool:
    assert REQUIREMENTS["2025-11-25"].minimum == 30
    return run.run_set("daphne", LEGS["daphne"], "2025-11-25", suite, "http://127.0.0.1:1/mcp", results)


def test_a_good_set_is_one_line(results: Path, record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_set(RecordedSuite(record), results)

    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("daphne (SQLite) 2025-11-25: 30/30 scored, 0 unscored passed, 0 warnings, ")


def test_under_the_line_stands_what_is_wrong(results: Path, record: Record, capsys: pytest.CaptureFixture[str]) -> None:
    assert not run_set(RecordedSuite(record, warns=True), results)

    assert capsys.readouterr().out.splitlines()[1:] == ["    json-schema-2020-12: WARNING the-check: not nice"]


def test_a_suite_that_ends_badly_has_failed_whatever_it_wrote(
    results: Path, record: Record, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not run_set(RecordedSuite(record, status=1), results)

    assert "the suite itself ended with 1: ...what was printed" in capsys.readouterr().out


def test_a_leg_whose_service_is_not_there_is_named_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("REDIS_URL", raising=False)
    name = "daphne-two-processes-redis"

    assert run.run_leg(name, LEGS[name], None, None, tmp_path / name)

    assert capsys.readouterr().out == f"*** {name}: NOT RUN, REDIS_URL is not set ***\n"


def test_a_traceback_in_a_servers_log_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.log").write_text("Listening on 127.0.0.1\n")
    assert run.nothing_broke("daphne", tmp_path)

    (tmp_path / "two.log").write_text("Listening\nTraceback (most recent call last):\nZeroDivisionError: by zero\n")
    assert not run.nothing_broke("daphne", tmp_path)
    assert "ZeroDivisionError: by zero" in capsys.readouterr().out
