"""What runs, in Django's admin: tasks and sessions are looked at, and stopped."""

import re
import unicodedata
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser
from django.utils import timezone

from django_mcp import MCPServer, Principal, Secret, tool
from django_mcp.admin.display import MAX_CHARACTERS, as_text
from django_mcp.auth.api_keys import create_key
from django_mcp.core.server import server
from django_mcp.models import Approval, AutoApprovalRule, Session, Task, TaskInput
from django_mcp.pubsub.publish import caller_topic
from django_mcp.revisions.legacy.sessions import open_session
from django_mcp.tasks import store

pytestmark = pytest.mark.django_db

TASKS, SESSIONS = "/admin/django_mcp/task/", "/admin/django_mcp/session/"


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada-the-caller")


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


@pytest.fixture
def task(ada: User) -> Task:
    return store.create(
        server="default",
        tool="year_report",
        principal_kind="oauth",
        principal_id=f"{ada.pk}:7",
        user=ada,
        client={"name": "desk", "title": "The Desk", "version": "2"},
        request={"method": "tools/call", "params": {"name": "year_report", "arguments": {"year": 2026}}},
        message="Reading bookings",
        progress=3,
        total=12,
        backend="process",
    )


def page(browser: Browser, url: str) -> str:
    answer = browser.get(url)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def words(html: str) -> str:
    """What is read on a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", html).split()).replace("&quot;", '"')


@pytest.mark.postgresql
def test_searches_find_letters_in_every_case_and_form(browser: Browser, subtests: pytest.Subtests) -> None:
    from tests.admin.test_approvals import make

    person = User.objects.create_user("jörg")
    create_key(person, "Bücher für Köln", endpoints=["default"])
    open_session(server, Principal("key", "9", person), "2025-11-25", {"name": 'Das "Köln"-Programm'}, {})
    given = {"server": "default", "principal_kind": "oauth", "request": {}, "backend": "process"}
    store.create(**given, tool="réservé", principal_id="9:7", user=person)
    make(person, reason="Für Köln", state=Approval.State.DENIED)
    rule = {"server": "default", "tool": "pay", "principal_kind": "key", "principal_id": "9", "created_by": person}
    AutoApprovalRule.objects.create(**rule, user=person, created=timezone.now(), expires=timezone.now(), remaining=1)
    pages = {
        "apikey": ("KÖLN", "FÜR köln", "JÖRG", '"für köln"'),
        "session": ("KÖLN", "köln", 'DAS "KÖLN"'),
        "task": ("RÉSERVÉ", "JÖRG"),
        "approval": ("FÜR", "KÖLN", "Jörg"),
        "autoapprovalrule": ("JÖRG", "jörg"),
    }
    for name, terms in pages.items():
        for term in terms:
            for form in ("NFC", "NFD"):
                with subtests.test(page=name, term=term, form=form):
                    answer = browser.get(f"/admin/django_mcp/{name}/", {"q": unicodedata.normalize(form, term)})
                    assert answer.context["cl"].result_count == 1
        assert browser.get(f"/admin/django_mcp/{name}/", {"q": "Bonn"}).context["cl"].result_count == 0


def test_the_list_says_who_asked_for_what_and_how_far_it_is(browser: Browser, task: Task) -> None:
    listed = words(page(browser, TASKS))
    assert "year_report ada-the-caller The Desk 2 working Reading bookings (3 of 12)" in listed
    assert "0 tasks" not in listed


def test_the_list_takes_few_queries_however_many_there_are(
    browser: Browser, task: Task, django_assert_max_num_queries: Any
) -> None:
    for number in range(50):
        task.pk, task.task_id = None, f"another-{number}"
        task.save()
    with django_assert_max_num_queries(14):
        page(browser, TASKS)


@pytest.mark.postgresql
def test_tasks_are_found_by_tool_and_user(browser: Browser, task: Task) -> None:
    for query in ("ada-the-caller", "year_report"):
        assert "1 task" in words(page(browser, f"{TASKS}?q={query}")), query
    assert "0 tasks" in words(page(browser, f"{TASKS}?q=nobody"))


def test_a_task_shows_what_was_sent_asked_and_answered(browser: Browser, task: Task) -> None:
    TaskInput.objects.create(task=task, key="name", name="name", request={"method": "elicitation/create"})
    shown = words(page(browser, f"{TASKS}{task.pk}/change/"))
    assert '"year": 2026' in shown
    assert '"method": "elicitation/create"' in shown
    assert task.task_id in shown
    assert 'name="_save"' not in page(browser, f"{TASKS}{task.pk}/change/")


def test_what_a_client_sent_cannot_dress_up(browser: Browser, task: Task) -> None:
    evil = "<script>alert(1)</script> \u202eabc\u0007 Bearer abcdefghijklmnopqrstuvwxyz"
    task.request["params"]["arguments"] = {"note": evil}
    task.save()
    shown = page(browser, f"{TASKS}{task.pk}/change/")
    assert "<script>alert" not in shown
    assert "\u202e" not in shown
    assert "\\u202eabc\\u0007" in shown
    assert "abcdefghijklmnopqrstuvwxyz" not in shown


def test_what_is_long_is_folded_and_what_is_endless_is_cut(browser: Browser, task: Task) -> None:
    task.result = {"content": [{"type": "text", "text": "x" * 30_000}]}
    task.status = Task.Status.COMPLETED
    task.save()
    shown = page(browser, f"{TASKS}{task.pk}/change/")
    assert "characters more" in shown
    assert len(shown) < 80_000


def test_the_view_of_an_app_does_not_displace_the_result(browser: Browser, task: Task) -> None:
    view = f"<h1>View</h1>{'<p>Oslo</p>' * 3000}"
    task.result = {"content": [{"type": "text", "text": "Oslo"}], "_meta": {"django-mcp/html": view, "note": "kept"}}
    task.status = Task.Status.COMPLETED
    task.save()
    shown = words(page(browser, f"{TASKS}{task.pk}/change/"))
    assert '"text": "Oslo"' in shown
    assert '"note": "kept"' in shown
    assert f'"django-mcp/html": "{len(view)} characters"' in shown
    assert "h1" not in shown


def test_a_task_is_cancelled_after_a_question(browser: Browser, task: Task) -> None:
    assert f"{TASKS}{task.pk}/stop/" in page(browser, f"{TASKS}{task.pk}/change/")
    assert "Cancel the task" in words(page(browser, f"{TASKS}{task.pk}/stop/"))
    task.refresh_from_db()
    assert task.status == "working"

    answer = browser.post(f"{TASKS}{task.pk}/stop/", follow=True)
    assert "is cancelled" in answer.content.decode()
    task.refresh_from_db()
    assert task.status == "cancelled"
    assert LogEntry.objects.get().get_change_message() == "Cancelled."
    assert f"{TASKS}{task.pk}/stop/" not in page(browser, f"{TASKS}{task.pk}/change/")
    assert "had already ended" in browser.post(f"{TASKS}{task.pk}/stop/", follow=True).content.decode()


def test_several_tasks_are_cancelled_at_once(browser: Browser, task: Task) -> None:
    chosen = {"action": "stop_selected", "_selected_action": [task.pk], "confirmed": "yes"}
    assert "1 task is cancelled" in browser.post(TASKS, chosen, follow=True).content.decode()
    task.refresh_from_db()
    assert task.status == "cancelled"


def test_the_page_that_asks_about_several_tasks_is_written_for_several(browser: Browser, task: Task) -> None:
    first = task.pk
    task.pk, task.task_id = None, "another"
    task.save()
    assert "Cancel selected tasks" in words(page(browser, TASKS))
    chosen = {"action": "stop_selected", "_selected_action": [first, task.pk]}
    asked = words(browser.post(TASKS, chosen).content.decode())
    assert "Cancel 2 tasks? Their clients are notified." in asked
    store.cancel(task)
    asked = words(browser.post(TASKS, chosen).content.decode())
    assert "Cancel 1 task? Its client is notified." in asked


def test_who_may_only_look_cannot_stop(task: Task) -> None:
    browser = staff("view_task")
    assert f"{TASKS}{task.pk}/stop/" not in page(browser, f"{TASKS}{task.pk}/change/")
    assert browser.post(f"{TASKS}{task.pk}/stop/").status_code == 403
    assert browser.get(f"{TASKS}add/").status_code == 403
    task.refresh_from_db()
    assert task.status == "working"


def test_who_may_not_look_sees_nothing(task: Task) -> None:
    browser = staff("view_session")
    assert browser.get(f"{TASKS}{task.pk}/change/").status_code == 403


# Sessions


@pytest.fixture
def session() -> Session:
    principal = Principal("public", "", None)
    client = {"name": "inspector", "version": "0.1"}
    assert open_session(server, principal, "2025-11-25", client, {"elicitation": {}})
    assert caller_topic(principal)
    return Session.objects.latest("pk")


def test_the_list_says_which_clients_are_connected(browser: Browser, session: Session) -> None:
    assert "inspector 0.1 2025-11-25 public 0" in words(page(browser, SESSIONS))
    assert '"elicitation": {}' in words(page(browser, f"{SESSIONS}{session.pk}/change/"))


def test_callers_have_names(browser: Browser, ada: User, session: Session, django_assert_max_num_queries: Any) -> None:
    key, _ = create_key(ada, "nightly job", endpoints=["default"])
    callers = [
        ("api_key", str(key.pk)),
        ("oauth", f"{ada.pk}:3"),
        ("session", str(ada.pk)),
        ("external", "joe@example"),
    ]
    for number, (kind, caller) in enumerate(callers * 10):
        session.pk, session.key = None, f"another-{number}"
        session.principal_kind, session.principal_id = kind, caller
        session.save()
    with django_assert_max_num_queries(14):
        listed = words(page(browser, SESSIONS))
    for name in ("ada-the-caller (nightly job) 0", "ada-the-caller 0", "external joe@example 0"):
        assert name in listed
    assert "external joe@example" in words(page(browser, f"{SESSIONS}{session.pk}/change/"))


def test_the_page_that_asks_about_several_sessions_is_written_for_several(browser: Browser, session: Session) -> None:
    first = session.pk
    session.pk, session.key = None, "another"
    session.save()
    assert "End selected sessions" in words(page(browser, SESSIONS))
    chosen = {"action": "stop_selected", "_selected_action": [first, session.pk]}
    asked = words(browser.post(SESSIONS, chosen).content.decode())
    assert "End 2 sessions? Their streams are closed" in asked


@pytest.mark.parametrize("way", ["page", "action", "delete"])
def test_a_session_that_is_ended_is_gone(browser: Browser, session: Session, way: str) -> None:
    match way:
        case "page":
            assert "End the session" in words(page(browser, f"{SESSIONS}{session.pk}/stop/"))
            said = browser.post(f"{SESSIONS}{session.pk}/stop/", follow=True).content.decode()
            assert "has ended" in said
        case "action":
            browser.post(SESSIONS, {"action": "stop_selected", "_selected_action": [session.pk], "confirmed": "yes"})
        case "delete":
            browser.post(f"{SESSIONS}{session.pk}/delete/", {"post": "yes"})
    assert not Session.objects.filter(pk=session.pk).exists()
    entries = LogEntry.objects.filter(object_id=str(session.pk))
    assert entries.count() == 1


@pytest.mark.postgresql
def test_callers_whom_the_site_calls_by_ids_of_its_own_are_listed(browser: Browser) -> None:
    callers = [(kind, key) for kind in ("session", "oauth", "api_key") for key in ("desk", "", "9" * 60, ":7")]
    about = {"server": "default", "tool": "work", "backend": "process"}
    for kind, key in callers:
        open_session(server, Principal(kind, key, None), "2025-11-25", {"name": "desk"}, {})
        store.create(request={"method": "tools/call", "params": {}}, principal_kind=kind, principal_id=key, **about)
    for url in (SESSIONS, TASKS):
        shown = words(page(browser, url))
        assert [each for each in callers if " ".join(each).strip() not in shown] == []
        assert re.search(r"\b\d+ (sessions|tasks)\b", shown), url


def test_saving_the_page_of_what_runs_changes_nothing(browser: Browser, task: Task, session: Session) -> None:
    """The page is old: what it shows has changed since."""
    rows = {TASKS: task, SESSIONS: session}
    for url, row in rows.items():
        page(browser, f"{url}{row.pk}/change/")
    Task.objects.filter(pk=task.pk).update(status="completed", message="Done")
    Session.objects.filter(pk=session.pk).update(log_level="debug")
    before = {url: type(row).objects.filter(pk=row.pk).values().get() for url, row in rows.items()}
    for url, row in rows.items():
        for button in ("_save", "_continue", "_saveasnew"):
            sent = {"status": "working", "message": "Reading", "tool": "x", "log_level": "error", button: "Save"}
            assert browser.post(f"{url}{row.pk}/change/", sent).status_code == 403
        assert browser.post(f"{url}add/", {"tool": "x"}).status_code == 403
        assert type(row).objects.filter(pk=row.pk).values().get() == before[url]
        assert 'name="_save"' not in page(browser, f"{url}{row.pk}/change/")
    assert not LogEntry.objects.exists()


def test_the_page_of_a_task_shows_no_secret(
    browser: Browser, task: Task, make_server: Callable[..., MCPServer]
) -> None:
    endpoint = make_server()

    @tool(server=endpoint)
    def enrol(code: Annotated[str, Secret()], card_number: str, notes: str, password: str = "") -> str:
        """Enrol."""
        return "enrolled"

    long = "x" * (MAX_CHARACTERS - 15) + " Bearer " + "hush" * 20
    given = {"code": "hush-1", "card_number": "hush-2", "password": "hush-3", "notes": long}
    Task.objects.update(
        server=endpoint.name,
        tool="enrol",
        request={"method": "tools/call", "params": {"name": "enrol", "arguments": given}},
        status="completed",
        result={"content": [{"type": "text", "text": long}]},
    )
    assert "hush" not in page(browser, f"{TASKS}{task.pk}/change/")


def test_what_is_shown_of_a_text_is_redacted_before_it_is_cut() -> None:
    """Half of a credential is not recognised as one."""
    for before in range(80):
        text = "x" * (MAX_CHARACTERS - before) + " Bearer " + "hush" * 20
        assert "hush" not in as_text(text)


LISTS = {
    "task": "No tasks.",
    "session": "No sessions.",
    "apikey": "No API keys yet.",
    "autoapprovalrule": "No auto-approval rules.",
    "clientpolicy": "No client policies.",
}


@pytest.mark.parametrize("name", LISTS)
def test_an_empty_list_says_what_would_be_in_it_and_its_reader_what_they_may_not(name: str) -> None:
    html = page(staff(f"view_{name}"), f"/admin/django_mcp/{name}/")
    assert LISTS[name] in html
    assert "Select " not in words(html)
    named = "approve" if name == "autoapprovalrule" else "change"
    assert words(html).count(f"The permission “Can {named} ") == 1
    assert 'id="changelist-filter"' not in html


@pytest.mark.parametrize("name", ["tools", "oauthclient"])
def test_the_pages_without_rows_say_it_too(name: str) -> None:
    behind = {"tools": "toolpolicy", "oauthclient": "clientpolicy"}[name]
    html = page(staff(f"view_{behind}"), f"/admin/django_mcp/{name}/")
    assert words(html).count("The permission “Can change ") == 1
    User.objects.all().delete()
    assert "is needed to change it" not in page(staff(f"change_{behind}"), f"/admin/django_mcp/{name}/")
