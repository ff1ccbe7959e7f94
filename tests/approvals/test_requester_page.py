"""The page for the user who made a call: who is led there, what they read of its state, and who finds nothing."""

import datetime
import re
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.test import Client as Browser
from django.test import override_settings
from django.urls import clear_url_caches, path
from django.utils import timezone

from django_mcp import MCPServer, tool
from django_mcp.approvals.decisions import approve, deny
from django_mcp.approvals.messages import page_url
from django_mcp.models import Approval, Notice, Task
from django_mcp.tasks.store import create
from django_mcp.urls import build_urlpatterns
from tests.approvals.asking import META, PAID, Calls, People, call, the_ticket
from tests.behaviour.users import as_user
from tests.clients import META as PROTOCOL
from tests.clients import MODERN, Client

HOST = "http://testserver"
LOGIN = path("accounts/login/", LoginView.as_view(template_name="admin/login.html"), name="login")


@pytest.fixture
def configure(server: MCPServer) -> Iterator[Callable[..., None]]:
    """Gives the site other addresses and settings."""
    entered: list[Any] = []

    def change(*patterns: Any, **settings: Any) -> None:
        module = types.ModuleType(f"tests.approvals.urls_{len(entered)}")
        module.urlpatterns = list(patterns)  # type: ignore[attr-defined]
        sys.modules[module.__name__] = module
        # Nothing is left in the database, which the test does not roll back.
        sessions = "django.contrib.sessions.backends.signed_cookies"
        ours = {**django_settings.DJANGO_MCP, "BASE_URL": None}
        options = {"ROOT_URLCONF": module.__name__, "SESSION_ENGINE": sessions, "DJANGO_MCP": ours, **settings}
        entered.append(override_settings(**options))
        entered[-1].enable()
        clear_url_caches()

    yield change
    for each in reversed(entered):
        each.disable()
    clear_url_caches()


@pytest.fixture
def client(server: MCPServer, pay: Calls, configure: Callable[..., None]) -> Client:
    """Of a site with an admin, a login page and the package's addresses."""
    configure(path("admin/", admin.site.urls), LOGIN, *build_urlpatterns(), LOGIN_URL="login")
    return Client(server, MODERN, "asgi")


def signed_in(user: Any) -> Browser:
    browser = Browser()
    browser.force_login(user)
    return browser


def staff(user: Any) -> Any:
    user.is_staff = True
    user.save(update_fields=["is_staff"])
    return user


def link(client: Client, user: Any, **arguments: Any) -> str:
    """The address that a caller is given."""
    told: str = call(client, user, **{"amount": 5, **arguments}).result["_meta"][META]["url"]
    return told


def address(url: str) -> str:
    assert url.startswith(HOST), url
    return url.removeprefix(HOST)


def words(response: Any) -> str:
    """What is read on a page, without its title."""
    assert response.status_code == 200, response.status_code
    body = response.content.decode().partition("<body>")[2]
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def look(client: Client, people: People) -> str:
    """What Ann reads of her call, which was made before."""
    ticket = the_ticket()
    return words(signed_in(people["ann"]).get(f"/test/mcp/approvals/{ticket.public_id}/"))


# Who is led there


def test_a_caller_is_led_to_a_page_that_they_can_open(client: Client, people: People) -> None:
    answer = call(client, people["ann"], amount=5).result
    url = answer["_meta"][META]["url"]
    assert url in answer["content"][0]["text"]
    assert "/admin/" not in url
    sent = Browser().get(address(url))
    assert (sent.status_code, sent["Location"]) == (302, f"/accounts/login/?next={address(url)}")
    said = words(signed_in(people["ann"]).get(address(url)))
    assert "Pending approval" in said
    assert "Tool pay" in said
    assert "amount 5" in said


def test_a_client_that_shows_pages_shows_this_one(client: Client, people: People) -> None:
    meta = {PROTOCOL + "clientCapabilities": {"elicitation": {"url": {}}}}
    params = {"name": "pay", "arguments": {"amount": 5}, "_meta": meta}
    asked = client.request("tools/call", params, headers=as_user(people["ann"])).result
    (question,) = asked["inputRequests"].values()
    assert question["params"]["mode"] == "url"
    assert "Pending approval" in words(signed_in(people["ann"]).get(address(question["params"]["url"])))


def test_a_task_that_waits_names_this_page(client: Client, people: People) -> None:
    meta = {PROTOCOL + "clientCapabilities": {"extensions": {PROTOCOL + "tasks": {}}}}
    params = {"name": "pay", "arguments": {"amount": 5}, "_meta": meta}
    made = client.request("tools/call", params, headers=as_user(people["ann"])).result
    assert made["resultType"] == "task"
    (url,) = re.findall(r"http\S+", Task.objects.get().message)
    assert "Once it is approved, it continues automatically." in words(signed_in(people["ann"]).get(address(url)))


