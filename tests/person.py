"""Who sits at a client: what they answer when a server asks them, or their model."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NOBODY = "nobody"
"""As an answer: none is given."""

Question = dict[str, Any]


@dataclass(frozen=True)
class ClientError:
    """An answer that is an error."""

    message: str
    code: int = -1

    @property
    def wire(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message}


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


DECLINE = {"action": "decline"}
CANCEL = {"action": "cancel"}


def said(text: str) -> dict[str, Any]:
    """What a model says."""
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": "a-model",
        "stopReason": "endTurn",
    }


class Person:
    """Who sits at the client.

    Args:
        answers: in order; or by words that stand in the question, where a list is taken in order; or a function.
    """

    def __init__(self, answers: Any = ()) -> None:
        self.answers = answers
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Any:
        self.asked.append({"method": question["method"], "params": question.get("params", {})})
        if callable(self.answers):
            return self.answers(question)
        if isinstance(self.answers, Mapping):
            text = json.dumps([question["method"], question.get("params")])  # its id is random, and may hold any word
            found = [answer for words, answer in self.answers.items() if words in text]
            assert len(found) == 1, f"{len(found)} answers to {text}"
            return found[0].pop(0) if isinstance(found[0], list) else found[0]
        assert len(self.asked) <= len(self.answers), f"not expected: {question}"
        return self.answers[len(self.asked) - 1]

    @property
    def words(self) -> list[str]:
        """The messages of the forms and pages they saw."""
        return [each["params"]["message"] for each in self.asked]
