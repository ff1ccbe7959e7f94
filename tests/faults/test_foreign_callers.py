"""Somebody who knows what they should not: a session id, an event id, a question's id, a state."""

from dataclasses import replace

import pytest

from tests.faults.conftest import Workers
from tests.faults.wire import Legacy, Modern, Reply, question_of, text


def shown(reply: Reply) -> tuple[int, str | None, bytes]:
    return reply.status, reply.header("content-type"), b"..." if reply.is_stream else reply.body()


@pytest.mark.parametrize("verb", ["answer", "call", "GET", "GET to resume", "DELETE"])
def test_anothers_session_looks_just_like_one_that_never_was(pair: Workers, label: str, verb: str) -> None:
    client = Legacy(pair[0]).open()
    stream = client.start("ask", label=label)
    asked = question_of(stream)

    def attempt(thief: Legacy) -> Reply:
        match verb:
            case "answer":
                return thief.post({"id": asked.message["id"], "result": {"action": "decline"}})
            case "call":
                return thief.post({"id": 1, "method": "tools/call", "params": {"name": "plain_async"}})
            case "DELETE":
                return thief.send("DELETE", thief.headers)
        return thief.listen(asked.id if verb == "GET to resume" else None)

    found = shown(attempt(replace(client, user="eve")))
    unknown = shown(attempt(replace(client, user="eve", session="x" * len(client.session))))

    assert found == unknown
    assert found[0] == 404
    assert client.answer(asked.message) == 202
    assert text(stream.last()) == f"{label}: yes to What of {label}?"


def test_a_question_cannot_be_answered_nor_its_stream_read_from_another_session(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    stream = client.start("ask", label=label)
    asked = question_of(stream)
    thief = Legacy(pair[1], user="eve").open()

    assert thief.post({"id": asked.message["id"], "result": {"action": "decline"}}).status == 202
    refused = thief.listen(asked.id)
    assert refused.status == 400
    assert "names no stream of this session" in refused.message()["error"]["message"]

    assert client.answer(asked.message) == 202
    assert text(stream.last()) == f"{label}: yes to What of {label}?"


def test_the_state_of_anothers_call_is_refused(pair: Workers, label: str) -> None:
    client = Modern(pair[0])
    asked = client.call("ask", label=label)

    error = replace(client, user="eve").go_on("ask", asked, label=label)["error"]

    assert error["code"] == -32602
    assert "belongs to another call" in error["message"]
    assert text(client.go_on("ask", asked, label=label)) == f"{label}: yes to reply"
    assert pair.journal().count(f"acted {label}") == 1
