"""Results of calls that have an idempotency key, kept for those who repeat them. See ``core.repeats``."""

import datetime
import hashlib
import json
import secrets
import threading
import time
from typing import Any

from django.db import IntegrityError, InterfaceError, OperationalError
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.concurrency import PATIENCE_SECONDS, shared_pool
from django_mcp.models import Step
from django_mcp.primitives.tool import ToolError
from django_mcp.protocol.jsonrpc import encode

KEY = "repeat"
TASK = "task"
OTHER_ARGUMENTS = "This idempotency key was used before, with other arguments. Another call needs a key of its own."
NOT_YOURS = (
    "A call with this idempotency key and these arguments was run already, and is not run again. Its result is not "
    "repeated to callers who are not signed in, who cannot be told apart. Look what became of it, or sign in before "
    "you make calls that you may have to repeat. Another call needs a key of its own."
)
NO_RESULT = (
    "A call with this idempotency key was begun {seconds} s ago and has no result yet. If it still runs, repeat it in "
    "a few seconds. If that does not end, look what became of it before you call again with another key."
)


class StepRepeat:
    """One try of a call, noted in ``Step``.

    Args:
        call: stands for caller, endpoint, host, tool and key: 64 characters.
        arguments: their digest.
        own: names the try, where it may be begun anew after its process died; else it is no other.
        is_shared: see ``core.channel.Repeat``.
    """

    def __init__(self, call: str, arguments: str, own: str | None = None, *, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._call = call
        self._arguments = arguments
        self._claim = {"arguments": arguments, "try": own or secrets.token_hex(8)}
        self.acts = hashlib.sha256(f"{call} {arguments}".encode()).hexdigest()

    def begin(self) -> dict[str, Any] | None:
        """See ``core.channel.Repeat``. The note is committed at once, so that every process sees it."""
        if not database.has_database():
            return None
        step = self._step()  # without the write lock, which the call under way may hold
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
        """See ``core.channel.Repeat``."""
        step = None if not database.has_database() else self._step()
        if step is None or not step.done or step.expires < timezone.now():
            return None
        return self._kept(step)

    def keep(self, fields: dict[str, Any]) -> None:
        """See ``core.channel.Repeat``. In the transaction of what the tool wrote, where it has one."""
        if database.has_database():
            result = {**self._claim, "fields": json.loads(encode(fields))}
            self._own().update(done=True, value=result)

    def forget(self) -> None:
        """See ``core.channel.Repeat``. Later, if the database is away: while there is a note, nobody may try again."""
        if database.has_database():
            self._forget(time.monotonic() + PATIENCE_SECONDS)

    def _forget(self, until: float) -> None:
        try:
            self._own().delete()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() < until and database.is_temporary(error):
                # Nobody waits for it, and no thread is held meanwhile. The pool sees to its connections.
                again = threading.Timer(settings.POLL_SECONDS, shared_pool().begin, [lambda: self._forget(until)])
                again.daemon = True
                again.start()

    def task(self) -> str | None:
        """See ``core.channel.Repeat``."""
        step = Step.objects.filter(call=self._call, key=TASK, expires__gt=timezone.now()).first()
        if step is None:
            return None
        if step.value["arguments"] != self._arguments:
            raise ToolError(OTHER_ARGUMENTS)
        task_id: str = step.value["task"]
        return task_id

    def note_task(self, task_id: str, before: str | None) -> bool:
        """See ``core.channel.Repeat``. In the transaction in which the task is made."""
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
        """The note of this try, unless it has become a result."""
        return Step.objects.filter(call=self._call, key=KEY, done=False, value=self._claim)


def _expiry() -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=settings.IDEMPOTENCY_SECONDS)
