"""JSON can hold a NUL character, and PostgreSQL cannot. What a client sends is kept all the same."""

import pytest

from django_mcp import Context, MCPServer, tool
from tests.conversation import Conversation, accept

pytestmark = [pytest.mark.postgresql, pytest.mark.parametrize("edge", ["asgi", "view"], indirect=True)]

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def test_arguments_and_answers_with_a_nul_reach_the_tool(server: MCPServer, talk: Conversation) -> None:
    @tool(server=server)
    def greet(ctx: Context, label: str) -> str:
        return repr((label, ctx.elicit("Name?", NAME).data["name"]))

    outcome = talk.call("greet", label="a\0b", answers=[accept(name="c\0d")])
    assert outcome.text == repr(("a\0b", "c\0d"))


def test_an_answer_to_an_id_with_a_nul_is_an_answer_to_nothing(legacy_talk: Conversation) -> None:
    legacy_talk.open()
    exchange = legacy_talk.post({"jsonrpc": "2.0", "id": "a\0b", "result": {}}).done()
    assert exchange.status == 202
