"""The overview: what the log adds up to, for whoever may see it."""

import math
import random
import re
from datetime import UTC, datetime, timedelta
from html import unescape
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

from django_mcp.admin import navigation, stats
from django_mcp.admin.dashboard import PERIODS, Log, OverviewAdmin, duration, over_time
from django_mcp.admin.stats import DAY, FACTOR, activity, edges_of, quantile, tool_statistics
from django_mcp.models import Approval, Overview, RequestLog

pytestmark = pytest.mark.django_db

PAGE = "/admin/django_mcp/overview/"


@pytest.fixture(autouse=True)
def _nothing_kept() -> None:
    cache.clear()


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


# The figures at the top


def test_requests_errors_and_clients_are_counted(browser: Browser) -> None:
    for outcome in ("ok", "ok", "crashed", "error", "failed", "timed_out", "denied", "waiting", "task", "cancelled"):
        call(outcome=outcome)
    call(client_name="Claude")
    call(client_name="Claude", client_version="3")
    call(client_name="", client_version="")
    assert "Pending approvals 0 Errors 3 23 % Crashes 1 7.7 % Requests 13 Clients 3" in shown(browser)


def test_pending_approvals_are_those_that_can_be_decided_now(browser: Browser) -> None:
    approval()
    approval(state="approved")
    approval(expires=timezone.now() - timedelta(seconds=1))
    assert "Pending approvals 1" in shown(browser)


def test_every_figure_leads_to_the_rows_that_it_counts(browser: Browser) -> None:
    outcomes = ("ok", "fine"), ("error", "broken"), ("timed_out", "slow"), ("denied", "secret"), ("crashed", "bug")
    for outcome, name in outcomes:
        call(outcome=outcome, name=name)
    call(timedelta(days=3), name="long-ago", outcome="error")
    approval()
    html = browser.get(PAGE).content.decode()
    figures = re.findall(r'<li><a href="([^"]+)"><span class="mcp-figure-name">([^<]+)</span>\s*<span[^>]*>(\d+)', html)
    assert [(name, int(value)) for _address, name, value in figures] == [
        ("Pending approvals", 1),
        ("Errors", 2),
        ("Crashes", 1),
        ("Requests", 5),
        ("Clients", 1),
    ]
    addresses = {name: unescape(address) for address, name, _value in figures}
    assert addresses["Pending approvals"] == "/admin/django_mcp/approval/"
    assert 'id="clients"' in html
    for name, count in (("Errors", 2), ("Crashes", 1), ("Requests", 5)):
        listed = browser.get(addresses[name]).content.decode()
        assert listed.count('<th scope="row" class="mcp-request">') == count, name
        assert "long-ago" not in listed


# Pending approvals


def test_a_pending_approval_is_decided_on_the_page_and_leads_back_to_it() -> None:
    approver = staff("view_requestlog", "approve_tool_call")
    asked = approval(arguments={"city": "Lisbon"}, tool="no_longer_served")
    html = approver.get(PAGE).content.decode()
    form = html[html.index('class="mcp-decision-form"') :]
    given = dict(re.findall(r'<input type="hidden" name="(seen|back|query)" value="([^"]*)"', form))
    answer = approver.post(f"/admin/django_mcp/approval/{asked.pk}/decide/", {**given, "decision": "approve"})
    assert answer["location"] == PAGE
    asked.refresh_from_db()
    assert asked.state == "approved"
    assert "You approved the call of no_longer_served." in shown(approver)


def test_the_newest_are_shown_and_the_others_are_a_link_away(browser: Browser) -> None:
    for number in range(5):
        approval(tool=f"tool_{number}")
    html = browser.get(PAGE).content.decode()
    assert re.findall(r"<bdi>(tool_\d)</bdi></a></h3>", html) == ["tool_4", "tool_3", "tool_2"]
    assert '<a href="/admin/django_mcp/approval/">2 more pending approvals</a>' in html


def test_who_may_not_see_approvals_sees_their_number_alone() -> None:
    approval(tool="pay_bill")
    browser = staff("view_requestlog")
    assert "Pending approvals 1" in shown(browser)
    assert "pay_bill" not in browser.get(PAGE).content.decode()


# Entries of the sidebar


