"""Map exceptions to responses, and log recurring warnings at a limited rate.

One place decides what a caller may read of what went wrong: the words a tool chose, the fault in the arguments,
or a fixed sentence with a number under which the log has the rest.
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
"""What a resource's function raises where there is nothing, or nothing for this caller."""
NOT_FOUND = "Not found: no object matches the given values."


def tool_failure(error: BaseException, context: RequestContext) -> Result:
    """The answer to a tool call that raised: a result the model can read (2026-07-28, Tools, Error Handling).

    Raises:
        ProtocolError: where the fault is not the model's to mend: no such tool, for this caller.
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
        case ObjectDoesNotExist():  # which may be a mistake of the site's own
            logger.warning("%s looked up an object that does not exist", _called(context), exc_info=error)
            return _is_error(NOT_FOUND)
    return _is_error(_logged(error, context))


def request_failure(error: BaseException, context: RequestContext) -> ProtocolError:
    """The error for any other method that raised."""
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
    """What does not exist, is switched off, or is not this caller's to know."""


def unknown(kind: str, name: Any) -> Unknown:
    """The same words for all of that."""
    return Unknown(f"Unknown {kind}: {str(name)[:100]!r}.")


def _is_error(text: str) -> Result:
    text = text if text.strip() else "The tool failed without an error message."
    return Result({"content": [{"type": "text", "text": text}], "isError": True})


def _logged(error: BaseException, context: RequestContext) -> str:
    reference = secrets.token_hex(4)
    logger.error("[%s] %s failed", reference, _called(context), exc_info=error)
    return f"Internal server error. Details are in the server's log under reference {reference}."


def _called(context: RequestContext) -> str:
    """Method and name, for the log."""
    name = context.params.get("name") or context.params.get("uri") or ""
    return f"{context.method} {str(name)[:200]}"


def _validation(error: ValidationError) -> str:
    if hasattr(error, "error_dict"):
        return " ".join(f"{field}: {' '.join(messages)}" for field, messages in error.message_dict.items())
    return " ".join(error.messages)


SECONDS = 10.0
"""Between two records of the same words."""

_said: dict[str, tuple[float, int]] = {}


def log_rate_limited(level: int, words: str, *arguments: object) -> None:
    """Log, unless the same was logged a short while ago; the next record says how often it was not.

    Args:
        level: of ``logging``.
        words: of the record, with placeholders. What has the same words is the same.
        arguments: for the placeholders.
    """
    now = monotonic()
    until, unsaid = _said.get(words, (0.0, 0))
    if now < until:
        _said[words] = until, unsaid + 1
        return
    _said[words] = now + SECONDS, 0
    if unsaid:
        words = f"{words} (and {unsaid} times since this was last logged)"
    logger.log(level, words, *arguments)


def forget() -> None:
    """Log all of it again."""
    _said.clear()
