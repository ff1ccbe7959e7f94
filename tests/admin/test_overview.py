"""The overview: what the log adds up to, for whoever may see it."""

import math
import random
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.db import connection
from django.test import Client as Browser
from django.test import RequestFactory
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from django_mcp.admin import stats
from django_mcp.admin.dashboard import PERIODS, OverviewAdmin, figures
from django_mcp.admin.stats import DAY, FACTOR, activity, edges_of, quantile, tool_statistics
from django_mcp.models import Approval, Overview, RequestLog

pytestmark = pytest.mark.django_db

PAGE = "/admin/django_mcp/overview/"


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    cache.clear()


@pytest.fixture
def browser() -> Browser:
    browser = Browser()
    browser.force_login(User.objects.create_superuser("owner-of-the-site"))
    return browser


def staff(*permissions: str) -> Browser:
    user = User.objects.create_user("somebody-of-the-staff", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="django_mcp"))
    browser = Browser()
    browser.force_login(user)
    return browser


def call(ago: timedelta = timedelta(), **changes: Any) -> RequestLog:
    facts = {
        "started_at": timezone.now() - ago,
        "server": "default",
        "method": "tools/call",
        "name": "search_flights",
        "outcome": "ok",
        "principal_kind": "oauth",
        "principal_id": "1:7",
        "client_name": "desk",
        "client_version": "2.1",
        "protocol": "2026-07-28",
        "duration": 12.0,
    }
    return RequestLog.objects.create(**{**facts, **changes})


def approval(**changes: Any) -> Approval:
    now = timezone.now()
    facts = {"server": "default", "tool": "book_hotel", "arguments": {}, "created": now}
    ticket = f"t{Approval.objects.count()}"
    return Approval.objects.create(
        **{**facts, "public_id": ticket, "digest": ticket, "expires": now + timedelta(hours=1), **changes}
    )


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def shown(browser: Browser, query: str = "") -> str:
    answer = browser.get(PAGE + query)
    assert answer.status_code == 200
    return words(answer.content.decode())


# Who sees it, and where


def test_the_page_stands_in_the_list_of_the_admin_and_has_a_name(browser: Browser) -> None:
    assert reverse("admin:django_mcp_overview") == PAGE
    assert f'href="{PAGE}"' in browser.get("/admin/").content.decode()


def test_whoever_may_see_calls_may_see_what_they_add_up_to() -> None:
    browser = staff("view_requestlog")
    call()
    assert f'href="{PAGE}"' in browser.get("/admin/").content.decode()
    assert "search_flights" in shown(browser)


def test_whoever_may_not_see_calls_sees_nothing_of_it() -> None:
    browser = staff("view_task")
    assert browser.get(PAGE).status_code == 403
    assert PAGE not in browser.get("/admin/").content.decode()


def test_the_page_brings_no_permission_of_its_own() -> None:
    assert not Permission.objects.filter(codename__endswith="_overview").exists()


def test_nobody_adds_changes_or_deletes_there(browser: Browser) -> None:
    row = call()
    for path in ("add/", f"{row.pk}/change/", f"{row.pk}/delete/"):
        assert browser.get(PAGE + path).status_code == 404


def test_the_page_works_in_another_admin_site(rf: RequestFactory) -> None:
    request = rf.get("/")
    request.user = User.objects.create_superuser("owner-of-the-site")
    answer = OverviewAdmin(Overview, admin.AdminSite("second")).overview_view(request)
    assert answer.status_code == 200


# The numbers at the top


def test_calls_errors_and_refusals_are_counted(browser: Browser) -> None:
    for outcome in ("ok", "ok", "ok", "error", "failed", "timed_out", "denied", "waiting", "task", "cancelled"):
        call(outcome=outcome)
    text = shown(browser)
    assert "calls 10 errors 3 30 % denials 1 10 %" in text


def test_waiting_approvals_are_those_that_wait_now(browser: Browser) -> None:
    approval()
    approval(state="approved")
    approval(expires=timezone.now() - timedelta(seconds=1))
    assert "approvals pending 1" in shown(browser)


