"""``ctx.once`` and idempotency records: steps and calls that run once, however often they are repeated."""

import asyncio
import datetime
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar, cast

from django.db import IntegrityError, InterfaceError, OperationalError
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Cancelled, Channel
from django_mcp.core.concurrency import PATIENCE_SECONDS, Runner, aside, shared_pool
from django_mcp.models import Step
from django_mcp.primitives.base import ToolError, sendable
from django_mcp.protocol.jsonrpc import encode

KEY = "repeat"
TASK = "task"
OTHER_ARGUMENTS = "This idempotency key was already used with other arguments. Use a new key for a different call."
NOT_YOURS = (
    "A call with this idempotency key and these arguments has already run and is not run again. Its result "
    "is not repeated, because callers without authentication share their keys. Check the outcome of that "
    "call. To be able to retry calls, authenticate. For a different call, use a new key."
)
NO_RESULT = (
    "A call with this idempotency key started {seconds} s ago and has no result yet. Retry in a few seconds. "
    "If there is still no result, check the outcome before you call again with a new key."
)


class StepRecord:
    """An attempt of a call with an idempotency key, stored as ``Step``.

    Args:
        call: digest of caller, endpoint, host, tool and key: 64 characters.
        arguments: their digest.
        own: identifies an attempt that may restart after its process died.
        is_shared: see ``core.channel.IdempotencyRecord``.
    """

    def __init__(self, call: str, arguments: str, own: str | None = None, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._call = call
        self._arguments = arguments
        self._claim = {"arguments": arguments, "try": own or secrets.token_hex(8)}
        self.acts = hashlib.sha256(f"{call} {arguments}".encode()).hexdigest()

    def begin(self) -> dict[str, Any] | None:
        """See ``core.channel.IdempotencyRecord``. Committed immediately, for every process to see."""
        if not database.has_database():
            return None
        step = self._step()  # without the write lock, which a running call may hold
        if step is not None and step.expires < timezone.now():
            step.delete()
            step = None
        if step is None:
            try:
                with database.atomic():
                    Step.objects.create(call=self._call, key=KEY, value=self._claim, expires=_expiry())
            except IntegrityError:
                step = self._step()
            else:
                return None
        if step is not None and not step.done and step.value == self._claim:
            return None
        return self._kept(step)

    def kept(self) -> dict[str, Any] | None:
        """See ``core.channel.IdempotencyRecord``."""
        step = None if not database.has_database() else self._step()
        if step is None or not step.done or step.expires < timezone.now():
            return None
        return self._kept(step)

    def keep(self, fields: dict[str, Any]) -> None:
        """See ``core.channel.IdempotencyRecord``. In the tool's transaction, if any."""
        if database.has_database():
            result = {**self._claim, "fields": json.loads(encode(fields))}
            self._own().update(done=True, value=result)

    def forget(self) -> None:
        """See ``core.channel.IdempotencyRecord``. Retried: the row blocks other attempts."""
        if database.has_database():
            self._forget(time.monotonic() + PATIENCE_SECONDS)

    def _forget(self, until: float) -> None:
        try:
            self._own().delete()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() < until and database.is_temporary(error):
                # A timer blocks neither the caller nor a thread of the pool, which manages the connections.
                again = threading.Timer(settings.POLL_INTERVAL, shared_pool().begin, [lambda: self._forget(until)])
                again.daemon = True
                again.start()

    def task(self) -> str | None:
        """See ``core.channel.IdempotencyRecord``."""
        step = Step.objects.filter(call=self._call, key=TASK, expires__gt=timezone.now()).first()
        if step is None:
            return None
        if step.value["arguments"] != self._arguments:
            raise ToolError(OTHER_ARGUMENTS)
        task_id: str = step.value["task"]
        return task_id

    def note_task(self, task_id: str, before: str | None) -> bool:
        """See ``core.channel.IdempotencyRecord``. In the transaction that creates the task."""
        noted = Step.objects.filter(call=self._call, key=TASK)
        value = {"arguments": self._arguments, "task": task_id}
        if before is not None:
            of_before = noted.filter(value={"arguments": self._arguments, "task": before})
            return bool(of_before.update(value=value, expires=_expiry()))
        noted.filter(expires__lte=timezone.now()).delete()
        fields = {"value": value, "done": True, "expires": _expiry()}
        return Step.objects.get_or_create(call=self._call, key=TASK, defaults=fields)[1]

    def _kept(self, step: Step | None) -> dict[str, Any]:
        if step is not None and step.value["arguments"] != self._arguments:
            raise ToolError(OTHER_ARGUMENTS)
        if step is None or not step.done:
            age = 0 if step is None else (timezone.now() - step.created).total_seconds()
            raise ToolError(NO_RESULT.format(seconds=round(age)))
        if self.is_shared and step.value.get("try") != self._claim["try"]:
            raise ToolError(NOT_YOURS)
        fields: dict[str, Any] = step.value["fields"]
        return fields

    def _step(self) -> Step | None:
        return Step.objects.filter(call=self._call, key=KEY).first()

    def _own(self) -> Any:
        """Match this attempt's row until it has a result."""
        return Step.objects.filter(call=self._call, key=KEY, done=False, value=self._claim)


def _expiry() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.IDEMPOTENCY_TTL)


