"""Previews: what a call would change, as JSON, without side effects."""

import copy
import inspect
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from pydantic_core import to_jsonable_python

from django_mcp.core.channel import Channel
from django_mcp.core.context import Context
from django_mcp.core.database import rolled_back
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.failures import ABSENT
from django_mcp.core.redaction import CUT, declared
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.function import Function
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool

if TYPE_CHECKING:
    from django_mcp.core.concurrency import Runner
    from django_mcp.core.elicitation import Question

T = TypeVar("T")

logger = logging.getLogger("django_mcp")


MOST = 20_000
"""Maximum characters of a value as JSON."""
MAX_ROWS = 100
"""Maximum rows of a queryset."""
SHORTER = ((2000, 200), (400, 50), (100, 20))
"""Maximum characters of a text and entries of a list, tried in turn for values that are too long."""


class Plain(NamedTuple):
    """A JSON value.

    Attributes:
        value: the value; a text is ``{"text": …}``, and None stands for no preview.
        is_whole: False if anything was cut.
    """

    value: Any
    is_whole: bool = True


def as_json(value: Any, tool: Tool) -> Plain:
    """Return a value as JSON of about ``MOST`` characters, without secrets declared in the tool's schema."""
    if value is None:
        return Plain(None)
    is_whole = True

    def text(value: Any) -> Any:
        nonlocal is_whole
        if not isinstance(value, QuerySet):
            return str(value)
        rows = list(value[: MAX_ROWS + 1])
        is_whole = is_whole and len(rows) <= MAX_ROWS
        return [*map(_row, rows[:MAX_ROWS]), *(["… (there are more)"] if len(rows) > MAX_ROWS else [])]

    plain = to_jsonable_python(value, fallback=text, bytes_mode="base64", inf_nan_mode="null")
    if not isinstance(plain, dict | list):
        plain = {"text": plain if isinstance(plain, str) else json.dumps(plain)}
    if isinstance(plain, dict) and plain.keys() == {"text"} and isinstance(plain["text"], str):
        short = {"text": _truncate(plain["text"], MOST)}
        return Plain(short, is_whole and short == plain)
    if isinstance(plain, dict) and "verb" in plain and plain.pop("incomplete", False):  # the package could not see all
        is_whole = False
    plain, is_shown = _without_secrets(plain, tool)
    short = bounded(plain)
    return Plain(short, is_whole and is_shown and short is plain)


def _without_secrets(plain: Any, tool: Tool) -> tuple[Any, bool]:
    """Return a value without declared secrets, also in the objects of a list, and False if anything was cut."""
    match plain:
        case dict():
            copied, withheld = declared(tool, plain, longest=None, whole=None)
            return copied, CUT not in withheld.values()
        case list():
            pairs = [_without_secrets(part, tool) for part in plain]
            return [shown for shown, _ in pairs], all(is_shown for _, is_shown in pairs)
    return plain, True


def bounded(value: Any) -> Any:
    """Return a JSON value with its texts and lists cut if it is too long, or cut as one text as the last resort."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST:
        return value
    for characters, entries in SHORTER:
        shorter = _shorten(value, characters, entries)
        if len(json.dumps(shorter, ensure_ascii=False)) <= MOST:
            return shorter
    return {"text": _truncate(text, MOST)}


def _shorten(value: Any, characters: int, entries: int) -> Any:
    match value:
        case str():
            return _truncate(value, characters)
        case list():
            rest = len(value) - entries
            kept = [_shorten(entry, characters, entries) for entry in value[:entries]]
            return [*kept, f"… ({rest} more)"] if rest > 0 else kept
        case dict():
            return {key: _shorten(entry, characters, entries) for key, entry in value.items()}
    return value


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _row(row: Any) -> Any:
    return row if isinstance(row, dict | tuple) else str(row)


FAILED = {"error": "The preview failed."}

# Errors that the call itself would end with, so that no approval is requested.
ENDS_THE_CALL = (ToolError, ValidationError, ArgumentError, *ABSENT)


async def preview_of(context: Context, tool: Tool, keywords: dict[str, Any]) -> Plain:
    """Return the preview of a call; of None if its tool has none or it requests input from the client.

    A synchronous function runs in a thread, in a transaction that is always rolled back; its ``on_commit`` callbacks
    never run. Other effects are not undone, and a coroutine function has no transaction, so it must not write. The
    function's context sends nothing to the client, and its ``once()`` raises RuntimeError.

    Raises:
        ToolError, ValidationError, ArgumentError, PermissionDenied, Http404, ObjectDoesNotExist: raised by the
            function, or by the tool's ``check_call``. The call would fail likewise, so it needs no approval.
    """
    function, check = tool.preview, tool.check_call
    try:
        if check is not None:
            await context.site_runner.sync(partial(rolled_back, partial(check, _preview_context(context), keywords)))
        if function is None:
            return Plain(None)
        return await _run(function, _preview_context(context), tool, keywords)
    except ENDS_THE_CALL:
        raise
    except Exception:  # approvers see that it failed; the log has the reason
        logger.exception("The preview of %s failed", tool.label)
        return Plain(dict(FAILED))
    except InputRequired:
        words = "%s: no preview, because it requests input from the client, which only the tool may do"
        logger.exception(words, tool.label)
        return Plain(None)


def state_shown(value: Any) -> Any:
    """Return what a preview of the package tells of the present state.

    That is values before a change, rows that go along, and the rows that a form belongs to.

    What follows from the arguments is bound by their digest. Labels depend on the language, and values that functions
    of the site compute may depend on the time. None for previews that tell nothing of it.
    """
    match value:
        case {"verb": "update" | "delete", "changes": list() as changes}:
            told = [_before(change) for change in changes if not (isinstance(change, dict) and change.get("computed"))]
            also = value.get("also")
            counts = [entry.get("count") if isinstance(entry, dict) else entry for entry in also] if also else also
            return {"changes": told, "also": counts, "rows": value.get("also_digest")}
        case {"changes": list() as changes} if any(map(_is_parent, changes)):
            return {"parents": [change["after"] for change in changes if _is_parent(change)]}
        case {"text": str()}:  # too long for its structure
            return value
    return None


def _is_parent(change: Any) -> bool:
    return isinstance(change, dict) and bool(change.get("parent"))


def _before(change: Any) -> Any:
    if not isinstance(change, dict):
        return change
    return {name: change[name] for name in ("field", "before") if name in change}


def is_of_package(tool: Tool) -> bool:
    """Return True if the package makes the tool's preview, so that it is the same as long as the rows are."""
    function = tool.read_preview
    return function is not None and getattr(inspect.unwrap(function.call), "owner", None) is not None


