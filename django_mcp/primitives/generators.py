"""Tools that yield progress or parts of their result."""

import functools
import inspect
import typing
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from dataclasses import dataclass
from typing import Any

from django_mcp.primitives.base import ToolError
from django_mcp.primitives.function import EMPTY, HIDDEN_CONTEXT, Function, is_union, leaves, underlying
from django_mcp.primitives.output import ToolResult, is_block
from django_mcp.protocol.content import Content, TextContent

MAX_PIECES = 10_000
MAX_CHARACTERS = 8 * 1024 * 1024
_SHOWN = 200
_ASYNC = frozenset({AsyncGenerator, AsyncIterable, AsyncIterator})
_ALL = _ASYNC | {Generator, Iterable, Iterator}


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a tool: ``yield Progress(3, 10, "Third of ten.")``. Sent only if the client asked for progress.

    Attributes:
        progress: the progress so far; must increase.
        total: the final value in the same unit, if known.
        message: text for people.
    """

    progress: float
    total: float | None = None
    message: str | None = None


def collected(function: Function) -> Function:
    """Return a function that runs a generator function to its end; other functions unchanged.

    Yielded values are reported as progress if the client asked for it. Texts and blocks become content, other values
    rows of the result; with a return value, all of them become content.
    """
    if not _yields(function):
        return function
    rows, returns = _shape(function.returns)
    counts = not _names_progress(function.returns)
    name, call = function.context or HIDDEN_CONTEXT, function.call

    def run(**keywords: Any) -> Any:
        return _drain(call(**function.own(keywords)), _Pieces(keywords[name], rows=rows, counts=counts))

    async def arun(**keywords: Any) -> Any:
        value, pieces = call(**function.own(keywords)), _Pieces(keywords[name], rows=rows, counts=counts)
        return await _adrain(await value if inspect.isawaitable(value) else value, pieces)

    is_async = function.is_async or _is_async(function)
    made = functools.wraps(call)(arun if is_async else run)
    return function._replace(call=made, context=name, is_async=is_async, returns=returns)


def _yields(function: Function) -> bool:
    inner = inspect.unwrap(underlying(function.call))
    is_generator = inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner)
    return is_generator or typing.get_origin(function.returns) in _ALL


def _is_async(function: Function) -> bool:
    inner = inspect.unwrap(underlying(function.call))
    return inspect.isasyncgenfunction(inner) or typing.get_origin(function.returns) in _ASYNC


def _shape(returns: Any) -> tuple[bool, Any]:
    # The first value tells whether yielded values are rows, the second annotates the result.
    arguments = typing.get_args(returns)
    if typing.get_origin(returns) not in _ALL or not arguments:
        return False, EMPTY
    if typing.get_origin(returns) is Generator and len(arguments) == 3 and arguments[2] not in (None, type(None), Any):  # noqa: PLR2004 - yield, send, return
        return False, arguments[2]
    kinds = [argument for argument in typing.get_args(arguments[0]) or arguments[:1] if argument is not Progress]
    row = arguments[0] if not is_union(arguments[0]) else typing.Union[tuple(kinds)] if kinds else None  # noqa: UP007
    if not kinds or row in (Any, object, None, type(None)) or all(_is_content(kind) for kind in kinds):
        return False, EMPTY
    return True, list[row]  # type: ignore[valid-type] # made at run time


def _names_progress(returns: Any) -> bool:
    return any(leaf is Progress for argument in typing.get_args(returns)[:1] for leaf in leaves(argument))


def _is_content(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, str | bytes | Content)


class _Pieces:
    """The values yielded so far.

    Args:
        rows: all values are rows of the result.
        counts: report the number of values as progress until the function reports its own.
    """

    def __init__(self, context: Any, *, rows: bool, counts: bool) -> None:
        self._context = context
        self._rows = rows
        self._kept: list[Any] = []
        self._characters = 0
        self._counts = counts

    def take(self, item: Any) -> None:
        if isinstance(item, Progress):
            self._counts = False  # nor is the previous piece counted: this reports it
            self._context.report_progress(item.progress, item.total, item.message)
            return
        self._context.check_cancelled()
        self._count()
        self._kept.append(item)
        self._characters += len(item) if isinstance(item, str | bytes) else 0
        if len(self._kept) > MAX_PIECES:
            raise ToolError(f"The tool was stopped because it yielded more than {MAX_PIECES} items. Request fewer.")
        if self._characters > MAX_CHARACTERS:
            raise ToolError(
                f"The tool was stopped because it yielded more than {MAX_CHARACTERS} characters. Request less."
            )

    def _count(self) -> None:
        # Skipped if the function reports its own progress.
        if self._counts and self._kept:
            last = self._kept[-1]
            self._context.report_progress(len(self._kept), None, last[:_SHOWN] if isinstance(last, str) else None)

    def result(self, value: Any) -> Any:
        self._count()
        if self._rows:
            return self._kept
        if value is None:
            are_blocks = all(isinstance(part, str) or is_block(part) for part in self._kept)
            return [_shown(part) for part in self._kept] if are_blocks and self._kept else self._kept or None
        if isinstance(value, ToolResult):
            content = [*map(_shown, self._kept), *value.content]
            return ToolResult(value.structured, text=value.text, content=content, meta=value.meta)
        if isinstance(value, str) or is_block(value):
            return [*map(_shown, self._kept), _shown(value)]
        return ToolResult(value, content=[_shown(part) for part in self._kept])


def _shown(piece: Any) -> Any:
    return TextContent(piece) if isinstance(piece, str) else piece


def _drain(value: Any, pieces: _Pieces) -> Any:
    iterator = iter(value)
    try:
        while True:
            try:
                item = next(iterator)
            except StopIteration as end:
                return pieces.result(end.value)
            pieces.take(item)
    finally:
        _closing(iterator)()


async def _adrain(value: Any, pieces: _Pieces) -> Any:
    if not hasattr(value, "__aiter__"):
        return _drain(value, pieces)
    iterator = aiter(value)
    try:
        async for item in iterator:
            pieces.take(item)
    finally:
        if hasattr(iterator, "aclose"):
            await iterator.aclose()
    return pieces.result(None)


def _closing(iterator: Any) -> Callable[[], None]:
    # close() runs the generator's finally blocks. Other iterators have no close().
    return getattr(iterator, "close", lambda: None)
