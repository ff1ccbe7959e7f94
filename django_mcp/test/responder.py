"""Answers of a test client to elicitation, sampling and roots requests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Question = Mapping[str, Any]
"""A server request: ``{"method": …, "params": {…}}``."""

DECLINE: Final = {"action": "decline"}
"""Answer that declines an elicitation."""
CANCEL: Final = {"action": "cancel"}
"""Answer that cancels an elicitation."""

Answers = Sequence[Any] | Mapping[str, Any] | Callable[[Question], Any]


class Responder:
    """Answers questions and records them.

    The answer to a form is a dict of its fields, or the value of its only field; ``True`` accepts a form without fields
    or opens a URL. To a sampling request it is the text; to a roots request a list of URIs. ``DECLINE`` and ``CANCEL``
    decline and cancel. A dict with ``"action"`` or ``"role"`` is sent unchanged.

    Args:
        answers: a list in the order of the questions, a dict by parts of the question's text, or a function.
        who: the call, for messages.
    """

    def __init__(self, answers: Answers, who: str) -> None:
        self._answers = answers
        self._who = who
        self._left: list[Any] | None = None
        if isinstance(answers, Sequence) and not isinstance(answers, str | bytes):
            self._left = list(answers)
        elif not callable(answers) and not isinstance(answers, Mapping):
            msg = f"answers must be a list, a dict or a function, not {answers!r}; for one question use [{answers!r}]."
            raise TypeError(msg)
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> dict[str, Any]:
        """Return the result for a question.

        Raises:
            AssertionError: there is no answer to it.
        """
        self.asked.append(question)
        return formed(question, self._find(question))

    @property
    def unused(self) -> list[Any]:
        """Answers of a list that were not used."""
        return self._left or []

    def _find(self, question: Question) -> Any:
        words = words_of(question)
        if callable(self._answers):
            return self._answers(question)
        if isinstance(self._answers, Mapping):
            found = [answer for part, answer in self._answers.items() if part in words]
            if len(found) == 1:
                return found[0]
            problem = f"{len(found)} of the answers match" if found else "none of the answers matches"
        elif self._left:
            return self._left.pop(0)
        else:
            problem = f"all {len(self.asked) - 1} answers are used"
        msg = f"{self._who} asked:\n    {words}\nbut {problem}. Add an answer: answers=[…] or answers={{{words!r}: …}}."
        raise AssertionError(msg)


def words_of(question: Question) -> str:
    params = question.get("params") or {}
    if "message" in params:
        return str(params["message"])
    texts = [_text(message.get("content")) for message in params.get("messages", ())]
    return "\n".join(texts) or str(question["method"])


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return " ".join(str(block.get("text", block.get("type"))) for block in blocks if isinstance(block, Mapping))


def formed(question: Question, answer: Any) -> dict[str, Any]:
    """Return an answer as a client sends it.

    Raises:
        AssertionError: it does not fit this kind of question.
    """
    if isinstance(answer, Mapping) and ("action" in answer or "role" in answer):
        return dict(answer)
    match question["method"]:
        case "sampling/createMessage" if isinstance(answer, str):
            content = {"type": "text", "text": answer}
            return {"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"}
        case "roots/list" if isinstance(answer, list | tuple):
            return {"roots": [dict(root) if isinstance(root, Mapping) else {"uri": root} for root in answer]}
        case "elicitation/create":
            return _form(question["params"], answer)
    msg = f"{answer!r} is not a valid answer to {question['method']} ({words_of(question)!r})."
    raise AssertionError(msg)


def _form(params: Mapping[str, Any], answer: Any) -> dict[str, Any]:
    if params.get("mode") == "url":
        return {"action": "accept"} if answer is True else dict(DECLINE)
    if isinstance(answer, Mapping):
        return {"action": "accept", "content": dict(answer)}
    names = list(params.get("requestedSchema", {}).get("properties", {}))
    if len(names) == 1:
        return {"action": "accept", "content": {names[0]: answer}}
    if not names and answer is True:
        return {"action": "accept", "content": {}}
    msg = f"{answer!r} answers one field, but {words_of({'params': params, 'method': ''})!r} asks for {names}."
    raise AssertionError(msg)
