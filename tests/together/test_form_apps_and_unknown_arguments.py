"""Errors that list what a client sent, in forms, form apps, formsets, prompts and tools: twenty, and how many more."""

from typing import Any

import pytest
from django import forms
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ValidationError

from django_mcp import MCPServer, form_tool, prompt, tool
from django_mcp.primitives import validation_errors
from django_mcp.primitives.validation_errors import MAX_REPORTED
from django_mcp.test import MCPClient
from tests.clients import Client

pytestmark = pytest.mark.django_db

MANY = 5000
UNKNOWN = {f"unknown{number}": number for number in range(MANY)}


class PayForm(forms.Form):
    """Pay."""

    amount = forms.IntegerField()
    note = forms.CharField(required=False)

    def save(self) -> str:
        return "paid"


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words that were compared with others."""
    words: list[str] = []
    compare = validation_errors.close_matches

    def count(word: str, *others: Any, **options: Any) -> list[str]:
        words.append(word)
        return compare(word, *others, **options)

    monkeypatch.setattr(validation_errors, "close_matches", count)
    return words


def is_bounded(text: str) -> bool:
    return text.count("Unknown argument") <= MAX_REPORTED and len(text) < 5000


@pytest.mark.parametrize("app", [True, False])
def test_a_refused_form_lists_twenty_of_its_unknown_arguments(
    server: MCPServer, app: bool, compared: list[str]
) -> None:
    form_tool(PayForm, name="pay_now", app=app, server=server)
    client = MCPClient(AnonymousUser(), server=server, apps=app)
    result = client.call("pay_now", **UNKNOWN, amount="x")
    assert not result.ok
    assert is_bounded(result.text)
    assert "more errors." in result.text
    assert bool(result.html) is app
    assert result.html.count("Unknown argument") <= MAX_REPORTED
    assert len(result.html) < 50_000
    assert not app or f"And {MANY - MAX_REPORTED + 1} more errors." in result.html
    assert len(compared) <= 2 * MAX_REPORTED


def test_a_form_that_is_filled_in_lists_twenty_too(server: MCPServer, compared: list[str]) -> None:
    form_tool(PayForm, name="pay_now", app=True, server=server)
    result = MCPClient(AnonymousUser(), server=server, apps=True).call("pay_now_form", **UNKNOWN)
    assert not result.ok
    assert is_bounded(result.text)
    assert len(compared) <= 2 * MAX_REPORTED


def test_a_set_of_forms_lists_twenty_of_all_its_forms(server: MCPServer, compared: list[str]) -> None:
    pay_all = forms.formset_factory(PayForm)
    form_tool(pay_all, name="pay_all", argument="payments", handle=lambda ctx, form: "paid", server=server)
    payments = [{"amount": 1, **{f"unknown{place}": 1 for place in range(50)}} for _ in range(100)]
    result = MCPClient(AnonymousUser(), server=server).call("pay_all", payments=payments)
    assert not result.ok
    assert is_bounded(result.text)
    assert result.text.endswith(f"And {50 * 100 - MAX_REPORTED + 1} more errors.")
    assert len(compared) <= 2 * MAX_REPORTED


@pytest.mark.every_way_in
def test_a_tool_lists_twenty_and_compares_no_more(server: MCPServer, client: Client, compared: list[str]) -> None:
    @tool(server=server)
    def pay(amount: int, note: str = "") -> str:
        """Pay."""
        return "paid"

    for many in (500, MANY):
        text = client.call("pay", **dict([*UNKNOWN.items()][:many])).text
        assert is_bounded(text)
        assert len(compared) <= 2 * (MAX_REPORTED + 1)
        compared.clear()


@pytest.mark.every_way_in
def test_a_prompt_lists_twenty(server: MCPServer, client: Client) -> None:
    @prompt(server=server)
    def greet(name: str = "") -> str:
        """Greet."""
        return name

    for value in ("x", 1):
        answer = client.request("prompts/get", {"name": "greet", "arguments": dict.fromkeys(UNKNOWN, value)})
        assert answer.error["message"].count("unknown") <= 2 * MAX_REPORTED
        assert len(answer.body) < 5000


def test_a_site_that_complains_of_each_value_is_abridged(server: MCPServer) -> None:
    @tool(server=server)
    def book(ids: list[int]) -> str:
        """Book."""
        raise ValidationError([f"There is no room {number}." for number in ids])

    text = MCPClient(AnonymousUser(), server=server).call("book", ids=[*range(MANY)]).text
    assert text.count("There is no room") == MAX_REPORTED - 1
    assert text.endswith(f"And {MANY - MAX_REPORTED + 1} more errors.")
