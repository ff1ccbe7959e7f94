"""The demo's apps keep the rules of the extension in the host, in both themes, for a customer."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.real_browser.apps.conftest import Open
from tests.real_browser.apps.demo import APPS, demo
from tests.real_browser.apps.host import Host, Hosted
from tests.real_browser.apps.validator import Validator
from tests.real_clients.node import Clients


@pytest.fixture(scope="module")
def ben(host: Host, connect: Open, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosted]:
    """A page of the host at the demo, with the key of a customer."""
    with demo(host, tmp_path_factory.mktemp("demo")) as (endpoint, headers):
        yield connect(endpoint=endpoint, headers=headers)


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
