"""The catalogue of findings: all of it is used, and the page says what it says."""

import re
from string import Formatter

import pytest

from django_mcp.doctor.diagnose import CHECKS
from django_mcp.doctor.messages import FINDINGS, Severity
from tests.design.sources import modules
from tests.doctor.page import PAGE, written

SOURCE = "".join(each.text for each in modules() if each.layer == "doctor" and "/catalogue/" not in each.label)


def test_the_page_lists_each_finding_as_the_command_says_it() -> None:
    assert PAGE.read_text() == written(PAGE.read_text()), "run: python -m tests.doctor.page"


def test_the_page_names_each_check() -> None:
    text = PAGE.read_text()
    assert [check.title for check in CHECKS if f"| {check.title} |" not in text] == []


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_is_one_that_some_check_makes(name: str) -> None:
    assert f'"{name}"' in SOURCE


def test_a_check_makes_no_finding_that_is_not_listed() -> None:
    made = set(re.findall(r'(?:add_finding|CheckFailed)\(\s*"([a-z0-9.-]+)"', SOURCE))
    assert made <= FINDINGS.keys()


@pytest.mark.parametrize("name", FINDINGS)
def test_a_finding_says_how_bad_it_is_and_what_to_do(name: str) -> None:
    severity, message, remedy = FINDINGS[name]
    assert Severity[severity.upper()] is not Severity.OK
    assert message
    assert remedy
    for text in (message, remedy):
        assert all(field is None or field.isidentifier() for _, field, _, _ in Formatter().parse(text))


def test_a_check_needs_only_what_is_looked_at_before_it() -> None:
    seen: set[str] = set()
    for check in CHECKS:
        assert seen >= set(check.needs)
        seen.add(check.name)
