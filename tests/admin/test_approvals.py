"""Calls that wait for approval, in Django's admin: who sees what of them, and what comes of what they do there."""

import datetime
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.management import call_command
from django.test import Client as Browser
from django.test import override_settings
from django.utils import timezone

from django_mcp.admin.requester_page import describe_state
from django_mcp.approvals import approval_requests, decisions
from django_mcp.auth.api_keys import create_key
from django_mcp.models import Approval, ApprovalEvent, AutoApprovalRule, Task
from django_mcp.tasks import store

pytestmark = pytest.mark.django_db

LIST, RULES = "/admin/django_mcp/approval/", "/admin/django_mcp/autoapprovalrule/"
PENDING = f"{LIST}pending/"
DAY = datetime.timedelta(days=1)
EVIL = "<script>alert(1)</script> \u202egnp.exe\u0007"


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada-the-caller", is_staff=True)


@pytest.fixture
def row(ada: User) -> Approval:
    return make(ada)


def make(user: User | None, **fields: Any) -> Approval:
    made = unsaved(user, Approval.objects.count(), **fields)
    made.save()
    approval_requests.record_event(made, approval_requests.Kind.PROPOSED)
    return made


def unsaved(user: User | None, number: int, **fields: Any) -> Approval:
    now = timezone.now()
    given = {
        "public_id": f"ticket-{number}",
        "server": "default",
        "tool": "pay_bill",
        "principal_kind": "oauth",
        "principal_id": f"{user.pk if user else 0}:7",
        "user": user,
        "client": {"name": "The Desk", "version": "2"},
        "arguments": {"amount": 5, "to": "the-landlord"},
        "parts": {"": "e" * 64, "amount": "a" * 64, "to": "b" * 64, "note": "c" * 64},
        "digest": f"{number:064}",
        "version": "v",
        "created": now,
        "expires": now + DAY,
        **fields,
    }
    return Approval(**given)


def signed_in(user: User, **options: Any) -> Browser:
    browser = Browser(**options)
    browser.force_login(user)
    return browser


def staff(*permissions: str, name: str = "cleo-of-the-staff") -> Browser:
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions, content_type__app_label="django_mcp"))
    return signed_in(user)


@pytest.fixture
def approver() -> Browser:
    return staff("approve_tool_call")


def page(browser: Browser, url: str, status: int = 200) -> str:
    answer = browser.get(url)
    assert answer.status_code == status, answer.status_code
    return answer.content.decode()


def words(html: str) -> str:
    """What is read on a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split()).replace("&quot;", '"').replace("&#x27;", "'")


def detail(row: Approval) -> str:
    return f"{LIST}{row.pk}/change/"


def seen(browser: Browser, row: Approval) -> str:
    """What the page's form says of the call that it shows."""
    found = re.search(r'name="seen" value="(\w+)"', page(browser, detail(row)))
    assert found is not None, "there is no form"
    return found[1]


def decide(browser: Browser, row: Approval, decision: str, **fields: Any) -> str:
    """Press a button on the page of a call; the words that say what came of it."""
    given = {"seen": seen(browser, row), "decision": decision, **fields}
    return send(browser, row, given)


def send(browser: Browser, row: Approval, given: dict[str, Any]) -> str:
    answer = browser.post(f"{LIST}{row.pk}/decide/", given, follow=True)
    assert answer.status_code == 200, answer.status_code
    return words(answer.content.decode())


def state(row: Approval) -> str:
    row.refresh_from_db()
    return row.state


def kinds(row: Approval) -> list[str]:
    return [each.kind for each in row.events.order_by("pk")]


# What is shown


def test_the_list_says_who_wants_what_through_which_client(approver: Browser, row: Approval) -> None:
    listed = page(approver, LIST)
    said = words(listed)
    assert "1 approval pending." in said
    assert "ada-the-caller (through an OAuth client)" in said
    assert "Client (self-reported) The Desk 2" in said
    assert "amount 5" in said
    assert "to the-landlord" in said
    assert "<title>(1) " in listed
    assert 'value="approve"' in listed
    assert 'value="deny"' in listed


