"""What a call would change, for whoever is to approve it: a function of the site's tells, and leaves nothing behind."""

import copy
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import ValidationError

from django_mcp.core.channel import Channel
from django_mcp.core.context import Context
from django_mcp.core.database import rolled_back
from django_mcp.core.elicitation import InputRequired, merged
from django_mcp.core.failures import ABSENT
from django_mcp.core.plain import Plain, as_json
from django_mcp.primitives.function import Function
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.tool import Tool, ToolError

if TYPE_CHECKING:
    from django_mcp.core.concurrency import Runner
    from django_mcp.core.elicitation import Question

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
        words = "%s: its preview asks the client, which only the tool can do. There is no preview"
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
    return f"ctx.once({key!r}, …) is for acts, and a preview does nothing; say in words what would be done"


def _quiet(context: Context) -> Context:
    """The same call, for a function that is to look only."""
    quiet = copy.copy(context)
    quiet.channel = PreviewChannel(context.channel)
    quiet.capabilities = {}
    quiet.transaction = None
    quiet._seen = Counter()  # noqa: SLF001 - of the same package: what is counted there is the tool's own
    return quiet
