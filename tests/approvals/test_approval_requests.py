"""A call that has to be approved, as its caller and those who decide see it."""

import datetime

import pytest
from django.test import override_settings

from django_mcp.approvals import messages
from django_mcp.approvals.decisions import approve, deny
from django_mcp.models import Approval, ApprovalEvent
from tests.approvals.asking import Calls, People, call, kind, the_ticket
from tests.clients import Client


def test_a_call_is_run_once_when_it_was_approved_and_made_again(client: Client, people: People, pay: Calls) -> None:
    assert kind(call(client, people["ann"], amount=5)) == "approval_required"
    assert kind(call(client, people["ann"], amount=5)) == "pending"
    assert pay == []
    assert approve(the_ticket(), people["cleo"])
    assert call(client, people["ann"], amount=5).text == "Paid 5 to the-landlord."
    assert kind(call(client, people["ann"], amount=5)) == "approval_required"
    assert pay == [{"amount": 5, "to": "the-landlord", "note": None}]
    told = [each.kind for each in ApprovalEvent.objects.filter(approval=Approval.objects.first()).order_by("pk")]
    assert told == ["proposed", "repeated", "approved", "executed", "returned"]


def test_a_call_that_was_refused_tells_why_and_is_not_run(client: Client, people: People, pay: Calls) -> None:
    call(client, people["ann"], amount=5)
    assert deny(the_ticket(), people["cleo"], reason="Too dear.")
    again = call(client, people["ann"], amount=5)
    assert kind(again) == "denied"
    assert "Too dear." in again.text
    assert pay == []


def test_an_approval_is_for_this_caller_and_these_arguments_however_they_are_written(
    client: Client, people: People, pay: Calls
) -> None:
    call(client, people["ann"], amount=5)
    assert approve(the_ticket(), people["cleo"])
    for other in ({"amount": 6}, {"amount": 5, "to": "me"}, {"amount": 5, "note": ""}):
        assert kind(call(client, people["ann"], **other)) == "approval_required", other
    assert kind(call(client, people["ben"], amount=5)) == "approval_required", "it is for nobody else"
    assert pay == []
    assert "Paid 5" in call(client, people["ann"], note=None, to="the-landlord", amount=5.0).text


@pytest.mark.parametrize(
    "moment",
    [
        datetime.datetime(2026, 11, 25, 19),  # noqa: DTZ001 - as a site without USE_TZ has it
        datetime.datetime(2026, 11, 26, 1, tzinfo=datetime.UTC),
    ],
)
def test_until_when_it_waits_is_told_in_utc_whatever_moments_the_site_has(
    client: Client, people: People, pay: Calls, moment: datetime.datetime
) -> None:
    call(client, people["ann"], amount=5)
    approval = the_ticket()
    approval.expires = moment
    with override_settings(USE_TZ=moment.tzinfo is not None, TIME_ZONE="America/Chicago"):
        assert "2026-11-26 01:00 UTC" in messages.pending_text(approval)
