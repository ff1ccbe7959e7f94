"""Preview what a call would change, as plain JSON, without leaving a trace."""

import copy
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
from django_mcp.core.elicitation import InputRequired, merged
from django_mcp.core.failures import ABSENT
from django_mcp.core.redaction import CUT, declared
from django_mcp.primitives.base import ToolError
from django_mcp.primitives.function import Function
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool

if TYPE_CHECKING:
    from django_mcp.core.concurrency import Runner
    from django_mcp.core.elicitation import Question

MOST = 20_000
"""Characters of a value, as JSON."""
MAX_ROWS = 100
"""Of a queryset."""
SHORTER = ((2000, 200), (400, 50), (100, 20))
"""The most characters of a text and the most entries of a list, tried in turn where a value is too long."""


class Plain(NamedTuple):
    """A value of JSON.

    Attributes:
        value: a text is ``{"text": …}``; None for None.
        is_whole: whether nothing was cut.
    """

    value: Any
    is_whole: bool = True


def as_json(value: Any, tool: Tool) -> Plain:
    """*value* as JSON in about ``MOST`` characters, without what the tool's schema declares as a secret.

    Args:
        value: what a function of the site's returned.
        tool: whose arguments it may repeat.
    """
    if value is None:
        return Plain(None)
    is_whole = True

    def text(value: Any) -> Any:
        """What JSON lacks."""
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
        short = {"text": _cut(plain["text"], MOST)}
        return Plain(short, is_whole and short == plain)
    plain, is_shown = _without_secrets(plain, tool)
    short = bounded(plain)
    return Plain(short, is_whole and is_shown and short is plain)


def _without_secrets(plain: Any, tool: Tool) -> tuple[Any, bool]:
    """Return a value without what the tool's schema declares as a secret, in each object of a list too.

    The second value is False if something of it was cut.
    """
    match plain:
        case dict():
            copied, withheld = declared(tool, plain, longest=None, whole=None)
            return copied, CUT not in withheld.values()
        case list():
            pairs = [_without_secrets(each, tool) for each in plain]
            return [each for each, _ in pairs], all(is_shown for _, is_shown in pairs)
    return plain, True


def bounded(value: Any) -> Any:
    """A value of JSON: itself, or where it is too long with its texts and lists cut; in the last resort as a text."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= MOST:
        return value
    for characters, entries in SHORTER:
        shorter = _shorter(value, characters, entries)
        if len(json.dumps(shorter, ensure_ascii=False)) <= MOST:
            return shorter
    return {"text": _cut(text, MOST)}


def _shorter(value: Any, characters: int, entries: int) -> Any:
    match value:
        case str():
            return _cut(value, characters)
        case list():
            rest = len(value) - entries
            kept = [_shorter(each, characters, entries) for each in value[:entries]]
            return [*kept, f"… ({rest} more)"] if rest > 0 else kept
        case dict():
            return {key: _shorter(each, characters, entries) for key, each in value.items()}
    return value


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def _row(row: Any) -> Any:
    return row if isinstance(row, dict | tuple) else str(row)


T = TypeVar("T")

logger = logging.getLogger("django_mcp")

FAILED = {"error": "The preview failed."}

# What the call itself would end with, so that nobody has to decide about it.
ENDS_THE_CALL = (ToolError, ValidationError, ArgumentError, *ABSENT)


async def preview_of(context: Context, tool: Tool, keywords: dict[str, Any]) -> Plain:
    """What a call would change, as a value of JSON; of None where its tool does not say, or asks before it does.

    A synchronous function runs in a thread, in a transaction that is always rolled back: what
    it writes there is gone, and so is what it wanted done ``on_commit``. What it does elsewhere is done; and a
    coroutine function has no transaction, so that it writes nothing is up to its author.

    The context it gets neither asks nor tells the client anything, and has no ``once``.

    Args:
        context: of the call.
        tool: what is called.
        keywords: the arguments, checked; the function gets those it takes.

    Returns:
        A str as ``{"text": …}``; dicts and lists as they are, without the secrets that the tool's schema declares.
        What is too long is cut, and says so.

    Raises:
        ToolError, ValidationError, ArgumentError, PermissionDenied, Http404, ObjectDoesNotExist: the function did, and
            so would the call: nobody is to approve it.
    """
    function = tool.preview
    if function is None:
        return Plain(None)
    try:
        return await _run(function, _quiet(context), tool, keywords)
    except ENDS_THE_CALL:
        raise
    except Exception:  # whoever approves is told so; the log has why
        logger.exception("The preview of %s failed", tool.label)
        return Plain(dict(FAILED))
    except (InputRequired, BaseExceptionGroup) as error:
        if isinstance(error, BaseExceptionGroup) and merged(error) is None:
            raise
        words = "%s: no preview, because it requests input from the client, which only the tool may do"
        logger.exception(words, tool.label)
        return Plain(None)


async def _run(function: Function, context: Context, tool: Tool, keywords: Mapping[str, Any]) -> Plain:
    # Where something else than the signature checks the arguments, as a form does, they are taken as they came.
    known = {**(context.params.get("arguments") or {}), **keywords}
    # A copy: what is approved has to be what runs, whatever a preview does with its arguments.
    given = {each.name: _copied(known[each.name]) for each in function.parameters if each.name in known}
    if function.context is not None:
        given[function.context] = context
    if function.is_async:
        value = await context.site_runner.coroutine(function.call, **given)
        return await context.site_runner.sync(partial(rolled_back, partial(as_json, value, tool)))
    # Made JSON in there, so that what is lazy is read as the function left it.
    return await context.site_runner.sync(partial(rolled_back, lambda: as_json(function.call(**given), tool)))


def _copied(value: Any) -> Any:
    match value:
        case dict():
            return {key: _copied(each) for key, each in value.items()}
        case list():
            return [_copied(each) for each in value]
        case set():
            return set(value)
    return value


# The context of a preview


class PreviewChannel(Channel):
    """Says nothing to the client of a call, and cannot ask it.

    Args:
        of: the call's own channel.
    """

    def __init__(self, of: Channel) -> None:
        self._of = of
        self.is_task = of.is_task

    @property
    def cancelled(self) -> bool:  # type: ignore[override]
        """Whether the client went away."""
        return self._of.cancelled

    def lacks(self, question: "Question[Any]") -> Exception:
        """What ends the preview: a question."""
        raise InputRequired({question.method: {"method": question.method, "params": question.params}})

    def once(self, key: str, function: Callable[[], T]) -> T:  # noqa: ARG002 - as Channel's
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(_no_once(key))

    async def aonce(self, key: str, function: Callable[[], Awaitable[T]], runner: "Runner") -> T:  # noqa: ARG002 - likewise
        """Refuse.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError(_no_once(key))


def _no_once(key: str) -> str:
    return f"ctx.once({key!r}, …) is not allowed in a preview, which must have no effects; describe the effect instead"


def _quiet(context: Context) -> Context:
    """The same call, for a function that is to look only."""
    quiet = copy.copy(context)
    quiet.channel = PreviewChannel(context.channel)
    quiet.capabilities = {}
    quiet.transaction = None
    quiet._seen = Counter()  # noqa: SLF001 - of the same package: what is counted there is the tool's own
    return quiet
