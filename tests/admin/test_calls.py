"""The log of calls in Django's admin: it is read, searched and taken along, however long it is."""

import csv
import io
import json
import re
import secrets
import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client as Browser
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchmarks.calls import fill
from django_mcp.admin.request_log import RequestLogAdmin
from django_mcp.models import APIKey, Approval, RequestLog

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql]

CALLS = "/admin/django_mcp/requestlog/"


@pytest.fixture
def owner() -> User:
    return User.objects.create_superuser("owner-of-the-site")


@pytest.fixture
def browser(owner: User) -> Browser:
    browser = Browser()
    browser.force_login(owner)
    return browser


def made(**facts: Any) -> RequestLog:
    usual = {
        "started_at": timezone.now(),
        "server": "default",
        "method": "tools/call",
        "name": "book_hotel",
        "outcome": "ok",
        "principal_kind": "oauth",
        "principal_id": "1",
        "caller": "ada",
        "client_name": "Claude",
        "arguments": {"city": "Lisbon"},
        "duration": 12.5,
    }
    return RequestLog.objects.create(**{**usual, **facts})


def page(browser: Browser, query: str = "", path: str = "") -> str:
    answer = browser.get(f"{CALLS}{path}{query}")
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def rows_of(html: str) -> int:
    return html.count('<th scope="row" class="mcp-request">')


def sent(browser: Browser, query: str = "") -> str:
    answer = browser.get(f"{CALLS}export.csv{query}")
    assert answer.streaming
    return b"".join(answer.streaming_content).decode()


def test_times_are_shown_to_the_second_in_the_list_and_to_the_millisecond_on_their_page(browser: Browser) -> None:
    called = datetime(2026, 5, 4, 23, 30, 7, 89_123, tzinfo=UTC)
    row = made(started_at=called)
    with timezone.override(ZoneInfo("Europe/Lisbon")):
        html = page(browser)
        assert ">May 5, 2026, 12:30 a.m.<" in html
        assert ">00:30:07 · " in html
        assert "May 5, 2026, 12:30 a.m. (2026-05-05 00:30:07.089+01:00)" in page(browser, path=f"{row.pk}/change/")
    with override_settings(USE_TZ=False):
        assert RequestLogAdmin(RequestLog, admin.site).exact(RequestLog(started_at=called.replace(tzinfo=None))) == (
            "May 4, 2026, 11:30 p.m. (2026-05-04 23:30:07.089)"
        )


def test_the_list_is_sorted_by_time_either_way(browser: Browser) -> None:
    made(name="early", started_at=timezone.now() - timedelta(hours=1))
    made(name="late")
    for query, first, second in (("", "late", "early"), ("?o=0", "early", "late"), ("?o=-0", "late", "early")):
        html = page(browser, query)
        assert html.index(f">{first}</a>") < html.index(f">{second}</a>"), query
        assert f'href="?o={"-0" if query == "?o=0" else "0"}"' in html, query


def test_a_row_says_what_came_of_it_in_a_word_and_why(browser: Browser) -> None:
    made(outcome="error", error="No such <city>.", client_version="2.1", duration=7.25)
    html = page(browser)
    assert '<span class="mcp-outcome mcp-outcome-error">tool error</span>' in html
    shown = " ".join(re.sub(r"<[^>]+>", " ", html[html.index("<tbody>") : html.index("</tbody>")]).split())
    assert shown.startswith("tool error book_hotel tools/call · default No such &lt;city&gt;. ada Claude 2.1 ")
    assert shown.endswith("7.2 ms")


def test_a_crash_says_which_exception_was_raised_where(browser: Browser) -> None:
    row = made(
        outcome="crashed", error="Internal server error.", exception_type="KeyError", exception_place="shop.py:9"
    )
    made(outcome="error", error="No such city.")
    assert page(browser, "?outcome=crashed").count('class="mcp-request"') == 1
    assert page(browser, "?outcome=handled").count('class="mcp-request"') == 1
    assert page(browser, "?outcome=errors").count('class="mcp-request"') == 2
    assert "KeyError · shop.py:9" in page(browser, "?q=shop.py")
    assert '<span class="mcp-outcome mcp-outcome-crash">crashed</span>' in page(browser)
    entry = browser.get(f"/admin/django_mcp/requestlog/{row.pk}/change/").content.decode()
    assert "KeyError" in entry
    assert "shop.py:9" in entry
    export = b"".join(browser.get("/admin/django_mcp/requestlog/export.csv?outcome=crashed")).decode()
    assert "crashed,Internal server error.,KeyError,shop.py:9," in export