@pytest.mark.postgresql
def test_the_newest_call_comes_first_and_those_that_do_not_wait_are_below(
    approver: Browser, row: Approval, ada: User
) -> None:
    make(ada, tool="second_tool")
    make(ada, tool="refused_tool", state="denied", decided=timezone.now())
    cards, _, decided = page(approver, LIST).partition("Decided")
    assert cards.index("second_tool") < cards.index("pay_bill")
    assert "refused_tool" not in cards
    assert "refused_tool" in decided
    assert "pay_bill" not in decided.partition('id="changelist-filter"')[0]


def test_a_change_is_a_table_of_before_and_after(approver: Browser, ada: User) -> None:
    changes = [
        {"field": "status", "label": "status", "before": "open", "after": "paid"},
        {"field": "paid_on", "label": "paid on", "before": None, "after": "2026-10-01"},
    ]
    preview = {
        "verb": "update",
        "object": "Bill 17",
        "uri": "travel://bills/17",
        "changes": changes,
        "also": [{"what": "reminders", "count": 2}],
    }
    shown = words(page(approver, detail(make(ada, preview=preview))))
    assert "Change Bill 17 travel://bills/17 Field Before After Status open paid Paid on – 2026-10-01" in shown
    assert "Also: 2 reminders" in shown


@override_settings(USE_THOUSAND_SEPARATOR=True)
def test_a_value_that_is_empty_is_written_as_nothing(approver: Browser, ada: User) -> None:
    def change(**sides: Any) -> str:
        preview = {"verb": "update", "object": "bill 7", "changes": [{"field": "note", "label": "note", **sides}]}
        shown = page(approver, detail(make(ada, preview=preview)))
        return words(shown.split('class="mcp-changes"')[1].split("</table>")[0]).partition("Note ")[2]

    assert change(before="", after="paid") == "– paid"
    assert change(before="paid", after="") == "paid –"
    assert change(before=[], after=["a"]) == '– ["a"]'
    assert change(before=0, after=1) == "0 1"
    assert change(before=None, after="") == '– ""'  # these two differ


def test_numbers_that_a_form_sends_are_not_written_for_people(approver: Browser, ada: User) -> None:
    row = make(ada, pk=1_234_567)
    approver.defaults["HTTP_ACCEPT_LANGUAGE"] = "de"
    html = page(approver, detail(row))
    assert 'id="mcp-approval-1234567"' in html
    (select,) = re.findall(r'<select id="mcp-seconds-1234567" name="seconds">(.*?)</select>', html, re.DOTALL)
    periods = re.findall(r'<option value="([^"]*)"', select)
    assert periods
    assert all(each.isdecimal() for each in periods), periods


FORMS_OF_PREVIEW: list[tuple[Any, str]] = [
    (None, "This tool has no preview."),
    ({"text": "Pays 5 euros.\nTo the landlord."}, "Pays 5 euros. To the landlord."),
    ({"error": "The preview failed."}, "The preview failed. Check"),
    ({"night": 3}, '"night": 3'),
    ([1, 2], "[1, 2]"),
    ({"verb": "create", "object": "Bill", "changes": ["… (7 more)"]}, "Create Bill Field … (7 more)"),
    ({"verb": "delete", "object": "Bill 3", "changes": [{"field": "sum", "before": 7}]}, "Field Before Sum 7"),
    ({"verb": "delete", "object": "Bill 3", "changes": [], "also": []}, "No changes. Arguments (as sent)"),
    (
        {"verb": "delete", "object": "Bill 3", "changes": [], "also": None},
        "Related rows are not counted, because the site itself defines how this row is deleted.",
    ),
    ({"verb": 3, "changes": 4}, '"changes": 4'),
]


def test_every_form_of_preview_is_shown(approver: Browser, ada: User) -> None:
    row = make(ada)
    for preview, said in FORMS_OF_PREVIEW:
        row.preview = preview
        row.save()
        assert said in words(page(approver, detail(row)))


def test_what_clients_and_tools_say_cannot_dress_up(approver: Browser, ada: User) -> None:
    preview = {"verb": EVIL, "object": EVIL, "uri": EVIL, "changes": [{"label": EVIL, "before": EVIL}], "also": [EVIL]}
    row = make(
        ada,
        client={"name": EVIL},
        client_id=EVIL,
        arguments={EVIL: EVIL},
        parts={"": "e", EVIL: "d"},
        preview=preview,
        principal_kind=EVIL[:32],
    )
    for url in (LIST, PENDING, detail(row)):
        shown = page(approver, url)
        assert "<script>alert" not in shown
        assert "alert(1)" in shown
        assert "\u202e" not in re.sub(r'name="names" value="[^"]*"', "", shown)  # which nobody sees
        assert "\\u202egnp.exe\\u0007" in shown