@pytest.mark.postgresql
def test_median_and_95th_percentile_are_right_to_some_hundredths() -> None:
    chance = random.Random(8)
    durations = sorted(chance.lognormvariate(3, 1.2) for _ in range(1000))
    RequestLog.objects.bulk_create(
        RequestLog(
            started_at=timezone.now(), server="default", method="tools/call", name="x", outcome="ok", duration=each
        )
        for each in durations
    )
    total = activity(edges_of(60, 60)).total
    assert total.median == pytest.approx(durations[500], rel=0.05)
    assert total.p95 == pytest.approx(durations[950], rel=0.05)


@pytest.mark.postgresql
def test_a_duration_of_any_length_is_measured() -> None:
    for length in (0.0, 1e-9, 0.5, 1.0, 1000.0, 86_400_000.0):
        RequestLog.objects.all().delete()
        call(duration=length)
        median = activity(edges_of(60, 60)).total.median
        assert median is not None
        assert median == pytest.approx(max(length, 0.01), rel=FACTOR - 1)


@pytest.mark.postgresql
def test_what_did_not_run_and_what_is_no_tool_has_no_part_in_durations() -> None:
    call(duration=100.0)
    call(duration=1.0, outcome="denied")
    call(duration=1.0, outcome="waiting")
    call(duration=1.0, method="tools/list", name="")
    assert activity(edges_of(60, 60)).total.durations.total() == 1


def test_nothing_has_no_quantile() -> None:
    assert quantile({}, 0.5) is None


# Periods and endpoints


@pytest.mark.postgresql
def test_a_period_has_what_was_called_in_it(browser: Browser) -> None:
    lengths = {
        "hour": (timedelta(minutes=58), timedelta(minutes=61)),
        "day": (timedelta(hours=23), timedelta(hours=25)),
        "week": (timedelta(days=6, hours=17), timedelta(days=7, hours=1)),
        "month": (timedelta(days=29), timedelta(days=31)),
        "quarter": (timedelta(days=89), timedelta(days=91)),
    }
    for ago in (ago for each in lengths.values() for ago in each):
        call(ago)
    for number, period in enumerate(lengths):  # each has what the shorter ones have, and what they just miss
        assert f"calls {2 * number + 1} errors" in shown(browser, f"?period={period}"), period


def test_what_cannot_be_chosen_is_as_if_nothing_was(browser: Browser) -> None:
    call(timedelta(hours=3))
    for query in ("?period=century", "?endpoint=nowhere", "?period=%00&endpoint=<script>"):
        html = browser.get(PAGE + query).content.decode()
        assert "calls 1 errors" in words(html), query
        assert re.findall(r'aria-current="true">([^<]+)<', html) == ["24 hours", "all"], query


def test_one_endpoint_is_looked_at_alone(browser: Browser) -> None:
    call(server="default", name="of_default")
    call(server="staff", name="of_staff")
    text = shown(browser, "?endpoint=staff")
    assert "of_staff" in text
    assert "of_default" not in text
    assert "calls 1 errors" in text


def test_links_keep_what_else_is_chosen(browser: Browser) -> None:
    html = browser.get(PAGE + "?period=week&endpoint=staff").content.decode()
    assert 'href="?period=month&amp;endpoint=staff"' in html
    assert 'href="?period=week&amp;endpoint=default"' in html


# Bins


@pytest.mark.postgresql
def test_bins_have_what_was_called_in_them() -> None:
    edges = edges_of(60, 60)
    call(started_at=edges[0])
    call(started_at=edges[7] + timedelta(seconds=59.9))
    call(started_at=edges[7])
    call(started_at=timezone.now() + timedelta(minutes=5))
    found = [tally.calls for tally in activity(edges).bins]
    assert (found[0], found[7], found[-1]) == (1, 2, 1)
    assert sum(found) == 4


