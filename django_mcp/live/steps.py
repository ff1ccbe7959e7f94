"""Acts that are done once in a call, however often the call is run."""

import asyncio
import datetime
import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from django.db import IntegrityError
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Runner, aside
from django_mcp.models import Step
from django_mcp.primitives.base import sendable
from django_mcp.primitives.tool import ToolError

T = TypeVar("T")

UNKEPT = "django_mcp.unkept"
NOT_KEPT = (
    "ctx.once({name!r}) was done, but its result, of type {kind}, cannot be kept for later rounds: "
    "return what JSON has, such as a str, a number, a list or a dict."
)


def take(call: str, key: str) -> bool:
    """Whether this is the first time; of several who ask at once, one is."""
    if not database.has_database():
        return True
    try:
        with database.atomic():  # a savepoint, should the site have a transaction open
            Step.objects.create(call=call, key=key, expires=expiry())
    except IntegrityError:
        return False
    return True


def once(calls: Sequence[str], name: str, function: Callable[[], T], readable: Sequence[str] | None = None) -> T:
    """The function's result, now or as it was kept.

    Args:
        calls: what the act belongs to: the call and, where it has one, its idempotency key. Noted in one of them, it
            is done.
        name: of the act.
        function: does it.
        readable: those of *calls* whose kept result may be given; by default all of them.

    Raises:
        ToolError: it was begun before and its outcome is not known, or could not be kept, or may not be given.
        TypeError: it was done, and what it returned is no JSON.
    """
    if not database.has_database():
        return function()
    key = f"once:{name}"
    if not _take_all(calls, key):
        return cast("T", _kept(calls, name, key, readable))
    is_done = False
    try:
        with database.atomic():
            value = function()
            is_done = True
            kept, wrong = _storable(value)
            _keep(calls, key, kept)
    except Cancelled:
        raise  # in the middle of the act: what became of it is not known
    except BaseException:
        if not is_done:  # it failed, and was rolled back: it may be tried again
            _forget(calls, key)
        raise
    if wrong is not None:
        raise TypeError(NOT_KEPT.format(name=name, kind=type(value).__name__)) from wrong
    return value


async def aonce(
    calls: Sequence[str],
    name: str,
    function: Callable[[], Awaitable[T]],
    runner: Runner,
    readable: Sequence[str] | None = None,
) -> T:
    """``once`` for a coroutine function. What it writes is committed by itself."""
    if not database.has_database():
        return await function()
    key = f"once:{name}"
    if not await aside(runner, partial(_take_all, calls, key)):
        return cast("T", await aside(runner, partial(_kept, calls, name, key, readable)))
    try:
        value = await function()
    except (Cancelled, asyncio.CancelledError):
        raise
    except BaseException:
        await aside(runner, partial(_forget, calls, key))
        raise
    kept, wrong = _storable(value)
    await aside(runner, partial(_keep, calls, key, kept))
    if wrong is not None:
        raise TypeError(NOT_KEPT.format(name=name, kind=type(value).__name__)) from wrong
    return value


def _storable(value: Any) -> tuple[Any, Exception | None]:
    """Return the value, or what stands for one that is no JSON, and why it is none."""
    try:
        json.dumps(sendable(value), allow_nan=False)
    except (TypeError, ValueError) as error:  # pydantic's error is a ValueError
        return {UNKEPT: type(value).__name__}, error
    return sendable(value), None


def expiry() -> datetime.datetime:
    """When a step may be forgotten: when no answer can continue its call any more."""
    return timezone.now() + datetime.timedelta(seconds=max(2 * settings.INPUT_SECONDS, settings.TASK_SECONDS))


def _take_all(calls: Sequence[str], key: str) -> bool:
    """Note the act in all of *calls*; False, and no new note, where one of them has it already."""
    taken: list[str] = []
    for call in calls:
        if not take(call, key):
            _forget(taken, key)
            return False
        taken.append(call)
    return True


def _keep(calls: Sequence[str], key: str, value: Any) -> None:
    Step.objects.filter(call__in=calls, key=key).update(done=True, value=value)


def _forget(calls: Sequence[str], key: str) -> None:
    if calls:
        Step.objects.filter(call__in=calls, key=key, done=False).delete()


def _kept(calls: Sequence[str], name: str, key: str, readable: Sequence[str] | None) -> Any:
    """The result that one of *calls* has; from now on all of them have it."""
    steps = list(Step.objects.filter(call__in=calls, key=key))
    step = next((each for each in steps if each.done and (readable is None or each.call in readable)), None)
    if step is None and any(each.done for each in steps):
        msg = f"{name!r} was done before, and its result is not given to callers who are not signed in."
        raise ToolError(msg)
    if step is None:
        msg = f"{name!r} was begun before and its outcome is not known. Look what became of it before you call again."
        raise ToolError(msg)
    for call in set(calls).difference(each.call for each in steps):
        fields = {"done": True, "value": step.value, "expires": step.expires}
        with database.atomic():
            Step.objects.get_or_create(call=call, key=key, defaults=fields)
    if isinstance(step.value, dict) and UNKEPT in step.value:
        msg = f"{name!r} was done before, and its result could not be kept. Look what became of it."
        raise ToolError(msg)
    return step.value