def test_approvers_are_told_of_the_page_in_the_admin(client: Client, people: People) -> None:
    call(client, people["ann"], amount=5)
    with override_settings(DJANGO_MCP={"BASE_URL": HOST}):
        assert page_url(the_ticket()) == f"{HOST}/admin/django_mcp/approval/{the_ticket().pk}/change/"


@pytest.mark.parametrize("site", ["without these addresses", "without a login page", "with an unknown login page"])
def test_a_site_that_has_no_such_page_names_the_one_in_the_admin(
    client: Client, people: People, configure: Callable[..., None], site: str
) -> None:
    pages = path("admin/", admin.site.urls)
    match site:
        case "without these addresses":
            configure(pages, LOGIN, LOGIN_URL="login")
        case "without a login page":
            configure(pages, *build_urlpatterns(), LOGIN_URL="/accounts/login/")
        case "with an unknown login page":
            configure(pages, *build_urlpatterns(), LOGIN_URL="login")
    assert link(client, people["ann"]) == f"{HOST}/admin/django_mcp/approval/{the_ticket().pk}/change/"


def test_a_login_page_of_another_site_will_do(client: Client, people: People, configure: Callable[..., None]) -> None:
    configure(path("admin/", admin.site.urls), *build_urlpatterns(), LOGIN_URL="https://login.example.com/in")
    sent = Browser().get(address(link(client, people["ann"])))
    assert sent["Location"].startswith("https://login.example.com/in?next=http%3A//testserver/test/mcp/approvals/")


def test_a_caller_who_is_no_user_is_given_the_page_in_the_admin(client: Client, people: People, pay: Calls) -> None:
    call(client, people["ann"], amount=5)
    ticket = the_ticket()
    Approval.objects.filter(pk=ticket.pk).update(user=None)
    assert "/admin/" in link(client, people["ann"])


# What they read


def test_while_it_waits_the_page_loads_itself_anew_and_says_until_when(client: Client, people: People) -> None:
    page = signed_in(people["ann"]).get(address(link(client, people["ann"])))
    assert b'http-equiv="refresh"' in page.content
    said = words(page)
    assert "Requested" in said
    assert "Expires" in said
    assert "send them the URL of this page" in said
    assert "script-src" not in page["Content-Security-Policy"]
    assert page["Content-Security-Policy"].startswith("default-src 'none'")
    assert (page["X-Frame-Options"], page["Cache-Control"]) == ("DENY", "no-store")


def test_it_says_whether_anybody_was_notified(client: Client, people: People) -> None:
    call(client, people["ann"], amount=5)
    assert "notified" not in look(client, people)
    notice = Notice.objects.create(approval=the_ticket(), kind="email", target="cleo@shop.example")
    assert "notified" not in look(client, people)
    Notice.objects.filter(pk=notice.pk).update(delivered=timezone.now())
    said = look(client, people)
    assert "Approvers have been notified." in said
    assert "cleo" not in said


def test_a_denied_call_has_its_reason(client: Client, people: People) -> None:
    call(client, people["ann"], amount=5)
    deny(the_ticket(), people["cleo"], reason="Too <b>dear</b>.")
    page = signed_in(people["ann"]).get(f"/test/mcp/approvals/{the_ticket().public_id}/")
    assert "Too &lt;b&gt;dear&lt;/b&gt;." in page.content.decode()
    assert "Denied" in words(page)
    assert "cleo" not in words(page)
    assert b'http-equiv="refresh"' not in page.content


def test_an_approved_call_is_approved_then_done(client: Client, people: People) -> None:
    call(client, people["ann"], amount=5)
    approve(the_ticket(), people["cleo"], reason="Ben of accounts said so.")
    said = look(client, people)
    assert "Approved" in said
    assert "repeat exactly the same call" in said
    assert "accounts" not in said, "that reason is for the log"
    assert call(client, people["ann"], amount=5).text == PAID
    assert "Succeeded" in look(client, people)


def test_an_approved_call_that_failed_is_not_called_done(client: Client, server: MCPServer, people: People) -> None:
    @tool(server=server, policy="ask")
    def fail() -> str:
        """Fail."""
        msg = "the secret place"
        raise ValueError(msg)

    call(client, people["ann"], tool="fail")
    approve(the_ticket(), people["cleo"])
    assert call(client, people["ann"], tool="fail").result["isError"]
    said = look(client, people)
    assert "Failed" in said
    assert "secret place" not in said


def test_of_a_run_whose_end_was_never_noted_the_page_says_that_its_server_may_have_stopped(
    client: Client, people: People
) -> None:
    call(client, people["ann"], amount=5)
    approve(the_ticket(), people["cleo"])
    assert call(client, people["ann"], amount=5).text == PAID
    Approval.objects.update(outcome="")
    said = look(client, people)
    assert "Started" in said
    assert "may have stopped" in said
    assert "gets the result" not in said


