"""What is less than it has to be makes the authorization check fail, whatever the tools themselves think of it."""

from typing import Any

import pytest

from tests.auth_check import lab, official
from tests.auth_check.browser import Visit
from tests.auth_check.verdict import why_not_seen


def lab_report(**statuses: str) -> dict[str, Any]:
    """A report of mcp-authlab; *statuses* names those of its checks that did not pass, like ``TLS_01="warn"``."""
    names = ["TLS-01", "SCOPE-01", *(f"TOK-{number}" for number in range(31))]
    results = [
        {
            "id": name,
            "title": "a check",
            "status": statuses.get(name.replace("-", "_"), "pass"),
            "message": "403 for 'cancel_booking' asks for scope='travel:write'",
        }
        for name in names
    ]
    warnings = [each["id"] for each in results if each["status"] == "warn"]
    level = "Conformant with warnings" if warnings else "Conformant"
    return {"results": results, "warnings": warnings, "score": 98 if warnings else 100, "conformance": level}


def test_a_perfect_report_passes() -> None:
    verdict = lab.judge(lab_report(), https=True)
    assert verdict.offences == []
    assert verdict.figures == "100/100, Conformant, 33 of 33 checks passed"


def test_the_warning_of_http_is_forgiven_over_http_alone() -> None:
    report = lab_report(TLS_01="warn")
    assert lab.judge(report, https=False).offences == []
    assert lab.judge(report, https=True).offences


@pytest.mark.parametrize("status", ["fail", "warn", "skip", "error"])
@pytest.mark.parametrize("https", [True, False])
def test_a_check_that_did_not_pass_or_did_not_run_is_named(status: str, https: bool) -> None:
    report = lab_report(TOK_3=status, **({} if https else {"TLS_01": "warn"}))
    assert any(each.startswith(f"TOK-3 {status}") for each in lab.judge(report, https=https).offences)


def test_fewer_checks_than_there_were_do_not_pass() -> None:
    report = lab_report()
    del report["results"][-1]
    assert lab.judge(report, https=True).offences == ["it made 32 checks; it had 33"]


def test_a_step_up_that_was_not_needed_shows_nothing() -> None:
    report = lab_report()
    report["results"][1]["message"] = "calling 'search_bookings' succeeded (200); the token already had enough scope"
    (offence,) = lab.judge(report, https=True).offences
    assert "403" in offence


def suite_results(status: str = "SUCCESS") -> dict[str, list[dict[str, str]]]:
    """Checks of the suite's command ``authorization``, the last of which has *status*."""
    metadata, grant = sorted(official.SCENARIOS, reverse=True)
    good = {"id": "a-check", "status": "SUCCESS", "description": "A check"}
    return {metadata: [good, good], grant: [{**good, "status": status}]}


def test_the_suites_three_checks_are_enough() -> None:
    assert official.judge(suite_results(), 0, "").offences == []


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED"])
def test_a_check_of_the_suite_that_did_not_pass_is_named(status: str) -> None:
    assert any(status in each for each in official.judge(suite_results(status), 0, "").offences)


def test_a_scenario_that_left_nothing_has_failed() -> None:
    results = suite_results()
    del results["authorization-code-grant"]
    assert "the scenario authorization-code-grant was not run" in official.judge(results, 0, "").offences


def test_the_suites_own_exit_status_counts() -> None:
    (offence,) = official.judge(suite_results(), 1, "it broke").offences
    assert "it broke" in offence


def test_people_have_to_have_seen_the_real_pages() -> None:
    good = Visit(signed_in=True, consent="Allow Example at https://travel.example.com/mcp?")
    assert why_not_seen([good], "Example") == []
    assert why_not_seen([], "Example")
    assert why_not_seen([good], "Another")
    assert why_not_seen([Visit(signed_in=False, consent="Example")], "Example")
    assert why_not_seen([Visit(signed_in=True, consent="Example", complaints=["blocked"])], "Example")
