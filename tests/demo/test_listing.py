"""The agency could be listed in every directory, once it is deployed."""

from collections.abc import Iterator

import pytest
from django.test import Client, override_settings

from demo_project.settings import DJANGO_MCP
from demo_project.travel.endpoints import office, open_, staff
from django_mcp import server as agency
from django_mcp.listing.documents import listed_servers, server_json
from django_mcp.listing.rules import DIRECTORIES, findings

BASE = "https://travel.example.com"


@pytest.fixture
def deployed(travel: None) -> Iterator[None]:
    """The settings of the demo, at a public address."""
    vars(agency).pop("implementation", None)  # cached, and made of settings
    with override_settings(
        DJANGO_MCP={**DJANGO_MCP, "BASE_URL": BASE, "PRIVACY_POLICY_URL": f"{BASE}/privacy/"},
    ):
        yield
    vars(agency).pop("implementation", None)


def test_no_directory_would_refuse_the_agency(deployed: None, subtests: pytest.Subtests) -> None:
    for directory in DIRECTORIES:
        with subtests.test(directory=directory):
            found = findings(directory, agency)
            assert [each.rule.id for each in found if each.rule.refuses] == []
            assert {each.rule.id for each in found} <= {
                "tool-destructive",
                "app-domain",
            }  # its tools that only add, and pages without an origin


def test_the_endpoints_for_staff_are_not_published(deployed: None) -> None:
    assert {agency, open_} <= set(listed_servers())
    assert {staff, office}.isdisjoint(listed_servers())
    assert server_json(agency)["name"] == "com.example.travel/travel-agency"


def test_the_privacy_policy_is_a_page(deployed: None) -> None:
    answer = Client().get("/privacy/")
    assert answer.status_code == 200
    assert "Privacy policy" in answer.text
