"""What an owner comes to the admin for, in Chromium on the demo with traffic; and that everybody can use the pages."""

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Literal, NamedTuple

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from benchmarks.process import HOST, free_port
from scripts import screenshots
from tests.demo.database import copy_demo
from tests.lanes import at_night
from tests.real_browser.conftest import PATIENCE, browser
from tests.real_logins.conftest import chromium

__all__ = ["browser", "chromium"]

CLIENT = screenshots.PAGES["oauth-client"]
MORE_PAGES = {
    "playground-call": "playground/call/?endpoint=default&kind=tool&key=search_flights",
    "api-key": "apikey/add/",
    "auto-approval-rules": "autoapprovalrule/",
    "auto-approval-rule": "autoapprovalrule/{rule}/change/",
    "client-policies": "clientpolicy/",
    "denied-approval": "approval/{denied}/change/",
    "sessions": "session/",
}
CUT_OFF = """
[...document.querySelectorAll(".results, .mcp-scroll, .mcp-table-scroll")]
    .filter((part) => part.scrollWidth > part.clientWidth).map((part) => part.outerHTML.slice(0, 200))
"""
"""Parts of a page whose right side is out of sight."""
DJANGOS = ["#changelist-search", ".help-tooltip", ".small > a"]
"""Parts of Django's own templates that axe complains about."""


class Agency(NamedTuple):
    """The running demo."""

    admin: str
    endpoint: str
    keys: dict[str, int]

    def page(self, path: str) -> str:
        return f"{self.admin}django_mcp/{path.format(**self.keys)}"


@pytest.fixture(scope="module")
def agency(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[Agency]:
    database, port = tmp_path_factory.mktemp("journeys") / "demo.sqlite3", free_port(set())
    copy_demo(database)
    keys = screenshots.add_traffic(database, port)
    with screenshots.demo(database, port=port) as admin:
        yield Agency(admin, f"http://{HOST}:{port}/mcp", keys)


@pytest.fixture(scope="module")
def signed_in(agency: Agency, browser: Browser) -> object:
    """What the owner's browser keeps."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{agency.admin}login/?next=/admin/")
    page.fill("input[name=username]", "admin")
    page.fill("input[name=password]", "admin")
    page.press("input[name=password]", "Enter")
    page.wait_for_url("**/admin/", timeout=PATIENCE)
    state = context.storage_state()
    context.close()
    return state


def opened(browser: Browser, state: object, **options: object) -> tuple[BrowserContext, Page]:
    context = browser.new_context(storage_state=state, **options)
    context.set_default_timeout(PATIENCE)
    return context, context.new_page()


@pytest.fixture
def page(browser: Browser, signed_in: object) -> Iterator[Page]:
    context, page = opened(browser, signed_in)
    yield page
    context.close()


def call(endpoint: str, key: str, tool: str) -> int:
    """Call a tool with a key, and return the status."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    request = urllib.request.Request(endpoint, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_an_approval_is_decided_on_the_overview(agency: Agency, page: Page) -> None:
    page.goto(agency.page("overview/"))
    pending = page.locator(".mcp-figures li", has_text="Pending approvals")
    count = int(re.findall(r"\d+", pending.inner_text())[0])  # blocking a client, in another test, withdraws some
    card = page.locator(".mcp-card", has_text="send_email")
    card.get_by_role("button", name="Approve", exact=True).click()
    expect(page.locator(".messagelist")).to_contain_text("You approved the call of send_email.")
    expect(page.get_by_role("heading", name="MCP overview")).to_be_visible()
    expect(pending).to_contain_text(str(count - 1))
    expect(page.locator("#nav-sidebar")).to_contain_text(f"Approvals ({count - 1})" if count > 1 else "Approvals")


def test_why_a_call_failed_is_three_clicks_away(agency: Agency, page: Page) -> None:
    page.goto(agency.page("overview/"))
    page.locator(".mcp-figures a", has_text="Errors").click()
    entry = page.locator(".mcp-request-log tbody tr").first
    expect(entry.locator(".mcp-outcome")).to_have_text("tool error")
    reason = entry.locator(".mcp-error-message").inner_text()
    tool = entry.locator(".mcp-request a").inner_text()
    entry.locator(".mcp-request a").click()
    expect(page.locator("#content")).to_contain_text(reason)
    page.locator(".mcp-related").get_by_role("link", name=tool).click()
    expect(page.get_by_role("heading", name=re.compile("Policy of"))).to_be_visible()


def test_a_blocked_client_loses_its_running_task(agency: Agency, page: Page) -> None:
    page.goto(agency.page("task/{task}/change/"))
    expect(page.locator(".field-status")).to_contain_text("working")
    page.goto(agency.page(CLIENT))
    page.get_by_role("link", name="Block").click()
    page.get_by_role("button", name="Yes, block it").click()
    expect(page.locator(".messagelist")).to_contain_text("Client Claude is blocked.")
    page.goto(agency.page("task/{task}/change/"))
    expect(page.locator(".field-status")).to_contain_text("cancelled")


def test_a_policy_is_loosened_after_a_question_and_restored_by_one_press(agency: Agency, page: Page) -> None:
    page.goto(agency.page("tools/?q=cancel_booking&endpoint=default"))
    policy = page.get_by_label("Policy of default.cancel_booking")
    policy.select_option("allow")
    page.get_by_role("button", name="Save policies").click()
    expect(page.get_by_role("heading", name="Allow more than now?")).to_be_visible()
    page.get_by_role("button", name="Yes, allow more").click()
    expect(policy).to_have_value("allow")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator(".messagelist")).to_contain_text("1 policy restored.")
    page.goto(agency.page("tools/?q=cancel_booking&endpoint=default"))
    expect(policy).to_have_value("default")


