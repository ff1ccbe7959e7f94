"""Boundaries: what a caller, the log and the owner get for whatever the site's code raises.

``as_call_error`` decides what an exception means, ``tool_failure`` and ``request_failure`` what the caller reads, and
``report_crash`` what the owner finds. Callers read the message of a tool's own error or of an invalid argument. For
all other errors they get a fixed sentence with a reference to the log. ``docs/architecture.md`` has the table.
"""

import asyncio
import logging
import os
import secrets
import signal
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar

from django.conf import settings as django_settings
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied, ValidationError
from django.http import Http404
from django.utils.functional import Promise
from django.utils.module_loading import import_string

from django_mcp.core.channel import Cancelled
from django_mcp.core.elicitation import InputRequired, merged
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import abridged
from django_mcp.protocol.errors import InternalError, InvalidParams, ProtocolError, ResourceNotFound
from django_mcp.protocol.jsonrpc import Result
from django_mcp.protocol.meta import of_a_tool

T = TypeVar("T")

logger = logging.getLogger("django_mcp")


class FailedCall(Protocol):
    """The part of a ``RequestContext`` used here.

    Attributes:
        crash: the unexpected exception that ended the call.
    """

    method: str
    params: dict[str, Any]
    crash: BaseException | None


# What an exception means

ABSENT = (PermissionDenied, Http404, ObjectDoesNotExist)
"""Exceptions of a resource's function for contents that do not exist for the caller."""
FOR_MODEL = (ToolError, ArgumentError, ValidationError, Http404, ObjectDoesNotExist)
"""Exceptions of a tool's function whose words the model reads."""
EXPECTED = ((Cancelled, asyncio.CancelledError), PermissionDenied, ProtocolError, FOR_MODEL, InputRequired)
"""Exceptions that are no crash, by precedence where a group has several."""
NOT_FOUND = "Not found: no object matches the given values."


class Escaped(RuntimeError):
    """Stands for an exception of the site's code that would end a thread, loop, generator or task; it is the cause."""


def as_call_error(error: BaseException) -> BaseException:
    """Return what *error* means at the boundary between the site's code and this package.

    * An ``Exception``, ``Cancelled`` and ``InputRequired`` mean themselves.
    * A group means one of its exceptions, or itself if any of them is unexpected (``_group_error``).
    * All others, such as ``SystemExit``, ``StopIteration`` or a ``CancelledError`` that the site's code raised, become
      an ``Escaped``: they end the call, and nothing else.
    * A cancellation of the current task, and Ctrl-C, mean themselves and must be raised again (``must_propagate``).
    """
    if isinstance(error, BaseExceptionGroup):
        return _group_error(error)
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    if isinstance(error, Cancelled | InputRequired) or must_propagate(error):
        return error
    made = Escaped(f"The site's code raised {type(error).__name__}.")
    made.__cause__ = error
    return made


def raise_as_call_error(error: BaseException) -> NoReturn:
    """Raise ``as_call_error(error)``. Call it where *error* was caught, in the task or thread that raised it."""
    ended = as_call_error(error)
    if ended is error:
        raise  # noqa: PLE0704 - called in an except block
    raise ended from error


def keep_language(error: BaseException) -> None:
    """Translate the words of an error that the model reads now, in the language that the site's code has activated."""
    match error:
        case ToolError():
            error.args = tuple(str(arg) if isinstance(arg, Promise) else arg for arg in error.args)
        case ValidationError():
            of_fields = getattr(error, "error_dict", {"": getattr(error, "error_list", [])})
            for part in (part for found in of_fields.values() for part in found):
                part.message = str(part.message % part.params if part.params else part.message)
                part.params = None


def must_propagate(error: BaseException) -> bool:
    """Return True for an exception that is not the site's: the server cancels this task, or a person presses Ctrl-C."""
    match error:
        case asyncio.CancelledError():
            task = _current_task()
            return task is not None and task.cancelling() > 0  # not if a future that the site awaits was cancelled
        case KeyboardInterrupt():
            # Python raises it for Ctrl-C in the main thread alone, and not where the server handles the signal.
            in_main = threading.current_thread() is threading.main_thread()
            return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return False


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop in this thread
        return None


