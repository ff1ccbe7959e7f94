"""Request log entries: the outcome and fields of a call."""

import asyncio
import datetime
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.core.exceptions import SynchronousOnlyOperation
from django.db.models import CharField

from django_mcp.conf import settings
from django_mcp.core import tool_search
from django_mcp.core.channel import Cancelled
from django_mcp.core.context import Context
from django_mcp.core.database import storable_text
from django_mcp.core.deadline import DeadlineExceeded
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.failures import Crash, UnknownPrimitive, crash_of
from django_mcp.core.principal import Principal
from django_mcp.core.redaction import HIDDEN, redact, redact_uri, redacted, secrets_in, without
from django_mcp.core.request import address_at
from django_mcp.core.server import MCPServer
from django_mcp.models import RequestLog
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.errors import (
    InsufficientScope,
    InternalError,
    ProtocolError,
    ResourceNotFound,
    TooManyRequests,
)
from django_mcp.protocol.jsonrpc import Result, UnencodableResult, encode, encode_fields
from django_mcp.protocol.meta import APPROVAL, meta_of

Outcome = RequestLog.Outcome
_WAITS = {"pending", "approval_required"}
_REFUSALS = (UnknownPrimitive, ResourceNotFound, TooManyRequests, InsufficientScope)
_MAX_KINDS = 4


class Ended(NamedTuple):
    """The outcome of a call, with the kind of its result, its size in bytes of JSON and the exception of a crash."""

    outcome: str
    error: str = ""
    kind: str = ""
    size: int | None = None
    approval: str = ""
    task_id: str = ""
    crash: Crash = Crash("", "")


def of_result(context: Context, result: Result) -> tuple[Ended, Result]:
    """Return the outcome of a call, and *result* with its ``data``, so that it is encoded once."""
    fields, data = result.fields, None
    try:
        # Approximate: each protocol version adds fields of its own.
        if result.encoded:
            data = next(iter(result.encoded.values()))
        else:
            data = encode(fields) if result.parts is None else encode_fields(fields, result.parts)
            result = Result(fields, result.ttl_ms, result.public, result.encoded, result.parts, data)
    except UnencodableResult as error:
        crash = Crash(type(error).__name__, "")
        return Ended(Outcome.CRASHED, "The result cannot be encoded as JSON.", crash=crash), result
    return _ended(context, fields, len(data)), result


def _ended(context: Context, fields: Mapping[str, Any], size: int) -> Ended:
    if context.method == "tools/call" and "content" not in fields:
        task = fields if fields.get("resultType") == "task" else fields.get("task")
        if isinstance(task, Mapping):
            return Ended(Outcome.TASK, "", "task", size, task_id=str(task.get("taskId") or ""))
    if "_meta" in fields and (marker := _marker(fields)):
        approval_id, kind = str(marker.get("approval_id") or ""), str(marker.get("kind") or "")
        is_by_a_person = kind == "denied" and approval_id
        outcome = Outcome.WAITING if kind in _WAITS else Outcome.DENIED if is_by_a_person else Outcome.REJECTED
        return Ended(outcome, _words(fields), kind, size, approval_id)
    kind = "structured" if "structuredContent" in fields else _kind(fields)
    if not fields.get("isError"):
        return Ended(Outcome.OK, "", kind, size)
    if context.crash is not None:
        return Ended(Outcome.CRASHED, _words(fields), kind, size, crash=crash_of(context.crash))
    timed_out = context.deadline is not None and context.deadline.has_passed
    return Ended(Outcome.TIMED_OUT if timed_out else Outcome.ERROR, _words(fields), kind, size)


def of_error(context: Context, error: BaseException) -> Ended:
    if context.crash is not None and isinstance(error, InternalError):
        return Ended(Outcome.CRASHED, error.message, crash=crash_of(context.crash))
    match error:
        case InputRequired():
            return Ended(Outcome.ASKED, kind="input_required")
        case DeadlineExceeded():
            return Ended(Outcome.TIMED_OUT)
        case Cancelled() | asyncio.CancelledError():
            return Ended(Outcome.CANCELLED)
        case ProtocolError():
            return Ended(Outcome.REJECTED if isinstance(error, _REFUSALS) else Outcome.FAILED, error.message)
    crash = crash_of(error)
    return Ended(Outcome.CRASHED, crash.type, crash=crash)


