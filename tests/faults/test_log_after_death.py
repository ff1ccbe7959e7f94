"""Whoever has an answer has a row of it, even where the process that gave it was killed at that moment."""

import http.client
import json
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.conftest import Workers, until
from tests.faults.reading import log_of, read
from tests.faults.wire import Legacy, Modern, text

CLIENTS, BEFORE = 8, 60
"""How many call at once, and how many answers they have when the process is killed."""


def call_async(client: Modern, label: str) -> None:
    assert text(client.call("plain_async", word=label)) == label


def call_sync(client: Modern, label: str) -> None:
    assert text(client.call("plain_sync", word=label)) == label


def write(client: Modern, label: str) -> None:
    assert text(client.call("write_note", label=label)) == f"wrote {label}"


def fail(client: Modern, label: str) -> None:
    assert client.call("fail", label=label)["result"]["isError"] is True


def refuse(client: Modern, label: str) -> None:
    assert client.call("nonsense", label=label)["error"]["code"] == -32602


def list_tools(client: Modern, label: str) -> None:
    assert client.request("tools/list", {}).last()["result"]["tools"]


def read_note(client: Modern, label: str) -> None:
    found = client.request("resources/read", {"uri": "note://sea"}).last()
    assert found["result"]["contents"][0]["text"] == "sea", label


def stream(client: Modern, label: str) -> None:
    """A call of an older version, whose answer is the last event of a stream."""
    with Legacy(client.port, client.user).open().start("count", token=1, label=label, to=2) as reply:
        while "result" not in (message := reply.message()):
            pass
    assert text(message) == "counted to 2"


KINDS: dict[Callable[[Modern, str], None], tuple[str, str, str]] = {
    call_async: ("tools/call", "plain_async", "ok"),
    call_sync: ("tools/call", "plain_sync", "ok"),
    write: ("tools/call", "write_note", "ok"),
    fail: ("tools/call", "fail", "error"),
    refuse: ("tools/call", "nonsense", "rejected"),
    list_tools: ("tools/list", "", "ok"),
    read_note: ("resources/read", "note://sea", "ok"),
    stream: ("tools/call", "count", "ok"),
}
"""What a client does, and the method, name and outcome of its row."""
LAST = (call_async, call_sync, write, fail, list_tools, stream)


@pytest.mark.parametrize("last", LAST, ids=lambda kind: kind.__name__)
def test_every_answered_call_has_its_row_when_the_process_is_killed_at_once(
    pair: Workers, label: str, last: Callable[[Modern, str], None]
) -> None:
    client = Modern(pair[0], user=label)
    done = [*KINDS, *KINDS, last]
    for number, act in enumerate(done):
        act(client, f"{label}-{number}")
    pair.kill(0)

    found = log_of(pair.environment, ("method", "name", "outcome"), label)
    assert found == [KINDS[act] for act in done]


class Caller(threading.Thread):
    """Calls one tool after the other until nobody answers, and keeps what it has answers of."""

    def __init__(self, client: Modern, label: str) -> None:
        super().__init__(daemon=True)
        self.client, self.label = client, label
        self.answered: list[tuple[str, str]] = []

    def run(self) -> None:
        number = 0
        while True:
            tool, argument = (("plain_async", "word"), ("plain_sync", "word"), ("write_note", "label"))[number % 3]
            own = f"{self.label}-{number}"
            try:
                answer = self.client.call(tool, **{argument: own})
            except (OSError, http.client.HTTPException):  # it was killed, before or in the middle of its answer
                return
            assert own in text(answer)
            self.answered.append((tool, own))
            number += 1


def test_of_calls_at_once_each_that_was_answered_has_one_row(pair: Workers, label: str) -> None:
    callers = [Caller(Modern(pair[0], user=label), f"{label}-{number}") for number in range(CLIENTS)]
    for each in callers:
        each.start()
    until(lambda: sum(len(each.answered) for each in callers) >= BEFORE, "they have answers")
    pair.kill(0)
    for each in callers:
        each.join(20)
        assert not each.is_alive()

    found = Counter(
        (name, only(json.loads(arguments)))
        for name, arguments, outcome in log_of(pair.environment, ("name", "arguments", "outcome"), label)
        if outcome == "ok"
    )
    answered = [call for each in callers for call in each.answered]
    assert [call for call in answered if found[call] != 1] == []
    assert [call for call, times in found.items() if times != 1] == []
    assert len(found) - len(answered) <= CLIENTS, "no more than one call of each was under way"
    notes = read(pair.environment, f"SELECT text FROM faults_site_note WHERE text LIKE '{label}-%'")
    assert {own for tool, own in answered if tool == "write_note"} <= {each["text"] for each in notes}


def only(arguments: dict[str, Any]) -> str:
    """The value of the only argument."""
    (value,) = arguments.values()
    return str(value)