def _group_error(group: BaseExceptionGroup[Any]) -> BaseException:
    """Return what a group means, such as that of a ``TaskGroup``; nested groups count as one.

    With an unexpected exception it is a crash. Else the first kind of ``EXPECTED`` in it decides. Several errors for
    the model become one with all their words, and several questions are asked together.
    """
    leaves = [*map(as_call_error, _leaves(group))]
    for kind in EXPECTED if all(isinstance(leaf, _EXPECTED) for leaf in leaves) else ():
        found: list[BaseException] = [leaf for leaf in leaves if isinstance(leaf, kind)]
        if not found:
            continue
        if kind is InputRequired:
            return merged(BaseExceptionGroup("", found)) or found[0]
        return found[0] if len(found) == 1 or kind is not FOR_MODEL else _join(found)
    if isinstance(group, Exception):
        return group
    made = Escaped(f"The site's code raised {type(group).__name__}.")
    made.__cause__ = group
    return made


_EXPECTED = tuple(kind for kinds in EXPECTED for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


def _leaves(group: BaseExceptionGroup[Any]) -> Iterator[BaseException]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _join(errors: list[BaseException]) -> BaseException:
    if all(isinstance(error, ABSENT) for error in errors):
        return errors[0]
    made = ToolError("\n".join(dict.fromkeys(map(_message_for_model, errors))))
    for error in errors:
        if isinstance(error, ToolError) and error.meta:
            made.meta = {**(made.meta or {}), **of_a_tool(error.meta)}
    return made


def _message_for_model(error: BaseException) -> str:
    match error:
        case ValidationError():
            return _validation_message(error)
        case Http404() | ObjectDoesNotExist():
            return NOT_FOUND
    return str(error)


# What the caller reads


def is_for_handler(error: BaseException) -> bool:
    """Return True if the site's ``EXCEPTION_HANDLER`` is asked about an exception of its code.

    It is not about a ``PermissionDenied``, which must read as if there were nothing.
    """
    own = (ProtocolError, PermissionDenied, Cancelled, InputRequired, Escaped)
    return isinstance(error, Exception) and not isinstance(error, own)


def apply_handler(path: str, error: BaseException, context: FailedCall) -> BaseException:
    """Return what the handler at *path* makes of an exception, or *error*."""
    if not is_for_handler(error):
        return error
    if isinstance(error, ExceptionGroup):
        known = [apply_handler(path, leaf, context) for leaf in _leaves(error)]
        return _join(known) if all(isinstance(leaf, ToolError) for leaf in known) else error
    try:
        made = import_string(path)(error, context)
        if made is not None and not isinstance(made, ToolError):
            raise TypeError(f"EXCEPTION_HANDLER must return a ToolError or None, not {made!r}.")
    except Exception as failure:  # noqa: BLE001 - the call has an answer without it
        log_survived(failure, "EXCEPTION_HANDLER")
        return error
    return error if made is None else made


def tool_failure(error: BaseException, context: FailedCall) -> Result:
    """Return the result of a tool call that raised, for the model (2026-07-28, Tools, Error Handling).

    Raises:
        ProtocolError: the model cannot correct the error, such as an unknown tool.
    """
    match error:
        case ToolError(meta=meta) if meta:
            return Result(
                {**_error_result(str(error)).fields, "_meta": dict(meta) if error.is_of_package else of_a_tool(meta)}
            )
        case ToolError() | ArgumentError():
            return _error_result(str(error) or "The tool failed.")
        case PermissionDenied():
            raise unknown_primitive("tool", context.params.get("name")) from None
        case ProtocolError():
            raise error
        case ObjectDoesNotExist():  # possibly a bug of the site
            _log(logging.WARNING, "%s looked up an object that does not exist", _call_label(context), error=error)
            _notify_listener(error)
            return _error_result(NOT_FOUND)
        case ValidationError() | Http404():
            return _error_result(_message_for_model(error))
    return _error_result(_report_call(error, context))


def request_failure(error: BaseException, context: FailedCall) -> ProtocolError:
    """Return the error for any other method that raised."""
    match error:
        case ProtocolError():
            return error
        case ArgumentError() | ToolError():
            return InvalidParams(str(error))
        case ValidationError():
            return InvalidParams(_validation_message(error))
        case _ if isinstance(error, ABSENT) and context.method == "resources/read":
            return ResourceNotFound(str(context.params.get("uri")))
        case PermissionDenied():
            return unknown_primitive("prompt", context.params.get("name"))
    return InternalError(_report_call(error, context))


class UnknownPrimitive(InvalidParams):
    """The primitive does not exist for this caller: it is unknown, disabled or hidden."""


def unknown_primitive(kind: str, name: Any) -> UnknownPrimitive:
    return UnknownPrimitive(f"Unknown {kind}: {str(name)[:100]!r}.")


def _error_result(text: str) -> Result:
    text = text if text.strip() else "The tool failed without an error message."
    return Result({"content": [{"type": "text", "text": text}], "isError": True})


def _validation_message(error: ValidationError) -> str:
    if hasattr(error, "error_dict"):
        messages = [f"{field}: {' '.join(abridged(found))}" for field, found in error.message_dict.items()]
    else:
        messages = error.messages
    # A site may make a message for each value that a client sent.
    return " ".join(abridged(messages))


# What the owner finds

crash_listener: ContextVar[Callable[[BaseException], object] | None] = ContextVar("crash_listener", default=None)
"""Called with each exception of which the caller only reads that there was one: for callers in this process."""


def _report_call(error: BaseException, context: FailedCall) -> str:
    context.crash = error
    return report_crash(error, _call_label(context))


def report_crash(error: BaseException, subject: str) -> str:
    """Log an unexpected exception with its traceback; return the sentence for the caller, with the reference.

    Under ``DEBUG`` it also has the exception's type and place.
    """
    reference = secrets.token_hex(4)
    _log(logging.ERROR, "[%s] %s failed", reference, subject, error=error)
    _notify_listener(error)
    message = f"Internal server error. Details are in the server's log under reference {reference}."
    if django_settings.DEBUG:
        crash = crash_of(error)
        message += f" DEBUG: {crash.type}{crash.place and f' at {crash.place}'}."
    return message


def survive(function: Callable[[], T], subject: str) -> T | None:
    """Call what observes a call and must not change its answer. What it raises is logged; the result is None then."""
    try:
        return function()
    except BaseException as error:
        if must_propagate(error):
            raise
        log_survived(error, subject)
        return None


def log_survived(error: BaseException, subject: str) -> None:
    _log(logging.ERROR, "%s failed; the answer of the call does not change", subject, error=error)


def _notify_listener(error: BaseException) -> None:
    if (listen := crash_listener.get()) is not None:
        listen(error)


def _log(level: int, words: str, *arguments: object, error: BaseException) -> None:
    try:
        logger.log(level, words, *arguments, exc_info=error)
    except Exception:  # noqa: BLE001 - a handler of the site, whose error must not replace the one that it was to log
        if logging.raiseExceptions and sys.stderr is not None:
            traceback.print_exc()


class Crash(NamedTuple):
    """An unexpected exception, for staff.

    Attributes:
        type: name of its class, with the module unless it is built in.
        place: ``file:line`` of the site's innermost frame, with the path below an entry of ``sys.path``.
    """

    type: str
    place: str


def crash_of(error: BaseException) -> Crash:
    """Return type and place of an exception; of a group those of its first unexpected one."""
    outer = error
    while True:
        if isinstance(error, Escaped) and error.__cause__ is not None:
            error = error.__cause__
        elif isinstance(error, BaseExceptionGroup):
            leaves = [*_leaves(error)]
            error, outer = (
                next((leaf for leaf in leaves if not isinstance(as_call_error(leaf), _EXPECTED)), leaves[0]),
                error,
            )
        else:
            break
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    frames = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__ or outer.__traceback__)
    ]
    own = [frame for frame in frames if not frame[0].startswith(_library_folders())]
    found = (own or frames)[-1:]
    return Crash(name, "".join(f"{_shortened(file)}:{line}" for file, line in found))


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception: files, lines and code, without the values of variables.

    It begins at the first frame outside of this package, if there is one.
    """
    if isinstance(error, Escaped) and error.__cause__ is not None:
        error = error.__cause__
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(error), error, frames or error.__traceback__))


_OWN = f"{Path(__file__).parent.parent}{os.sep}"


@cache
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return ("<frozen", _OWN, *(folder + os.sep for folder in folders))


def _shortened(file: str) -> str:
    folders = [f"{folder.rstrip(os.sep)}{os.sep}" for folder in sys.path if folder]
    inside = max((folder for folder in folders if file.startswith(folder)), key=len, default="")
    return file[len(inside) :]


def _call_label(context: FailedCall) -> str:
    name = context.params.get("name") or context.params.get("uri") or ""
    return f"{context.method} {str(name)[:200]}"
