"""What a client of the newest version brings to the next round: its answers and the state it was given."""

from typing import Any

import pytest

from django_mcp import MCPServer
from tests.behaviour.afresh import afresh
from tests.behaviour.asking import YES, asking
from tests.conversation import Conversation, Outcome, Person


def two_rounds(server: MCPServer, talk: Conversation) -> tuple[dict[str, Any], dict[str, Any]]:
    asking(server, "sync", lambda ctx: f"{ctx.confirm('?')}")
    (message,) = talk.begin_call("ask")
    return message["result"], talk.input(message["result"], Person([YES]))


def again(talk: Conversation, **params: Any) -> Outcome:
    return talk.request("tools/call", {"name": "ask", "arguments": {}, **params})


def test_answers_may_come_without_a_state_for_a_client_knows_what_it_is_asked(
    server: MCPServer, modern_talk: Conversation
) -> None:
    _, given = two_rounds(server, modern_talk)
    assert again(modern_talk, inputResponses=given["inputResponses"]).text == "True"


def test_a_question_left_open_is_asked_again(server: MCPServer, modern_talk: Conversation) -> None:
    result, given = two_rounds(server, modern_talk)
    (message,) = modern_talk.begin(
        "tools/call", {"name": "ask", "arguments": {}, "requestState": given["requestState"]}
    )
    assert message["result"]["inputRequests"] == result["inputRequests"]


def test_answers_that_are_no_object_are_refused(
    server: MCPServer, modern_talk: Conversation, subtests: pytest.Subtests
) -> None:
    for responses in [[], "x", 1, None]:
        with subtests.test(responses=responses), afresh():
            _, given = two_rounds(server, modern_talk)
            outcome = again(modern_talk, **{**given, "inputResponses": responses})
            assert (outcome.status, outcome.error["code"]) == (400, -32602)


def test_an_answer_nobody_asked_for_is_ignored(server: MCPServer, modern_talk: Conversation) -> None:
    _, given = two_rounds(server, modern_talk)
    given["inputResponses"]["more"] = {"action": "accept"}
    assert again(modern_talk, **given).text == "True"
