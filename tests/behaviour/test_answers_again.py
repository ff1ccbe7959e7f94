"""An answer that was taken, and then nothing came of it, is sent again."""

from typing import Any

import pytest
from django.db import OperationalError

from django_mcp import Context, Elicitation, MCPServer, tool
from django_mcp.revisions.legacy import calls
from tests.clients import LEGACY
from tests.conversation import Conversation, accept

pytestmark = [pytest.mark.postgresql, pytest.mark.parametrize("version", [LEGACY])]


@pytest.fixture
def acted(server: MCPServer) -> list[str]:
    """What the tool ``book`` did."""
    done: list[str] = []

    @tool(server=server)
    def book(ctx: Context) -> str:
        first, second = ctx.ask(*(_yes_or_no(name) for name in ("first", "second")))
        done.append(f"{first.data['confirm']} {second.data['confirm']}")
        return done[-1]

    return done


def _yes_or_no(name: str) -> Any:
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
    return Elicitation(f"{name}?", schema, key=name)


def test_a_call_goes_on_when_the_last_answer_comes_again_after_its_taker_failed(
    talk: Conversation, acted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = talk.begin_call("book")
    questions = [call.next(), call.next()]
    talk.reply(questions[0], accept(confirm=True))

    def die(*_: Any, **__: Any) -> None:
        raise OperationalError

    with monkeypatch.context() as patched:
        patched.setattr(calls, "claim_answered", die)
        assert answer(talk, questions[1]) == 503
    assert answer(talk, questions[1]) == 202
    assert list(call)[-1]["result"]["content"][0]["text"] == "True True"
    assert answer(talk, questions[1]) == 202
    assert acted == ["True True"]


def test_an_answer_that_comes_again_does_not_stand_for_the_one_that_is_missing(
    talk: Conversation, acted: list[str]
) -> None:
    call = talk.begin_call("book")
    questions = [call.next(), call.next()]
    assert [answer(talk, questions[0]) for _ in range(3)] == [202] * 3
    assert acted == []
    talk.reply(questions[1], accept(confirm=False))
    assert list(call)[-1]["result"]["content"][0]["text"] == "True False"
    assert acted == ["True False"]


def answer(talk: Conversation, question: Any) -> int:
    body = {"jsonrpc": "2.0", "id": question["id"], "result": accept(confirm=True)}
    return talk.post(body).done().status
