"""Under WSGI no stream stays open, and there is but one worker here; the server speaks all the same."""

from typing import Any

import pytest

from tests.real_clients.node import Clients
from tests.real_clients.sites import Site

ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {"role": "assistant", "model": "a-model", "content": {"type": "text", "text": "Paris"}},
    "roots/list": {"roots": [{"uri": "file:///home/ada", "name": "Home"}]},
}
CAPABILITIES: dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
TOOLS = [
    "test_input_required_result_multiple_inputs",
    "test_streaming_elicitation",
    "test_tool_with_progress",
    "test_reconnection",
    "test_simple_text",
]


@pytest.mark.parametrize("interactive", ["gunicorn"], indirect=True)
@pytest.mark.parametrize("speaker", ["sdk", "client-legacy", "client-auto"])
def test_questions_are_answered_and_progress_arrives(interactive: Site, clients: Clients, speaker: str) -> None:
    steps = [{"call": "callTool", "params": {"name": name, "arguments": {}}} for name in TOOLS]
    script = {"url": interactive.url, "capabilities": CAPABILITIES, "answers": ANSWERS, "steps": steps}
    said = clients.talk(speaker, script)
    assert all("result" in outcome for outcome in said["steps"]), said["steps"]
    assert [outcome["result"]["content"][0]["text"] for outcome in said["steps"]] == [
        "Paris Ada has 1 roots.",
        "Hello, Ada!",
        "The progress was reported.",
        "This is the answer after the connection was closed.",
        "This is a simple text response for testing.",
    ]
    assert [report["progress"] for report in said["steps"][2]["progress"]] == [0, 50, 100]
    assert [question["method"] for question in said["questions"]].count("elicitation/create") == 2
