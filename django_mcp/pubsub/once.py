"""``ctx.once`` and idempotency records: steps and calls that run once, however often they are repeated.

A step lives as long as what guards it. Under an idempotency key it expires with the key's own row, and each attempt
extends both together. Under a call's id it outlives the last round that the call may have. An expired row counts as
deleted, so no answer depends on when ``mcp_clear`` runs.
"""

import asyncio
import datetime
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar, cast

from django.db import IntegrityError, InterfaceError, OperationalError
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Cancelled, Channel
from django_mcp.core.concurrency import RETRY_TIMEOUT, Runner, free_pool, run_off_loop
from django_mcp.models import Step
from django_mcp.primitives.base import ToolError, sendable
from django_mcp.protocol.jsonrpc import encode

T = TypeVar("T")

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
        own: id of the task whose runs are one attempt, which may restart after its process died.
        is_shared: see ``core.channel.IdempotencyRecord``.

    Attributes:
        expires: when the key expires; later once the attempt begins.
    """

    def __init__(self, call: str, arguments: str, own: str | None = None, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._call = call
        self._arguments = arguments
        self._is_task = own is not None
        self.expires = _expiry()
        self._claim = {"arguments": arguments, "try": own or secrets.token_hex(8)}
        self.step_key = hashlib.sha256(f"{call} {arguments}".encode()).hexdigest()

    @database.retry_conflicts
    def claim(self) -> dict[str, Any] | None:
        # The claim is committed immediately, so that every process sees it.
        if not database.has_database():
            return None
        self.expires = _expiry()
        step = self._step()  # without the write lock, which a running call may hold
        if step is not None and step.expires <= timezone.now():
            # Several attempts may delete it. The unique key of the row that is created below lets in one of them.
            step.delete()
            step = None
        if step is None:
            try:
                with database.atomic():
                    Step.objects.create(call=self._call, key=KEY, value=self._claim, expires=self.expires)
                    self._extend()
            except IntegrityError:
                # Another attempt was faster.
                step = self._step()
            else:
                return None
        # This attempt's own claim: its commit succeeded although an error came back, or its task runs again.
        if step is not None and not step.done and step.value == self._claim:
            with database.atomic():
                self._own().update(expires=self.expires)
                self._extend()
            return None
        return self._stored_fields(step)

    def _extend(self) -> None:
        # Everywhere in this order, so that two transactions cannot deadlock.
        alive = Step.objects.filter(expires__gt=timezone.now())
        if self._is_task:
            alive.filter(call=self._call, key=TASK).update(expires=self.expires)
        alive.filter(call=self.step_key).update(expires=self.expires)

    def stored(self) -> dict[str, Any] | None:
        step = None if not database.has_database() else self._step()
        if step is None or not step.done or step.expires <= timezone.now():
            return None
        return self._stored_fields(step)

    def store(self, fields: dict[str, Any]) -> None:
        # Runs in the tool's transaction, if there is one.
        if database.has_database():
            result = {**self._claim, "fields": json.loads(encode(fields))}
            self._own().update(done=True, value=result)

    def release(self) -> None:
        if database.has_database():
            self._release_until(time.monotonic() + RETRY_TIMEOUT)

    def _release_until(self, until: float) -> None:
        try:
            self._own().delete()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() < until and database.is_temporary(error):
                # A timer blocks neither the caller nor a thread of the pool, which manages the connections.
                again = threading.Timer(settings.POLL_INTERVAL, free_pool().post, [lambda: self._release_until(until)])
                again.daemon = True
                with suppress(RuntimeError):  # no thread: the record expires, and must not hide the call's own error
                    again.start()

    def task(self) -> str | None:
        step = Step.objects.filter(call=self._call, key=TASK, expires__gt=timezone.now()).first()
        if step is None:
            return None
        if step.value["arguments"] != self._arguments:
            raise ToolError(OTHER_ARGUMENTS)
        task_id: str = step.value["task"]
        return task_id

    def store_task(self, task_id: str, before: str | None) -> bool:
        # Runs in the transaction that creates the task.
        self.expires = _expiry()
        noted = Step.objects.filter(call=self._call, key=TASK)
        value = {"arguments": self._arguments, "task": task_id}
        if before is not None:
            of_before = noted.filter(value={"arguments": self._arguments, "task": before})
            is_noted = bool(of_before.update(value=value, expires=self.expires))
        else:
            noted.filter(expires__lte=timezone.now()).delete()
            fields = {"value": value, "done": True, "expires": self.expires}
            is_noted = Step.objects.get_or_create(call=self._call, key=TASK, defaults=fields)[1]
        if is_noted:  # acts of an earlier task that failed
            self._extend()
        return is_noted

    def _stored_fields(self, step: Step | None) -> dict[str, Any]:
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
        # A row with a result is not matched any more.
        return Step.objects.filter(call=self._call, key=KEY, done=False, value=self._claim)


def _expiry() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.IDEMPOTENCY_TTL)


UNSTORABLE = "django_mcp.unstorable"
NOT_STORABLE = (
    "ctx.once({name!r}) ran, but its result of type {kind} cannot be stored for later rounds. Return a JSON "
    "value, such as a str, a number, a list or a dict."
)


LOCK = "lock"
LOCK_SECONDS = 24 * 60 * 60


def lock(*name: str) -> None:
    """Have all others with the same name wait, in every process, until the current transaction ends.

    For limits: rows that others are about to insert cannot be counted. The first statement writes, as a transaction of
    SQLite that reads first fails if another one writes meanwhile.
    """
    call = hashlib.sha256("\0".join(name).encode()).hexdigest()
    rows = Step.objects.filter(call=call, key=LOCK)
    if not rows.update(done=True):
        expires = timezone.now() + datetime.timedelta(seconds=LOCK_SECONDS)
        # Another transaction may insert it meanwhile: the insert waits for its end, and the UPDATE then takes the
        # lock.
        Step.objects.bulk_create([Step(call=call, key=LOCK, done=True, expires=expires)], ignore_conflicts=True)
        rows.update(done=True)


@database.retry_conflicts
def claim_step(call: str, key: str, expires: datetime.datetime | None = None) -> bool:
    """Store a step. Return True for the first caller, also among concurrent ones.

    *expires* is by default that of ``expiry``.
    """
    if not database.has_database():
        return True
    fields = {"done": False, "value": None, "expires": expires or expiry()}
    now = timezone.now()
    try:
        with database.atomic():  # a savepoint if a transaction is open
            Step.objects.create(call=call, key=key, **fields)
    except IntegrityError:
        # An expired one is taken over by a conditional UPDATE, which succeeds for one of several callers.
        expired = Step.objects.filter(call=call, key=key, expires__lte=now)
        return bool(expired.update(created=now, **fields))
    return True


Calls = Mapping[str, datetime.datetime]
"""Ids under which steps of a call are stored, and when they expire."""


def once(calls: Calls, name: str, function: Callable[[], T], readable: Sequence[str] | None = None) -> T:
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
    # Committed before the function runs: if the process dies in it, the step is not repeated.
    if not _claim_all(calls, key):
        return cast("T", _stored(calls, name, key, readable))
    is_done = False
    try:
        # What the function writes and its result are committed together, or neither.
        with database.atomic():
            value = function()
            is_done = True
            kept, wrong = _storable(value)
            _store(calls, key, kept)
    except Cancelled:
        raise  # interrupted: the outcome is unknown
    except BaseException:
        if not is_done:  # failed and rolled back, so it may be retried
            _release(calls, key)
        raise
    if wrong is not None:
        raise TypeError(NOT_STORABLE.format(name=name, kind=type(value).__name__)) from wrong
    return value


async def aonce(
    calls: Calls,
    name: str,
    function: Callable[[], Awaitable[T]],
    runner: Runner,
    readable: Sequence[str] | None = None,
) -> T:
    """Run a coroutine function like ``once``. What it writes is committed separately."""
    if not database.has_database():
        return await function()
    key = f"once:{name}"
    if not await run_off_loop(runner.own, partial(_claim_all, calls, key)):
        return cast("T", await run_off_loop(runner.own, partial(_stored, calls, name, key, readable)))
    try:
        value = await function()
    except (Cancelled, asyncio.CancelledError):
        # The function was interrupted: its outcome is unknown, and the step is not released.
        raise
    except BaseException:
        await run_off_loop(runner.own, partial(_release, calls, key))
        raise
    kept, wrong = _storable(value)
    await run_off_loop(runner.own, partial(_store, calls, key, kept))
    if wrong is not None:
        raise TypeError(NOT_STORABLE.format(name=name, kind=type(value).__name__)) from wrong
    return value


def _storable(value: Any) -> tuple[Any, Exception | None]:
    try:
        json.dumps(sendable(value), allow_nan=False)
    except (TypeError, ValueError) as error:  # pydantic's error is a ValueError
        return {UNSTORABLE: type(value).__name__}, error
    return sendable(value), None


def expiry(until: datetime.datetime | None = None) -> datetime.datetime:
    """Return when the steps of a call expire.

    Args:
        until: when its last round may begin; by default that of a question asked now. A round has ``ELICITATION_TTL``
            or ``TASK_TTL``, whichever is longer, to come to its steps.
    """
    until = until or timezone.now() + datetime.timedelta(seconds=settings.ELICITATION_TTL)
    return until + datetime.timedelta(seconds=max(settings.ELICITATION_TTL, settings.TASK_TTL))


def extend(call: str, until: datetime.datetime | None = None) -> None:
    """Let the steps of a call that asks outlive the round in which it is answered; see ``expiry``."""
    if database.has_database():
        Step.objects.filter(call=call, expires__gt=timezone.now()).update(expires=expiry(until))


def _claim_all(calls: Calls, key: str) -> bool:
    taken: list[str] = []
    for call, expires in calls.items():
        # All or none: what was claimed before is given back, or its step could never run.
        if not claim_step(call, key, expires):
            _release(taken, key)
            return False
        taken.append(call)
    return True


def _store(calls: Iterable[str], key: str, value: Any) -> None:
    Step.objects.filter(call__in=list(calls), key=key).update(done=True, value=value)


def _release(calls: Collection[str], key: str) -> None:
    if calls:
        Step.objects.filter(call__in=list(calls), key=key, done=False).delete()


@database.retry_conflicts
def _stored(calls: Calls, name: str, key: str, readable: Sequence[str] | None) -> Any:
    steps = list(Step.objects.filter(call__in=list(calls), key=key, expires__gt=timezone.now()))
    step = next((other for other in steps if other.done and (readable is None or other.call in readable)), None)
    if step is None and any(other.done for other in steps):
        msg = f"Step {name!r} has already run. Its result is not returned to callers without authentication."
        raise ToolError(msg)
    if step is None:
        msg = (
            f"Step {name!r} was started before and its outcome is unknown. Check whether it took effect "
            "before you call again."
        )
        raise ToolError(msg)
    for call in set(calls).difference(other.call for other in steps):
        fields = {"done": True, "value": step.value, "expires": calls[call]}
        with database.atomic():
            Step.objects.update_or_create(call=call, key=key, defaults=fields)  # one that is there has expired
    if isinstance(step.value, dict) and UNSTORABLE in step.value:
        msg = f"Step {name!r} has already run, but its result could not be stored. Check whether it took effect."
        raise ToolError(msg)
    return step.value


class StepChannel(Channel):
    """Stores steps in the database."""

    _key: StepRecord | None = None
    has_steps = False

    def once(self, key: str, function: Callable[[], T]) -> T:
        return once(self._step_calls(), key, function, self._readable())

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]], runner: Runner) -> T:
        return await aonce(self._step_calls(), key, function, runner, self._readable())

    def idempotency(self, call: str, arguments: str, *, is_shared: bool = False) -> StepRecord:
        self._key = StepRecord(call, arguments, self._attempt(), is_shared=is_shared)
        return self._key

    def _attempt(self) -> str | None:
        # Runs with the same value are one attempt. None means that each run is its own.
        return None

    def _step_calls(self) -> Calls:
        # Rounds of a call may have different idempotency keys.
        self.has_steps = True
        own = {self.dialogue.id: self._expiry()}
        if self.step_key is None:
            return own
        return {self.step_key: _expiry() if self._key is None else self._key.expires, **own}

    def _expiry(self) -> datetime.datetime:
        return expiry()

    def _readable(self) -> Sequence[str]:
        return [self.dialogue.id] if self.shares_steps or self.step_key is None else [self.step_key, self.dialogue.id]
