"""A worker is killed between a question and its answer, or while it runs a call."""

from collections.abc import Iterator

import pytest

from tests.conformance.databases import postgresql
from tests.faults.conftest import Workers, workers
from tests.faults.wire import Legacy, Modern, question_of, text

KEEP_ALIVE = 0.4
"""Seconds after which streams say that they live. Twice as long those who run calls are believed to."""


def test_the_answer_to_a_question_of_a_killed_worker_goes_on_in_another(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    asked = question_of(client.start("ask", label=label))

    pair.kill(0)
    survivor = client.at(pair[1])
    assert survivor.answer(asked.message) == 202

    events = list(survivor.listen(asked.id).events())
    assert [text(event.message) for event in events if event.data] == [f"{label}: yes to What of {label}?"]
    assert pair.journal().count(f"acted {label}") == 1


def test_a_modern_call_goes_on_in_another_worker_when_the_one_that_asked_is_killed(pair: Workers, label: str) -> None:
    client = Modern(pair[0])
    asked = client.call("ask", label=label)

    pair.kill(0)

    assert text(client.at(pair[1]).go_on("ask", asked, label=label)) == f"{label}: yes to reply"
    assert pair.journal().count(f"acted {label}") == 1


@pytest.fixture(scope="module")
def shared_brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    with (
        postgresql() as database,
        workers(2, {**database, "FAULTS_KEEP_ALIVE": str(KEEP_ALIVE)}, tmp_path_factory.mktemp("dead")) as both,
    ):
        yield both


@pytest.fixture
def brief(shared_brief: Workers) -> Workers:
    """Two processes in which nobody is silent for long, both alive."""
    shared_brief.replace_dead()
    return shared_brief


@pytest.mark.needs("DATABASE_URL")
def test_whoever_comes_back_for_a_call_that_died_with_its_process_is_told_so_once(brief: Workers, label: str) -> None:
    client = Legacy(brief[0]).open()
    begun = client.start("count", token=1, label=label, to=100_000).event()
    assert begun is not None

    brief.kill(0)
    survivor = client.at(brief[1])
    answers = [survivor.listen(begun.id).last() for _ in range(2)]

    assert answers[0] == answers[1]
    assert answers[0]["error"]["code"] == -32603
    assert "stopped before it answered" in answers[0]["error"]["message"]
    assert survivor.listen(begun.id).last() == answers[0], "and whoever comes later"


@pytest.mark.needs("DATABASE_URL")
def test_a_call_that_says_nothing_for_long_is_not_given_up_while_its_process_lives(brief: Workers, label: str) -> None:
    client = Legacy(brief[0]).open()
    begun = client.start("tell_and_wait", label=label, seconds=KEEP_ALIVE * 8).event()
    assert begun is not None

    assert text(client.at(brief[1]).listen(begun.id).last()) == f"waited {label}"


@pytest.mark.needs("DATABASE_URL")
def test_the_round_after_an_answer_is_not_given_up_either(brief: Workers, label: str) -> None:
    client = Legacy(brief[0]).open()
    asked = question_of(client.start("ask_and_wait", label=label, seconds=KEEP_ALIVE * 8))

    assert client.at(brief[1]).answer(asked.message) == 202

    assert text(client.listen(asked.id).last()) == f"waited {label}"