def test_entries_stand_in_the_order_of_use_with_the_number_of_pending_approvals(browser: Browser) -> None:
    approval()
    approval()
    listed = browser.get("/admin/").context["app_list"]
    usual, advanced = (each for each in listed if each["app_label"] == "django_mcp")
    assert [each["name"] for each in usual["models"]] == [
        "Overview",
        "Approvals (2)",
        "Tools",
        "Request log",
        "OAuth clients",
        "API keys",
        "Tasks",
        "Playground",
    ]
    assert advanced["name"] == "Model Context Protocol: advanced"
    assert "Sessions (2025-11-25 and older)" in [each["name"] for each in advanced["models"]]
    assert browser.get("/admin/django_mcp/").status_code == 200
    assert sorted(each["name"] for each in listed) == [each["name"] for each in listed]


@pytest.mark.postgresql
def test_the_admin_opens_while_the_tables_are_missing(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """As before ``migrate``; with ``ATOMIC_REQUESTS`` the rest of the page has the same transaction."""
    monkeypatch.setattr(navigation, "_is_migrated", False)

    def missing(_request: object) -> int:
        return Approval.objects.extra(where=["no_such_column = 1"]).count()

    monkeypatch.setattr(navigation, "pending_count", missing)
    answer = browser.get("/admin/")
    assert answer.status_code == 200
    assert "Approvals" in words(answer.content.decode())
    assert User.objects.exists()


def test_an_entry_shows_no_number_to_who_may_not_see_approvals() -> None:
    approval()
    browser = staff("view_requestlog")
    with CaptureQueriesContext(connection) as queries:
        html = browser.get("/admin/").content.decode()
    assert "Approvals" not in html
    assert not [each for each in queries if "django_mcp_approval" in each["sql"]]


# Durations


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
        assert f"Requests {2 * number + 1} Clients" in shown(browser, f"?period={period}"), period


def test_what_cannot_be_chosen_is_as_if_nothing_was(browser: Browser) -> None:
    call(timedelta(hours=3))
    for query in ("?period=century", "?endpoint=nowhere", "?period=%00&endpoint=<script>"):
        html = browser.get(PAGE + query).content.decode()
        assert "Requests 1 Clients" in words(html), query
        assert re.findall(r'aria-current="true">([^<]+)<', html) == ["24 hours", "all"], query


def test_one_endpoint_is_looked_at_alone(browser: Browser) -> None:
    call(server="default", name="of_default")
    call(server="staff", name="of_staff")
    text = shown(browser, "?endpoint=staff")
    assert "of_staff" in text
    assert "of_default" not in text
    assert "Requests 1 Clients" in text


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


# The chart and the tables


LOG = Log("/log/", datetime(2026, 5, 4, tzinfo=UTC), "")


def test_every_bar_leads_to_its_requests_and_is_in_the_table_too(browser: Browser) -> None:
    call(timedelta(hours=3), name="early")
    call(name="late", outcome="error")
    html = browser.get(PAGE).content.decode()
    plot = html[html.index('class="mcp-chart"') : html.index("</section>", html.index('class="mcp-chart"'))]
    bars = [unescape(each) for each in re.findall(r'<a href="([^"]+)" aria-label', plot)]
    assert len(bars) == 2
    rows = [unescape(each) for each in re.findall(r'<th scope="row"><a href="([^"]+)">', plot)]
    assert rows == bars[::-1]
    for address, name in zip(bars, ("early", "late"), strict=True):
        assert re.findall(r'class="mcp-request"><a href="[^"]+">([^<]+)<', browser.get(address).content.decode()) == [
            name
        ]


def test_ids_of_a_page_are_there_once(browser: Browser) -> None:
    for outcome in ("ok", "error", "denied", "waiting", "task"):
        call(outcome=outcome)
    approval()
    html = browser.get(PAGE).content.decode()
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert sorted(ids) == sorted(set(ids))


def test_the_page_of_an_empty_log_says_so(browser: Browser) -> None:
    text = shown(browser)
    assert "No requests in this period." in text
    assert "Errors 0 Crashes 0 Requests 0" in text


@pytest.mark.postgresql
def test_tools_are_ranked_by_errors_and_by_time(browser: Browser) -> None:
    for _ in range(3):
        call(name="busy", duration=5.0)
    call(name="slow", duration=9000.0)
    call(name="broken", duration=1.0, outcome="failed")
    html = browser.get(PAGE).content.decode()
    first = {
        key: words(re.search(rf'<h2 id="{key}">.*?<tbody>\s*(<tr>.*?</tr>)', html, re.DOTALL)[1])
        for key in ("failing", "slow")
    }
    assert first["failing"] == "broken 1 0 100 % 1"
    assert re.fullmatch(r"slow 9\.\d s 9\.\d s 1", first["slow"])
    listed = unescape(re.search(r'<h2 id="failing">.*?<td><a href="([^"]+)"', html, re.DOTALL)[1])
    assert browser.get(listed).content.decode().count('class="mcp-request"') == 1


def test_a_tool_has_its_endpoint_beside_its_name_where_there_are_several(browser: Browser) -> None:
    call(server="default", name="book")
    assert "book (default)" not in shown(browser)
    cache.clear()
    call(server="staff", name="book")
    text = shown(browser)
    assert "book (default)" in text
    assert "book (staff)" in text


@pytest.mark.postgresql
def test_a_client_is_one_row_with_its_versions_and_may_have_no_name(browser: Browser) -> None:
    call(client_version="2.1")
    call(client_version="2.2")
    call(client_version="2.2", protocol="2025-11-25")
    call(client_name="", client_version="", protocol="")
    text = shown(browser)
    assert "desk 2.1, 2.2 2025-11-25, 2026-07-28 3 75 %" in text
    assert "unnamed unknown 1 25 %" in text


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
        RequestLog(
            started_at=timezone.now(), server="default", method="tools/call", name=f"n{at}", outcome="ok", duration=1
        )
        for at in range(1000)
    )
    assert "and 992 more" in shown(browser)