def test_a_text_is_told_from_a_number_that_looks_like_it(approver: Browser, ada: User) -> None:
    arguments = {"one": 5, "two": "5", "three": "null", "four": None, "five": "", "six": " x"}
    shown = words(page(approver, detail(make(ada, arguments=arguments))))
    assert 'one 5 two "5" three "null" four null five "" six " x"' in shown


def test_a_preview_of_a_few_lines_is_open(approver: Browser, ada: User) -> None:
    letter = "From: Travel\n" + "words " * 40
    shown = page(approver, detail(make(ada, preview={"text": letter})))
    before, _, rest = shown.partition("From: Travel")
    assert rest
    assert before.count("<details") == before.count("</details>")


def test_what_is_long_is_folded(approver: Browser, ada: User) -> None:
    shown = page(approver, detail(make(ada, arguments={"text": "word" * 400})))
    assert "<details" in shown
    assert "(1600 characters)" in words(shown)


def test_an_api_key_is_named_with_its_user(approver: Browser, ada: User) -> None:
    key, _ = create_key(ada, "nightly job", endpoints=["default"])
    row = make(ada, principal_kind="api_key", principal_id=str(key.pk))
    assert "ada-the-caller (nightly job) (with an API key)" in words(page(approver, detail(row)))


def test_a_caller_who_is_no_user_has_a_name_too(approver: Browser) -> None:
    row = make(None, principal_kind="external", principal_id="joe@example")
    assert "external joe@example" in words(page(approver, detail(row)))
    assert decide(approver, row, "approve").count("You approved the call of pay_bill") == 1


@pytest.mark.postgresql
def test_pages_take_few_queries_however_much_waits(
    approver: Browser, ada: User, django_assert_max_num_queries: Any
) -> None:
    for number in range(60):
        row = make(ada, tool=f"tool_{number % 7}", principal_kind=("oauth", "external")[number % 2])
        if number % 3 == 0:
            Approval.objects.filter(pk=row.pk).update(state="denied", unique_key=None, decided=timezone.now())
    page(approver, LIST)
    with django_assert_max_num_queries(18):
        assert "40 approvals pending." in words(page(approver, LIST))
    tag = approver.get(PENDING).headers["ETag"]
    with django_assert_max_num_queries(8):
        assert approver.get(PENDING, headers={"if-none-match": tag}).status_code == 304


def test_the_newest_of_very_many_are_shown(approver: Browser, ada: User) -> None:
    Approval.objects.bulk_create(unsaved(ada, number) for number in range(53))
    shown = page(approver, LIST)
    assert "53 approvals pending. The newest are shown." in words(shown)
    assert shown.count("<article") == 50


# Filters


@pytest.mark.postgresql
def test_filters_and_search_are_for_both_parts(approver: Browser, ada: User) -> None:
    make(ada, tool="one_tool")
    make(ada, tool="two_tool", server="staff")
    make(ada, tool="two_tool", server="staff", state="denied")
    found = page(approver, f"{LIST}?server=staff")
    assert "1 approval pending" in words(found)
    assert "pending/?server=staff" in found
    assert "0 approvals" not in words(found)
    assert "1 approval pending" in words(page(approver, f"{PENDING}?server=staff"))
    assert "No approvals pending" in words(page(approver, f"{PENDING}?q=three"))
    assert "2 approvals pending" in words(page(approver, f"{PENDING}?q=ada-the"))
    assert page(approver, f"{PENDING}?nonsense__x=3", 400) == ""


@pytest.mark.postgresql
def test_what_is_good_no_longer_counts_as_expired(approver: Browser, ada: User) -> None:
    old = timezone.now() - DAY
    for name in ("pending", "approved", "denied", "expired", "consumed"):
        make(ada, state=name)
    for name in ("pending", "approved"):
        make(ada, state=name, expires=old)
    counts = {"pending": (1, 0), "approved": (0, 1), "denied": (0, 1), "expired": (0, 3), "consumed": (0, 1)}
    for chosen, (waiting, decided) in counts.items():
        found = page(approver, f"{LIST}?state={chosen}")
        assert found.count("<article") == waiting, chosen
        assert f"{decided} approval" in words(found), chosen


