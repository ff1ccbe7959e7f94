"""``requestState`` comes back: again, altered, late, or with another call."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from django.test import override_settings

from django_mcp import Context, MCPServer, tool
from tests.clients import META, MODERN, Answer, Client
from tests.faults.conftest import Workers
from tests.faults.wire import Modern, text

USED = "already used"


def test_a_state_used_again_is_refused_and_the_tool_does_not_run_again(pair: Workers, label: str) -> None:
    client = Modern(pair[0])
    asked = client.call("ask", label=label)
    assert text(client.go_on("ask", asked, label=label)) == f"{label}: yes to reply"

    again = client.at(pair[1]).go_on("ask", asked, label=label)

    assert USED in again["error"]["message"]
    assert pair.journal().count(f"acted {label}") == 1


def test_of_two_uses_of_a_state_at_once_in_two_workers_one_runs(pair: Workers, label: str) -> None:
    for number in range(5):
        word = f"{label}-{number}"
        asked = Modern(pair[0]).call("ask", label=word)

        with ThreadPoolExecutor(2) as pool:
            sent = [pool.submit(Modern(pair[each]).go_on, "ask", asked, label=word) for each in range(2)]
        answers = [each.result() for each in sent]

        assert sorted("result" in each for each in answers) == [False, True]
        assert USED in next(each["error"]["message"] for each in answers if "error" in each)
        assert pair.journal().count(f"acted {word}") == 1


@pytest.mark.parametrize("tool", ["ask_idempotent", "ask_read_only"])
def test_a_tool_that_may_be_repeated_takes_a_state_again(pair: Workers, label: str, tool: str) -> None:
    asked = Modern(pair[0]).call(tool, label=label)

    answers = [Modern(port).go_on(tool, asked, label=label) for port in (pair[0], pair[1])]

    assert [text(each) for each in answers] == [f"{label}: yes to reply"] * 2


@pytest.mark.parametrize("change", ["other arguments", "another tool", "another endpoint"])
def test_a_state_is_good_for_its_own_call_only(pair: Workers, label: str, change: str) -> None:
    client = Modern(pair[0])
    asked = client.call("ask", label=label)

    match change:
        case "other arguments":
            answer = client.go_on("ask", asked, label=f"{label}-2")
        case "another tool":
            answer = client.go_on("ask_too", asked, label=label)
        case _:
            answer = replace(client, path="/other/mcp").go_on("ask", asked, label=label)

    assert answer["error"]["code"] == -32602
    assert "belongs to another call" in answer["error"]["message"]
    assert f"acted {label}" not in pair.journal()
    assert text(client.go_on("ask", asked, label=label)) == f"{label}: yes to reply", "nothing was used up"


Altered = Callable[[str], Any]


@pytest.mark.parametrize(
    "alter",
    [
        lambda state: state[:-1] + ("A" if state[-1] != "A" else "B"),
        lambda state: ("A" if state[0] != "A" else "B") + state[1:],
        lambda state: state.rpartition(":")[0],
        lambda state: "",
        lambda state: "a:b:c",
        lambda state: {"state": state},
        lambda state: None,
    ],
    ids=["signature", "value", "no signature", "empty", "made up", "an object", "null"],
)
def test_an_altered_state_is_refused(pair: Workers, label: str, alter: Altered) -> None:
    client = Modern(pair[0])
    asked = client.call("ask", label=label)

    error = client.again("ask", alter(asked["result"]["requestState"]), ["reply"], label=label)["error"]

    assert error["code"] == -32602
    assert "requestState" in error["message"]
    assert f"acted {label}" not in pair.journal()


@pytest.fixture
def asking(server: MCPServer, db: None) -> Client:
    """A client of a tool that asks, in this process."""

    @tool(server=server)
    def ask(ctx: Context) -> str:
        return "yes" if ctx.confirm("Really?", key="really") else "no"

    return Client(server, MODERN, "view")


def call(client: Client, asked: Answer | None = None) -> Answer:
    meta = {META + "clientCapabilities": {"elicitation": {}}}
    params: dict[str, Any] = {"name": "ask", "arguments": {}, "_meta": meta}
    if asked is not None:
        params["requestState"] = asked.result["requestState"]
        params["inputResponses"] = {"really": {"action": "accept", "content": {"confirm": True}}}
    return client.request("tools/call", params)


@pytest.mark.parametrize(("age", "good"), [(3590, True), (3610, False)])
def test_a_state_expires_with_its_question(asking: Client, age: int, good: bool) -> None:
    with mock.patch("django.core.signing.time.time", return_value=time.time() - age):
        asked = call(asking)

    answer = call(asking, asked)

    if good:
        assert answer.text == "yes"
    else:
        assert "has expired" in answer.error["message"]


def test_a_state_survives_the_rotation_of_the_key_until_the_old_one_is_gone(asking: Client) -> None:
    with override_settings(SECRET_KEY="old"):
        asked = call(asking)
        last = call(asking)

    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=["old"]):
        assert call(asking, asked).text == "yes"
    with override_settings(SECRET_KEY="new", SECRET_KEY_FALLBACKS=[]):
        assert "was not issued by this server" in call(asking, last).error["message"]