def test_a_key_is_made_for_oneself_and_calls_until_it_is_revoked(agency: Agency, page: Page) -> None:
    page.goto(agency.page("apikey/add/"))
    page.fill("input[name=name]", "journey")
    page.get_by_role("button", name="Save").click()
    key = page.locator("#mcp-key").inner_text()
    expect(page.locator(".mcp-details")).to_contain_text(agency.endpoint)
    page.get_by_text("Claude Code – default").click()
    expect(page.locator("details[open] pre").first).to_contain_text(key)
    assert call(agency.endpoint, key, "get_preferences") == 200
    page.get_by_role("link", name="I have copied it").click()
    page.locator("#result_list tbody tr", has_text="journey").locator("input.action-select").check()
    page.select_option("select[name=action]", "revoke_selected")
    page.locator("button[name=index]").click()
    expect(page.locator("#content")).to_contain_text("journey")
    page.get_by_role("button", name="Yes, revoke it").click()
    expect(page.locator(".messagelist")).to_contain_text("1 API key is revoked.")
    assert call(agency.endpoint, key, "get_preferences") == 401


@pytest.mark.parametrize("leave", ["Escape", "a click elsewhere"])
def test_a_menu_of_filters_is_left_without_a_choice(agency: Agency, page: Page, leave: str) -> None:
    page.goto(agency.page("requestlog/"))
    outcome, tool = (page.locator(".mcp-filter").get_by_text(name, exact=True) for name in ("Outcome", "Tool"))
    menu = page.locator("details[open] .mcp-menu")
    outcome.click()
    expect(menu).to_contain_text("rejected")
    tool.click()
    expect(menu).to_have_count(1)
    expect(menu).to_contain_text("search_flights")
    page.keyboard.press("Tab")
    if leave == "Escape":
        page.keyboard.press("Escape")
        expect(tool).to_be_focused()
    else:
        page.get_by_role("heading", name="Request log").click()
    expect(menu).to_have_count(0)
    assert page.url == agency.page("requestlog/")


@pytest.mark.parametrize("has_clipboard", [True, False], ids=["clipboard", "old command"])
def test_buttons_copy_what_stands_above_them(agency: Agency, page: Page, has_clipboard: bool) -> None:
    """Browsers give the clipboard to pages of https and localhost alone; elsewhere the old command copies."""
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    if not has_clipboard:
        page.add_init_script("Clipboard.prototype.writeText = () => Promise.reject()")

    def press_all() -> list[str]:
        expect(page.locator(".mcp-copy").first).to_be_attached()  # all() below waits for nothing
        page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
        copied = []
        for button in page.locator(".mcp-copy").all():
            button.click()
            expect(button).to_have_text("Copied")
            copied.append(page.evaluate("navigator.clipboard.readText()"))
            assert copied[-1] == button.evaluate("(button) => button.previousElementSibling.textContent")
        return copied

    page.goto(agency.page("apikey/add/"))
    page.fill("input[name=name]", "copied")
    page.get_by_role("button", name="Save").click()
    key, *settings = press_all()
    assert re.fullmatch(r"mcp_key_\w{49}", key)
    assert settings
    assert any(key in text for text in settings)
    page.goto(agency.page(screenshots.PAGES["playground-result"]))
    page.click(screenshots.PRESSED["playground-result"])
    page.locator("summary", has_text="Copy this request").wait_for()
    assert any("tools/call" in text for text in press_all())


@pytest.mark.parametrize(
    "screen",
    [
        (1280, "light"),
        at_night((800, "light")),
        (631, "light"),
        (390, "dark"),
        at_night((1280, "dark")),
        at_night((390, "light")),
    ],
    ids=lambda screen: "-".join(map(str, screen)),
)
def test_everybody_can_use_the_pages(
    agency: Agency, browser: Browser, signed_in: object, screen: tuple[int, Literal["light", "dark"]]
) -> None:
    """axe-core finds nothing in what is ours, no page is wider than the window, and no list than its place on it."""
    width, theme = screen
    context, page = opened(browser, signed_in, viewport={"width": width, "height": 900}, color_scheme=theme)
    found = {}
    for name, path in {**screenshots.PAGES, **MORE_PAGES}.items():
        page.goto(agency.page(path))
        wide = page.evaluate("document.documentElement.scrollWidth")
        problems = []
        if width >= 1280:
            problems += [(html, "cut off") for html in page.evaluate(CUT_OFF)]
        if width not in {800, 631}:  # a tablet, and a window beside another one: the same pages as on a phone
            axe = Axe().run(page, context={"include": ["#content"], "exclude": DJANGOS})
            problems += [(found["id"], found["nodes"][0]["html"]) for found in axe.response["violations"]]
        if problems or wide > width:
            found[name] = problems, wide
    context.close()
    assert found == {}
