"""The official JavaScript clients where the server speaks too: questions, progress, log messages, changes."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.real_clients.node import SPEAKERS, Clients
from tests.real_clients.sites import Site

# Once it is connected, a client that insists on the newest version does what one does that has found it out.
pytestmark = pytest.mark.parametrize("speaker", [each for each in SPEAKERS if each != "client-pinned"])

LEVEL = "io.modelcontextprotocol/logLevel"
QUESTIONS = {"elicitation": "elicitation/create", "sampling": "sampling/createMessage", "roots": "roots/list"}
ACCOUNT = {"username": "ada", "email": "ada@example.com"}
SAID = {"role": "assistant", "model": "a-model", "content": {"type": "text", "text": "Paris"}}
ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "Home"}]}

Talk = Callable[..., dict[str, Any]]


def call(name: str, /, **arguments: Any) -> dict[str, Any]:
    return {"call": "callTool", "params": {"name": name, "arguments": arguments}}


def text(outcome: dict[str, Any]) -> str:
    assert "result" in outcome, outcome
    return outcome["result"]["content"][0]["text"]


@pytest.fixture
def modern(speaker: str) -> bool:
    return SPEAKERS[speaker].version == "2026-07-28"


@pytest.fixture
def talk(interactive: Site, speaker: str, clients: Clients) -> Talk:
    """Holds a conversation; *answers* are by what the client can, which is declared."""

    def talk(*steps: dict[str, Any], answers: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        answers = answers or {}
        script = {
            "url": interactive.url,
            "capabilities": {each: {} for each in answers},
            "answers": {QUESTIONS[each]: answer for each, answer in answers.items()},
            "steps": steps,
        }
        return clients.talk(speaker, {**script, **more})

    return talk


def test_a_user_is_asked_and_accepts_declines_or_cancels(talk: Talk) -> None:
    answers = [{"action": "accept", "content": ACCOUNT}, {"action": "decline"}, {"action": "cancel"}]
    said = talk(*[call("test_elicitation", message="Who are you?")] * 3, answers={"elicitation": answers})
    for question in said["questions"]:
        assert question["params"]["message"] == "Who are you?"
        assert set(question["params"]["requestedSchema"]["properties"]) == {"username", "email"}
    accepted, declined, cancelled = map(text, said["steps"])
    assert "action=accept" in accepted
    assert "ada@example.com" in accepted
    assert "action=decline, content=None" in declined
    assert "action=cancel, content=None" in cancelled


def test_one_question_comes_after_the_other(talk: Talk) -> None:
    answers = [{"action": "accept", "content": {"name": "Ada"}}, {"action": "accept", "content": {"color": "green"}}]
    said = talk(call("test_input_required_result_multi_round"), answers={"elicitation": answers})
    assert [question["params"]["message"][:6] for question in said["questions"]] == ["Step 1", "Step 2"]
    assert text(said["steps"][0]) == "Ada likes green."


def test_choices_and_defaults_are_forms_the_client_understands(talk: Talk) -> None:
    chosen = {
        "untitledSingle": "option1",
        "titledSingle": "value2",
        "legacyEnum": "opt3",
        "untitledMulti": ["option1", "option2"],
        "titledMulti": ["value3"],
    }
    filled = {"name": "Ada", "age": 36, "score": 1.5, "status": "pending", "verified": False}
    answers = [{"action": "accept", "content": content} for content in (chosen, filled)]
    said = talk(
        call("test_elicitation_sep1330_enums"),
        call("test_elicitation_sep1034_defaults"),
        answers={"elicitation": answers},
    )
    assert "'titledMulti': ['value3']" in text(said["steps"][0])
    assert '"age":36' in text(said["steps"][1])
    properties = said["questions"][1]["params"]["requestedSchema"]["properties"]
    assert {name: each["default"] for name, each in properties.items()} == {
        "name": "John Doe",
        "age": 30,
        "score": 95.5,
        "status": "active",
        "verified": True,
    }


def test_the_clients_model_is_asked(talk: Talk) -> None:
    said = talk(call("test_sampling", prompt="What is the capital of France?"), answers={"sampling": SAID})
    (question,) = said["questions"]
    assert question["params"]["maxTokens"] == 100
    assert "capital of France" in str(question["params"]["messages"])
    assert text(said["steps"][0]) == "LLM response: Paris"


def test_the_client_tells_its_roots(talk: Talk) -> None:
    said = talk(call("test_input_required_result_list_roots"), answers={"roots": ROOTS})
    assert text(said["steps"][0]) == "Home (file:///home/ada)"


def test_several_are_asked_at_once(talk: Talk) -> None:
    answers = {"elicitation": {"action": "accept", "content": {"name": "Ada"}}, "sampling": SAID, "roots": ROOTS}
    said = talk(call("test_input_required_result_multiple_inputs"), answers=answers)
    assert {question["method"] for question in said["questions"]} == set(QUESTIONS.values())
    assert text(said["steps"][0]) == "Paris Ada has 1 roots."


def test_a_prompt_may_ask_too(talk: Talk) -> None:
    step = {"call": "getPrompt", "params": {"name": "test_input_required_result_prompt"}}
    answer = {"action": "accept", "content": {"context": "gardening"}}
    (outcome,) = talk(step, answers={"elicitation": answer})["steps"]
    assert "gardening" in outcome["result"]["messages"][0]["content"]["text"]


def test_who_cannot_be_asked_is_told_what_is_needed(talk: Talk, modern: bool) -> None:
    (outcome,) = talk(call("test_missing_capability"))["steps"]
    if modern:
        assert outcome["error"]["code"] == -32021
        assert outcome["error"]["data"]["requiredCapabilities"] == {"sampling": {}}
    else:
        assert outcome["result"]["isError"]
        assert "sampling" in text(outcome)


def test_a_tool_may_ask_for_what_the_client_can(talk: Talk) -> None:
    said = talk(call("test_input_required_result_capabilities"), answers={"sampling": SAID})
    assert text(said["steps"][0]) == "1 questions were answered."


def test_progress_is_reported_while_the_tool_runs(talk: Talk) -> None:
    (outcome,) = talk(call("test_tool_with_progress"))["steps"]
    assert "result" in outcome, outcome
    assert [report["progress"] for report in outcome["progress"]] == [0, 50, 100]
    assert outcome["progress"][1] == {"progress": 50, "total": 100, "message": "Completed step 50 of 100"}


def test_a_call_can_be_given_up(talk: Talk) -> None:
    given_up, after = talk({**call("test_tool_with_progress"), "cancelOnProgress": True}, call("test_simple_text"))[
        "steps"
    ]
    assert "the user went away" in str(given_up["error"])
    assert "simple text" in text(after)


def test_log_messages_are_heard_where_they_are_wanted(talk: Talk, modern: bool) -> None:
    step = call("test_tool_with_logging")
    if modern:
        step["params"]["_meta"] = {LEVEL: "info"}
        steps = [step]
    else:
        steps = [{"call": "setLoggingLevel", "params": "info"}, step]
    messages = [each for each in talk(*steps)["notifications"] if each["method"] == "notifications/message"]
    assert [each["params"]["data"] for each in messages] == [
        "Tool execution started",
        "Tool processing data",
        "Tool execution completed",
    ]


def test_log_messages_below_the_wanted_level_are_not_heard(talk: Talk, modern: bool) -> None:
    step = call("test_tool_with_logging")
    said = talk(step) if modern else talk({"call": "setLoggingLevel", "params": "error"}, step)
    assert not [each for each in said["notifications"] if each["method"] == "notifications/message"]


@pytest.mark.parametrize("kind", ["tools", "prompts"])
def test_it_hears_that_a_list_has_changed_and_reads_it_again(talk: Talk, kind: str) -> None:
    trigger = call(f"test_trigger_{kind.removesuffix('s')}_change")
    said = talk({**trigger, "hear": kind}, listChanged=[kind])
    assert "result" in said["steps"][0], said
    (change, *_) = said["changes"]
    assert "test_simple_text" in change["names"] or "test_simple_prompt" in change["names"]


def test_an_answer_arrives_although_the_connection_is_let_go(talk: Talk) -> None:
    (outcome,) = talk(call("test_reconnection"))["steps"]
    assert text(outcome) == "This is the answer after the connection was closed."


def test_an_argument_is_mirrored_into_its_header(talk: Talk) -> None:
    """The client has to know the tool before, for the header is in its schema."""
    regions = ["eu-west-1", "Zürich ☃", " blank "]
    said = talk({"list": "listTools"}, *[call("test_x_mcp_header", region=region) for region in regions])
    assert [text(outcome) for outcome in said["steps"][1:]] == [f"Region: {region}" for region in regions]


def test_a_session_is_kept_from_the_handshake_to_its_end(talk: Talk, modern: bool) -> None:
    """The driver ends its session, and fails if the server does not let it."""
    said = talk(call("test_simple_text"))
    assert bool(said["session"]) is not modern
