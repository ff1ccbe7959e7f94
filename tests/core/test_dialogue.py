"""What a call remembers between its rounds, and what tasks side by side ask together."""

import json
from typing import Any

import pytest

from django_mcp import InputRequired
from django_mcp.core.elicitation import Dialogue, merged


def asked(*keys: str) -> InputRequired:
    return InputRequired({key: {"method": "elicitation/create", "params": {"message": key}} for key in keys})


def test_a_dialogue_comes_back_as_it_was_a_round_later() -> None:
    dialogue = Dialogue()
    dialogue.answer({"a": {"action": "accept"}})
    dialogue.asked["a"] = "digest"
    dialogue.tries["a"] = 2
    again = Dialogue(**json.loads(json.dumps(dialogue.to_json())))
    assert (again.id, again.round) == (dialogue.id, 1)
    assert (again.answers, again.asked, again.tries) == (dialogue.answers, dialogue.asked, dialogue.tries)
    assert Dialogue(**again.to_json()).round == 2


def test_an_id_is_unguessable_and_stays() -> None:
    dialogues = [Dialogue() for _ in range(100)]
    ids = {dialogue.id for dialogue in dialogues}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 20
    assert ids == {dialogue.id for dialogue in dialogues}


def test_a_later_answer_replaces_an_earlier_one() -> None:
    dialogue = Dialogue(answers={"a": 1, "b": 1})
    dialogue.answer({"b": 2, "c": 2})
    assert dialogue.answers == {"a": 1, "b": 2, "c": 2}


def test_a_dialogue_keeps_nothing_of_what_it_was_made_of() -> None:
    answers: dict[str, Any] = {"a": 1}
    Dialogue(answers=answers).answer({"b": 2})
    assert answers == {"a": 1}


def test_asking_names_its_questions() -> None:
    assert str(asked("a", "b")) == "a, b"
    assert not isinstance(asked("a"), Exception)


def test_questions_of_a_group_are_one_question() -> None:
    inner = BaseExceptionGroup("inner", [asked("b"), asked("c")])
    together = merged(BaseExceptionGroup("outer", [asked("a"), inner, asked("d")]))
    assert together is not None
    assert set(together.requests) == {"a", "b", "c", "d"}


@pytest.mark.parametrize("error", [LookupError("x"), KeyboardInterrupt(), ExceptionGroup("g", [LookupError("x")])])
def test_a_group_in_which_something_failed_asks_nothing(error: BaseException) -> None:
    assert merged(BaseExceptionGroup("outer", [asked("a"), error])) is None


def test_a_group_that_asks_nothing_is_none_of_this() -> None:
    assert merged(BaseExceptionGroup("outer", [LookupError("x")])) is None