@pytest.mark.parametrize(
    ("outcome", "status", "word"),
    [
        ("", None, "Started"),
        ("", "working", "Started"),
        ("", "failed", "Interrupted"),
        ("ok", None, "Succeeded"),
        ("error", None, "Failed"),
    ],
)
def test_of_a_call_that_was_run_approvers_read_the_word_that_its_requester_reads(
    approver: Browser, ada: User, outcome: str, status: str | None, word: str
) -> None:
    fields: dict[str, Any] = {"server": "test", "principal_kind": "name", "caller": {}, "request": {}, "dialogue": {}}
    task = None if status is None else store.create(None, status=status, **fields)
    used = make(ada, state="consumed", outcome=outcome, task=task)
    assert describe_state(used)[0] == word
    listed = re.findall(r'class="field-state_now[^>]*>([^<]*)<', page(approver, LIST))
    assert listed == re.findall(r'class="mcp-state [^>]*>([^<]*)<', page(approver, detail(used))) == [word]
    for chosen in ("started", "interrupted", "done", "failed"):
        found = words(page(approver, f"{LIST}?state={chosen}"))
        is_chosen = chosen == ("done" if word == "Succeeded" else word.lower())
        assert f"{int(is_chosen)} approval" in found, chosen
        assert "By state All Pending Approved Denied Expired Started Interrupted Succeeded Failed" in found


# Staying up to date


def test_nothing_is_sent_where_nothing_changed(approver: Browser, row: Approval, ada: User) -> None:
    first = approver.get(PENDING)
    tag = first.headers["ETag"]
    assert f'data-etag="{tag.replace(chr(34), "&quot;")}"' in page(approver, LIST)
    again = approver.get(PENDING, headers={"if-none-match": tag})
    assert (again.status_code, again.content) == (304, b"")
    other = make(ada, tool="second_tool")
    fresh = approver.get(PENDING, headers={"if-none-match": tag})
    assert fresh.status_code == 200
    assert f'id="mcp-approval-{other.pk}"' in fresh.content.decode()


def test_a_tag_is_for_one_person(approver: Browser, row: Approval, ada: User) -> None:
    tag = approver.get(PENDING).headers["ETag"]
    other = staff("view_approval", name="only-looking")
    assert other.get(PENDING, headers={"if-none-match": tag}).status_code == 200


def test_the_page_of_one_call_hears_when_it_waits_no_longer(approver: Browser, row: Approval) -> None:
    url = f"{LIST}{row.pk}/pending/"
    assert url in page(approver, detail(row))
    assert 'data-count="1"' in page(approver, url)
    Approval.objects.update(state="denied", unique_key=None)
    assert 'data-count="0"' in page(approver, url)
    assert url not in page(approver, detail(row))


def test_whoever_may_not_look_gets_nothing(row: Approval) -> None:
    other = staff("view_task")
    for url in (LIST, PENDING, detail(row), f"{LIST}{row.pk}/pending/"):
        page(other, url, 403)
    assert other.post(f"{LIST}{row.pk}/decide/", {"decision": "approve"}).status_code == 403
    for url in (LIST, PENDING, detail(row), f"{LIST}{row.pk}/pending/"):
        assert Browser().get(url).status_code == 302
    assert state(row) == "pending"


# Deciding


def test_an_approved_call_is_approved(approver: Browser, row: Approval) -> None:
    assert "You approved the call of pay_bill. It runs once." in decide(approver, row, "approve")
    assert state(row) == "approved"
    assert row.decided_by.username == "cleo-of-the-staff"
    assert kinds(row) == ["proposed", "shown", "approved"]
    assert LogEntry.objects.get().object_id == str(row.pk)
    shown = words(page(approver, detail(row)))
    assert "Decided 0 minutes ago , cleo-of-the-staff" in shown
    assert "approved cleo-of-the-staff" in shown
    assert 'value="approve"' not in page(approver, detail(row))


