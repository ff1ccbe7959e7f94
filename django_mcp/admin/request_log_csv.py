"""Export of the request log as CSV, without formulas of spreadsheets."""

import csv
import json
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse

from django_mcp.models import RequestLog

CHUNK = 2000
"""Rows that are read, and sent, at once."""
COLUMNS = tuple(field.attname for field in RequestLog._meta.concrete_fields)  # noqa: SLF001 - Django's documented API
_SEPARATORS = ";|\\t\\r\\n\\v\\f\\x1c-\\x1f\\x85\\u2028\\u2029"
"""Characters at which spreadsheets may end a cell. Quotes around a cell do not help if they split at semicolons."""
_SKIPPED = rf"[\s\"'`{_SEPARATORS}]"
_BEFORE_FORMULA = re.compile(rf"(?<!{_SKIPPED}){_SKIPPED}++(?=[=+\-@＝＋－＠])")
"""A whole run of skipped characters. The lookbehind and the possessive ``++`` keep the search linear in the text."""
_LAST_SEPARATOR = re.compile(rf"[{_SEPARATORS}](?=[^{_SEPARATORS}]*\Z)")
_AT_START = re.compile(r"[\t\r\n=+\-@＝＋－＠]")


def csv_response(rows: QuerySet[RequestLog], *, on_loop: bool) -> StreamingHttpResponse:
    """Return a response that sends the rows as CSV.

    Args:
        rows: of the log.
        on_loop: it is sent by an event loop, which would collect what does not wait before it sends anything.
    """
    values = rows.select_related(None).defer(None).order_by("-started_at", "-pk").values_list(*COLUMNS)
    parts = _csv_parts(values.iterator(chunk_size=CHUNK))
    response = _CSVResponse(parts, on_loop=on_loop, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="request-log.csv"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


class _CSVResponse(StreamingHttpResponse):
    """Ends its query when it is closed, in the thread that reads: a browser may leave before the end."""

    def __init__(self, parts: Generator[str, None, None], *, on_loop: bool, content_type: str) -> None:
        super().__init__(_read_in_thread(parts) if on_loop else parts, content_type=content_type)
        self._parts = parts

    def close(self) -> None:
        self._parts.close()
        super().close()


async def _read_in_thread(parts: Iterator[str]) -> AsyncIterator[str]:
    while (part := await sync_to_async(lambda: next(parts, None))()) is not None:
        yield part


class _Line:
    """Stands for a file: what is written is given back."""

    def write(self, text: str) -> str:
        return text


def _csv_parts(rows: Iterable[tuple[Any, ...]]) -> Generator[str, None, None]:
    writer = csv.writer(_Line())
    yield str(writer.writerow(COLUMNS))
    outcome, words = COLUMNS.index("outcome"), dict(RequestLog.Outcome.choices)
    named = ([*row[:outcome], words.get(row[outcome], row[outcome]), *row[outcome + 1 :]] for row in rows)
    for lines in _in_chunks(writer.writerow([_cell(cell) for cell in row]) for row in named):
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
    """Return a value as a text in which no spreadsheet finds a formula, whatever it takes for the end of a cell.

    An apostrophe before a formula makes it a text. JSON stays JSON: the separator before the formula is escaped.
    """
    if value is None:
        return ""
    if isinstance(value, dict | list):
        text = json.dumps(value, ensure_ascii=False)
        return _before_formulas(text, lambda separator: f"\\u{ord(separator):04x}")
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    text = str(value)
    if isinstance(value, int | float):
        return text
    guarded = _before_formulas(text, lambda separator: f"{separator}'")
    run = _BEFORE_FORMULA.match(text)
    is_formula = _AT_START.match(text) or (run and not _LAST_SEPARATOR.search(run[0]))
    return f"'{guarded}" if is_formula else guarded


def _before_formulas(text: str, replaced: Callable[[str], str]) -> str:
    """Replace the last separator before each formula. What is before it in the same cell is then no formula."""

    def guard(found: re.Match[str]) -> str:
        return _LAST_SEPARATOR.sub(lambda separator: replaced(separator[0]), found[0], 1)

    return _BEFORE_FORMULA.sub(guard, text)
