"""Credentials out of logs and error reports.

A key in a URL is in every line that names the URL. Where ``DJANGO_MCP["API_KEYS_IN_URL"]`` is on, ``install`` takes it
out of all that this process logs; what proxies before it log is the site's to see to.
"""

import copy
import functools
import logging
import sys
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest

from django_mcp.conf import settings
from django_mcp.core.redaction import redact


class RedactSecrets(logging.Filter):
    """Takes credentials out of log records: their words, arguments and tracebacks. For loggers and handlers."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record through, redacted."""
        redact_record(record)
        return True


def redact_record(record: logging.LogRecord) -> None:
    """Take credentials out of a record, whose arguments keep their number and, but for the text, their type."""
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
    """Take credentials out of all that is logged in this process from now on, by whatever logger.

    Filters of loggers would miss the loggers below them, and those that nobody thought of. Daphne's access log is none
    of ``logging``'s.
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
    """``install`` where keys may be in URLs."""
    try:
        wanted = settings.API_KEYS_IN_URL
    except ImproperlyConfigured:  # the system checks say what is wrong
        return
    if wanted:
        install()


def _install_in(generator: Any) -> None:
    """In what writes the lines of ``daphne --access-log``, where that is what serves."""
    write = generator.write_entry
    if getattr(write, "redacts", False):
        return

    @functools.wraps(write)
    def write_entry(self: Any, host: Any, date: Any, request: str, *args: Any, **options: Any) -> None:
        write(self, host, date, redact(request), *args, **options)

    write_entry.redacts = True  # type: ignore[attr-defined]
    generator.write_entry = write_entry


def _redacted(value: Any) -> Any:
    """A value of a record; the same object where there is nothing to take out."""
    match value:
        case str():
            text: str = value
        case BaseException():
            text = str(value)
        case bytes() | dict() | list() | tuple() | HttpRequest():
            text = repr(value)
        case _:  # a number, or something that it may cost to look at, like a queryset
            return value
    redacted = redact(text)
    return value if redacted == text else redacted
