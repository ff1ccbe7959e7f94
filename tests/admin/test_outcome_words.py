"""The words for what became of a call, which are the same on every page."""

import csv
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client as Browser
from django.utils import timezone

from django_mcp.audit.outcomes import FAILED, GROUPS
from django_mcp.models import RequestLog

pytestmark = pytest.mark.django_db

OVERVIEW, LOG = "/admin/django_mcp/overview/", "/admin/django_mcp/requestlog/"


@pytest.fixture
def browser() -> Browser:
    cache.clear()
    browser = Browser()
    browser.force_login(User.objects.create_superuser("reader-of-outcomes"))
    return browser


def made(outcome: str, **changes: Any) -> RequestLog:
    facts = {"server": "default", "method": "tools/call", "name": "search", "client_name": "desk", "duration": 12.0}
    return RequestLog.objects.create(**{"started_at": timezone.now(), **facts, "outcome": outcome, **changes})


def words(browser: Browser, address: str) -> str:
    html = browser.get(address).content.decode()
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_every_outcome_is_in_one_group() -> None:
    grouped = [outcome for group in GROUPS.values() for outcome in group.outcomes]
    assert sorted(grouped) == sorted(RequestLog.Outcome.values)


def test_overview_and_filter_of_the_log_have_the_same_words(browser: Browser) -> None:
    for outcome in RequestLog.Outcome.values:
        made(outcome)
    overview, log = words(browser, OVERVIEW), words(browser, LOG)
    for group in GROUPS.values():
        assert f" {group.label} " in overview
        assert f" {group.label} " in log
    assert f"Tool {GROUPS['error'].heading} {GROUPS['crash'].heading} {FAILED.heading} Calls" in overview
    assert " OK " not in overview + log


def test_the_choices_of_the_filter_count_what_their_words_say(browser: Browser) -> None:
    for outcome in RequestLog.Outcome.values:
        made(outcome, name=f"name-of-{outcome}")
    for group in (FAILED, *GROUPS.values()):
        shown = set(re.findall(r"name-of-(\w+)", words(browser, f"{LOG}?outcome={group.value}")))
        assert shown == set(map(str, group.outcomes)), group


def test_an_export_has_the_words_of_the_log(browser: Browser) -> None:
    made("failed")
    answer = browser.get(f"{LOG}export.csv")
    export = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    [row] = csv.DictReader(export.splitlines())
    assert row["outcome"] == "protocol error"


def test_the_number_of_clients_is_that_of_the_table_below(browser: Browser) -> None:
    for name, version in (("desk", "1"), ("desk", "2"), ("chat", "7"), ("", "")):
        made("ok", client_name=name, client_version=version)
    html = browser.get(OVERVIEW).content.decode()
    assert "Clients 3" in " ".join(re.sub(r"<[^>]+>", " ", html).split())
    table = html[html.index('id="clients"') :]
    assert table[: table.index("</table>")].count("<tr") - 1 == 3


def test_an_entry_of_a_pending_call_says_how_long_it_waited(browser: Browser) -> None:
    row = made("waiting", duration=25031.8)
    assert "waited 25 s" in words(browser, LOG)
    assert "waited 25 s" in words(browser, f"{LOG}{row.pk}/change/")


def test_a_tool_that_the_model_may_not_call_is_rejected_and_a_person_denies() -> None:
    assert RequestLog.Outcome.REJECTED.label == "rejected"
    assert RequestLog.Outcome.DENIED.label == "denied"