def _marker(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    meta = fields.get("_meta")
    marker = meta.get(APPROVAL) if isinstance(meta, Mapping) else None
    return marker if isinstance(marker, Mapping) else {}


def _words(fields: Mapping[str, Any]) -> str:
    return "\n".join(block["text"] for block in _blocks(fields) if isinstance(block.get("text"), str))


def _kind(fields: Mapping[str, Any]) -> str:
    kinds = {str(block.get("type")): None for block in _blocks(fields)}
    match fields:
        case {"contents": list(contents)}:
            kinds = {_kind_of(content): None for content in contents if isinstance(content, Mapping)}
        case {"content": _}:
            pass
        case _:
            kinds = {name: None for name, value in fields.items() if isinstance(value, list)}
    return ", ".join([*kinds][:_MAX_KINDS])


def _kind_of(contents: Mapping[str, Any]) -> str:
    return str(contents.get("mimeType") or ("binary" if "blob" in contents else "text"))


def _blocks(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = fields.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


Facts = dict[str, Any]
"""The fields of a log entry by column name."""

MAX_ERROR = 2000
"""Maximum characters of an error message."""
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

LENGTHS: Mapping[str, int] = {
    field.attname: field.max_length or 0
    for field in RequestLog._meta.concrete_fields  # noqa: SLF001 - Django's documented API
    if isinstance(field, CharField)
}

EMPTY: Mapping[str, Any] = {
    field.attname: None if field.null else ""
    for field in RequestLog._meta.concrete_fields  # noqa: SLF001 - Django's documented API
    if not field.primary_key
}
"""An entry of which nothing is known. A new column is empty for rejected requests until ``of_refusal`` fills it."""

_MAX_NAME = 2 * LENGTHS["name"]
"""Characters of a name that are redacted; some may then be removed before it is cut."""


def of_call(
    context: Context, ended: Ended, started_at: datetime.datetime, milliseconds: float, queries: int, trace_id: str = ""
) -> Facts:
    """Return the log entry of a call; an empty *trace_id* stands for that of the client's ``traceparent``."""
    params, channel, client = context.params, context.channel, context.client
    arguments, error = _arguments(context, ended.error[: 2 * MAX_ERROR])
    carried = None if trace_id else meta_of(params).get("traceparent")
    trace = _TRACE.fullmatch(carried) if isinstance(carried, str) else None
    # The task that is running, or the one that the call started.
    task_id = ended.task_id or (str(context.request_id) if channel.is_task else channel.task_id)
    # What failed was rolled back, with its entries.
    history = context.history if ended.outcome is Outcome.OK else None
    facts = {
        **_caller(context.principal),
        "started_at": started_at,
        "server": context.server.name,
        "method": context.method,
        "name": _about(params),
        "outcome": str(ended.outcome),
        "error": _readable(error) if error else "",
        "exception_type": ended.crash.type,
        "exception_place": ended.crash.place,
        "client_name": client.name,
        "client_version": client.version,
        "protocol": channel.protocol,
        "address": address_at(context._get_django_request),  # noqa: SLF001 - a copy without credentials would cost more
        "arguments": arguments,
        "result_kind": ended.kind,
        "result_size": ended.size,
        "duration": milliseconds,
        "queries": queries,
        "approval": ended.approval or str(getattr(context.grant, "public_id", None) or ""),
        "task_id": task_id,
        "history_id": "" if history is None else history.id,
        "log_entries": "" if history is None else ",".join(history.keys),
        "trace_id": trace_id or ("" if trace is None else trace[1]),
    }
    return _fitted(facts)


def _fitted(facts: Facts) -> Facts:
    """Cut texts to the lengths of their columns and remove characters that databases reject."""
    for column, most in LENGTHS.items():
        text = facts[column]
        if len(text) > most or not text.isprintable():
            facts[column] = storable_text(text)[:most]
    return facts


def error_of(context: Context, ended: Ended) -> str:
    return _readable(_arguments(context, ended.error[: 2 * MAX_ERROR])[1])


def _readable(error: str) -> str:
    return storable_text(redact(error))[:MAX_ERROR]


def of_refusal(
    server: MCPServer,
    principal: Principal | None,
    get_django_request: Callable[[], Any],
    started_at: datetime.datetime,
    message: Any,
    reason: str,
    crash: BaseException | None = None,
) -> Facts:
    """Return the log entry of a request that was rejected before dispatch."""
    message = message if isinstance(message, Mapping) else {}
    params = message.get("params")
    params = params if isinstance(params, Mapping) else {}
    raised = Crash("", "") if crash is None else crash_of(crash)
    facts = {
        **EMPTY,
        **({} if principal is None else _caller(principal)),
        "started_at": started_at,
        "server": server.name,
        "method": str(message.get("method") or ""),
        "name": _about(params),
        "outcome": str(Outcome.REJECTED if crash is None else Outcome.CRASHED),
        "error": storable_text(reason)[:MAX_ERROR],
        "exception_type": raised.type,
        "exception_place": raised.place,
        "address": address_at(get_django_request),
        "duration": 0.0,
    }
    return _fitted(facts)


def _caller(principal: Principal) -> Facts:
    user, pk, name = principal.user, None, ""
    try:
        if user is not None and user.is_authenticated:
            pk, name = user.pk, str(user.get_username())
    except SynchronousOnlyOperation:  # a custom authentication class returned a lazy user
        pass
    return {
        "principal_kind": principal.kind,
        "principal_id": str(principal.id),
        "user_id": pk,
        "caller": name,
        "credential": str(principal.credential),
        "client_id": principal.client_id or "",
    }


def _about(params: Mapping[str, Any]) -> str:
    name = params.get("name")
    if name:
        return redact(str(name)[:_MAX_NAME])
    return redact_uri(str(params.get("uri") or ""), _MAX_NAME)


def _arguments(context: Context, error: str) -> tuple[Any, str]:
    """Return the redacted arguments, or None if they are not logged, and the error without secrets."""
    if error and isinstance(uri := context.params.get("uri"), str) and uri in error:
        error = error.replace(uri, redact_uri(uri))
    given = context.params.get("arguments")
    if not given:
        return None, error
    name, within = context.params.get("name"), None
    called: Tool | Prompt | None = None
    if context.method == "prompts/get":
        called = context.server.prompts.get(str(name))
    elif context.method == "tools/call":
        called = context.server.tools.get(str(name)) or tool_search.called_tool(context.server, context.params)
        if called is not None and called.name != name:  # through a relay, which nests the tool's arguments
            within = "arguments"
    is_kept = settings.LOG_ARGUMENTS and getattr(called, "log_arguments", True)
    if error:
        secrets = secrets_in(called, given, within=within)
        error = HIDDEN if secrets is None else without(error, secrets)
    return redacted(called, given, within=within) if is_kept else None, error
