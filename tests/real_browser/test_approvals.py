"""Two people at the page of approvals, and a client of each kind; the people are never at the client's process."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect
from playwright.sync_api import TimeoutError as GoneError

from tests.faults.conftest import until
from tests.faults.wire import text
from tests.lanes import at_night
from tests.real_browser.callers import KINDS, Declared, Kind, OldPlain, Plain, WithPages, WithTasks
from tests.real_browser.conftest import LIST, PATIENCE, SOON, Site

Open = Callable[..., Page]
on_one_database = pytest.mark.parametrize("running_site", ["sqlite"], indirect=True)
"""For what a page does whatever the database."""
TO = "the-landlord"


def card(page: Page, amount: int) -> Locator:
    """The card of a call."""
    words = re.compile(rf"balance\s*1000\s*{1000 - amount}\s", re.IGNORECASE)
    return page.locator("article.mcp-card").filter(has_text=words)


def key_of(page: Page, amount: int) -> str:
    """The primary key of the ticket that a card shows."""
    (key,) = re.findall(r"\d+", str(card(page, amount).get_attribute("id")))
    return key


def press(page: Page, amount: int, button: str, reason: str = "") -> None:
    """Press a button of a card, when pages have settled; again, where cards moved at that very moment."""
    if reason:
        card(page, amount).get_by_label("Reason").fill(reason)
    pressed = card(page, amount).get_by_role("button", name=button, exact=True, disabled=False)
    page.locator("[data-mcp-polling]:not([data-settling])").wait_for()
    pressed.click()
    with suppress(GoneError):  # for it was pressed
        for _ in range(3):
            if not pressed.count() or card(page, amount).locator("form[data-sent]").count():
                return
            page.locator("[data-mcp-polling]:not([data-settling])").wait_for()
            pressed.click(timeout=1000)


SIDEBAR_COUNTS = """() => {
    const count = (text) => (text.match(/\\((\\d+)\\)/) || [null, "0"])[1];
    return count(document.title) === count(document.querySelector("#nav-sidebar .model-approval th").textContent);
}"""
"""The sidebar says as many approvals are pending as the title of the page, which counts the cards."""


def stayed(page: Page) -> bool:
    """Whether it is the page that was opened, and not another one at its place."""
    return bool(page.evaluate("window.stayed === true"))


def paid(site: Site, amount: int) -> int:
    """How often."""
    return site.journal().count(f"paid {amount} to {TO}")


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_waits_is_approved_and_goes_on(site: Site, at_list: Open, amount: int, kind: type[Kind]) -> None:
    page = at_list("cleo")
    client = kind(site[0])
    client.begin(amount=amount, to=TO)
    expect(card(page, amount)).to_be_visible(timeout=SOON)
    expect(card(page, amount)).to_contain_text("ann")
    expect(page).to_have_title(re.compile(r"^\(\d+\) "))
    page.wait_for_function(SIDEBAR_COUNTS, timeout=SOON)
    assert paid(site, amount) == 0
    if client.url:
        assert client.url.startswith(f"http://127.0.0.1:{site[0]}{LIST}")
        other = page.context.new_page()
        other.goto(client.url)
        press(other, amount, "Approve")
        expect(other.locator(".messagelist")).to_contain_text("You approved the call of pay")
    else:
        press(page, amount, "Approve")
        expect(page.locator(".mcp-message")).to_contain_text("You approved the call of pay. It runs once.")
    expect(card(page, amount)).to_have_count(0, timeout=SOON)
    decided = page.locator("#result_list tbody tr").first
    expect(decided).to_contain_text("pay", timeout=SOON)
    expect(decided).to_contain_text("cleo")
    page.wait_for_function(SIDEBAR_COUNTS, timeout=SOON)
    assert stayed(page)
    assert client.end() == f"Paid {amount} to {TO}."
    assert paid(site, amount) == 1


@on_one_database
def test_a_decision_is_confirmed_though_the_page_learns_of_it_before_the_answer(
    site: Site, at_list: Open, amount: int
) -> None:
    page, client = at_list("cleo"), WithPages(site[0])
    client.begin(amount=amount, to=TO)
    page.goto(client.url)

    def answer_late(route: Route) -> None:
        with page.expect_response(lambda answer: answer.url.endswith("/pending/") and answer.status == 200):
            decided = route.fetch()  # the page asks again as soon as the decision is saved
        route.fulfill(response=decided)

    page.route("**/decide/", answer_late)
    page.locator("[data-mcp-polling]:not([data-settling])").wait_for()
    card(page, amount).get_by_role("button", name="Approve", exact=True).click(no_wait_after=True)
    expect(page.locator(".messagelist")).to_contain_text("You approved the call of pay")
    assert client.end() == f"Paid {amount} to {TO}."


@on_one_database
@pytest.mark.parametrize("kind", [Plain, WithPages, *map(at_night, sorted({*KINDS} - {Plain, WithPages}, key=str))])
def test_a_call_that_is_refused_hears_why(site: Site, at_list: Open, amount: int, kind: type[Kind]) -> None:
    client = kind(site[0])
    client.begin(amount=amount, to=TO)
    page = at_list("cleo")
    press(page, amount, "Deny", "The landlord has moved.")
    expect(page.locator(".mcp-message")).to_contain_text("You denied the call of pay.")
    assert "The landlord has moved." in client.end()
    assert paid(site, amount) == 0


@on_one_database
def test_a_call_that_nobody_decides_about_is_refused(site: Site, at_list: Open, amount: int) -> None:
    page = at_list("cleo")
    client = WithTasks(site.start({"APPROVAL_REQUEST_TTL": "5"}).port)
    client.begin(amount=amount, to=TO)
    expect(card(page, amount)).to_be_visible(timeout=SOON)
    expect(card(page, amount)).to_have_count(0, timeout=5000 + SOON)
    assert "its approval request expired" in client.end()
    assert paid(site, amount) == 0


@on_one_database
def test_a_button_that_is_pressed_after_the_time_says_so(site: Site, at_list: Open, amount: int) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    page = at_list("cleo")
    page.route("**/pending/*", lambda route: route.abort())  # or she would see it go
    site.let_time_be_up(key_of(page, amount))
    press(page, amount, "Approve")
    expect(page.locator(".mcp-message")).to_contain_text("the approval request for pay has expired")
    assert paid(site, amount) == 0


def test_a_client_that_cannot_wait_makes_the_same_call_again(site: Site, at_list: Open, amount: int) -> None:
    client = Declared(site.start({"APPROVAL_WAIT_TIMEOUT": "0.2"}).port)
    assert "repeat exactly the same call" in text(client.call("pay", amount=amount, to=TO))
    page = at_list("cleo")
    press(page, amount, "Approve")
    expect(page.locator(".mcp-message")).to_contain_text("You approved")
    assert text(client.call("pay", amount=amount, to=TO)) == f"Paid {amount} to {TO}."
    assert "requires approval" in text(client.call("pay", amount=amount, to=TO))
    assert paid(site, amount) == 1


@pytest.mark.parametrize("second", ["Approve", "Deny"])
def test_the_slower_of_two_approvers_is_told_that_she_is_late(
    site: Site, at_list: Open, amount: int, second: str
) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    dora, cleo = at_list("dora"), at_list("cleo")
    expect(card(cleo, amount)).to_be_visible(timeout=SOON)
    cleo.route("**/pending/*", lambda route: route.abort())  # or she would see it go
    press(dora, amount, "Approve")
    expect(dora.locator(".mcp-message")).to_contain_text("You approved")
    press(cleo, amount, second)
    expect(cleo.locator(".mcp-message")).to_contain_text("Already decided: dora approved this call of pay.")
    assert client.end() == f"Paid {amount} to {TO}."
    assert paid(site, amount) == 1


@on_one_database
def test_whoever_made_the_call_sees_no_button_and_cannot_do_without(site: Site, at_list: Open, amount: int) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    ann, cleo = at_list("ann"), at_list("cleo")
    expect(card(ann, amount)).to_contain_text("You requested this call, so another person has to decide.")
    expect(card(ann, amount).get_by_role("button")).to_have_count(0)
    # With the form that another person has, and a token of her own.
    form = card(cleo, amount).locator("form")
    action, seen = form.get_attribute("action"), form.locator("[name=seen]").input_value()
    cookies = {each["name"]: each["value"] for each in ann.context.cookies()}
    sent = {"decision": "approve", "seen": seen, "csrfmiddlewaretoken": cookies["csrftoken"]}
    answer = ann.request.post(site.url(1, str(action)), form=sent, headers={"x-mcp-fragment": "1"})
    assert answer.ok
    assert "another person has to decide" in answer.text()
    assert client.get()["status"] == "working"
    press(cleo, amount, "Deny")
    assert "denied" in client.end()
    assert paid(site, amount) == 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_task_outlives_the_server_that_made_it(site: Site, at_list: Open, amount: int, when: str) -> None:
    """Before the decision, or after it by another process, it is restarted."""
    page = at_list("cleo")
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    site.kill(0)
    if when == "before":
        site.replace_dead()
    expect(card(page, amount)).to_be_visible(timeout=SOON)
    press(page, amount, "Approve")
    expect(page.locator(".mcp-message")).to_contain_text("You approved")
    site.replace_dead()
    client.move(site[0])
    assert client.end() == f"Paid {amount} to {TO}."
    assert paid(site, amount) == 1


@pytest.mark.parametrize("kind", [Plain, OldPlain])
def test_a_call_whose_server_died_is_made_again_and_runs(
    site: Site, at_list: Open, amount: int, kind: type[Kind]
) -> None:
    page = at_list("cleo")
    client = kind(site[0])
    client.begin(amount=amount, to=TO)
    expect(card(page, amount)).to_be_visible(timeout=SOON)
    site.kill(0)
    press(page, amount, "Approve")
    expect(page.locator(".mcp-message")).to_contain_text("You approved")
    site.replace_dead()
    assert paid(site, amount) == 0
    assert text(Declared(site[0]).call("pay", amount=amount, to=TO)) == f"Paid {amount} to {TO}."
    assert paid(site, amount) == 1


@on_one_database
def test_the_page_outlives_its_server(site: Site, at_list: Open, amount: int) -> None:
    page = at_list("cleo")
    site.kill(1)
    expect(page.locator(".mcp-connection-lost")).to_contain_text("Connection lost", timeout=SOON)
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    site.restart(1)
    expect(card(page, amount)).to_be_visible(timeout=PATIENCE)
    expect(page.locator(".mcp-connection-lost")).to_be_empty()
    press(page, amount, "Deny")
    expect(page.locator(".mcp-message")).to_contain_text("You denied")
    assert stayed(page)
    assert "denied" in client.end()


@on_one_database
def test_what_somebody_fills_in_is_there_when_other_calls_come_and_go(site: Site, at_list: Open, amount: int) -> None:
    first, other = WithTasks(site[0]), WithTasks(site[0])
    first.begin(amount=amount, to=TO)
    page, dora = at_list("cleo"), at_list("dora")
    mine = card(page, amount)
    mine.get_by_label("Reason").fill("Because the roof")
    mine.locator(".mcp-auto-approval summary").click()
    mine.get_by_role("checkbox", name="amount").uncheck()
    other.begin(amount=amount + 50_000, to=TO)
    expect(card(page, amount + 50_000)).to_be_visible(timeout=SOON)
    press(dora, amount + 50_000, "Deny")
    expect(card(page, amount + 50_000)).to_have_count(0, timeout=SOON)
    expect(mine.get_by_label("Reason")).to_have_value("Because the roof")
    expect(mine.get_by_role("checkbox", name="amount")).not_to_be_checked()
    expect(mine.locator("fieldset")).to_be_visible()

    press(dora, amount, "Deny")
    expect(mine).to_contain_text("This call is no longer pending", timeout=SOON)
    expect(mine.get_by_label("Reason")).to_have_value("Because the roof")
    expect(mine.get_by_role("button", name="Approve", exact=True)).to_be_disabled()


def test_further_calls_like_it_are_approved_with_it(site: Site, at_list: Open, amount: int) -> None:
    client = Plain(site[0])
    client.begin(amount=amount, to=TO)
    page = at_list("cleo")
    mine = card(page, amount)
    mine.locator(".mcp-auto-approval summary").click()
    mine.get_by_label("Number of further calls").fill("2")
    mine.get_by_role("checkbox", name="amount").check()
    mine.get_by_role("checkbox", name="to").uncheck()
    press(page, amount, "Approve and add rule")
    expect(page.locator(".mcp-message")).to_contain_text("and similar calls")
    said = [client.end(), *(text(Declared(site[0]).call("pay", amount=amount, to=name)) for name in ("x", "y"))]
    assert said == [f"Paid {amount} to {name}." for name in (TO, "x", "y")]
    third = WithTasks(site[0])
    third.begin(amount=amount, to="z")
    expect(card(page, amount)).to_be_visible(timeout=SOON)
    press(page, amount, "Deny")
    assert "denied" in third.end()


@on_one_database
def test_enter_in_a_field_decides_nothing(site: Site, at_list: Open, amount: int) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    page = at_list("cleo")
    mine = card(page, amount)
    mine.locator(".mcp-auto-approval summary").click()
    mine.get_by_label("Number of further calls").press("Enter")
    mine.get_by_label("Reason").press("Enter")
    page.locator("[data-mcp-polling]:not([data-settling])").wait_for()
    press(page, amount, "Deny")
    expect(page.locator(".mcp-message")).to_contain_text("You denied")
    assert "denied" in client.end()


@on_one_database
def test_the_keyboard_is_enough(site: Site, at_list: Open, amount: int) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    page = at_list("cleo")
    card(page, amount).get_by_label("Reason").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator(".mcp-message")).to_be_focused()
    assert client.end() == f"Paid {amount} to {TO}."


@on_one_database
def test_without_scripts_the_page_does_the_same(site: Site, at_list_plain: Page, amount: int) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    page = at_list_plain
    page.get_by_role("link", name="Reload").click()
    page.wait_for_load_state()
    card(page, amount).get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("You approved the call of pay. It runs once.")
    expect(card(page, amount)).to_have_count(0)
    assert client.end() == f"Paid {amount} to {TO}."


@pytest.fixture
def at_list_plain(site: Site, signed_in: Callable[..., BrowserContext]) -> Page:
    page = signed_in("cleo", java_script_enabled=False).new_page()
    page.goto(site.url(1))
    return page


@on_one_database
def test_nothing_is_sent_as_long_as_nothing_changes(site: Site, at_list: Open) -> None:
    page = at_list("cleo")
    statuses: list[int] = []
    page.on("response", lambda answer: "pending/" in answer.url and statuses.append(answer.status))
    until(lambda: page.wait_for_timeout(50) or len(statuses) >= 2, "it asked twice")
    assert set(statuses) == {304}


@on_one_database
def test_a_link_to_a_call_leads_there_through_the_login(
    site: Site, browser: Any, signed_in: Callable[..., BrowserContext], amount: int
) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    message = client.get()["statusMessage"]
    url = re.search(r"http\S+", message)
    assert url is not None, message
    context = browser.new_context()
    page = context.new_page()
    page.goto(url[0])
    page.fill("input[name=username]", "dora")
    page.fill("input[name=password]", "dora")
    page.press("input[name=password]", "Enter")
    page.wait_for_url(url[0])
    press(page, amount, "Approve")
    expect(page.locator(".messagelist")).to_contain_text("You approved")
    expect(page.locator(".mcp-events")).to_contain_text("dora")
    context.close()
    assert client.end() == f"Paid {amount} to {TO}."


@on_one_database
def test_the_page_of_one_call_notices_that_somebody_else_decided(site: Site, at_list: Open, amount: int) -> None:
    client = WithTasks(site[0])
    client.begin(amount=amount, to=TO)
    dora, cleo = at_list("dora"), at_list("cleo")
    card(dora, amount).get_by_role("link", name="pay").click()
    expect(dora.get_by_role("button", name="Approve", exact=True)).to_be_visible()
    press(cleo, amount, "Approve")
    expect(dora.locator("#content-main")).to_contain_text(re.compile(r"Decided.*, cleo"), timeout=SOON)
    expect(dora.get_by_role("button", name="Approve", exact=True)).to_have_count(0)
    assert client.end() == f"Paid {amount} to {TO}."
