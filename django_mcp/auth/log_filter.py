"""Redaction of credentials in logs and error reports.

With ``DJANGO_MCP["API_KEYS_IN_URL"]`` keys are in URLs, and ``install`` redacts all that this process logs. Logs of
proxies are the site's responsibility.
"""

import copy
import functools
import logging
import sys
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest

from django_mcp.conf import settings
from django_mcp.core.redaction import redact


class RedactSecrets(logging.Filter):
    """Redacts message, arguments and traceback of log records. For loggers and handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        redact_record(record)
        return True


def redact_record(record: logging.LogRecord) -> None:
    """Redact a record, keeping number and types of arguments where possible."""
    record.msg = _redacted(record.msg)
    if isinstance(record.args, Mapping):
        changed = {name: new for name, old in record.args.items() if (new := _redacted(old)) is not old}
        if changed:
            arguments: Any = copy.copy(record.args)
            arguments.update(changed)
            record.args = arguments
    elif record.args:
        record.args = tuple(map(_redacted, record.args))
    if record.exc_info and record.exc_info[0] is not None and not record.exc_text:
        trace = logging.Formatter().formatException(record.exc_info)
        if (redacted := redact(trace)) != trace:
            record.exc_text = redacted


def install() -> None:
    """Redact all log records of this process.

    Filters would miss child loggers. Daphne's access log does not use ``logging``.
    """
    make = logging.getLogRecordFactory()
    if not getattr(make, "redacts", False):

        @functools.wraps(make)
        def redacting(*args: Any, **options: Any) -> logging.LogRecord:
            record = make(*args, **options)
            redact_record(record)
            return record

        redacting.redacts = True  # type: ignore[attr-defined]
        logging.setLogRecordFactory(redacting)
    if (daphne := sys.modules.get("daphne.access")) is not None:
        _install_in(daphne.AccessLogGenerator)


def install_where_wanted() -> None:
    if settings.API_KEYS_IN_URL:
        install()


def _install_in(generator: Any) -> None:
    write = generator.write_entry
    if getattr(write, "redacts", False):
        return

    @functools.wraps(write)
    def write_entry(self: Any, host: Any, date: Any, request: str, *args: Any, **options: Any) -> None:
        write(self, host, date, redact(request), *args, **options)

    write_entry.redacts = True  # type: ignore[attr-defined]
    generator.write_entry = write_entry


def _redacted(value: Any) -> Any:
    match value:
        case str():
            text: str = value
        case BaseException():
            text = str(value)
        case bytes() | dict() | list() | tuple() | HttpRequest():
            text = repr(value)
        case _:  # a number, or an object that may be expensive to format, such as a queryset
            return value
    redacted = redact(text)
    return value if redacted == text else redacted