T = TypeVar("T")

UNKEPT = "django_mcp.unkept"
NOT_KEPT = (
    "ctx.once({name!r}) ran, but its result of type {kind} cannot be stored for later rounds. Return a JSON "
    "value, such as a str, a number, a list or a dict."
)


def take(call: str, key: str) -> bool:
    """Store a step. Return True for the first caller, also among concurrent ones."""
    if not database.has_database():
        return True
    try:
        with database.atomic():  # a savepoint if a transaction is open
            Step.objects.create(call=call, key=key, expires=expiry())
    except IntegrityError:
        return False
    return True


def once(calls: Sequence[str], name: str, function: Callable[[], T], readable: Sequence[str] | None = None) -> T:
    """Run a step once, and return its result, new or stored.

    Args:
        calls: ids to store it under: the call's and, if any, its idempotency key's. It has run if one has it.
        readable: those whose stored result may be returned; by default all.

    Raises:
        ToolError: it began before and its outcome is unknown, was not stored, or must not be returned.
        TypeError: it ran, but its result is not JSON.
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
        raise  # interrupted: the outcome is unknown
    except BaseException:
        if not is_done:  # failed and rolled back, so it may be retried
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
    """Run a coroutine function like ``once``. What it writes is committed separately."""
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
    """Return the value, or a placeholder and the error if it is not JSON."""
    try:
        json.dumps(sendable(value), allow_nan=False)
    except (TypeError, ValueError) as error:  # pydantic's error is a ValueError
        return {UNKEPT: type(value).__name__}, error
    return sendable(value), None


def expiry() -> datetime.datetime:
    """Return when no answer can continue a step's call any more."""
    return timezone.now() + datetime.timedelta(seconds=max(2 * settings.ELICITATION_TTL, settings.TASK_TTL))


def _take_all(calls: Sequence[str], key: str) -> bool:
    """Store the step under all *calls*, or return False if one has it."""
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
    """Return the stored result, after storing it under all *calls*."""
    steps = list(Step.objects.filter(call__in=calls, key=key))
    step = next((each for each in steps if each.done and (readable is None or each.call in readable)), None)
    if step is None and any(each.done for each in steps):
        msg = f"Step {name!r} has already run. Its result is not returned to callers without authentication."
        raise ToolError(msg)
    if step is None:
        msg = (
            f"Step {name!r} was started before and its outcome is unknown. Check whether it took effect "
            "before you call again."
        )
        raise ToolError(msg)
    for call in set(calls).difference(each.call for each in steps):
        fields = {"done": True, "value": step.value, "expires": step.expires}
        with database.atomic():
            Step.objects.get_or_create(call=call, key=key, defaults=fields)
    if isinstance(step.value, dict) and UNKEPT in step.value:
        msg = f"Step {name!r} has already run, but its result could not be stored. Check whether it took effect."
        raise ToolError(msg)
    return step.value


class StepChannel(Channel):
    """Stores steps in the database."""

    def once(self, key: str, function: Callable[[], T]) -> T:
        """See ``core.channel.Channel``."""
        return once(self._acts_of(), key, function, self._readable())

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]], runner: Runner) -> T:
        """See ``core.channel.Channel``."""
        return await aonce(self._acts_of(), key, function, runner, self._readable())

    def idempotency(self, call: str, arguments: str, *, is_shared: bool = False) -> StepRecord:
        """See ``core.channel.Channel``."""
        return StepRecord(call, arguments, is_shared=is_shared)

    def _acts_of(self) -> list[str]:
        """Return the call's id, and this round's idempotency key's, which rounds may change."""
        return [self.dialogue.id] if self.acts is None else [self.acts, self.dialogue.id]

    def _readable(self) -> list[str]:
        """Return those of ``_acts_of`` whose results this caller may read."""
        return [self.dialogue.id] if self.shares_acts else self._acts_of()