PAGES = (
    "",
    "?outcome=denied",
    "?server=booking",
    "?method=resources/read",
    "?name=tool_3",
    "?name=rare",
    "?client_name=Cursor",
    "?user=1",
    "?period=week",
    "?outcome=errors",
    "?since={year}-{month:02}-01",
    "?since={year}-01-01T12:00:00Z&until={year}-12-31",
    "?q=trace-1",
    "?q=no+flight",
    "?q=0af7651916cd43dd8448eb211c80319c",
    "?p=5",
)


def test_a_page_takes_fewer_than_ten_queries(browser: Browser, owner: User) -> None:
    fill(1000, [owner.pk])
    now = timezone.localtime()
    wrong = {}
    for query in PAGES:
        with CaptureQueriesContext(connection) as queries:
            html = page(browser, query.format(year=now.year, month=now.month))
        assert "request log entr" in html
        if len(queries) >= 10:
            wrong[query] = [each["sql"] for each in queries]
    assert wrong == {}


def test_a_page_counts_no_further_than_it_can_be_turned(browser: Browser, owner: User) -> None:
    fill(12_000, [owner.pk])
    html = page(browser)
    assert re.search(r"10,?000 request log entries", html)
    assert "limited to the newest 10,000" in html or "limited to the newest 10000" in html
    assert rows_of(html) == 100


FOUND = {
    "?outcome=denied": 1,
    "?server=booking": 1,
    "?name=other": 1,
    "?client_name=Cursor": 1,
    "?method=tools/list": 1,
    "?period=hour": 3,
    "?q=Porto": 1,
    "?q=0af7651916cd43dd8448eb211c80319c": 1,
    "?q=lisbon+claude": 2,
    "?user=1&user=x": 0,
    "?outcome=errors": 0,
    "?outcome=others": 0,
    "?since=1999-01-01": 3,
    "?until=1999-01-01": 0,
}


def test_filters_and_search_find_what_they_say(browser: Browser) -> None:
    made(outcome="denied", server="booking", trace_id="0af7651916cd43dd8448eb211c80319c")
    made(name="other")
    made(client_name="Cursor", method="tools/list", arguments={"city": "Porto"})
    found = {query: rows_of(browser.get(CALLS + query, follow=True).content.decode()) for query in FOUND}
    assert found == FOUND
    for wrong in ("since=x", "until=2026-02-30", "since=9999-12-31T23:59:59-12:00"):
        assert browser.get(f"{CALLS}?{wrong}", follow=True).status_code == 200


def found_by(browser: Browser, term: str, query: str = "") -> list[str]:
    html = page(browser, query or "?" + urlencode({"q": term}))
    return re.findall(r'<th scope="row" class="mcp-request"><a [^>]*>([^<]*)</a>', html)


