"""Tries of one call, as several processes see them."""

import threading
from typing import Any

import pytest
from django.db import OperationalError
from django.test import override_settings
from django.utils import timezone

from django_mcp import ToolError
from django_mcp.core import database
from django_mcp.models import Step
from django_mcp.pubsub.once import StepRecord

pytestmark = [pytest.mark.django_db, pytest.mark.postgresql, pytest.mark.mariadb]
CALL, ARGUMENTS = "c" * 64, "a" * 64
FIELDS: dict[str, Any] = {"content": [{"type": "text", "text": "ordered"}], "structuredContent": {"number": 1}}


def tries(number: int) -> list[StepRecord]:
    return [StepRecord(CALL, ARGUMENTS) for _ in range(number)]


def test_the_first_is_to_run_and_the_others_have_its_result() -> None:
    first, second = tries(2)
    assert first.claim() is None
    first.store(FIELDS)
    assert second.claim() == FIELDS


def test_what_a_dead_process_began_is_not_begun_again() -> None:
    dead, later = tries(2)
    dead.claim()
    with pytest.raises(ToolError, match=r"has no result yet.* check the outcome"):
        later.claim()
    later.release()
    assert Step.objects.exists(), "a try forgets its own note and no other"


def test_a_try_that_forgot_leaves_room_for_another() -> None:
    first, second = tries(2)
    first.claim()
    first.release()
    assert second.claim() is None


def test_a_result_is_not_forgotten() -> None:
    """The connection broke while it was committed: it came through, and its try thinks it failed."""
    first, second = tries(2)
    first.claim()
    first.store(FIELDS)
    first.release()
    assert second.claim() == FIELDS


@override_settings(DJANGO_MCP={"POLL_INTERVAL": 0.01})
def test_a_note_that_could_not_be_forgotten_is_when_the_database_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = threading.Event()
    away = iter([True, True, False])

    class Own:
        def delete(self) -> None:
            if next(away):
                raise OperationalError("the database system is shutting down")
            forgotten.set()

    (one,) = tries(1)
    monkeypatch.setattr(one, "_own", Own)
    one.release()
    assert forgotten.wait(20)


def test_who_finds_its_note_gone_keeps_nothing() -> None:
    slow, other = tries(2)
    slow.claim()
    Step.objects.update(expires=timezone.now())
    assert other.claim() is None
    slow.store({"content": []})
    other.store(FIELDS)
    assert tries(1)[0].claim() == FIELDS


def test_a_site_without_a_database_runs_each_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "exists", lambda _: False)
    for each in tries(2):
        assert each.claim() is None
        each.store(FIELDS)
        each.release()
    assert not Step.objects.exists()


def test_acts_are_those_of_the_call_and_its_arguments() -> None:
    one, other = StepRecord(CALL, ARGUMENTS), StepRecord(CALL, "b" * 64)
    assert one.step_key == tries(1)[0].step_key != other.step_key
    assert len(one.step_key) == 64
