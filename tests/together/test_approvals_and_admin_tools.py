"""Requesters decide calls of the admin's tools in one tab, while another tab or administrator does something else."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.test import override_settings
from django.urls import reverse

from demo_project.travel.models import City, Hotel
from django_mcp import MCPServer, admin_tools
from django_mcp.admin.approval_cards import card_digest
from django_mcp.approvals.decisions import approve, deny
from django_mcp.models import Approval
from tests.approvals.asking import at_once, events, kind_of, newest, serve, the_ticket
from tests.approvals.conftest import _quickly, people, server  # noqa: F401 - fixtures
from tests.integrations.admin_site.office import make_city, make_hotel

People = dict[str, Any]
Change = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _sessions() -> Iterator[None]:
    with override_settings(SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies"):
        yield


@pytest.fixture
def hotel(people: People) -> Iterator[Hotel]:  # noqa: F811 - the fixture
    city = make_city("Together")
    yield make_hotel(city)
    LogEntry.objects.filter(user__in=[user.pk for user in people.values()]).delete()
    City.objects.filter(pk=city.pk).delete()


@pytest.fixture
def change(server: MCPServer, people: People, hotel: Hotel) -> Change:  # noqa: F811 - the fixtures
    """Changes the hotel as one of two superusers, Ann and Ben."""
    admin_tools(server=server, only=["travel.hotel"])
    for name in ("ann", "ben"):
        User.objects.filter(pk=people[name].pk).update(is_staff=True, is_superuser=True)
        people[name].refresh_from_db()

    def call(user: str = "ann", **given: Any) -> dict[str, Any]:
        caller = User.objects.get(pk=people[user].pk)
        return serve(server, caller, "change_hotel", {"pk": hotel.pk, **(given or {"price": "150"})})

    return call


def tab(user: Any) -> Browser:
    browser = Browser()
    browser.force_login(user)
    return browser


def press(browser: Browser, decision: str, seen: str = "", approval: Approval | None = None) -> str:
    row = approval or newest()
    given = {"decision": decision, "seen": seen or card_digest(row)}
    address = reverse("admin:django_mcp_approval_decide", args=[row.pk])
    return browser.post(address, given, headers={"x-mcp-fragment": "1"}).content.decode()


def price(hotel: Hotel) -> int:
    return int(Hotel.objects.get(pk=hotel.pk).price)


def test_of_two_tabs_of_a_requester_the_first_decides(
    change: Change,
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
) -> None:
    change()
    first, second = tab(people["ann"]), tab(people["ann"])
    assert "You approved the call" in press(first, "approve")
    assert "Already decided: You approved this call" in press(second, "deny")
    assert not change().get("isError")
    assert price(hotel) == 150


def test_of_two_administrators_who_change_the_same_field_the_second_is_asked_anew(
    change: Change,
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
) -> None:
    change("ann", price="150")
    change("ben", price="200")
    of_ann, of_ben = Approval.objects.order_by("pk")
    press(tab(people["ann"]), "approve", approval=of_ann)
    press(tab(people["ben"]), "approve", approval=of_ben)
    assert not change("ann", price="150").get("isError")
    assert kind_of(change("ben", price="200")) == "expired", "Ben saw a price that is not there any more"
    assert price(hotel) == 150
    change("ben", price="200")
    assert newest().preview["changes"][0]["before"] == "150.00"


def test_of_two_administrators_who_change_other_fields_both_are_done(
    change: Change,
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
) -> None:
    change("ann", price="150")
    change("ben", rooms=3)
    for name, approval in zip(("ann", "ben"), Approval.objects.order_by("pk"), strict=True):
        press(tab(people[name]), "approve", approval=approval)
    assert not change("ann", price="150").get("isError")
    assert not change("ben", rooms=3).get("isError")
    hotel.refresh_from_db()
    assert (int(hotel.price), hotel.rooms) == (150, 3)


def test_what_is_saved_in_a_browser_after_the_approval_is_not_overwritten(
    change: Change,
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
) -> None:
    change()
    press(tab(people["ann"]), "approve")
    fields = {"name": "Aurora", "city": hotel.city.pk, "district": "Baixa", "stars": 4, "rating": "4.5", "rooms": 9}
    address = reverse("admin:travel_hotel_change", args=[hotel.pk])
    assert tab(people["ben"]).post(address, {**fields, "price": "99"}).status_code == 302
    assert kind_of(change()) == "expired"
    assert price(hotel) == 99


def test_who_is_not_staff_any_more_does_not_decide_on_the_page_that_is_open(
    change: Change,
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
) -> None:
    change()
    browser = tab(people["ann"])
    User.objects.filter(pk=people["ann"].pk).update(is_staff=False)
    press(browser, "approve")
    assert newest().state == "pending"


def test_a_requester_who_approved_and_lost_the_right_since_changes_nothing(
    change: Change,
    people: People,  # noqa: F811 - the fixture
    hotel: Hotel,
) -> None:
    change()
    press(tab(people["ann"]), "approve")
    User.objects.filter(pk=people["ann"].pk).update(is_superuser=False)
    with pytest.raises(Exception, match="Unknown tool"):
        change()
    assert price(hotel) == 120


@pytest.mark.postgresql
@pytest.mark.slow
def test_of_a_requester_and_an_approver_who_decide_at_once_one_does(
    change: Change,
    people: People,  # noqa: F811 - the fixture
    others_write: None,
) -> None:
    for _ in range(5):
        change()
        ticket = the_ticket()
        done = at_once(
            lambda ticket=ticket: approve(ticket, people["ann"], in_admin=True),  # type: ignore[misc]
            lambda ticket=ticket: deny(Approval.objects.get(pk=ticket.pk), people["cleo"]),  # type: ignore[misc]
        )
        assert sorted(done) == [False, True]
        assert len([kind for kind in events(the_ticket()) if kind in {"approved", "denied"}]) == 1
        Approval.objects.all().delete()
