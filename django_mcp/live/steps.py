"""Acts that are done once in a call, however often the call is run."""

import asyncio
import datetime
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar, cast

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import Runner, aside
from django_mcp.models import Step
from django_mcp.primitives.tool import ToolError

T = TypeVar("T")


def take(call: str, key: str) -> bool:
    """Whether this is the first time; of several who ask at once, one is."""
    if connection.vendor == "unknown":
        return True
    try:
        with transaction.atomic():  # a savepoint, should the site have a transaction open
            Step.objects.create(call=call, key=key, expires=expiry())
    except IntegrityError:
        return False
    return True


def once(call: str, name: str, function: Callable[[], T]) -> T:
    """The function's result, now or as it was kept.

    Raises:
        ToolError: it was begun before and its outcome is not known.
    """
    if connection.vendor == "unknown":
        return function()
    key = f"once:{name}"
    if take(call, key):
        try:
            with transaction.atomic():
                value = function()
                _keep(call, key, value)
        except Cancelled:
            raise  # in the middle of the act: what became of it is not known
        except BaseException:
            _forget(call, key)  # it failed, and was rolled back: it may be tried again
            raise
        return value
    return cast("T", _kept(call, name, key))


async def aonce(call: str, name: str, function: Callable[[], Awaitable[T]], runner: Runner) -> T:
    """``once`` for a coroutine function. What it writes is committed by itself."""
    key = f"once:{name}"
    if await aside(runner, partial(take, call, key)):
        try:
            value = await function()
        except (Cancelled, asyncio.CancelledError):
            raise
        except BaseException:
            await aside(runner, partial(_forget, call, key))
            raise
        await aside(runner, partial(_keep, call, key, value))
        return value
    return cast("T", await aside(runner, partial(_kept, call, name, key)))


def expiry() -> datetime.datetime:
    """When a step may be forgotten: when no answer can continue its call any more."""
    return timezone.now() + datetime.timedelta(seconds=max(2 * settings.INPUT_SECONDS, settings.TASK_SECONDS))


def _keep(call: str, key: str, value: Any) -> None:
    Step.objects.filter(call=call, key=key).update(done=True, value=value)


def _forget(call: str, key: str) -> None:
    Step.objects.filter(call=call, key=key, done=False).delete()


def _kept(call: str, name: str, key: str) -> Any:
    step = Step.objects.filter(call=call, key=key).first()
    if step is None or not step.done:
        msg = f"{name!r} was begun before and its outcome is not known. Look what became of it before you call again."
        raise ToolError(msg)
    return step.value
