"""The admin in the conversation: anna looks for rows, opens one, changes it, and decides in the admin."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.real_browser.apps.conftest import Open
from tests.real_browser.apps.demo import OFFICE_APPS, OFFICE_WIDTHS, Demo, demo
from tests.real_browser.apps.host import Host, Hosted
from tests.real_browser.apps.validator import Validator
from tests.real_clients.node import Clients

DECIDING = {"pending_approvals", "decide_approval"}
"""Tools of the approvals app."""


@pytest.fixture(scope="module")
def agency(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo."""
    with demo(host, tmp_path_factory.mktemp("office")) as served:
        yield served


@pytest.fixture(scope="module")
def anna(connect: Open, agency: Demo) -> Hosted:
    """A page of the host at the back office."""
    return connect(endpoint=agency.office, headers=agency.agent)


def rows(hosted: Hosted) -> Locator:
    return hosted.view.locator("tbody th")


def submitted(hosted: Hosted) -> dict[str, object]:
    """The arguments of the last call from the page."""
    arguments: dict[str, object] = hosted.messages("tools/call")[-1]["params"]["arguments"]
    return arguments


def test_its_apps_keep_the_rules(anna: Hosted, clients: Clients) -> None:
    validator = Validator(anna, clients.libraries)
    have_apps = {tool["name"] for tool in anna.tools if "resourceUri" in tool.get("_meta", {}).get("ui", {})}
    assert have_apps >= {*OFFICE_APPS, "change_hotel"}
    assert {name.partition("_")[0] for name in have_apps - DECIDING} == {"search", "get", "change"}
    problems = {tool: validator.problems(tool, arguments) for tool, arguments in OFFICE_APPS.items()}
    assert {tool: found for tool, found in problems.items() if found} == {}
    assert validator.listed_problems() == []


@pytest.mark.parametrize("tool", OFFICE_APPS)
@pytest.mark.parametrize("width", OFFICE_WIDTHS.values())
def test_no_app_is_wider_than_its_place(anna: Hosted, tool: str, width: int) -> None:
    anna.open(tool, OFFICE_APPS[tool], width=width)
    expect(anna.view.locator("h1")).to_be_visible()
    assert anna.frame.evaluate("document.documentElement.scrollWidth") == width


def test_a_list_filters_sorts_and_turns_pages(anna: Hosted) -> None:
    anna.open("search_hotels")
    view = anna.view
    view.get_by_label("Stars").select_option("5")
    view.get_by_label("Breakfast included").select_option("Yes")
    view.get_by_label("Search", exact=True).fill("Rome")
    view.get_by_role("button", name="Search").click()
    expect(rows(anna)).to_have_text(["Little Esquilino"])
    assert submitted(anna) == {"query": "Rome", "filters": {"stars": "5", "breakfast": "1"}}
    view.get_by_label("Stars").select_option("All")
    view.get_by_label("Breakfast included").select_option("All")
    view.get_by_label("Search", exact=True).fill("")
    view.get_by_role("button", name="Search").click()
    expect(rows(anna).nth(1)).to_be_visible()
    view.get_by_role("button", name="Price per night").click()
    expect(view.get_by_role("columnheader", name="Price per night")).to_have_attribute("aria-sort", "ascending")
    first = rows(anna).first.inner_text()
    view.get_by_role("button", name="Next page").click()
    expect(rows(anna).first).not_to_have_text(first)
    assert submitted(anna) == {"order_by": "price", "page": 2}
    view.get_by_role("button", name="Previous page").click()
    expect(rows(anna).first).to_have_text(first)
    assert anna.violations() == []


def test_a_change_waits_for_anna_in_the_admin_and_the_list_has_it_then(
    anna: Hosted, agency: Demo, browser: Browser
) -> None:
    anna.open("search_hotels", {"query": "Testaccio"})
    view = anna.view
    rows(anna).get_by_role("button").click()
    expect(view.get_by_role("heading", name="The Testaccio Rooms")).to_be_focused()
    expect(view.get_by_text("Requires approval")).to_be_visible()
    view.get_by_label("Price per night").fill("244.50")
    view.get_by_role("button", name="Save").click()
    expect(view.get_by_role("alert")).to_contain_text("requires approval by the user you act for")
    assert submitted(anna)["price"] == 244.5
    address = view.get_by_role("alert").inner_text().partition("decision: ")[2].split()[0]
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{agency.admin}login/?next=/admin/")
    page.fill("input[name=username]", "anna")
    page.fill("input[name=password]", "travel-anna")
    page.press("input[name=password]", "Enter")
    page.wait_for_url("**/admin/")
    page.goto(address)
    expect(page.get_by_text("244.5").first).to_be_visible()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("You approved").first).to_be_visible()
    context.close()
    view.get_by_role("button", name="Save").click()
    expect(view.get_by_role("status")).to_contain_text("was changed successfully")
    expect(view.get_by_label("Price per night")).to_have_value("244.50")
    view.get_by_role("button", name="Back").click()
    expect(view.locator("tbody td[data-label^=Price]")).to_have_text("244.50")
    assert anna.violations() == []


def test_what_is_wrong_is_said_and_stays_as_it_was_typed(anna: Hosted) -> None:
    anna.open("get_hotel", {"pk": 1})
    view = anna.view
    view.get_by_label("Stars").fill("9")
    view.get_by_role("button", name="Save").click()
    expect(view.get_by_role("alert")).to_contain_text("hotel_stars")
    expect(view.get_by_label("Stars")).to_have_value("9")


def test_rows_of_an_inline_are_changed_deleted_and_added(anna: Hosted) -> None:
    anna.open("search_cities", {"query": "London"})
    view = anna.view
    rows(anna).get_by_role("button").click()
    expect(view.get_by_role("heading", name="Airports")).to_be_visible()
    parts = view.locator("[data-mcp-in='airports[]']")
    count = parts.count()
    parts.first.get_by_label("Name").fill("Heathrow of tomorrow")
    for code in ("ZZY", "ZZZ"):
        view.get_by_role("button", name="Add another airport").click()
        expect(parts.last.get_by_label("IATA code")).to_be_focused()
        parts.last.get_by_label("IATA code").fill(code)
        parts.last.get_by_label("Name").fill(f"Airport {code}")
    parts.last.get_by_role("button", name="Remove").click()
    expect(parts).to_have_count(count + 1)
    view.get_by_role("button", name="Save").click()
    expect(view.get_by_role("alert")).to_contain_text("requires approval")
    sent = submitted(anna)
    airports = sent["airports"]
    assert isinstance(airports, list)
    assert len(airports) == count + 1
    assert airports[0]["name"] == "Heathrow of tomorrow"
    assert airports[0]["pk"]
    assert airports[-1] == {"code": "ZZY", "name": "Airport ZZY"}
    assert sent["name"] == "London"
    assert sent["version"]
