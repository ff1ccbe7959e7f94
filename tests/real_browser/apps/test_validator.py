"""The validator finds what is wrong with an app, and nothing at one that keeps the rules."""

import re

import pytest

from tests.real_browser.apps.host import Hosted
from tests.real_browser.apps.validator import Validator
from tests.real_clients.node import Clients

WRONG = [
    "_meta.ui.visibility.1: 'human'",
    "'colour' was unexpected",
    "'api.example.com' in csp.connectDomains is no origin",
    "missing-doctype",
    "the HTML has no title",
    "the HTML does not say its language",
    "the call fails",
    "does not initialize",
    "'appCapabilities' is a required property",
    "the unknown method ui/teleport",
    "not JSON-RPC: {'hello': 'host'}",
    "https://images.example.com/logo.png",
    "Cannot read properties of null",
    "does not answer ui/resource-teardown",
]


@pytest.fixture(scope="module")
def validator(hosted: Hosted, clients: Clients) -> Validator:
    """In a hurry, because it waits for answers that do not come."""
    return Validator(hosted, clients.libraries, within=1_000)


def test_an_app_that_keeps_the_rules_has_no_problems(hosted: Hosted, clients: Clients) -> None:
    assert Validator(hosted, clients.libraries).problems("list_people") == []


def test_each_rule_that_an_app_breaks_is_found(validator: Validator) -> None:
    found = "\n".join(validator.problems("show_broken"))
    assert [each for each in WRONG if each not in found] == [], found


def test_an_app_that_does_nothing_is_found(validator: Validator) -> None:
    found = validator.problems("show_attacks")
    missing = ("size", "ping", "theme", "teardown")
    assert [any(re.search(rf"does not .*{each}", problem) for problem in found) for each in missing] == [True] * 4, (
        found
    )


def test_a_tool_whose_app_is_absent_is_found(validator: Validator) -> None:
    deprecated, absent = validator.problems("show_absent")
    assert "deprecated key" in deprecated
    assert "ui://apps/absent cannot be read" in absent


def test_an_app_outside_of_ui_is_found(validator: Validator) -> None:
    assert validator.listed_problems() == ["page://apps/misplaced is an app, and does not begin with ui://"]
