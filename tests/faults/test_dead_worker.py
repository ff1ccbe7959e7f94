"""A worker is killed between a question and its answer."""

from tests.faults.conftest import Workers
from tests.faults.wire import Legacy, Modern, question_of, text


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
