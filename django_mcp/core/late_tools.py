"""Tools that are completed after startup, because their definition needs the URLconf or the database."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, ClassVar
from weakref import WeakSet

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections
from django.utils import translation

from django_mcp.core.after_fork import FreshLock
from django_mcp.core.concurrency import on_event_loop
from django_mcp.core.context import Context
from django_mcp.core.database import queries, without_effects
from django_mcp.primitives.base import is_translated, sendable
from django_mcp.primitives.function import Function
from django_mcp.primitives.output import Output
from django_mcp.primitives.schema import Arguments
from django_mcp.primitives.tool import Tool


class _Completed:
    """An attribute that ``Tool`` sets. Reading it completes the tool if possible."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, tool: Any, owner: type) -> Any:
        if tool is None:
            return self
        tool._complete()  # noqa: SLF001 - of this module
        return getattr(tool, self._name)

    def __set__(self, tool: Any, value: Any) -> None:
        setattr(tool, self._name, value)


class LateTool(Tool):
    """A tool that is completed when first listed or called.

    Its definition may need other apps, the URLconf (which contains the endpoint itself), or the database, which does
    not exist yet during the first ``migrate``. What completing it writes, as defaults of columns do that make rows, is
    rolled back. A tool that cannot be completed is left out of lists and fails when
    called. A system check reports declaration errors; after other errors, completion is retried on each use.

    Attributes:
        reads_database: True if completing may query the database, and so must not run in an event loop.
    """

    reads_database = False
    definition: Any = _Completed()
    arguments: Any = _Completed()
    output: Any = _Completed()
    mirrors: Any = _Completed()
    _definition: dict[str, Any]
    _output: Output
    # Weak: tools that a reload of the site or a test replaced are not completed any more.
    _waiting: ClassVar["WeakSet[LateTool]"] = WeakSet()

    def __init__(self, call: Callable[..., Any], **options: Any) -> None:
        # Reentrant, since completing a tool reads its attributes, which complete it.
        self._lock, self._is_whole, self._tries = FreshLock(threading.RLock), True, 0
        self._failure: Exception | None = None
        super().__init__(call, context_type=Context, **options)
        self._is_whole = False
        if self.reads_database:
            self._waiting.add(self)

    def made(self) -> Tool:
        """Return the complete tool, with the options of this one. May raise any error."""
        raise NotImplementedError

    @property
    def is_translated(self) -> bool:
        # For forms and serializers this is unknown before completion.
        return self.reads_database or is_translated(self._definition)

    @property
    def is_late(self) -> bool:  # type: ignore[override]
        return self.reads_database and not self._is_whole

    def complete_now(self) -> None:
        """Complete the tool if apps are ready and the database is available.

        Errors are raised here, at its declaration, rather than when first listed.
        """
        if apps.ready:
            # Without its tables, as before the first migrate, the tool is completed when it is first listed.
            with suppress(Error), described():
                self._fill(self.made())
                self._is_whole = True

    def find_failure(self) -> Exception | None:
        self._complete()
        return self._failure

    def forget(self) -> None:
        self._failure, self._is_whole = None, False

    def settle(self, function: Function) -> None:
        """Override of ``Tool.settle`` that does not complete the tool."""
        with self._lock:
            is_whole, self._is_whole = self._is_whole, True  # reading attributes must not complete it
            try:
                super().settle(function)
            finally:
                self._is_whole = is_whole

    def _check_preview(self) -> None:
        """Skip: the arguments are unknown before completion, which runs this check."""

    def _check_idempotency_key(self, schema: Mapping[str, Any]) -> None:
        """Skip, likewise."""

    def _complete(self) -> None:
        if self._is_whole or not apps.ready:
            return
        if not (self.reads_database and on_event_loop()):
            self._complete_here()
            return
        # Complete all waiting tools in this thread: each thread opens a database connection.
        with ThreadPoolExecutor(1, "django_mcp-late") as executor:
            executor.submit(_complete_all, self, list(self._waiting)).result()

    def _complete_here(self) -> None:
        # Read before the lock: who waited for another thread does not try again what just failed there.
        tries = self._tries
        with self._lock:
            if self._is_whole or self._tries != tries:  # another thread has tried meanwhile
                return
            self._tries += 1
            with queries() as asked:
                try:
                    with described():
                        whole = self.made()
                        sendable({key: whole.definition.get(key) for key in SHOWN})
                except Exception as error:  # noqa: BLE001 - other tools must still be listed
                    self._failure, self._arguments = error, Undescribed(error)
                    # If the database was queried, the error may depend on rows; retry on next use.
                    self._is_whole = isinstance(error, ImproperlyConfigured) and not asked
                    return
            self._fill(whole)
            self._failure, self._is_whole = None, True

    def _fill(self, whole: Tool) -> None:
        self.description = whole.description
        # A new dict, because values derived from the old one may be cached.
        self._definition = {
            **self._definition,
            **{key: whole.definition[key] for key in SHOWN if key in whole.definition},
        }
        self._arguments, self._mirrors, self.atomic = whole.arguments, whole.mirrors, whole.atomic


SHOWN = ("description", "inputSchema")


@contextmanager
def described() -> Iterator[None]:
    # A description is kept for all callers, so it must not be in the language of the first, nor of a request that
    # imports a URLconf.
    with without_effects(), translation.override(settings.LANGUAGE_CODE):
        yield


def _complete_all(wanted: LateTool, waiting: list[LateTool]) -> None:
    try:
        for tool in dict.fromkeys((wanted, *waiting)):
            tool._complete_here()  # noqa: SLF001 - of the same class
    finally:
        connections.close_all()


class Undescribed(Arguments):
    """Arguments of a tool that could not be completed. Validation raises the cause."""

    def __init__(self, failure: Exception) -> None:
        super().__init__([], "")
        self._failure = failure

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        raise self._failure.with_traceback(None)  # a kept traceback would accumulate frames
