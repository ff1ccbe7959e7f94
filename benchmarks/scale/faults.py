"""A worker goes away under load: what callers were told, and what is in the database."""

import http.client
import json
import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.scale.client import CallFailedError, Client
from benchmarks.scale.stage import Stage, until


@dataclass(frozen=True)
class Crowd:
    """Who calls.

    Attributes:
        callers: of each era.
        before, after: calls of each before the worker goes, and after it is gone.
    """

    callers: int = 8
    before: int = 15
    after: int = 25


@dataclass(frozen=True)
class Call:
    """One call, as its caller knows it.

    Attributes:
        text: of the note that it was to write, its own.
        failure: how it failed; empty for an answer.
        worker: which answered.
    """

    text: str
    failure: str
    worker: str


class Caller(threading.Thread):
    """Calls, one call after the other and none twice, until it is told to stop."""

    def __init__(self, client: Client, name: str) -> None:
        super().__init__(daemon=True)
        self._client, self._name = client, name
        self.calls: list[Call] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        while not self.is_over.is_set():
            self.calls.append(self._call(f"{self._name}-{len(self.calls)}"))

    def _call(self, text: str) -> Call:
        ask = self._client.legacy if self._client.session else self._client.modern
        worker = ""
        try:
            reply = ask("tools/call", {"name": "note", "arguments": {"text": text}})
            worker = reply.worker
            result = reply.result()
        except (CallFailedError, OSError, http.client.HTTPException) as error:
            return Call(text, _kind(error), worker)
        failed = result.get("isError") or text not in str(result["content"])
        return Call(text, f"wrong: {result}" if failed else "", worker)


def _kind(error: Exception) -> str:
    """What happened, without what differs from call to call."""
    words = str(error) or type(error).__name__
    return re.sub(r"<[^>]+>|\\r\\n|[^\w .:,'-]", " ", words)[:80].strip()


@dataclass
class Outcome:
    """What came of a worker's going away.

    Attributes:
        what: happened to it.
        answered: calls.
        failures: how calls failed -> how many.
        done_all_the_same: failed calls that wrote their note: the answer was lost, not the work.
        sessions: how many there were, and how many were answered by another worker afterwards.
        problems: what must not be.
    """

    what: str
    answered: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    done_all_the_same: int = 0
    sessions: tuple[int, int] = (0, 0)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        failed = ", ".join(f"{count} x {kind}" for kind, count in self.failures.items()) or "none"
        went_on = f"{self.sessions[1]} of {self.sessions[0]} sessions went on at another worker"
        return (
            f"{self.what}: {self.answered:,} calls answered, {self.failures.total()} failed ({failed}), of which "
            f"{self.done_all_the_same} had been carried out; {went_on}; " + ("; ".join(self.problems) or "nothing lost")
        )


def under_load(stage: Stage, workers: int, crowd: Crowd, what: str, act: Callable[[], str]) -> Outcome:
    """Have callers call, do something to a worker in the middle, and compare what they got with the database.

    Args:
        stage: what serves.
        workers: how many of them.
        crowd: who calls.
        what: happens, in words.
        act: does it; the address of the worker.
    """
    client = stage.client(workers)
    word = what.replace(" ", "-")
    callers = [Caller(client, f"{word}-modern-{number}") for number in range(crowd.callers)]
    callers += [Caller(client.open(), f"{word}-legacy-{number}") for number in range(crowd.callers)]
    for each in callers:
        each.start()
    try:
        until(lambda: min(len(each.calls) for each in callers) >= crowd.before, "all have called")
        gone = act()
        then = {each: len(each.calls) for each in callers}
        until(lambda: all(len(each.calls) >= then[each] + crowd.after for each in callers), "all have gone on")
    finally:
        for each in callers:
            each.is_over.set()
        for each in callers:
            each.join()
    outcome = judge(stage, word, what, [call for each in callers for call in each.calls])
    legacy = callers[crowd.callers :]
    went_on = sum(any(not call.failure and call.worker != gone for call in each.calls[then[each] :]) for each in legacy)
    outcome.sessions = (len(legacy), went_on)
    if went_on < len(legacy):
        outcome.problems.append(f"{len(legacy) - went_on} sessions did not go on")
    return outcome


def judge(stage: Stage, word: str, what: str, calls: list[Call]) -> Outcome:
    """Compare what callers got with what the database has."""
    notes = Counter(text for (text,) in stage.read(f"SELECT text FROM scale_site_note WHERE text LIKE '{word}-%'"))
    logged = Counter(
        json.loads(arguments)["text"]
        for (arguments,) in stage.read(
            "SELECT arguments FROM django_mcp_requestlog WHERE name = 'note' AND outcome = 'ok'"
            f" AND arguments LIKE '%{word}-%'"
        )
    )
    return compared(what, calls, notes, logged)


def compared(what: str, calls: list[Call], notes: Counter[str], logged: Counter[str]) -> Outcome:
    """Whether every answer has its effect and its row, once, and nothing was done twice."""
    outcome = Outcome(what)
    for call in calls:
        if call.failure:
            outcome.failures[call.failure] += 1
            outcome.done_all_the_same += notes[call.text] > 0
            continue
        outcome.answered += 1
        if not notes[call.text]:
            outcome.problems.append(f"{call.text} was answered and has no effect")
        if not logged[call.text]:
            outcome.problems.append(f"{call.text} was answered and has no row in the log")
    twice = [text for text, count in (*notes.items(), *logged.items()) if count > 1]
    outcome.problems += [f"{text} was carried out twice" for text in dict.fromkeys(twice)]
    return outcome
