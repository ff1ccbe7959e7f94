"""A call that has to be approved, as its caller and those who decide see it."""

from typing import Any

import pytest

from django_mcp.approvals.deciding import approve, deny
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


@pytest.mark.parametrize(
    "other",
    [{"amount": 6}, {"amount": 5, "to": "me"}, {"amount": 5, "note": ""}],
    ids=["number", "default", "empty"],
)
def test_an_approval_is_for_no_other_arguments_and_stays(
    client: Client, people: People, pay: Calls, other: Any
) -> None:
    call(client, people["ann"], amount=5)
    assert approve(the_ticket(), people["cleo"])
    assert kind(call(client, people["ann"], **other)) == "approval_required"
    assert pay == []
    assert "Paid 5" in call(client, people["ann"], amount=5).text


@pytest.mark.parametrize(
    "same",
    [{"to": "the-landlord", "amount": 5}, {"amount": 5.0}, {"amount": "5"}, {"note": None, "amount": 5}],
    ids=["order and default", "number form", "text", "null default"],
)
def test_arguments_that_mean_the_same_are_the_same_call(client: Client, people: People, pay: Calls, same: Any) -> None:
    call(client, people["ann"], amount=5)
    assert approve(the_ticket(), people["cleo"])
    assert "Paid 5" in call(client, people["ann"], **same).text


def test_an_approval_is_for_nobody_else(client: Client, people: People, pay: Calls) -> None:
    call(client, people["ann"], amount=5)
    assert approve(the_ticket(), people["cleo"])
    assert kind(call(client, people["ben"], amount=5)) == "approval_required"
    assert pay == []


def test_nobody_approves_their_own_call(client: Client, people: People, pay: Calls) -> None:
    call(client, people["cleo"], amount=5)
    assert not approve(the_ticket(), people["cleo"])
    assert approve(the_ticket(), people["dora"])
    assert "Paid 5" in call(client, people["cleo"], amount=5).text


def test_wrong_arguments_make_no_ticket(client: Client, people: People, pay: Calls) -> None:
    assert call(client, people["ann"], amount="much").result["isError"]
    assert call(client, people["ann"], amount=5, confirm=True).result["isError"]
    assert not Approval.objects.exists()
