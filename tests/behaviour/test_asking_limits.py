"""What keeps a question from being asked for ever, and older clients from forms they cannot show."""

import itertools
from typing import Any

import pytest
from django import forms
from django.utils import timezone

from django_mcp import Context, MCPServer, tool
from django_mcp.core.elicitation import MAX_ROUNDS
from tests.conversation import Conversation, accept
from tests.exchange import Room

pytestmark = pytest.mark.parametrize("edge", ["asgi"], indirect=True)


class Departure(forms.Form):
    when = forms.DateTimeField(initial=timezone.now)


def test_a_form_filled_with_the_time_of_day_is_the_same_form_a_moment_later(
    server: MCPServer, talk: Conversation
) -> None:
    @tool(server=server)
    def depart(ctx: Context) -> str:
        return f"{ctx.elicit('When?', Departure).data['when']:%Y}"

    outcome = talk.call("depart", answers=[accept(when="2031-05-01T10:00:00Z")])
    assert outcome.text == "2031"


def test_a_call_that_never_asks_the_same_twice_ends(
    server: MCPServer, talk: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.conversation.MAX_ROUNDS", MAX_ROUNDS + 2)
    numbers = itertools.count()

    @tool(server=server)
    def insist(ctx: Context) -> str:
        return str(ctx.confirm(f"Really, for the {next(numbers)}th time?"))

    outcome = talk.call("insist", answers=lambda _: accept(confirm=True))
    assert outcome.failed
    assert f"asked for input {MAX_ROUNDS} times" in outcome.text


TITLED = {
    "type": "object",
    "properties": {
        "room": {"type": "string", "oneOf": [{"const": "s", "title": "Sea"}, {"const": "c", "title": "City"}]},
        "name": {"type": "string"},
    },
}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2025-11-25", TITLED["properties"]["room"]),  # type: ignore[index]
        ("2025-06-18", {"type": "string", "enum": ["s", "c"], "enumNames": ["Sea", "City"]}),
    ],
)
def test_choices_with_titles_are_written_as_the_version_writes_them(
    server: MCPServer, room: Room, version: str, expected: Any
) -> None:
    @tool(server=server)
    def choose(ctx: Context) -> str:
        return str(ctx.elicit("Which room?", TITLED).data["room"])

    outcome = Conversation(room, version).call("choose", answers=[accept(room="s")])
    assert outcome.text == "s"
    assert outcome.asked[0]["params"]["requestedSchema"]["properties"]["room"] == expected


def test_a_tool_passes_on_the_trace_it_is_part_of(server: MCPServer, talk: Conversation) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"

    @tool(server=server)
    def trace(ctx: Context) -> str:
        return str(ctx.trace)

    meta = {"traceparent": parent, "baggage": "a=1", "tracestate": 5}
    outcome = talk.request("tools/call", {"name": "trace", "arguments": {}, "_meta": meta})
    assert outcome.text == str({"traceparent": parent, "baggage": "a=1"})