def test_a_call_is_approved_where_the_table_of_the_admins_history_was_dropped(
    approver: Browser, row: Approval, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"seen": seen(approver, row), "decision": "approve"}
    monkeypatch.setattr(LogEntry._meta, "db_table", "dropped_history")
    assert approver.post(f"{LIST}{row.pk}/decide/", given).status_code == 302
    assert state(row) == "approved"


def test_a_refused_call_has_a_reason(approver: Browser, row: Approval) -> None:
    assert "You denied the call of pay_bill." in decide(approver, row, "deny", reason="Too dear.")
    assert state(row) == "denied"
    assert row.reason == "Too dear."
    assert "Reason: Too dear." in words(page(approver, detail(row)))


def test_the_list_decides_and_stays_the_same_list(approver: Browser, row: Approval) -> None:
    given = {"seen": seen(approver, row), "decision": "approve", "back": "list", "query": "server=default"}
    answer = approver.post(f"{LIST}{row.pk}/decide/", given)
    assert (answer.status_code, answer.headers["Location"]) == (302, f"{LIST}?server=default")


def test_the_script_gets_the_words_alone(approver: Browser, row: Approval) -> None:
    given = {"seen": seen(approver, row), "decision": "deny"}
    answer = approver.post(f"{LIST}{row.pk}/decide/", given, headers={"x-mcp-fragment": "1"})
    assert answer.content.decode().strip().startswith('<p class="success">You denied')
    answer = approver.post(f"{LIST}{row.pk}/decide/", given, headers={"x-mcp-fragment": "1"})
    assert answer.content.decode().strip().startswith('<p class="warning">Already decided: You denied')


def test_further_calls_are_approved_with_the_arguments_that_were_ticked(approver: Browser, row: Approval) -> None:
    said = decide(approver, row, "approve_more", calls="3", seconds="900", names=["to"])
    assert "and similar calls" in said
    made = AutoApprovalRule.objects.get()
    assert (made.remaining, made.arguments) == (3, {"to": "the-landlord"})
    assert made.pattern == {"": "e" * 64, "to": "b" * 64}
    assert made.expires - made.created == datetime.timedelta(minutes=15)
    assert state(row) == "approved"


def test_any_number_of_further_calls_may_be_approved_for_an_hour(approver: Browser, row: Approval) -> None:
    decide(approver, row, "approve_more", calls="", unlimited="on", seconds="3600")
    made = AutoApprovalRule.objects.get()
    assert (made.remaining, made.pattern) == (None, {"": "e" * 64})
    assert "any arguments" in words(page(approver, RULES))
    assert made.expires - made.created == datetime.timedelta(hours=1)


def test_what_no_form_sends_decides_nothing(approver: Browser, row: Approval) -> None:
    given = {"decision": "approve_more", "seen": seen(approver, row), "calls": "2", "seconds": "900"}
    wrong: list[dict[str, Any]] = [
        {"decision": "perhaps"},
        {"calls": "-1"},
        {"calls": "many"},
        {"calls": ""},
        {"seconds": ""},
        {"seconds": "99999999"},
        {"names": ["other"]},
        {"reason": "x" * 1001},
        {"seen": ""},
    ]
    headers = {"x-mcp-fragment": "1"}  # what is said alone
    for each in wrong:
        answer = approver.post(f"{LIST}{row.pk}/decide/", {**given, **each}, headers=headers)
        assert "Not decided." in words(answer.content.decode()), each
        assert state(row) == "pending", each
    assert not AutoApprovalRule.objects.exists()
    assert "Not decided." in send(approver, row, {**given, **wrong[0]})


def test_approved_is_what_was_seen(approver: Browser, row: Approval) -> None:
    before = seen(approver, row)
    row.arguments = {"amount": 5000}
    row.save()
    assert "has changed since you opened the page" in send(approver, row, {"decision": "approve", "seen": before})
    assert state(row) == "pending"
    assert "You approved" in decide(approver, row, "approve")


