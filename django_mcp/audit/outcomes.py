"""What came of a call, in one word and those that its client read."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from django_mcp.core.channel import Cancelled
from django_mcp.core.context import Context
from django_mcp.core.deadline import DeadlineExceeded
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.failures import Unknown
from django_mcp.models import ToolCall
from django_mcp.protocol.errors import InsufficientScope, ProtocolError, ResourceNotFound, TooManyRequests
from django_mcp.protocol.jsonrpc import Result, UnencodableResult, encode
from django_mcp.protocol.meta import APPROVAL

Outcome = ToolCall.Outcome
_WAITS = {"pending", "approval_required"}
_REFUSALS = (Unknown, ResourceNotFound, TooManyRequests, InsufficientScope)
_MOST_KINDS = 4


class Ended(NamedTuple):
    """How a call ended.

    Attributes:
        kind: of the result.
        size: of the result, in bytes of JSON.
    """

    outcome: str
    error: str = ""
    kind: str = ""
    size: int | None = None
    approval: str = ""
    task_id: str = ""


def of_result(context: Context, result: Result) -> Ended:
    """Of a call that has a result."""
    fields = result.fields
    try:
        size = _size(result)
    except UnencodableResult:
        return Ended(Outcome.FAILED, "The result cannot be sent as JSON.")
    task = _task_in(context, fields)
    if task is not None:
        return Ended(Outcome.TASK, "", "task", size, task_id=task)
    marker = _marker(fields)
    ticket = str(marker.get("ticket") or "")
    if marker:
        outcome = Outcome.WAITING if marker.get("kind") in _WAITS else Outcome.REFUSED
        return Ended(outcome, _words(fields), str(marker.get("kind") or ""), size, ticket)
    if fields.get("isError"):
        return Ended(_failure(context), _words(fields), _kind(fields), size)
    return Ended(Outcome.OK, "", _kind(fields), size)


def of_error(error: BaseException) -> Ended:
    """Of a call that has none."""
    match error:
        case InputRequired():
            return Ended(Outcome.ASKED, kind="input_required")
        case DeadlineExceeded():
            return Ended(Outcome.TIMED_OUT)
        case Cancelled() | asyncio.CancelledError():
            return Ended(Outcome.CANCELLED)
        case ProtocolError():
            return Ended(Outcome.REFUSED if isinstance(error, _REFUSALS) else Outcome.FAILED, error.message)
    return Ended(Outcome.FAILED, type(error).__name__)


def _failure(context: Context) -> str:
    deadline = context.deadline
    return Outcome.TIMED_OUT if deadline is not None and deadline.has_passed else Outcome.ERROR


def _size(result: Result) -> int:
    """As far as it is known here: a version of the protocol adds its own marks."""
    if result.encoded:  # many requests share it, so it was encoded before
        return len(next(iter(result.encoded.values())))
    return len(encode(result.fields))


def _task_in(context: Context, fields: Mapping[str, Any]) -> str | None:
    if context.method != "tools/call" or "content" in fields:
        return None
    task = fields if fields.get("resultType") == "task" else fields.get("task")
    return str(task.get("taskId") or "") if isinstance(task, Mapping) else None


def _marker(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = fields.get("_meta")
    marker = meta.get(APPROVAL) if isinstance(meta, Mapping) else None
    return marker if isinstance(marker, Mapping) else {}


def _words(fields: Mapping[str, Any]) -> str:
    return "\n".join(each["text"] for each in _blocks(fields) if isinstance(each.get("text"), str))


def _kind(fields: Mapping[str, Any]) -> str:
    """Of what it is made."""
    if "structuredContent" in fields:
        return "structured"
    kinds = {str(each.get("type")): None for each in _blocks(fields)}
    match fields:
        case {"contents": list(contents)}:
            kinds = {_kind_of(each): None for each in contents if isinstance(each, Mapping)}
        case {"content": _}:
            pass
        case _:
            kinds = {name: None for name, value in fields.items() if isinstance(value, list)}
    return ", ".join([*kinds][:_MOST_KINDS])


def _kind_of(contents: Mapping[str, Any]) -> str:
    return str(contents.get("mimeType") or ("binary" if "blob" in contents else "text"))


def _blocks(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = fields.get("content")
    return [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
