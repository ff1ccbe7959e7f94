"""What a call asked its client, and what it heard, over all its rounds.

A tool that asks is run again from the top with the answers so far. Between two rounds nothing of it is kept but
this: for one kind of client in a signed string that travels with the question, for the other in the database.
"""

import secrets
from collections.abc import Mapping
from typing import Any

MOST_TRIES = 3
"""How often a question is asked before answers that do not fit end the call."""


MOST_ROUNDS = 25
"""How often a call may ask; more is a question that is never the same twice."""


class InputRequired(BaseException):
    """Ends a round: the call needs answers first.

    No ``Exception``, so that an ``except Exception`` in a tool lets it through.

    Args:
        requests: question's key -> ``{"method": …, "params": …}`` (2026-07-28, InputRequests).
    """

    def __init__(self, requests: dict[str, dict[str, Any]]) -> None:
        super().__init__(", ".join(requests))
        self.requests = requests


class Dialogue:
    """Questions and answers of one call.

    Attributes:
        id: of the call, the same in all rounds; unguessable.
        round: 0 for the first.
        answers: question's key -> the client's result, as it came.
        asked: question's key -> the digest of the question it answers.
        tries: question's key -> how many answers did not fit.
        progress: what was reported last, where all rounds are one request to the client.
        task: the id of the task that asks, where the call waits for one.
    """

    __slots__ = ("_id", "answers", "asked", "progress", "round", "task", "tries")

    def __init__(
        self,
        id: str | None = None,  # noqa: A002
        round: int = 0,  # noqa: A002
        answers: Mapping[str, Any] | None = None,
        asked: Mapping[str, str] | None = None,
        tries: Mapping[str, int] | None = None,
        progress: float | None = None,
        task: str | None = None,
    ) -> None:
        self._id = id
        self.round = round
        self.answers = dict(answers or {})
        self.asked = dict(asked or {})
        self.tries = dict(tries or {})
        self.progress = progress
        self.task = task

    @property
    def id(self) -> str:
        """Made when first asked for: most calls ask nothing."""
        if self._id is None:
            self._id = secrets.token_urlsafe(16)
        return self._id

    def answer(self, responses: Mapping[str, Any]) -> None:
        """Add what the client said. It may answer more than it was asked, and again."""
        self.answers.update(responses)

    def to_json(self) -> dict[str, Any]:
        """For the next round; ``Dialogue(**…)`` reads it."""
        saved: dict[str, Any] = {
            "id": self.id,
            "round": self.round + 1,
            "answers": self.answers,
            "asked": self.asked,
            "tries": self.tries,
        }
        return saved if self.task is None else {**saved, "task": self.task}


def merged(group: BaseExceptionGroup[Any]) -> InputRequired | None:
    """One exception for what the tasks of a ``TaskGroup`` asked side by side; None where another failed."""
    asking, others = group.split(InputRequired)
    if asking is None or others is not None:
        return None
    requests: dict[str, dict[str, Any]] = {}
    waiting: list[BaseException] = [asking]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
        elif isinstance(each, InputRequired):
            requests.update(each.requests)
    return InputRequired(requests)
