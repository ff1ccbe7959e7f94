"""The fields of an entry in the request log, and its outcome."""

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
from django_mcp.core.deadline import DeadlineExceeded
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.failures import Unknown
from django_mcp.core.principal import Principal
from django_mcp.core.redaction import redact, redact_uri, redacted, without
from django_mcp.core.request import address_at
from django_mcp.core.server import MCPServer
from django_mcp.models import ToolCall
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.tool import Tool
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


Facts = dict[str, Any]
"""The fields of a log entry, by the names of the model's columns."""

MOST_ERROR = 2000
"""Characters of an error that are kept."""
_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")

LENGTHS: Mapping[str, int] = {
    each.attname: each.max_length or 0
    for each in ToolCall._meta.concrete_fields  # noqa: SLF001 - Django's documented API
    if isinstance(each, CharField)
}


def of_call(
    context: Context, ended: Ended, called: datetime.datetime, milliseconds: float, queries: int, trace_id: str = ""
) -> Facts:
    """What is known of a call.

    Args:
        context: of the call.
        ended: what came of it.
        called: when it came.
        milliseconds: how long it took.
        queries: how many database queries it made.
        trace_id: of the trace it belongs to, where that is known; else the caller's is taken.
    """
    admission = context.admission
    client = context.client
    arguments, error = _arguments(context, ended.error[: 2 * MOST_ERROR])
    return {
        **_caller(context.principal),
        "called": called,
        "server": context.server.name,
        "method": _cut("method", context.method),
        "name": _cut("name", _about(context.params)),
        "outcome": str(ended.outcome),
        "error": _readable(error),
        "client_name": _cut("client_name", client.name),
        "client_version": _cut("client_version", client.version),
        "protocol": _cut("protocol", context.channel.protocol),
        "address": _address(context._edge),  # noqa: SLF001 - a copy without credentials would cost more
        "arguments": arguments,
        "result_kind": _cut("result_kind", ended.kind),
        "result_size": ended.size,
        "duration": milliseconds,
        "queries": queries,
        "approval": _cut("approval", ended.approval or str(getattr(admission, "ticket", None) or "")),
        "task_id": _cut("task_id", ended.task_id or _task_of(context)),
        "trace_id": trace_id or _trace_of(context),
    }


def error_of(context: Context, ended: Ended) -> str:
    """Return the error of a call as people may read it: without its secrets, and cut to ``MOST_ERROR`` characters."""
    return _readable(_arguments(context, ended.error[: 2 * MOST_ERROR])[1])


def _readable(error: str) -> str:
    return clean(redact(error))[:MOST_ERROR]


def of_refusal(
    server: MCPServer,
    principal: Principal | None,
    edge: Callable[[], Any],
    called: datetime.datetime,
    message: Any,
    reason: str,
) -> Facts:
    """What is known of a request that was turned down before it was looked at."""
    message = message if isinstance(message, Mapping) else {}
    params = message.get("params")
    params = params if isinstance(params, Mapping) else {}
    blank = dict.fromkeys(("client_name", "client_version", "protocol", "result_kind", "approval", "task_id"), "")
    return {
        **blank,
        **(_NOBODY if principal is None else _caller(principal)),
        "called": called,
        "server": server.name,
        "method": _cut("method", str(message.get("method") or "")),
        "name": _cut("name", _about(params)),
        "outcome": str(ToolCall.Outcome.REFUSED),
        "error": clean(reason)[:MOST_ERROR],
        "address": _address(edge),
        "arguments": None,
        "result_size": None,
        "duration": 0.0,
        "queries": None,
        "trace_id": "",
    }


def clean(text: str) -> str:
    """Without what a database cannot hold: NUL in PostgreSQL, half of a surrogate pair anywhere."""
    return text if text.isprintable() else text.replace("\0", "").encode(errors="replace").decode()


_NOBODY: Facts = {
    "principal_kind": "",
    "principal_id": "",
    "user_id": None,
    "caller": "",
    "credential": "",
    "client_id": "",
}


def _caller(principal: Principal) -> Facts:
    user, pk, name = principal.user, None, ""
    try:
        if user is not None and user.is_authenticated:
            pk, name = user.pk, str(user.get_username())
    except SynchronousOnlyOperation:  # an authenticator of the site's own, that left the user to be looked up
        pass
    return {
        "principal_kind": _cut("principal_kind", principal.kind),
        "principal_id": _cut("principal_id", str(principal.id)),
        "user_id": pk,
        "caller": _cut("caller", name),
        "credential": _cut("credential", str(principal.credential)),
        "client_id": _cut("client_id", principal.client_id or ""),
    }


def _about(params: Mapping[str, Any]) -> str:
    name = params.get("name")
    return redact(str(name)) if name else redact_uri(str(params.get("uri") or ""))


def _arguments(context: Context, error: str) -> tuple[Any, str]:
    """The arguments as people may read them, None where none are kept; and the error without secrets."""
    if isinstance(uri := context.params.get("uri"), str) and uri in error:
        error = error.replace(uri, redact_uri(uri))
    given = context.params.get("arguments")
    if not given:
        return None, error
    called, within = _called(context)
    is_kept = settings.LOG_ARGUMENTS and getattr(called, "log_arguments", True)
    if not is_kept and not error:
        return None, error
    hidden: list[str] | None = [] if error else None
    shown = redacted(called, given, within=within, hidden=hidden)
    return shown if is_kept else None, without(error, hidden or ())


def _called(context: Context) -> tuple[Tool | Prompt | None, str | None]:
    """Return the tool or prompt that is called and, if ``call_tool`` calls it, the argument that has its arguments."""
    name = str(context.params.get("name"))
    if context.method == "prompts/get":
        return context.server.prompts.get(name), None
    if context.method != "tools/call":
        return None, None
    if (tool := context.server.tools.get(name)) is not None:
        return tool, None
    found = tool_search.behind(context.server, context.params)
    return found, None if found is None or found.name == name else "arguments"


def _task_of(context: Context) -> str:
    """The task whose work it is, or who does it."""
    return str(context.request_id) if context.channel.is_task else context.channel.task_id


def _trace_of(context: Context) -> str:
    given = context.meta.get("traceparent")
    found = _TRACE.fullmatch(given) if isinstance(given, str) else None
    return "" if found is None else found[1]


def _address(edge: Callable[[], Any]) -> str | None:
    address = address_at(edge)
    return None if address is None else str(address)


def _cut(column: str, text: str) -> str:
    return clean(text)[: LENGTHS[column]] if text else ""