@pytest.mark.postgresql
@pytest.mark.parametrize("now", [datetime(2026, 4, 2, 9, 30, tzinfo=UTC), datetime(2026, 10, 28, 9, 30, tzinfo=UTC)])
def test_days_are_days_of_the_clock_when_clocks_were_changed(monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    zone = ZoneInfo("Europe/Berlin")
    monkeypatch.setattr(stats.timezone, "now", lambda: now)
    with timezone.override(zone):
        edges = edges_of(10, DAY)
        for at, edge in enumerate(edges):
            assert edge.astimezone(zone).hour == 0
            # In the first and in the last minute of a day, as many calls as the number of the day.
            end = edges[at + 1] if at + 1 < len(edges) else edge + timedelta(days=1)
            for each in (edge, end - timedelta(seconds=1)):
                for _ in range(at + 1):
                    call(started_at=each)
        assert [tally.calls for tally in activity(edges).bins] == [2 * (at + 1) for at in range(10)]


def test_bins_of_some_hours_begin_at_round_times_of_the_clock() -> None:
    with timezone.override(ZoneInfo("Asia/Kolkata")):
        last = timezone.localtime(edges_of(28, 6 * 3600)[-1])
        assert (last.hour % 6, last.minute, last.second) == (0, 0, 0)


# Plots and tables


def test_every_plot_has_its_table_and_words(browser: Browser) -> None:
    call(outcome="error")
    html = browser.get(PAGE).content.decode()
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    titles = [re.search(r"<h2>(.*?)</h2>", each)[1] for each in figures]
    assert titles == [
        "Calls over time",
        "Tool duration",
        "Busiest tools",
        "Slowest tools",
        "Error rate by tool",
        "Client versions",
        "Protocol versions",
    ]
    for each in figures:
        assert 'role="img"' in each
        assert "<desc" in each
        assert re.search(r"<details>.*<table>.*</details>", each, re.DOTALL)


def test_ids_of_a_page_are_there_once(browser: Browser) -> None:
    for outcome in ("ok", "error", "denied", "waiting", "task"):
        call(outcome=outcome)
    html = browser.get(PAGE).content.decode()
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert sorted(ids) == sorted(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", html)) <= set(ids)


def test_the_page_of_an_empty_log_says_a_kind_word(browser: Browser) -> None:
    text = shown(browser)
    assert "No calls in this period." in text
    assert "calls 0 errors 0" in text


@pytest.mark.postgresql
def test_tools_are_compared_by_calls_time_and_failures(browser: Browser) -> None:
    for _ in range(3):
        call(name="busy", duration=5.0)
    call(name="slow", duration=9000.0)
    call(name="broken", duration=1.0, outcome="failed")
    html = browser.get(PAGE).content.decode()
    first = {
        key: re.search(rf'id="{key}-figure".*?<tbody>\s*<tr><th scope="row">(\w+)', html, re.DOTALL)[1]
        for key in ("busiest", "slowest", "failing")
    }
    assert first == {"busiest": "busy", "slowest": "slow", "failing": "broken"}
    assert "100 % (1 of 1)" in words(html)


def test_a_tool_has_its_endpoint_beside_its_name_where_there_are_several(browser: Browser) -> None:
    call(server="default", name="book")
    assert "book (default)" not in shown(browser)
    cache.clear()
    call(server="staff", name="book")
    text = shown(browser)
    assert "book (default)" in text
    assert "book (staff)" in text


@pytest.mark.postgresql
def test_clients_are_told_apart_by_version_and_may_have_no_name(browser: Browser) -> None:
    call(client_version="2.1")
    call(client_version="2.2")
    call(client_name="", client_version="", protocol="")
    text = shown(browser)
    assert "desk 2.1" in text
    assert "desk 2.2" in text
    assert "unnamed" in text
    assert "unknown" in text


def test_names_of_strangers_are_words_and_cannot_play_tricks(browser: Browser) -> None:
    call(
        name='<img src=x onerror="alert(1)">', client_name="</svg><script>alert(1)</script>", client_version="1\u202e2"
    )
    html = browser.get(PAGE).content.decode()
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    assert "\u202e" not in html
    assert "1\\u202e2" in html


def test_a_thousand_names_make_no_page_without_end(browser: Browser) -> None:
    RequestLog.objects.bulk_create(
        RequestLog(started_at=timezone.now(), server="default", method="tools/call", name=f"n{at}", duration=1)
        for at in range(1000)
    )
    text = shown(browser)
    assert "Top 10 of 1000." in text
    assert "and 900 more" in text


@pytest.mark.parametrize(("language", "written"), [("en", [r"9\.\d s", "1,000"]), ("de", [r"9,\d s", r"1\.000"])])
def test_numbers_are_written_as_in_the_language(language: str, written: list[str]) -> None:
    edges = edges_of(60, 60)
    found = activity(edges)
    found.bins[0].groups["ok"] = 1000
    found.bins[0].durations[class_number(9800)] = 1000
    with translation.override(language):
        text = words("".join(each.plot for each in figures(found, 60)))
    assert all(re.search(each, text) for each in written)


@pytest.mark.parametrize("period", PERIODS, ids=lambda period: period.name)
def test_an_axis_has_few_words_and_no_word_twice(period: Any) -> None:
    call()
    html = figures(activity(edges_of(period.bins, period.seconds)), period.seconds)[0].plot
    marks = re.findall(r"<text[^>]*text-anchor[^>]*>([^<]+)<", html)
    assert 3 <= len(marks) <= 5
    assert len(marks) == len(set(marks))


def class_number(milliseconds: float) -> int:
    return math.floor(math.log(milliseconds) / math.log(FACTOR))


# Cost


@pytest.mark.postgresql
def test_a_page_makes_fewer_than_ten_queries() -> None:
    browser = staff("view_requestlog", "view_approval")
    for at in range(50):
        call(name=f"tool_{at}", client_name=f"client {at}", server=("default", "staff")[at % 2])
    with CaptureQueriesContext(
        connection,
    ) as queries:
        browser.get(PAGE + "?period=month")
    assert len(queries) < 10


def test_the_log_is_not_added_up_again_for_each_look(browser: Browser) -> None:
    call()
    assert "calls 1 errors" in shown(browser)
    call()
    with CaptureQueriesContext(connection) as queries:
        assert "calls 1 errors" in shown(browser)
    assert not [each for each in queries if "django_mcp_requestlog" in each["sql"]]


def test_what_waits_is_counted_at_each_look(browser: Browser) -> None:
    shown(browser)
    approval()
    assert "approvals pending 1" in shown(browser)


@pytest.mark.parametrize("period", PERIODS, ids=lambda period: period.name)
def test_numbers_are_kept_for_a_small_part_of_the_time_they_are_about(period: Any) -> None:
    assert period.kept <= period.bins * period.seconds / 500


# For the page of tools


@pytest.mark.postgresql
def test_the_statistics_of_tools_have_every_call_of_so_many_days() -> None:
    call(name="book", outcome="error")
    call(timedelta(days=2), name="book", outcome="denied")
    last = call(name="book")
    call(timedelta(days=40), name="book")
    call(name="", method="tools/list")
    (found,) = tool_statistics(30).values()
    assert list(tool_statistics(30)) == [("default", "book")]
    assert (found.calls, found.errors, found.denied) == (3, 1, 1)
    assert found.last_call == last.started_at
    assert found.per_day == [*[0] * 27, 1, 0, 2]


@pytest.mark.postgresql
def test_the_statistics_of_tools_are_one_query(django_assert_num_queries: Any) -> None:
    for at in range(20):
        call(name=f"tool_{at}")
    with django_assert_num_queries(1):
        assert len(tool_statistics()) == 20


def test_classes_of_durations_are_a_tenth_apart() -> None:
    assert math.isclose(quantile({10: 1}, 1.0) / quantile({9: 1}, 1.0), 1.1)
