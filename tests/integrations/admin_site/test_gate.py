"""Calls of the admin's tools through the approval gate, as clients of both eras make them."""

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import override_settings
from django.urls import clear_url_caches, path, re_path

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.approvals.decisions import approve, deny
from django_mcp.models import Approval
from django_mcp.transports.view import mcp_view
from tests.approvals.asking import call, kind_of, texts
from tests.approvals.conftest import people, server  # noqa: F401 - fixtures
from tests.approvals.test_waiting import Waiting, patiently  # noqa: F401 - a fixture
from tests.clients import LEGACY, MODERN, Client
from tests.integrations.admin_site.office import make_city, make_hotel

People = dict[str, Any]


@pytest.fixture(params=[LEGACY, MODERN])
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def hotel(people: People) -> Iterator[Hotel]:  # noqa: F811 - the fixture
    city = make_city("Gate")
    yield make_hotel(city)
    LogEntry.objects.filter(user__in=[user.pk for user in people.values()]).delete()
    City.objects.filter(pk=city.pk).delete()


@pytest.fixture
def change(
    server: MCPServer,  # noqa: F811 - the fixture
    people: People,  # noqa: F811 - likewise
    hotel: Hotel,
    version: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], dict[str, Any]]:
    """Changes the price as Ann, who is a superuser."""
    User.objects.filter(pk=people["ann"].pk).update(is_staff=True, is_superuser=True)
    monkeypatch.setattr("tests.clients.urls", with_admin)
    admin_tools(server=server, only=["travel.hotel"])
    client = Client(server, version, "view")
    return lambda: call(client, people["ann"], "change_hotel", pk=hotel.pk, price="150").result


@contextmanager
def with_admin(server: MCPServer) -> Iterator[None]:  # noqa: F811 - no fixture here
    """The endpoint and the site's admin."""
    module = types.ModuleType("tests.integrations.admin_site.urls_of_a_gate")
    module.urlpatterns = [path("admin/", site.urls), re_path(rf"^{server.path}/?$", mcp_view(server))]  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    with override_settings(ROOT_URLCONF=module.__name__):
        clear_url_caches()
        yield
    clear_url_caches()


def price(hotel: Hotel) -> int:
    return int(Hotel.objects.get(pk=hotel.pk).price)


@pytest.mark.parametrize("who", ["ann", "cleo"])
def test_a_call_runs_when_it_is_repeated_after_an_approval_and_not_before(
    change: Callable[[], dict[str, Any]],
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
    who: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("django_mcp.approvals.gate.wait", _no_wait)
    assert kind_of(change()) == "approval_required"
    assert kind_of(change()) == "pending"
    assert (price(hotel), Approval.objects.count()) == (120, 1)
    assert approve(Approval.objects.get(), people[who], in_admin=True)
    assert not change().get("isError")
    assert price(hotel) == 150
    assert LogEntry.objects.get().user == people["ann"]
    assert kind_of(change()) == "approval_required", "an approval is for one call"


async def _no_wait(context: Any, approval: Approval, seconds: float) -> Approval:
    approval_now: Approval = approval
    return approval_now


@pytest.mark.needs("DATABASE_URL")
@pytest.mark.postgresql
@pytest.mark.parametrize("decision", [approve, deny])
def test_a_call_that_waits_ends_with_the_decision_of_its_requester(
    change: Callable[[], dict[str, Any]],
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
    patiently: None,  # noqa: F811 - the fixture
    decision: Callable[..., bool],
) -> None:
    waiting = Waiting(change)
    assert decision(Approval.objects.get(), people["ann"], in_admin=True)
    result = waiting.result()
    assert price(hotel) == (150 if decision is approve else 120)
    assert bool(result.get("isError")) == (decision is deny), texts([result])
