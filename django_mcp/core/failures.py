"""Mapping of exceptions to responses, and rate-limited logging of recurring warnings.

Callers read the message of a tool's own error or of an invalid argument. For all other errors they get a fixed sentence
with a reference to the log.
"""

import logging
import secrets
from time import monotonic
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404

from django_mcp.core.request import RequestContext
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.schema import ArgumentError
from django_mcp.protocol.errors import InternalError, InvalidParams, ProtocolError, ResourceNotFound
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import of_a_tool

logger = logging.getLogger("django_mcp")

ABSENT = (PermissionDenied, Http404, ObjectDoesNotExist)
"""Exceptions of a resource's function for contents that do not exist for the caller."""
NOT_FOUND = "Not found: no object matches the given values."


def tool_failure(error: BaseException, context: RequestContext) -> Result:
    """Return the result of a tool call that raised, for the model (2026-07-28, Tools, Error Handling).

    Raises:
        ProtocolError: the model cannot correct the error, such as an unknown tool.
    """
    match error:
        case ToolError(meta=meta) if meta:
            return Result(
                {**_is_error(str(error)).fields, "_meta": dict(meta) if error.is_of_package else of_a_tool(meta)}
            )
        case ToolError() | ArgumentError():
            return _is_error(str(error) or "The tool failed.")
        case ValidationError():
            return _is_error(_validation(error))
        case PermissionDenied():
            raise unknown("tool", context.params.get("name")) from None
        case ProtocolError():
            raise error
        case Http404():
            return _is_error(NOT_FOUND)
        case ObjectDoesNotExist():  # possibly a bug of the site
            logger.warning("%s looked up an object that does not exist", _called(context), exc_info=error)
            return _is_error(NOT_FOUND)
    return _is_error(_logged(error, context))


def request_failure(error: BaseException, context: RequestContext) -> ProtocolError:
    """Return the error for any other method that raised."""
    match error:
        case ProtocolError():
            return error
        case ArgumentError() | ToolError():
            return InvalidParams(str(error))
        case ValidationError():
            return InvalidParams(_validation(error))
        case _ if isinstance(error, ABSENT) and context.method == "resources/read":
            return ResourceNotFound(str(context.params.get("uri")))
        case PermissionDenied():
            return unknown("prompt", context.params.get("name"))
    return InternalError(_logged(error, context))


class Unknown(InvalidParams):
    """The primitive does not exist for this caller: it is unknown, disabled or hidden."""


def unknown(kind: str, name: Any) -> Unknown:
    """Return the error, with the same text in all these cases."""
    return Unknown(f"Unknown {kind}: {str(name)[:100]!r}.")


def _is_error(text: str) -> Result:
    text = text if text.strip() else "The tool failed without an error message."
    return Result({"content": [{"type": "text", "text": text}], "isError": True})


def _logged(error: BaseException, context: RequestContext) -> str:
    reference = secrets.token_hex(4)
    logger.error("[%s] %s failed", reference, _called(context), exc_info=error)
    return f"Internal server error. Details are in the server's log under reference {reference}."


def _called(context: RequestContext) -> str:
    name = context.params.get("name") or context.params.get("uri") or ""
    return f"{context.method} {str(name)[:200]}"


def _validation(error: ValidationError) -> str:
    if hasattr(error, "error_dict"):
        return " ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())
    return " ".join(error.messages)


SECONDS = 10.0
"""Interval between log records with the same text."""

_said: dict[str, tuple[float, int]] = {}


def log_rate_limited(level: int, words: str, *arguments: object) -> None:
    """Log a recurring message at most once every ten seconds, with a count of the suppressed ones.

    The format *words* identifies the message.
    """
    now = monotonic()
    until, unsaid = _said.get(words, (0.0, 0))
    if now < until:
        _said[words] = until, unsaid + 1
        return
    _said[words] = now + SECONDS, 0
    if unsaid:
        words = f"{words} (and {'once' if unsaid == 1 else f'{unsaid} times'} since this was last logged)"
    logger.log(level, words, *arguments)


def forget() -> None:
    """Reset the rate limits of ``log_rate_limited``."""
    _said.clear()