def test_looking_changes_nothing_but_that_it_was_shown_once(approver: Browser, row: Approval) -> None:
    for url in (LIST, PENDING, detail(row), detail(row), f"{LIST}{row.pk}/pending/"):
        page(approver, url)
    assert approver.get(f"{LIST}{row.pk}/decide/?decision=approve").headers["Location"] == detail(row)
    assert state(row) == "pending"
    page(staff("view_approval", name="only-looking"), detail(row))
    page(staff("approve_tool_call", name="another"), detail(row))
    shown = [each.by.username for each in row.events.filter(kind="shown")]
    assert shown == ["cleo-of-the-staff", "another"]


def test_a_link_to_a_call_survives_the_login(row: Approval) -> None:
    user = User.objects.create_user("dora", password="of-dora", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
    browser = Browser()
    answer = browser.get(detail(row))
    assert answer.headers["Location"] == f"/admin/login/?next={detail(row)}"
    form = {"username": "dora", "password": "of-dora", "next": detail(row)}
    answer = browser.post(answer.headers["Location"], form, follow=True)
    assert 'value="approve"' in answer.content.decode()


def test_an_address_of_no_call_leads_to_the_start(approver: Browser) -> None:
    assert "doesn’t exist" in words(approver.get(f"{LIST}4711/change/", follow=True).content.decode())
    assert approver.post(f"{LIST}4711/decide/", {"decision": "approve"}).status_code == 302


# Who may


def test_whoever_may_only_look_sees_no_buttons_and_decides_nothing(approver: Browser, row: Approval) -> None:
    looking = staff("view_approval", name="only-looking")
    for url in (LIST, detail(row)):
        shown = page(looking, url)
        assert "<form" not in shown.partition("mcp-cards")[2].partition("</article>")[0]
        assert "Read only:" in words(shown)
    answer = looking.post(f"{LIST}{row.pk}/decide/", {"decision": "approve", "seen": seen(approver, row)})
    assert answer.status_code == 403
    assert state(row) == "pending"


@pytest.mark.parametrize("rights", ["permission", "superuser"])
def test_nobody_decides_about_their_own_call(approver: Browser, row: Approval, ada: User, rights: str) -> None:
    if rights == "superuser":
        ada.is_superuser = True
        ada.save()
    else:
        ada.user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
    own = signed_in(ada)
    assert "You requested this call" in words(page(own, detail(row)))
    said = send(own, row, {"decision": "approve", "seen": seen(approver, row)})
    assert "Not decided: you requested this call" in said
    assert state(row) == "pending"


def test_a_right_that_was_taken_back_meanwhile_decides_nothing(row: Approval) -> None:
    browser = staff("approve_tool_call", "view_approval")
    before = seen(browser, row)
    User.objects.get(username="cleo-of-the-staff").user_permissions.remove(
        Permission.objects.get(codename="approve_tool_call")
    )
    answer = browser.post(f"{LIST}{row.pk}/decide/", {"decision": "approve", "seen": before})
    assert answer.status_code == 403
    assert state(row) == "pending"


def test_a_form_of_another_site_decides_nothing(row: Approval) -> None:
    user = User.objects.create_superuser("root")
    strict = signed_in(user, enforce_csrf_checks=True)
    given = {"decision": "approve", "seen": seen(strict, row)}
    assert strict.post(f"{LIST}{row.pk}/decide/", given).status_code == 403
    assert state(row) == "pending"


@pytest.mark.parametrize("kind", ["Authorization", "X-API-Key"])
def test_a_key_decides_nothing(approver: Browser, row: Approval, kind: str) -> None:
    user = User.objects.create_superuser("root")
    _, key = create_key(user, "strong", endpoints=["default"])
    given = {"decision": "approve", "seen": seen(approver, row)}
    headers = {kind: f"Bearer {key}" if kind == "Authorization" else key}
    answer = Browser().post(f"{LIST}{row.pk}/decide/", given, headers=headers)
    assert answer.status_code == 302
    assert "/login/" in answer.headers["Location"]
    assert state(row) == "pending"


class WithoutSession:
    """What a site may have that recognises people by a token, everywhere."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: Any) -> Any:
        if "X-Somebody" in request.headers:
            request.user = User.objects.get(username=request.headers["X-Somebody"])
            request._dont_enforce_csrf_checks = True
        return self.get_response(request)


def test_whoever_has_no_session_decides_nothing(approver: Browser, row: Approval, settings: Any) -> None:
    User.objects.create_superuser("root")
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.WithoutSession"]
    given = {"decision": "approve", "seen": seen(approver, row)}
    answer = Browser().post(f"{LIST}{row.pk}/decide/", given, headers={"x-somebody": "root"})
    assert answer.status_code == 403
    assert state(row) == "pending"


# Too late


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("approve", "Already decided: dora approved this call of pay_bill."),
        ("deny", "Already decided: dora denied this call of pay_bill. “No.”"),
    ],
)
def test_the_second_of_two_approvers_is_told_who_was_first(
    approver: Browser, row: Approval, first: str, said: str
) -> None:
    before = seen(approver, row)
    dora = User.objects.create_superuser("dora")
    assert getattr(decisions, first)(row, dora, reason="No.")
    for decision in ("approve", "deny"):
        assert said in send(approver, row, {"decision": decision, "seen": before})
    row.refresh_from_db()
    assert row.decided_by == dora


@pytest.mark.parametrize("noticed", [True, False])
def test_a_call_whose_time_is_up_is_not_approved(approver: Browser, row: Approval, noticed: bool) -> None:
    before = seen(approver, row)
    Approval.objects.update(expires=timezone.now() - DAY)
    if noticed:
        assert approval_requests.expire_all() == 1
    assert "the approval request for pay_bill has expired" in send(
        approver, row, {"decision": "approve", "seen": before}
    )
    assert "Expired" in words(page(approver, detail(row)))
    assert state(row) == ("expired" if noticed else "pending")


def test_a_call_that_nobody_wants_any_more_is_not_approved(approver: Browser, ada: User) -> None:
    task = store.create(
        server="default",
        tool="pay_bill",
        principal_kind="oauth",
        principal_id=f"{ada.pk}:7",
        backend="process",
        request={"method": "tools/call", "params": {}},
    )
    row = make(ada, task=task)
    before = seen(approver, row)
    Task.objects.update(status=Task.Status.CANCELLED)
    assert "the task of this call of pay_bill was cancelled" in send(
        approver, row, {"decision": "approve", "seen": before}
    )
    assert state(row) == "pending"
    assert "No approvals pending" in words(page(approver, LIST))


@pytest.mark.parametrize("state", ["pending", "approved", "expired"])
def test_a_call_whose_task_was_cancelled_says_so_to_approvers_and_its_requester(
    approver: Browser, ada: User, state: str
) -> None:
    fields: dict[str, Any] = {"server": "test", "principal_kind": "name", "caller": {}, "request": {}, "dialogue": {}}
    task = store.create(None, status=Task.Status.CANCELLED, **fields)
    row = make(ada, state=state, task=task)
    assert re.findall(r'class="field-state_now[^>]*>([^<]*)<', page(approver, LIST)) == ["Cancelled"]
    shown = words(page(approver, detail(row)))
    assert "Cancelled" in shown
    assert "The task of this call was cancelled. The call was not run" in shown
    assert describe_state(row) == ("Cancelled", "It was not run, because its task was cancelled.")
    for chosen in ("pending", "approved", "expired"):
        assert f"{int(chosen == 'expired')} approval" in words(page(approver, f"{LIST}?state={chosen}")), chosen


def test_a_call_that_expired_before_its_task_was_cancelled_has_expired(approver: Browser, ada: User) -> None:
    fields: dict[str, Any] = {"server": "test", "principal_kind": "name", "caller": {}, "request": {}, "dialogue": {}}
    task = store.create(None, status=Task.Status.CANCELLED, **fields)
    row = make(ada, state="expired", task=task, expires=timezone.now() - DAY)
    assert describe_state(row)[0] == "Expired"
    assert "was cancelled" not in words(page(approver, detail(row)))


def test_a_decision_has_a_time_and_a_name_like_the_facts_beside_it(approver: Browser, ada: User) -> None:
    cleo = User.objects.get(username="cleo-of-the-staff")
    row = make(ada, state="denied", decided=timezone.now() - datetime.timedelta(minutes=5), decided_by=cleo)
    assert "Decided 5 minutes ago , cleo-of-the-staff" in words(page(approver, detail(row)))


# By hand


def test_nobody_makes_changes_or_deletes_any_by_hand(row: Approval) -> None:
    root = signed_in(User.objects.create_superuser("root"))
    assert root.get(f"{LIST}add/").status_code == 403
    assert root.post(detail(row), {"state": "approved"}).status_code == 403
    assert root.post(f"{LIST}{row.pk}/delete/", {"post": "yes"}).status_code == 403
    root.post(LIST, {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"})
    assert state(row) == "pending"
    assert "delete" not in page(root, detail(row)).lower().partition("mcp-approvals")[2]


# Standing approvals


@pytest.fixture
def rule(ada: User, row: Approval) -> AutoApprovalRule:
    cleo = User.objects.create_user("cleo-who-approved")
    cleo.user_permissions.add(Permission.objects.get(codename="approve_tool_call"))
    assert decisions.approve(row, cleo, names=["to"], calls=4, seconds=3600)
    return AutoApprovalRule.objects.get()


def test_standing_approvals_say_whom_they_let_do_what(approver: Browser, rule: AutoApprovalRule) -> None:
    for url in (RULES, f"{RULES}{rule.pk}/change/"):
        shown = words(page(approver, url))
        for said in ("pay_bill", "ada-the-caller", "to the-landlord", "active", "cleo-who-approved"):
            assert said in shown
    assert "active 3 calls left" in words(page(approver, RULES))
    assert RULES in page(approver, LIST)
    assert 'name="_save"' not in page(approver, f"{RULES}{rule.pk}/change/")


@pytest.mark.parametrize("way", ["page", "action"])
def test_a_standing_approval_is_revoked_by_whoever_may_approve(
    approver: Browser, rule: AutoApprovalRule, way: str
) -> None:
    if way == "page":
        url = f"{RULES}{rule.pk}/revoke/"
        assert url in page(approver, f"{RULES}{rule.pk}/change/")
        assert "is revoked" in words(approver.post(url, follow=True).content.decode())
        assert "has already ended" in words(approver.post(url, follow=True).content.decode())
    else:
        approver.post(RULES, {"action": "stop_selected", "_selected_action": [rule.pk], "confirmed": "yes"})
    rule.refresh_from_db()
    assert rule.revoked is not None
    assert "revoked" in words(page(approver, RULES))


def test_whoever_may_only_look_revokes_nothing(rule: AutoApprovalRule) -> None:
    looking = staff("view_autoapprovalrule", "change_autoapprovalrule")
    url = f"{RULES}{rule.pk}/revoke/"
    assert url not in page(looking, f"{RULES}{rule.pk}/change/")
    assert looking.post(url).status_code == 403
    rule.refresh_from_db()
    assert rule.revoked is None


def test_nobody_deletes_a_standing_approval_but_with_its_user(rule: AutoApprovalRule, ada: User) -> None:
    root = signed_in(User.objects.create_superuser("root"))
    assert root.get(f"{RULES}add/").status_code == 403
    assert root.post(f"{RULES}{rule.pk}/delete/", {"post": "yes"}).status_code == 403
    root.post(RULES, {"action": "delete_selected", "_selected_action": [rule.pk], "post": "yes"})
    assert AutoApprovalRule.objects.exists()
    assert root.post(f"/admin/auth/user/{ada.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not User.objects.filter(pk=ada.pk).exists()


# How long they are kept


@pytest.mark.postgresql
def test_decided_calls_are_kept_for_a_year_and_those_that_wait_are_refused_when_their_time_is_up(ada: User) -> None:
    now = timezone.now()
    for days in (364, 366):
        for name in ("pending", "denied", "consumed", "approved"):
            make(ada, tool=f"{name}_{days}", state=name, expires=now - days * DAY)
    young = make(ada)
    call_command("mcp_clear", verbosity=0)
    left = dict(Approval.objects.values_list("tool", "state"))
    assert left == {
        "pending_364": "expired",
        "denied_364": "denied",
        "consumed_364": "consumed",
        "approved_364": "expired",
        young.tool: "pending",
    }
    assert not ApprovalEvent.objects.filter(approval=None).exists()


def test_approvals_may_be_kept_for_ever(ada: User, settings: Any) -> None:
    settings.DJANGO_MCP = {**settings.DJANGO_MCP, "APPROVAL_LOG_DAYS": None}
    make(ada, state="denied", expires=timezone.now() - 4000 * DAY)
    call_command("mcp_clear", verbosity=0)
    assert Approval.objects.exists()