def test_an_id_finds_its_entry_behind_however_many_newer_ones(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {
        "approval": secrets.token_urlsafe(16),
        "task_id": secrets.token_urlsafe(24),
        "trace_id": secrets.token_hex(16),
        "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
    }
    for name, value in ids.items():
        made(name=name, **{name: value})
    made(name="newer", arguments={"words": "old"})
    made(name="newest", arguments=dict(enumerate(ids.values())))
    monkeypatch.setattr("django_mcp.admin.request_log.SEARCHED", 1)
    assert {name: found_by(browser, f" {value} ") for name, value in ids.items()} == {name: [name] for name in ids}
    trace = ids["trace_id"]
    for written in (trace.upper(), f"00-{trace}-00f067aa0ba902b7-01"):
        assert found_by(browser, written) == ["trace_id"]
    assert found_by(browser, "old") == []  # words are searched in the newest alone
    assert found_by(browser, ids["task_id"][:-1]) == ["newest"]  # part of an id is a word


WRITTEN = ("Straße in Köln", "東京", "ПРИВЕТ", "C:\\temp", 'say "hi"', "a\u0000b\ud800", "Zoë")


def test_arguments_are_found_by_words_of_every_language(browser: Browser) -> None:
    for number, words in enumerate(WRITTEN):
        for form in ("NFC", "NFD"):
            made(name=f"call-{number}", arguments={"city": unicodedata.normalize(form, words)})
    for term, number in (
        *(("Köln", 0), ("köln", 0), ("KÖLN", 0), ("Straße köln", 0), ("東京", 1), ("привет", 2), ("Привет", 2)),
        *(("C:\\temp", 3), ('"hi"', 4), ('{"city":"東京"}', 1), ("Zoë", 6), ("zoë", 6)),
    ):
        for form in ("NFC", "NFD"):
            assert {*found_by(browser, unicodedata.normalize(form, term))} == {f"call-{number}"}, term
    entry = RequestLog.objects.filter(name="call-5").first()
    assert entry is not None
    assert entry.arguments == {"city": WRITTEN[5]}


def test_a_span_includes_its_last_day_and_ends_before_its_last_moment(browser: Browser) -> None:
    with timezone.override(ZoneInfo("Asia/Kolkata")):
        made(name="on-the-day", started_at=datetime(2026, 5, 4, 18, 0, tzinfo=UTC))  # 23:30 there
        made(name="day-after", started_at=datetime(2026, 5, 4, 18, 30, tzinfo=UTC))
        found = page(browser, "?since=2026-05-04&until=2026-05-04")
        assert rows_of(found) == 1
        assert ">on-the-day</a>" in found
        assert 'name="since" value="2026-05-04"' in found
        assert 'name="until" value="2026-05-04"' in found
        assert rows_of(page(browser, "?since=2026-05-04T18:00:00Z&until=2026-05-04T18:30:00Z")) == 1
        assert rows_of(page(browser, "?since=2026-05-04T23:30")) == 2


def test_a_request_that_was_rejected_unread_can_be_opened_too(browser: Browser) -> None:
    row = made(name="", method="", outcome="denied")
    assert f'<a href="/admin/django_mcp/requestlog/{row.pk}/change/">rejected request</a>' in page(browser)


def test_filters_are_shown_and_each_can_be_removed(browser: Browser) -> None:
    made()
    html = page(browser, "?name=book_hotel&outcome=ok&since=2026-05-04&q=Lisbon")
    chosen = re.findall(r"<summary>([^<]+): <b>([^<]+)</b>", html)
    assert [name for name, _value in chosen] == ["Period", "Outcome", "Tool"]
    removed = re.findall(r'<a href="\?([^"]*)" aria-label="Remove filter: (\w+)"', html)
    assert {name: sorted(each.partition("=")[0] for each in query.split("&amp;")) for query, name in removed} == {
        "period": ["name", "outcome", "q"],
        "outcome": ["name", "q", "since"],
        "tool": ["outcome", "q", "since"],
    }
    kept = re.findall(r'<input type="hidden" name="(name|outcome|q|since)"', html)
    assert {"name", "outcome", "q"} <= {*kept}


def test_an_entry_links_to_what_it_belongs_to_as_far_as_its_reader_may_go(browser: Browser, owner: User) -> None:
    now = timezone.now()
    key = APIKey.objects.create(name="laptop", user=owner, prefix="mcp_key_abc", key_hash="x", expires=now)
    asked = Approval.objects.create(
        public_id="q7", server="default", tool="book_hotel", arguments={}, digest="d", created=now, expires=now
    )
    call = made(
        user=owner, principal_kind="api_key", principal_id=str(key.pk), approval="q7", trace_id="7" * 32, task_id="gone"
    )
    html = page(browser, path=f"{call.pk}/change/")
    pages = {
        "tools/default.book_5Fhotel/change/": "book_hotel",
        f"approval/{asked.pk}/change/": "q7",
        f"apikey/{key.pk}/change/": "laptop",
    }
    for address, name in pages.items():
        assert f'<a href="/admin/django_mcp/{address}">{name}</a>' in html
    assert f'href="/admin/auth/user/{owner.pk}/change/"' in html
    assert f'href="../../?q={"7" * 32}"' in html
    assert "gone</a>" not in html
    reader = User.objects.create_user("reader-of-the-log", is_staff=True)
    reader.user_permissions.add(Permission.objects.get(codename="view_requestlog"))
    browser.force_login(reader)
    related = page(browser, path=f"{call.pk}/change/")
    related = related[related.index('class="mcp-related"') :]
    assert re.findall(r'href="([^"]+)"', related[: related.index("</ul>")]) == [f"../../?q={'7' * 32}"]


def test_an_entry_has_its_reason_first_and_nothing_empty(browser: Browser, owner: User) -> None:
    row = made(user=owner, caller=owner.username, outcome="error", error="No such city.", client_name="")
    made(outcome="error", error="No such city.")
    html = page(browser, path=f"{row.pk}/change/")
    labels = re.findall(r"<label[^>]*>([^<]+):</label>", html)
    assert labels[:4] == ["Outcome", "Time", "Error", "Arguments"]
    assert {"Client", "Credential", "Task id", "Exception", "Address"}.isdisjoint(labels)
    assert ">2 times</a>" in html
    assert f"/playground/call/?{urlencode({'endpoint': 'default', 'kind': 'tool', 'key': row.name})}" in (
        html.replace("&amp;", "&")
    )


def test_a_wait_for_a_person_and_yesterday_are_in_words(browser: Browser) -> None:
    made(outcome="waiting", duration=25_031.8)
    made(name="old", started_at=timezone.now() - timedelta(days=1))
    html = page(browser)
    assert "waited 25 s" in html
    found = re.search(r'<a href="([^"]+)">yesterday</a>', html)
    assert found is not None
    assert found_by(browser, "", found[1].replace("&amp;", "&")) == ["old"]


def test_an_empty_log_says_what_would_be_in_it(browser: Browser) -> None:
    assert "No requests yet." in page(browser)
    assert "No requests match." in page(browser, "?outcome=denied")


def test_one_call_shows_all_that_is_known_of_it(browser: Browser, owner: User) -> None:
    call = made(user=owner, error="<b>broken</b>", trace_id="0af7651916cd43dd8448eb211c80319c", address="192.0.2.7")
    html = page(browser, path=f"{call.pk}/change/")
    for each in ("book_hotel", "Lisbon", "&lt;b&gt;broken", "owner-of-the-site (then ada)", "0af76519", "192.0.2.7"):
        assert each in html, each
    assert 'name="_save"' not in html


def test_an_api_key_is_called_by_its_name(browser: Browser, owner: User) -> None:
    key = APIKey.objects.create(name="laptop", user=owner, prefix="mcp_key_abc", key_hash="x", expires=timezone.now())
    call = made(principal_kind="api_key", principal_id=str(key.pk))
    assert "API key “laptop”" in page(browser, path=f"{call.pk}/change/")


def test_nobody_makes_changes_or_deletes_one(browser: Browser) -> None:
    call = made()
    for path in ("add/", f"{call.pk}/delete/"):
        assert browser.get(CALLS + path).status_code == 403, path
        assert browser.post(CALLS + path, {"post": "yes"}).status_code == 403, path
    assert browser.post(f"{CALLS}{call.pk}/change/", {"name": "other"}).status_code == 403
    call.refresh_from_db()
    assert call.name == "book_hotel"


def test_who_may_not_look_sees_nothing() -> None:
    user = User.objects.create_user("somebody-of-the-staff", is_staff=True)
    browser = Browser()
    browser.force_login(user)
    paths = ("", "export.csv")
    assert [browser.get(CALLS + path).status_code for path in paths] == [403] * 2
    user.user_permissions.add(Permission.objects.get(codename="view_requestlog"))
    assert [browser.get(CALLS + path).status_code for path in paths] == [200] * 2


def test_an_export_has_what_the_filters_leave(browser: Browser) -> None:
    made()
    made(outcome="denied", error="no", arguments=None)
    [row] = csv.DictReader(sent(browser, "?outcome=denied").splitlines())
    assert (row["outcome"], row["error"], row["arguments"]) == ("denied", "no", "")
    both = list(csv.DictReader(sent(browser).splitlines()))
    assert [each["outcome"] for each in both] == ["denied", "succeeded"]
    assert json.loads(both[1]["arguments"]) == {"city": "Lisbon"}


def test_an_export_of_nothing_is_empty(browser: Browser) -> None:
    assert list(csv.DictReader(sent(browser).splitlines())) == []


FORMULAS = (
    *("=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", " =1", "＝1", "\n=1", "'=1", '"=1'),
    *("c;=cmd|'/C calc'!A0;d", "t\n=1+1;x", "a\t-1", 'x;"=1"', "y; +1", "z|@A1", "\u2028=1", "a;b\r\n=1"),
)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_spreadsheet_finds_no_formula_whatever_it_takes_for_the_end_of_a_cell(
    browser: Browser, separator: str
) -> None:
    for text in FORMULAS:
        made(name=text, client_name=text, arguments={"note": text, text: [1, -1]}, error=text)
    export = sent(browser)
    for row in csv.reader(io.StringIO(export, newline=""), delimiter=separator):
        for cell in row:
            assert not re.match(r"[\s\"]*[=+\-@＝]", cell), (separator, cell)
    if separator == ",":
        rows = [*csv.DictReader(io.StringIO(export, newline=""))]
        assert [json.loads(row["arguments"]) for row in rows] == [{"note": x, x: [1, -1]} for x in FORMULAS[::-1]]
        assert [row["name"].replace("'", "") for row in rows] == [text.replace("'", "") for text in FORMULAS[::-1]]


def test_a_text_without_formulas_is_exported_as_it_is(browser: Browser) -> None:
    text = "a - b; c = d, 'x' e-mail: ada@example.com; 1"
    made(name=text, arguments={"note": text})
    [row] = csv.DictReader(io.StringIO(sent(browser)))
    assert (row["name"], row["arguments"]) == (text, json.dumps({"note": text}))
