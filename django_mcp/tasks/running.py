"""One run of a task: from its row to its outcome, or to the questions it has first. In any process of the site."""

import logging
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from os import getpid
from typing import Any, TypeVar

from django.db import InterfaceError, OperationalError

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.channel import Cancelled
from django_mcp.core.concurrency import PATIENCE_SECONDS, run_inline
from django_mcp.core.context import Context
from django_mcp.core.dispatch import dispatch
from django_mcp.core.elicitation import InputRequired
from django_mcp.core.request import without_credentials
from django_mcp.core.server import servers
from django_mcp.models import Task
from django_mcp.protocol.errors import InternalError, ProtocolError
from django_mcp.tasks import rows
from django_mcp.tasks.callers import Gone, request_of, restored
from django_mcp.tasks.channel import TaskChannel, plain
from django_mcp.tasks.keeping import keeper

logger = logging.getLogger("django_mcp")

T = TypeVar("T")

DatabaseAway = OperationalError, InterfaceError


def worker_name() -> str:
    """What one run is called in leases: where it is, and what no other has."""
    return f"{socket.gethostname()[:64]}:{getpid()}:{secrets.token_hex(8)}"


def run(task_id: str) -> None:
    """Run a task, if it is there to be run and nobody does so. Whatever comes of it goes into its row."""
    worker, task = worker_name(), None
    try:
        task = _surely(partial(rows.claim, task_id, worker))
        if task is not None:
            _keep_and_run(task)
    except BaseException:  # the process is told to stop, or the database is gone for good
        keeper.skip(task_id)  # what was never begun here is not held here
        with suppress(Exception):
            rows.release({task_id: worker})
        raise
    finally:
        if task is None:
            keeper.skip(task_id)


def run_here(task_id: str) -> None:
    """The same for whoever makes a task and does its work at once, in one thread and transaction, with no lease."""
    task = rows.claim(task_id, worker_name())
    if task is not None:
        _run(task, TaskChannel(task, rows.dialogue_of(task)))


def _keep_and_run(task: Task) -> None:
    channel = TaskChannel(task, _surely(partial(rows.dialogue_of, task)))
    keeper.keep(channel)
    try:
        _run(task, channel)
    finally:
        keeper.forget(channel)


def _run(task: Task, channel: TaskChannel) -> None:
    save: Callable[[], object] = _nothing
    try:
        save = _served(task, channel)
    except Cancelled:  # by somebody who wrote that into the row, or would have
        pass
    except ProtocolError as error:
        save = partial(rows.finish, task, error=_readable(error), message=error.message)
    except Exception:
        logger.exception("%s could not be run", task)
        save = partial(_broken, task)
    try:
        _surely(channel.flush)
    except Exception:  # the outcome is worth more than what was said on the way
        logger.exception("what %s said could not be saved", task)
    try:
        _surely(save)
    except DatabaseAway:
        raise
    except Exception:
        logger.exception("what came of %s could not be saved", task)
        _surely(partial(_broken, task))


def _broken(task: Task) -> bool:
    error = InternalError("Something went wrong on the server.")
    return rows.finish(task, error=error.to_wire(), message=error.message)


def _readable(error: ProtocolError) -> dict[str, Any]:
    """An error's JSON, without what has none."""
    try:
        return dict(plain(error.to_wire()))
    except InternalError:
        return {"code": error.code, "message": rows.clean(error.message)}


def _served(task: Task, channel: TaskChannel) -> Callable[[], object]:
    """Serve the call; how to save what came of it."""
    try:
        result = run_inline(dispatch(_context(task, channel)))
    except InputRequired as needed:
        return partial(rows.ask, task, plain(needed.requests), channel.dialogue)
    return _nothing if channel.is_settled else partial(rows.finish, task, result=plain(result.fields))


def _nothing() -> None:
    """There is nothing to save."""


def _surely(function: Callable[[], T]) -> T:
    """Wait for a database that is away: what was done is done, and whoever asked is to hear of it."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return function()
        except DatabaseAway as error:
            if time.monotonic() > until or not database.is_temporary(error):
                raise
            database.own_connection().close_if_unusable_or_obsolete()
            time.sleep(settings.POLL_SECONDS)


def _context(task: Task, channel: TaskChannel) -> Context:
    """The call's own context again.

    Raises:
        ProtocolError: its endpoint is no more, or its caller may not call any more.
    """
    server = next((each for each in servers() if each.name == task.server), None)
    if server is None:
        raise InternalError(f"The endpoint {task.server!r} is not there any more.")
    try:
        principal = restored(task, server)
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
