"""An answer comes more than once."""

from concurrent.futures import ThreadPoolExecutor

from tests.faults.conftest import Workers
from tests.faults.wire import Legacy, question_of, text


def settle(pair: Workers, label: str) -> None:
    """Have a whole exchange with each worker: what was begun before has been done by then."""
    for index in range(2):
        client = Legacy(pair[index]).open()
        stream = client.start("ask", label=f"{label}-after")
        assert client.answer(question_of(stream).message) == 202
        assert "result" in stream.last()


def test_an_answer_sent_again_changes_nothing(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    stream = client.start("ask", label=label)
    asked = question_of(stream)

    assert client.answer(asked.message) == 202
    assert text(stream.message()) == f"{label}: yes to What of {label}?"
    assert client.at(pair[1]).answer(asked.message) == 202

    assert list(stream.events()) == []
    settle(pair, label)
    assert pair.journal().count(f"acted {label}") == 1


def test_an_answer_sent_to_two_workers_at_once_runs_the_next_round_once(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    for number in range(5):
        stream = client.start("ask", label=f"{label}-{number}")
        asked = question_of(stream)

        with ThreadPoolExecutor(4) as pool:
            sent = [pool.submit(client.at(pair[each % 2]).answer, asked.message) for each in range(4)]

        assert [each.result() for each in sent] == [202] * 4
        assert len([event for event in stream.events() if event.data]) == 1

    settle(pair, label)
    assert [pair.journal().count(f"acted {label}-{number}") for number in range(5)] == [1] * 5


def test_an_answer_to_an_earlier_question_sent_again_does_not_answer_the_next(pair: Workers, label: str) -> None:
    client = Legacy(pair[0]).open()
    stream = client.start("ask_twice", label=label)
    first = question_of(stream).message
    client.answer(first)
    second = question_of(stream).message

    assert client.at(pair[1]).answer(first) == 202
    settle(pair, label)
    assert pair.journal().count(f"heard first {label}") == 1
    assert client.answer(second) == 202

    assert text(stream.last()) == f"{label}: yes to First? yes to Second?"
    assert pair.journal().count(f"acted {label}") == 1
