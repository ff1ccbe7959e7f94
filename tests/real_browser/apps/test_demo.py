"""The demo's apps keep the rules of the extension in the host, in both themes, for a customer."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.real_browser.apps.conftest import Open
from tests.real_browser.apps.demo import APPS, Demo, demo
from tests.real_browser.apps.host import Host, Hosted
from tests.real_browser.apps.validator import Validator
from tests.real_clients.node import Clients


@pytest.fixture(scope="module")
def agency(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo."""
    with demo(host, tmp_path_factory.mktemp("demo")) as served:
        yield served


@pytest.fixture(scope="module")
def ben(connect: Open, agency: Demo) -> Hosted:
    """A page of the host at the demo, with the key of a customer."""
    return connect(endpoint=agency.endpoint, headers=agency.customer)


def test_every_app_of_the_demo_keeps_the_rules(ben: Hosted, clients: Clients) -> None:
    validator = Validator(ben, clients.libraries)
    have_apps = {tool["name"] for tool in ben.tools if "resourceUri" in tool.get("_meta", {}).get("ui", {})}
    assert have_apps == APPS.keys()
    problems = {tool: validator.problems(tool, arguments) for tool, arguments in APPS.items()}
    assert {tool: found for tool, found in problems.items() if found} == {}
    assert validator.listed_problems() == []


def test_a_table_sorts_pages_opens_a_row_and_returns(ben: Hosted) -> None:
    ben.open("search_cities", {"region": "europe", "limit": 3})
    view, rows = ben.view, ben.view.locator("tbody th")
    expect(rows).to_have_text(["Amsterdam", "Athens", "Barcelona"])
    view.get_by_role("button", name="Next page").click()
    expect(rows).to_have_text(["Berlin", "Brussels", "Budapest"])
    view.get_by_role("button", name="Previous page").click()
    expect(rows.first).to_have_text("Amsterdam")
    expect(view.get_by_role("button", name="Next page")).to_be_focused()
    view.get_by_role("button", name="Name").click()
    expect(view.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")
    expect(view.get_by_role("button", name="Name")).to_be_focused()
    view.get_by_label("Search").fill("rome")
    view.get_by_label("Search").press("Enter")
    expect(rows).to_have_text(["Rome"])
    view.get_by_role("button", name="Rome").click()
    expect(view.get_by_role("heading", name="Rome")).to_be_focused()
    view.get_by_role("button", name="Back").click()
    expect(rows).to_have_text(["Rome"])
    assert ben.violations() == []


def test_the_table_of_flights_sorts_its_rows(ben: Hosted) -> None:
    ben.open("search_flights", APPS["search_flights"])
    fares = ben.view.locator("tbody td:nth-child(6)")
    before = fares.all_inner_texts()
    ben.view.get_by_role("button", name="Fare").click()
    expect(fares).to_have_text(before[::-1])
    expect(ben.view.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")


def test_a_long_text_in_a_table_makes_its_column_wide_and_not_its_row_high(ben: Hosted) -> None:
    ben.open("search_trips", {"limit": 5}, width=600)
    expect(ben.view.locator("tbody tr")).to_have_count(5)
    assert max(ben.view.locator("tbody tr").evaluate_all("rows => rows.map(row => row.offsetHeight)")) < 150
    assert ben.frame.evaluate("document.documentElement.scrollWidth") == 600


def test_rows_are_cards_where_a_table_has_no_room(ben: Hosted) -> None:
    ben.open("search_trips", {"limit": 5}, width=360)
    expect(ben.view.locator("tbody tr")).to_have_count(5)
    assert ben.view.locator(".scroll").evaluate("place => place.scrollWidth <= place.clientWidth")
    assert (
        ben.view.locator("tbody tr")
        .first.locator("td")
        .first.evaluate("cell => getComputedStyle(cell, '::before').content === JSON.stringify(cell.dataset.label)")
    )


def test_an_approver_decides_in_the_conversation(connect: Open, agency: Demo, clients: Clients) -> None:
    admin = connect(endpoint=agency.endpoint, headers=agency.approver)
    assert Validator(admin, clients.libraries).problems("pending_approvals", {}) == []
    admin.open("pending_approvals", width=360)
    view = admin.view
    expect(view.get_by_role("heading", level=1)).to_have_text("2 approvals pending")
    assert admin.frame.evaluate("document.documentElement.scrollWidth") == 360
    mail = view.get_by_role("article", name="send_email")
    expect(mail).to_contain_text("Written for ben at the travel agency.")
    mail.get_by_label("Reason (optional)").fill("To whom?")
    mail.get_by_role("button", name="Deny").click()
    expect(view.get_by_role("status")).to_contain_text("You denied the call of send_email.")
    expect(view.get_by_role("status")).to_be_focused()
    expect(view.get_by_role("heading", level=1)).to_have_text("1 approval pending")
    view.get_by_role("article", name="book_hotel").get_by_role("button", name="Approve").click()
    expect(view.get_by_role("status")).to_contain_text("You approved the call of book_hotel. It runs once.")
    expect(view.get_by_text("No calls are waiting for approval.")).to_be_visible()
    assert admin.messages("ui/update-model-context") == []
    assert admin.violations() == []