def is_still_so(context: Context, tool: Tool, keywords: Mapping[str, Any], shown: Any) -> bool:
    """Return True if the tool's preview would show the same present state as *shown*, an earlier one.

    Call it in the transaction of the call, once its row is locked. Blocks.
    """
    function, state = tool.preview, state_shown(shown)
    if function is None or function.is_async or state is None:
        return True
    quiet = _preview_context(context)
    given = _arguments(function, quiet, keywords)
    now = rolled_back(lambda: as_json(function.call(**given), tool))
    return bool(state_shown(json.loads(json.dumps(now.value))) == state)


def _arguments(function: Function, context: Context, keywords: Mapping[str, Any]) -> dict[str, Any]:
    # Arguments that the signature does not validate, such as a form's, are passed as sent.
    known = {**(context.params.get("arguments") or {}), **keywords}
    # A copy: the preview must not change the arguments of the call.
    given = {
        parameter.name: _copy_value(known[parameter.name])
        for parameter in function.parameters
        if parameter.name in known
    }
    return given if function.context is None else {**given, function.context: context}


async def _run(function: Function, context: Context, tool: Tool, keywords: Mapping[str, Any]) -> Plain:
    given = _arguments(function, context, keywords)
    if function.is_async:
        value = await context.site_runner.coroutine(function.call, **given)
        return await context.site_runner.checks.sync(partial(rolled_back, partial(as_json, value, tool)))
    # Converted inside the transaction, so that lazy values see the function's changes.
    return await context.site_runner.sync(partial(rolled_back, lambda: as_json(function.call(**given), tool)))


def _copy_value(value: Any) -> Any:
    match value:
        case dict():
            return {key: _copy_value(entry) for key, entry in value.items()}
        case list():
            return [_copy_value(entry) for entry in value]
        case set():
            return set(value)
    return value


# The context of a preview


class PreviewChannel(Channel):
    """A channel that sends nothing to the client and cannot request input; *of* is the call's own channel."""

    def __init__(self, of: Channel) -> None:
        self._of = of
        self.is_task = of.is_task

    @property
    def cancelled(self) -> bool:  # type: ignore[override]
        return self._of.cancelled

    def missing_capability(self, question: "Question[Any]") -> Exception:
        # It ends the preview.
        raise InputRequired({question.method: {"method": question.method, "params": question.params}})

    def once(self, key: str, function: Callable[[], T]) -> T:  # noqa: ARG002 - as Channel's
        raise RuntimeError(_once_message(key))

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]], runner: "Runner") -> T:  # noqa: ARG002 - likewise
        raise RuntimeError(_once_message(key))


def _once_message(key: str) -> str:
    return f"ctx.once({key!r}, …) is not allowed in a preview, which must have no effects; describe the effect instead"


def _preview_context(context: Context) -> Context:
    quiet = copy.copy(context)
    quiet.channel = PreviewChannel(context.channel)
    # A client that shows apps gets the errors of a form in its page.
    quiet.capabilities = {name: declared for name, declared in context.capabilities.items() if name == "extensions"}
    quiet.transaction, quiet.grant = None, None
    quiet._seen = Counter()  # noqa: SLF001 - of the same package; the counts belong to the tool
    return quiet
