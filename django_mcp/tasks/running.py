"""One run of a task: from its row to its outcome, or to the questions it has first. In any process of the site."""

import logging
import secrets
import socket
import time
from collections.abc import Callable
from functools import partial
from os import getpid

from django.db import InterfaceError, OperationalError, connection

from django_mcp.conf import settings
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import run_inline
from django_mcp.core.context import Context
from django_mcp.core.dialogue import InputRequired
from django_mcp.core.methods import dispatch
from django_mcp.core.registry import servers
from django_mcp.core.requests import without_credentials
from django_mcp.live.patience import PATIENCE_SECONDS
from django_mcp.models import Task
from django_mcp.protocol.errors import InternalError, ProtocolError
from django_mcp.tasks import rows
from django_mcp.tasks.callers import Gone, request_of, restored
from django_mcp.tasks.channel import TaskChannel
from django_mcp.tasks.keeping import keeper

logger = logging.getLogger("django_mcp")

_process: tuple[int, str] | None = None


def worker_name() -> str:
    """What this process is called in leases."""
    global _process  # noqa: PLW0603 - made anew after a fork
    if _process is None or _process[0] != getpid():
        _process = getpid(), f"{socket.gethostname()[:64]}:{getpid()}:{secrets.token_hex(4)}"
    return _process[1]


def run(task_id: str) -> None:
    """Run a task, if it is there to be run and nobody does so. Whatever comes of it goes into its row."""
    task = rows.claim(task_id, worker_name())
    if task is None:
        keeper.forget(task_id)
        return
    channel = TaskChannel(task, rows.dialogue_of(task))
    keeper.keep(channel)
    try:
        _run(task, channel)
    finally:
        keeper.forget(task_id)


def _run(task: Task, channel: TaskChannel) -> None:
    save: Callable[[], object] = _nothing
    try:
        result = run_inline(dispatch(_context(task, channel)))
    except InputRequired as needed:
        save = partial(rows.ask, task, needed.requests, channel.dialogue)
    except Cancelled:  # by somebody who wrote that into the row, or would have
        pass
    except ProtocolError as error:
        save = partial(rows.finish, task, error=error.to_wire(), message=error.message)
    except Exception:
        logger.exception("%s could not be run", task)
        broken = InternalError("Something went wrong on the server.")
        save = partial(rows.finish, task, error=broken.to_wire(), message=broken.message)
    else:
        if not channel.is_settled:
            save = partial(rows.finish, task, result=result.fields)
    _surely(channel.flush)
    _surely(save)


def _nothing() -> None:
    """There is nothing to save."""


def _surely(save: Callable[[], object]) -> None:
    """Wait for a database that is away: what was done is done, and whoever asked is to hear of it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            save()
        except (OperationalError, InterfaceError):
            if time.monotonic() > until:
                raise
            connection.close_if_unusable_or_obsolete()
            time.sleep(settings.POLL_SECONDS)
        else:
            return


def _context(task: Task, channel: TaskChannel) -> Context:
    """The call's own context again.

    Raises:
        ProtocolError: its endpoint is no more, or its caller may not call any more.
    """
    server = next((each for each in servers() if each.name == task.server), None)
    if server is None:
        raise InternalError(f"The endpoint {task.server!r} is not there any more.")
    try:
        principal = restored(task)
    except Gone:
        raise InternalError("Whoever asked for this may not call any more.") from None
    return Context(
        server,
        principal,
        channel.runner,
        lambda: without_credentials(request_of(task)),
        task.task_id,
        task.request["method"],
        task.request["params"],
        task.client,
        task.capabilities,
        channel,
    )
