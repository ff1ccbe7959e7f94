"""Waiting for a database that is away: what was said is not unsaid because of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from django.db import InterfaceError, OperationalError

from django_mcp.conf import settings
from django_mcp.core.concurrency import Runner
from django_mcp.core.database import is_temporary

T = TypeVar("T")

PATIENCE_SECONDS = 60.0
"""For how long it is asked again."""


async def patiently(runner: Runner, function: Callable[[], T]) -> T:
    """The result of a function that reads or writes the log, asked for again while the database does not answer.

    Where nothing can wait, there is one attempt.

    Raises:
        OperationalError, InterfaceError: the database did not come back in time, or waiting does not help.
    """
    if runner.is_inline:
        return await runner.sync(function)
    return await again_and_again(partial(runner.sync, function))


async def again_and_again(attempt: Callable[[], Awaitable[T]]) -> T:
    """What an attempt gives, made again while the database does not answer.

    Raises:
        OperationalError, InterfaceError: the database did not come back in time, or waiting does not help.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return await attempt()
        except (OperationalError, InterfaceError) as error:
            if time.monotonic() > until or not is_temporary(error):
                raise
        await asyncio.sleep(settings.POLL_SECONDS)
