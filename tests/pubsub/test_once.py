"""What is done once: who may, what is kept of it, and what becomes of what failed."""

import asyncio
import threading
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.utils import timezone

from django_mcp import ToolError
from django_mcp.core import database
from django_mcp.core.concurrency import INLINE, Pool
from django_mcp.models import Step
from django_mcp.pubsub import once

pytestmark = [pytest.mark.postgresql, pytest.mark.mariadb]
CALL = {"call": once.expiry()}


@pytest.fixture
def tried() -> list[str]:
    return []


@pytest.mark.django_db
def test_a_step_is_taken_once() -> None:
    assert once.claim_step("call", "key") is True
    assert once.claim_step("call", "key") is False
    assert once.claim_step("call", "other key") is True
    assert once.claim_step("other call", "key") is True


@pytest.mark.django_db
def test_a_step_that_was_taken_leaves_the_transaction_usable() -> None:
    with transaction.atomic():
        once.claim_step("call", "key")
        assert once.claim_step("call", "key") is False
        assert Step.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_many_who_take_a_step_at_once_one_does() -> None:
    start, won = threading.Barrier(6), []

    def run() -> None:
        start.wait()
        won.append(once.claim_step("call", "key"))
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == [False] * 5 + [True]


@pytest.mark.django_db
def test_a_result_is_kept(tried: list[str]) -> None:
    values: list[Any] = [None, 0, "x", [1, {"a": None}], {"n": 1.5}]

    def act() -> Any:
        tried.append("act")
        return values[len(tried) - 1]

    for at, value in enumerate(values):
        assert [once.once(CALL, f"pay {at}", act) for _ in range(3)] == [value] * 3
        assert len(tried) == at + 1


@pytest.mark.django_db
def test_what_failed_may_be_tried_again_and_left_nothing(tried: list[str]) -> None:
    def act() -> str:
        tried.append("act")
        once.claim_step("written by the act", "key")
        if len(tried) == 1:
            raise LookupError("no")
        return "done"

    with pytest.raises(LookupError):
        once.once(CALL, "pay", act)
    assert Step.objects.count() == 0
    assert once.once(CALL, "pay", act) == "done"


@pytest.mark.django_db
def test_what_was_begun_and_not_ended_is_not_done_again() -> None:
    once.claim_step("call", "once:pay")
    with pytest.raises(ToolError, match="'pay' was started before and its outcome is unknown"):
        once.once(CALL, "pay", lambda: pytest.fail("done again"))


@pytest.mark.django_db
def test_a_step_outlives_the_state_that_could_repeat_it(settings: Any) -> None:
    settings.DJANGO_MCP = {"ELICITATION_TTL": 100, "TASK_TTL": 50}
    once.claim_step("call", "key")
    left = Step.objects.get().expires - timezone.now()
    assert 190 < left.total_seconds() <= 200


@pytest.mark.django_db
def test_a_step_outlives_the_task_that_could_repeat_it(settings: Any) -> None:
    settings.DJANGO_MCP = {"ELICITATION_TTL": 100, "TASK_TTL": 5000}
    once.claim_step("call", "key")
    left = Step.objects.get().expires - timezone.now()
    assert 5090 < left.total_seconds() <= 5100


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("runner", ["pool", "inline"])
def test_a_coroutine_acts_once_wherever_it_runs(tried: list[str], runner: str) -> None:
    async def act() -> str:
        tried.append("act")
        if len(tried) == 1:
            raise LookupError("no")
        return "done"

    async def main(runs_in: Any) -> list[str]:
        with pytest.raises(LookupError):
            await once.aonce(CALL, "pay", act, runs_in)
        return [await once.aonce(CALL, "pay", act, runs_in) for _ in range(2)]

    pool = Pool(1)
    try:
        # As the view runs an async tool: what it does aside comes back to this thread.
        outcome = asyncio.run(main(pool)) if runner == "pool" else async_to_sync(main)(INLINE)
        assert outcome == ["done", "done"]
    finally:
        pool.close()
    assert tried == ["act", "act"]


def test_a_site_without_a_database_takes_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "exists", lambda _: False)
    assert once.claim_step("call", "key") is True
    assert once.claim_step("call", "key") is True
