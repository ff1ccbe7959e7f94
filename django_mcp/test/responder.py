"""Who sits at the client of a test: what they, or their model, answer when a tool asks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

Question = Mapping[str, Any]
"""A request of the server: ``{"method": …, "params": {…}}``."""

DECLINE: Final = {"action": "decline"}
"""As an answer: no."""
CANCEL: Final = {"action": "cancel"}
"""As an answer: the dialogue is closed."""

Answers = Sequence[Any] | Mapping[str, Any] | Callable[[Question], Any]


class Responder:
    """Answers questions, and remembers them.

    An answer is for a form a mapping of its fields, or the value of the only field it has; ``True`` also accepts a form
    without fields and opens a page; for a model the text it says; for roots a list of URIs. ``DECLINE`` and ``CANCEL``
    do what they say. Anything with an ``"action"`` or a ``"role"`` goes out as it is.

    Args:
        answers: in the order of the questions; or by words that stand in the question; or a function of it.
        who: for messages, what the call was.
    """

    def __init__(self, answers: Answers, who: str) -> None:
        self._answers = answers
        self._who = who
        self._left: list[Any] | None = None
        if isinstance(answers, Sequence) and not isinstance(answers, str | bytes):
            self._left = list(answers)
        elif not callable(answers) and not isinstance(answers, Mapping):
            msg = f"answers is a list, a mapping or a function, not {answers!r}; for one question give [{answers!r}]."
            raise TypeError(msg)
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> dict[str, Any]:
        """The result that answers a question.

        Raises:
            AssertionError: nobody has an answer to it.
        """
        self.asked.append(question)
        return formed(question, self._find(question))

    @property
    def unused(self) -> list[Any]:
        """Answers to what was never asked; of those by words or a function nobody knows."""
        return self._left or []

    def _find(self, question: Question) -> Any:
        words = words_of(question)
        if callable(self._answers):
            return self._answers(question)
        if isinstance(self._answers, Mapping):
            found = [answer for part, answer in self._answers.items() if part in words]
            if len(found) == 1:
                return found[0]
            problem = f"{len(found)} of the answers are for it" if found else "none of the answers is for it"
        elif self._left:
            return self._left.pop(0)
        else:
            problem = f"there are no more answers than the {len(self.asked) - 1} given"
        msg = f"{self._who} asked:\n    {words}\nand {problem}. Give it one: answers=[…], or answers={{{words!r}: …}}."
        raise AssertionError(msg)


def words_of(question: Question) -> str:
    """What a question says."""
    params = question.get("params") or {}
    if "message" in params:
        return str(params["message"])
    texts = [_text(each.get("content")) for each in params.get("messages", ())]
    return "\n".join(texts) or str(question["method"])


def _text(content: Any) -> str:
    blocks = content if isinstance(content, list) else [content]
    return " ".join(str(each.get("text", each.get("type"))) for each in blocks if isinstance(each, Mapping))


def formed(question: Question, answer: Any) -> dict[str, Any]:
    """An answer as a client sends it.

    Raises:
        AssertionError: it is none to such a question.
    """
    if isinstance(answer, Mapping) and ("action" in answer or "role" in answer):
        return dict(answer)
    match question["method"]:
        case "sampling/createMessage" if isinstance(answer, str):
            content = {"type": "text", "text": answer}
            return {"role": "assistant", "content": content, "model": "test", "stopReason": "endTurn"}
        case "roots/list" if isinstance(answer, list | tuple):
            return {"roots": [dict(each) if isinstance(each, Mapping) else {"uri": each} for each in answer]}
        case "elicitation/create":
            return _form(question["params"], answer)
    msg = f"{answer!r} is no answer to {question['method']} ({words_of(question)!r})."
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
    msg = f"{answer!r} answers one field, and {words_of({'params': params, 'method': ''})!r} asks for {names}."
    raise AssertionError(msg)
