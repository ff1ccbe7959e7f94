"""Results of calls that have an idempotency key, kept for those who repeat them. See ``core.repeats``."""

import datetime
import hashlib
import json
import secrets
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.models import Step
from django_mcp.primitives.tool import ToolError
from django_mcp.protocol.jsonrpc import encode

KEY = "repeat"
OTHER_ARGUMENTS = "This idempotency key was used before, with other arguments. Another call needs a key of its own."
NO_RESULT = (
    "A call with this idempotency key was begun {seconds} s ago and has no result yet. If it still runs, repeat it in "
    "a few seconds. If that does not end, look what became of it before you call again with another key."
)


class StepRepeat:
    """One try of a call, noted in ``Step``.

    Args:
        call: stands for caller, endpoint, tool and key: 64 characters.
        arguments: their digest.
    """

    def __init__(self, call: str, arguments: str) -> None:
        self._call = call
        self._arguments = arguments
        self._claim = {"arguments": arguments, "try": secrets.token_hex(8)}
        self.acts = hashlib.sha256(f"{call} {arguments}".encode()).hexdigest()

    def begin(self) -> dict[str, Any] | None:
        """See ``core.repeats.Repeat``. The note is committed at once, so that every process sees it."""
        if connection.vendor == "unknown":
            return None
        step = self._step()  # without the write lock, which the call under way may hold
        if step is not None and step.expires < timezone.now():
            step.delete()
            step = None
        if step is None:
            expires = timezone.now() + datetime.timedelta(seconds=settings.IDEMPOTENCY_SECONDS)
            try:
                with transaction.atomic():
                    Step.objects.create(call=self._call, key=KEY, value=self._claim, expires=expires)
            except IntegrityError:
                step = self._step()
            else:
                return None
        return self._kept(step)

    def keep(self, fields: dict[str, Any]) -> None:
        """See ``core.repeats.Repeat``. In the transaction of what the tool wrote, where it has one."""
        if connection.vendor != "unknown":
            result = {"arguments": self._arguments, "fields": json.loads(encode(fields))}
            self._own().update(done=True, value=result)

    def forget(self) -> None:
        """See ``core.repeats.Repeat``."""
        if connection.vendor != "unknown":
            self._own().delete()

    def _kept(self, step: Step | None) -> dict[str, Any]:
        if step is not None and step.value["arguments"] != self._arguments:
            raise ToolError(OTHER_ARGUMENTS)
        if step is None or not step.done:
            age = 0 if step is None else (timezone.now() - step.created).total_seconds()
            raise ToolError(NO_RESULT.format(seconds=round(age)))
        fields: dict[str, Any] = step.value["fields"]
        return fields

    def _step(self) -> Step | None:
        return Step.objects.filter(call=self._call, key=KEY).first()

    def _own(self) -> Any:
        """The note of this try, unless it has become a result."""
        return Step.objects.filter(call=self._call, key=KEY, done=False, value=self._claim)
