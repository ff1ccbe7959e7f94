"""What is approved is what was shown: nothing a caller writes hides anything from the person who decides."""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import pytest
from django.test import Client as Browser

from django_mcp import MCPServer, Secret, tool
from django_mcp.approvals.decisions import approve
from django_mcp.models import Approval
from tests.approvals.asking import People, kind_of, serve, texts, the_ticket

CARD = 'value="approve"'


@pytest.fixture
def edge() -> str:
    """None is needed."""
    return "view"


@pytest.fixture
def browser(people: People) -> Browser:
    """Cleo, who may approve, signed in to the admin."""
    people["cleo"].is_staff = True
    people["cleo"].save()
    made = Browser()
    made.force_login(people["cleo"])
    return made


@pytest.fixture
def write(server: MCPServer) -> list[Mapping[str, Any]]:
    """A tool of which calls have to be approved; what it was called with."""
    calls: list[Mapping[str, Any]] = []

    def preview(note: str = "", more: Any = None) -> Any:
        return {"note": note, "more": more} if note or more else None

    @tool(server=server, policy="ask", preview=preview)
    def write(
        note: str = "", more: Any = None, password: str = "", code: Annotated[str, Secret()] = "", size: int = 0
    ) -> str:
        """Write something down."""
        calls.append({"note": note, "more": more, "password": password, "code": code})
        return "Written."

    return calls


def shown(browser: Browser, ticket: Approval) -> str:
    """What the page of a call says."""
    html = browser.get(f"/admin/django_mcp/approval/{ticket.pk}/change/").content.decode()
    assert CARD in html, "they cannot decide"
    return html


def decide(browser: Browser, ticket: Approval, **fields: str) -> str:
    """Press "Approve"; the state of the call afterwards."""
    found = re.search(r'name="seen" value="(\w+)"', shown(browser, ticket))
    assert found is not None
    given = {"seen": found[1], "decision": "approve", **fields}
    browser.post(f"/admin/django_mcp/approval/{ticket.pk}/decide/", given)
    ticket.refresh_from_db()
    return str(ticket.state)


def nested(levels: int, value: Any) -> Any:
    for _ in range(levels):
        value = {"in": value}
    return value


@pytest.mark.parametrize(
    "note",
    [
        "api_key=and-send-it-to-mallory",
        "please bearer and.then.send.everything.to.mallory",
        "https://example.com/?access_token=send-it-to-mallory&x=1",
        "https://user:send-it-to-mallory@example.com/",
        "mcp_key_abcdefsendittomallory",
        json.dumps({"token": "send it to mallory"}),
    ],
)
def test_no_text_of_a_caller_is_hidden_from_approvers_because_of_what_it_looks_like(
    server: MCPServer, people: People, write: Any, browser: Browser, note: str
) -> None:
    serve(server, people["ann"], "write", {"note": note})
    ticket = the_ticket()
    assert ticket.arguments == {"note": note}
    assert "***" not in shown(browser, ticket)
    assert ticket.preview == {"note": note, "more": None}
    assert decide(browser, ticket) == Approval.State.APPROVED


@pytest.mark.parametrize(
    "more",
    [{"token": "send it to mallory"}, [{"name": "password", "value": "send it to mallory"}], nested(20, "mallory")],
)
def test_no_key_that_a_caller_chooses_hides_its_value(
    server: MCPServer, people: People, write: Any, browser: Browser, more: Any
) -> None:
    serve(server, people["ann"], "write", {"more": more})
    assert the_ticket().arguments == {"more": more}
    assert "mallory" in shown(browser, the_ticket())
    assert the_ticket().withheld == {"arguments": {}}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"note": "x" * 20_000 + "and send it to mallory"}, "note"),
        ({"more": nested(40, "send it to mallory")}, "more"),
        ({"more": {"x" * 100 + "send it to mallory": 1}}, "more"),
        ({"more": ["x" * 19_000] * 12}, "more"),
        ({"password": "send it to mallory"}, "password"),
    ],
)
def test_what_is_not_shown_whole_says_so_and_is_approved_with_a_tick_only(
    server: MCPServer, people: People, write: list[Any], browser: Browser, arguments: Any, name: str
) -> None:
    serve(server, people["ann"], "write", arguments)
    ticket = the_ticket()
    html = shown(browser, ticket)
    assert "mcp-withheld" in html
    assert f"<bdi>{name}" in html.partition('name="unseen"')[2]
    assert decide(browser, ticket) == Approval.State.PENDING
    with pytest.raises(ValueError, match=f"not shown to approvers: {name}"):
        approve(ticket, people["cleo"])
    assert decide(browser, ticket, unseen="on") == Approval.State.APPROVED
    assert texts([serve(server, people["ann"], "write", arguments)]) == ["Written."]


def test_it_is_refused_without_a_tick(server: MCPServer, people: People, write: Any, browser: Browser) -> None:
    serve(server, people["ann"], "write", {"note": "x" * 30_000})
    assert decide(browser, the_ticket(), decision="deny") == Approval.State.DENIED


def test_what_is_declared_as_a_secret_is_hidden_and_says_so_and_needs_no_tick(
    server: MCPServer, people: People, write: Any, browser: Browser
) -> None:
    assert kind_of(serve(server, people["ann"], "write", {"code": "open-sesame"})) == "approval_required"
    html = shown(browser, the_ticket())
    assert "open-sesame" not in html
    assert "Hidden: declared as a secret." in html
    assert 'name="unseen"' not in html
    assert decide(browser, the_ticket()) == Approval.State.APPROVED


def test_a_preview_that_is_cut_says_so_and_needs_a_tick(server: MCPServer, people: People, browser: Browser) -> None:
    def preview(number: int) -> list[str]:
        return ["a row that would go"] * 5000

    @tool(server=server, policy="ask", preview=preview)
    def act(number: int) -> str:
        return "done"

    serve(server, people["ann"], "act", {"number": 1})
    assert "<bdi>preview" in shown(browser, the_ticket()).partition('name="unseen"')[2]
    assert decide(browser, the_ticket()) == Approval.State.PENDING
    assert decide(browser, the_ticket(), unseen="on") == Approval.State.APPROVED


def test_a_preview_does_not_repeat_a_declared_secret(server: MCPServer, people: People, browser: Browser) -> None:
    def preview(code: str) -> dict[str, str]:
        return {"code": code, "door": "the front door"}

    @tool(server=server, policy="ask", preview=preview)
    def unlock(code: Annotated[str, Secret()]) -> str:
        return "done"

    serve(server, people["ann"], "unlock", {"code": "open-sesame"})
    html = shown(browser, the_ticket())
    assert "open-sesame" not in html
    assert "the front door" in html
