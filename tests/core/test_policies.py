"""The grant of an approved call."""

from contextlib import nullcontext
from typing import Any

import pytest

from django_mcp.core.channel import Cancelled
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.policies import ApprovalGrant


@pytest.mark.parametrize(
    ("raised", "outcomes"),
    [(None, ["ok"]), (ValueError(), ["error"]), (Cancelled(), ["error"]), (InputRequired({}), [])],
    ids=["", "error", "cancelled", "asks"],
)
def test_each_end_of_an_approved_call_is_an_outcome_but_a_question(
    raised: BaseException | None, outcomes: list[str]
) -> None:
    told: list[str] = []

    class Grant(ApprovalGrant):
        def use(self) -> None:
            pass

        def ended(self, outcome: str) -> None:
            told.append(outcome)

    def work() -> dict[str, Any]:
        if raised is not None:
            raise raised
        return {}

    with nullcontext() if raised is None else pytest.raises(type(raised)):
        Grant().around(work)
    assert told == outcomes