@pytest.mark.parametrize("status", ["failed", "completed", "cancelled"])
def test_of_a_task_that_is_over_without_an_outcome_the_page_says_that_it_was_interrupted(
    client: Client, people: People, status: str
) -> None:
    call(client, people["ann"], amount=5)
    approve(the_ticket(), people["cleo"])
    assert call(client, people["ann"], amount=5).text == PAID
    fields = {"server": "test", "principal_kind": "name", "caller": {}, "request": {}, "dialogue": {}}
    Approval.objects.update(outcome="", task=create(None, status=status, **fields))
    said = look(client, people)
    assert "Interrupted" in said
    assert "check before retrying" in said
    assert "Started" not in said


@pytest.mark.parametrize("state", ["pending", "approved"])
def test_what_nobody_decided_or_used_in_time_has_expired(client: Client, people: People, state: str) -> None:
    call(client, people["ann"], amount=5)
    Approval.objects.update(state=state, expires=timezone.now() - datetime.timedelta(seconds=1))
    assert "Expired" in look(client, people)


def test_secrets_are_not_shown(client: Client, server: MCPServer, people: People) -> None:
    @tool(server=server, policy="ask")
    def sign_up(name: str, password: str) -> str:
        """Sign up."""
        return f"Hello {name}."

    call(client, people["ann"], tool="sign_up", name="ann", password="correct horse")
    said = look(client, people)
    assert "password" in said
    assert "horse" not in said


# Who finds nothing


def test_anybody_else_reads_what_they_would_of_a_page_that_never_was(client: Client, people: People) -> None:
    url = address(link(client, people["ann"]))
    ticket = the_ticket().public_id
    never = f"/test/mcp/approvals/{'x' * len(ticket)}/"
    for name in ("ben", "cleo"):  # Cleo may approve, but cannot open the admin
        browser = signed_in(people[name])
        found, unknown = browser.get(url), browser.get(never)
        assert (found.status_code, unknown.status_code) == (404, 404)
        assert found.content == unknown.content
    found, unknown = Browser().get(url), Browser().get(never)
    assert found["Location"].replace(ticket, "") == unknown["Location"].replace("x" * len(ticket), "")


def test_a_ticket_is_found_at_its_own_endpoint_only(
    client: Client, people: People, make_server: Callable[..., MCPServer], configure: Callable[..., None]
) -> None:
    make_server("other", path="other")
    configure(path("admin/", admin.site.urls), LOGIN, *build_urlpatterns(), LOGIN_URL="login")
    url = address(link(client, people["ann"]))
    browser = signed_in(people["ann"])
    assert browser.get(url).status_code == 200
    assert browser.get(url.replace("test/mcp", "other")).status_code == 404


def test_nothing_is_decided_there(client: Client, people: People) -> None:
    url = address(link(client, people["ann"]))
    assert signed_in(people["ann"]).post(url).status_code == 405


def test_whoever_may_approve_it_is_taken_to_the_admin(client: Client, people: People) -> None:
    url = address(link(client, people["ann"]))
    page = signed_in(staff(people["dora"])).get(url, follow=True)
    assert page.redirect_chain == [(f"/admin/django_mcp/approval/{the_ticket().pk}/change/", 302)]
    assert b'value="approve"' in page.content


def test_an_approver_who_made_the_call_sees_that_it_waits_for_somebody_else(client: Client, people: People) -> None:
    dora = staff(people["dora"])
    assert "Pending approval" in words(signed_in(dora).get(address(link(client, dora))))


def test_an_approver_is_not_led_to_an_admin_that_fails_for_users_without_is_staff(
    client: Client, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(request: Any) -> bool:
        return bool(request.user.is_of_the_staff)  # as the admin asks for an attribute that users do not have

    url = link(client, people["ann"])
    monkeypatch.setattr(admin.site, "has_permission", fail, raising=False)
    assert signed_in(staff(people["dora"])).get(address(url)).status_code == 404


def test_a_requester_who_decides_is_led_to_the_admin_once_they_may_open_it(
    client: Client, server: MCPServer, people: People
) -> None:
    tool(server=server, policy="ask", name="wave", self_approval=True)(lambda: "waved")
    told = call(client, people["ann"], "wave").result
    assert "by the user you act for, in the site's admin with their browser" in told["content"][0]["text"]
    url = address(told["_meta"][META]["url"])
    assert "Pending approval" in words(signed_in(people["ann"]).get(url))
    sent = signed_in(staff(people["ann"])).get(url)
    assert sent["Location"] == f"/admin/django_mcp/approval/{the_ticket().pk}/change/"
    assert signed_in(staff(people["ben"])).get(url).status_code == 404
