"""The request log as a CSV file, sent row by row."""

import csv
import json
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from django_mcp.models import ToolCall

if TYPE_CHECKING:
    from django.db.models import QuerySet

CHUNK = 2000
"""Rows that are read, and sent, at once."""
COLUMNS = tuple(each.attname for each in ToolCall._meta.concrete_fields)  # noqa: SLF001 - Django's documented API
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def exported(rows: "QuerySet[ToolCall]", *, on_loop: bool) -> StreamingHttpResponse:
    """Return a response that sends the rows as CSV.

    Args:
        rows: of the log.
        on_loop: it is sent by an event loop, which would collect what does not wait before it sends anything.
    """
    values = rows.select_related(None).defer(None).order_by("-called", "-pk").values_list(*COLUMNS)
    parts = _csv(values.iterator(chunk_size=CHUNK))
    response = _File(parts, on_loop=on_loop, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="calls.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


class _File(StreamingHttpResponse):
    """Ends its query when it is closed, in the thread that reads: a browser may leave before the end."""

    def __init__(self, parts: Generator[str, None, None], *, on_loop: bool, content_type: str) -> None:
        super().__init__(_awaited(parts) if on_loop else parts, content_type=content_type)
        self._parts = parts

    def close(self) -> None:
        """As any response."""
        self._parts.close()
        super().close()


async def _awaited(parts: Iterator[str]) -> AsyncIterator[str]:
    while (part := await sync_to_async(lambda: next(parts, None))()) is not None:
        yield part


class _Line:
    """Stands for a file: what is written is given back."""

    def write(self, text: str) -> str:
        """Give it back."""
        return text


def _csv(rows: Iterable[tuple[Any, ...]]) -> Generator[str, None, None]:
    writer = csv.writer(_Line())
    yield str(writer.writerow(COLUMNS))
    for lines in _in_chunks(writer.writerow([_cell(each) for each in row]) for row in rows):
        yield "".join(lines)


def _in_chunks(lines: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for line in lines:
        chunk.append(line)
        if len(chunk) >= CHUNK // 10:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _cell(value: Any) -> str:
    """What a spreadsheet shows as it stands: a text that it would take for a formula gets an apostrophe before it."""
    if value is None:
        return ""
    if isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    text = str(value)
    return f"'{text}" if text.startswith(_FORMULAS) and not isinstance(value, int | float) else text
