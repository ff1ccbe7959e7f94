"""Without an event loop: everything here and now."""

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db.utils import ConnectionHandler

from django_mcp.core import database
from django_mcp.core.concurrency import INLINE, run_inline
from django_mcp.core.database import in_transaction


async def through(step: Awaitable[Any]) -> Any:
    return await step


def test_a_synchronous_function_runs_in_the_calling_thread() -> None:
    assert run_inline(INLINE.sync(threading.get_ident)) == threading.get_ident()


def test_a_coroutine_function_runs_to_its_end_though_it_waits() -> None:
    async def patient() -> str:
        for _ in range(3):
            await asyncio.sleep(0)
        return "done"

    assert run_inline(through(INLINE.coroutine(patient))) == "done"


def test_the_value_of_the_coroutine_is_the_value() -> None:
    async def give(value: Any) -> Any:
        return value

    for value in (None, 0, "", (1, 2), ValueError("returned")):
        assert run_inline(through(give(value))) is value


def test_what_a_function_raises_is_raised() -> None:
    errors: list[BaseException] = [ValueError("x"), KeyError(1)]

    def fail() -> None:
        raise errors[0]

    async def fail_too() -> None:
        raise errors[0]

    while errors:
        for step in (INLINE.sync(fail), INLINE.coroutine(fail_too)):
            with pytest.raises(type(errors[0])) as caught:
                run_inline(step)
            assert caught.value is errors[0]
        del errors[0]


def test_a_coroutine_that_waits_for_something_else_is_closed_and_named_as_the_mistake_it_is() -> None:
    steps: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            steps.append("closed")

    with pytest.raises(RuntimeError, match="awaited something other than its Runner"):
        run_inline(waits())
    assert steps == ["closed"]


@pytest.mark.postgresql
@pytest.mark.django_db
def test_what_is_written_in_a_transaction_is_kept() -> None:
    in_transaction(lambda: Group.objects.create(name="kept"))
    assert Group.objects.filter(name="kept").exists()


@pytest.mark.postgresql
@pytest.mark.django_db
def test_a_transaction_gives_back_what_its_function_returns() -> None:
    assert in_transaction(lambda: "value") == "value"


@pytest.mark.postgresql
@pytest.mark.django_db
def test_an_error_takes_back_what_was_written_and_nothing_before_it() -> None:
    def write_and_fail() -> None:
        Group.objects.create(name="taken back")
        raise ValueError

    Group.objects.create(name="before")
    with pytest.raises(ValueError):  # noqa: PT011 - it has no words
        in_transaction(write_and_fail)
    assert set(Group.objects.values_list("name", flat=True)) == {"before"}


def test_a_site_without_a_database_has_no_transactions_and_functions_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(database, "connections", ConnectionHandler({"default": {}}))
    assert not database.has_database()
    assert in_transaction(lambda: "value") == "value"