@pytest.mark.parametrize(("language", "written"), [("en", ["9.8 s", "1,000"]), ("de", ["9,8 s", "1.000"])])
def test_numbers_are_written_as_in_the_language(language: str, written: list[str]) -> None:
    found = activity(edges_of(60, 60))
    found.bins[0].groups["ok"] = 1000
    with translation.override(language):
        text = duration(9800) + words(over_time(found, 60, LOG).plot)
    assert all(each in text for each in written)


@pytest.mark.parametrize("period", PERIODS, ids=lambda period: period.name)
def test_an_axis_has_few_words_and_no_word_twice(period: Any) -> None:
    call()
    html = over_time(activity(edges_of(period.bins, period.seconds)), period.seconds, LOG).plot
    marks = re.findall(r"<text[^>]*text-anchor[^>]*>([^<]+)<", html)
    assert 3 <= len(marks) <= 5
    assert len(marks) == len(set(marks))


# Cost


@pytest.mark.postgresql
def test_a_page_makes_fewer_than_ten_queries() -> None:
    browser = staff("view_requestlog", "view_approval")
    for at in range(50):
        call(name=f"tool_{at}", client_name=f"client {at}", server=("default", "staff")[at % 2])
    browser.get(PAGE + "?period=month")
    cache.clear()
    with CaptureQueriesContext(connection) as queries:
        browser.get(PAGE + "?period=month")
    assert len(queries) < 10


def test_the_log_is_not_added_up_again_for_each_look(browser: Browser) -> None:
    call()
    assert "Requests 1 Clients" in shown(browser)
    call()
    with CaptureQueriesContext(connection) as queries:
        assert "Requests 1 Clients" in shown(browser)
    assert not [each for each in queries if "django_mcp_requestlog" in each["sql"]]


def test_what_waits_is_counted_at_each_look(browser: Browser) -> None:
    shown(browser)
    approval()
    assert "Pending approvals 1" in shown(browser)


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
    assert (found.calls, found.failed, found.denied) == (3, 1, 1)
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


OF_DJANGO = ("apikey/add", "approval", "requestlog", "tools")


@pytest.mark.parametrize("name", ["overview", "playground", "oauthclient", *OF_DJANGO])
def test_pages_have_breadcrumbs_as_every_version_of_django_styles_them(browser: Browser, name: str) -> None:
    """Of the package's own pages the list of Django 6.1, which the stylesheet styles for older versions."""
    shown = browser.get(f"/admin/django_mcp/{name}/").content.decode()
    (crumbs,) = re.findall(r'<(\w+) class="breadcrumbs">', shown)
    assert crumbs in ({"div", "ol"} if name in OF_DJANGO else {"ol"})
    assert "django_mcp/admin.css" in shown
