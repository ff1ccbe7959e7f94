"""What can be asked of whom: each question needs what the client declared; pages, models, roots."""

from typing import Any

import pytest

from django_mcp import (
    Context,
    Elicitation,
    MCPServer,
    Roots,
    Sampling,
    TextContent,
    ToolResultContent,
    ToolUseContent,
    URLElicitation,
    tool,
)
from tests.behaviour.asking import NAME, YES, asking
from tests.clients import LEGACY
from tests.conversation import ClientError, Conversation, said

QUESTIONS: dict[str, tuple[Any, dict[str, Any], dict[str, Any]]] = {
    "form": (lambda: Elicitation("?", NAME), {"elicitation": {"url": {}}, "sampling": {}}, {"elicitation": {}}),
    "page": (
        lambda: URLElicitation("?", "https://example.com/"),
        {"elicitation": {}, "sampling": {}},
        {"elicitation": {"url": {}}},
    ),
    "model": (lambda: Sampling("?"), {"elicitation": {}}, {"sampling": {}}),
    "model with tools": (
        lambda: Sampling("?", tools=[{"name": "t", "inputSchema": {"type": "object"}}]),
        {"sampling": {}},
        {"sampling": {"tools": {}}},
    ),
    "roots": (Roots, {"sampling": {}, "elicitation": {}}, {"roots": {}}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_nothing_is_asked_that_the_client_did_not_declare(server: MCPServer, talk: Conversation, name: str) -> None:
    make, declared, required = QUESTIONS[name]
    asking(server, "sync", lambda ctx: str(ctx.ask(make())))
    talk.capabilities = declared
    outcome = talk.call("ask")
    assert outcome.asked == []
    if talk.is_modern:
        assert outcome.status == 400
        assert outcome.error["code"] == -32021
        assert outcome.error["data"] == {"requiredCapabilities": required}
    else:
        assert outcome.failed
        assert "did not declare" in outcome.text


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_tool_can_look_before_it_asks(server: MCPServer, talk: Conversation, name: str) -> None:
    make, declared, required = QUESTIONS[name]
    asking(server, "sync", lambda ctx: str(ctx.supports(make().needs)))
    talk.capabilities = declared
    assert talk.call("ask").text == "False"
    again = Conversation(talk.room, talk.version, required)
    assert again.call("ask").text == "True"


def test_an_empty_elicitation_capability_means_forms(server: MCPServer, talk: Conversation) -> None:
    asking(server, "sync", lambda ctx: f"{ctx.confirm('?')} {ctx.supports('elicitation.form')}")
    talk.capabilities = {"elicitation": {}}
    assert talk.call("ask", answers=[YES]).text == "True True"


def test_a_tool_without_a_session_cannot_ask_and_says_why(server: MCPServer, legacy_talk: Conversation) -> None:
    asking(server, "sync", lambda ctx: str(ctx.confirm("?")))
    legacy_talk.opened = True  # and has no session
    outcome = legacy_talk.call("ask")
    assert outcome.failed
    assert "elicitation" in outcome.text


def test_a_legacy_client_that_takes_no_stream_is_not_asked(server: MCPServer, legacy_talk: Conversation) -> None:
    asking(server, "sync", lambda ctx: str(ctx.confirm("?")))
    params = {"name": "ask"}
    outcome = legacy_talk.request("tools/call", params, headers={"accept": "application/json"})
    assert outcome.failed


def test_a_modern_client_that_takes_no_stream_is_asked_all_the_same(
    server: MCPServer, modern_talk: Conversation
) -> None:
    asking(server, "sync", lambda ctx: str(ctx.confirm("?")))
    outcome = modern_talk.request("tools/call", {"name": "ask"}, [YES], headers={"accept": "application/json"})
    assert outcome.text == "True"


# Pages to visit


def test_a_page_to_visit_is_a_question_with_a_url(server: MCPServer, talk: Conversation) -> None:
    asking(server, "sync", lambda ctx: ctx.elicit_url("Please pay.", "https://example.com/pay?x=1").action)
    outcome = talk.call("ask", answers=[{"action": "accept"}])
    assert outcome.text == "accept"
    params = outcome.asked[0]["params"]
    assert (params["mode"], params["message"], params["url"]) == ("url", "Please pay.", "https://example.com/pay?x=1")
    assert bool(params.get("elicitationId")) == (talk.version == LEGACY)


def test_what_is_no_url_is_refused_where_it_is_written(server: MCPServer, modern_talk: Conversation) -> None:
    problems: list[str] = []

    def body(ctx: Context) -> str:
        try:
            ctx.elicit_url("Please pay.", "not a url")
        except ValueError as error:
            problems.append(str(error))
        return "done"

    asking(server, "sync", body)
    assert modern_talk.call("ask").text == "done"
    assert "not a url" in problems[0]


# Models


def test_a_model_is_asked_with_all_its_options(server: MCPServer, talk: Conversation) -> None:
    options: dict[str, Any] = {
        "max_tokens": 5,
        "system_prompt": "Be short.",
        "temperature": 0.5,
        "stop_sequences": ["\n"],
        "model_preferences": {"hints": [{"name": "small"}], "costPriority": 1},
    }

    def body(ctx: Context) -> str:
        answer = ctx.sample(["What?", {"role": "assistant", "content": {"type": "text", "text": "This."}}], **options)
        return f"{answer.text} {answer.model} {answer.stop_reason} {answer.role}"

    asking(server, "sync", body)
    outcome = talk.call("ask", answers=[said("Yes")])
    assert outcome.text == "Yes a-model endTurn assistant"
    assert outcome.asked[0]["params"] == {
        "messages": [
            {"role": "user", "content": {"type": "text", "text": "What?"}},
            {"role": "assistant", "content": {"type": "text", "text": "This."}},
        ],
        "maxTokens": 5,
        "systemPrompt": "Be short.",
        "temperature": 0.5,
        "stopSequences": ["\n"],
        "modelPreferences": {"hints": [{"name": "small"}], "costPriority": 1},
    }


def test_a_model_uses_a_tool_and_goes_on_with_its_result(server: MCPServer, talk: Conversation) -> None:
    tools = [{"name": "add", "inputSchema": {"type": "object"}}]

    def body(ctx: Context) -> str:
        wish = ctx.sample("2 + 3?", tools=tools, tool_choice={"mode": "required"})
        (use,) = wish.content
        assert isinstance(use, ToolUseContent)
        total = TextContent(str(sum(use.input["of"])))
        result = {"role": "user", "content": [ToolResultContent(use.id, [total]).to_wire()]}
        return ctx.sample(["2 + 3?", wish, result], tools=tools).text

    asking(server, "sync", body)
    use = {"type": "tool_use", "id": "u1", "name": "add", "input": {"of": [2, 3]}}
    wish = {"role": "assistant", "content": use, "model": "m", "stopReason": "toolUse"}
    outcome = talk.call("ask", answers=[wish, said("It is 5.")])
    assert outcome.text == "It is 5."
    assert outcome.asked[0]["params"]["toolChoice"] == {"mode": "required"}
    told = outcome.asked[1]["params"]["messages"]
    assert told[1]["content"] == use
    assert told[2]["content"][0]["content"] == [{"type": "text", "text": "5"}]


def test_roots_have_an_address_and_perhaps_a_name(server: MCPServer, talk: Conversation) -> None:
    asking(server, "async", lambda ctx: ", ".join(f"{root.uri}={root.name}" for root in ctx.roots()))
    roots = [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]
    assert talk.call("ask", answers=[{"roots": roots}]).text == "file:///a=A, file:///b="


@pytest.mark.parametrize("method", ["confirm", "sample", "roots"])
def test_an_error_of_the_client_is_the_tools_error(server: MCPServer, talk: Conversation, method: str) -> None:
    @tool(server=server)
    def ask(ctx: Context) -> str:
        return str(getattr(ctx, method)(*([] if method == "roots" else ["?"])))

    outcome = talk.call("ask", answers=[ClientError("The user is asleep.")])
    assert outcome.failed
    assert outcome.text == "The client could not answer: The user is asleep."
