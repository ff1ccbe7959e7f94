"""Tools whose arguments cannot be known while apps are still made ready."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, ClassVar
from weakref import WeakSet

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connections, transaction

from django_mcp.core.context import Context
from django_mcp.core.database import queries
from django_mcp.primitives.base import is_translated, sendable
from django_mcp.primitives.function import Function
from django_mcp.primitives.output import Output
from django_mcp.primitives.schema import Arguments
from django_mcp.primitives.tool import Tool


class _Completed:
    """An attribute that ``Tool`` sets with what is known so far. To read it completes the tool, if that is possible."""

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
    """A tool that is completed when it is first listed or called.

    What a tool is made of may need any app, the URLconf, in which the endpoint is too, or the database, which is not
    there yet when ``migrate`` is run. A tool that cannot be completed is left out of lists and fails when it is called,
    and keeps no other from its clients. A system check tells of it if the declaration is wrong; if something else may
    be the cause, it is tried again whenever the tool is asked for.

    Args:
        call: as ``Tool`` takes it, as far as it is known.
        options: of ``Tool``.

    Attributes:
        reads_database: completing it may read the database, so that it is not done in an event loop.
    """

    reads_database = False
    definition: Any = _Completed()
    arguments: Any = _Completed()
    output: Any = _Completed()
    mirrors: Any = _Completed()
    _definition: dict[str, Any]
    _output: Output
    _waiting: ClassVar["WeakSet[LateTool]"] = WeakSet()

    def __init__(self, call: Callable[..., Any], **options: Any) -> None:
        self._lock, self._is_whole, self._tries = threading.RLock(), True, 0
        self._failure: Exception | None = None
        super().__init__(call, context_type=Context, **options)
        self._is_whole = False
        if self.reads_database:
            self._waiting.add(self)

    def made(self) -> Tool:
        """Return the whole tool, with the options of this one.

        Raises:
            ImproperlyConfigured: it is misdeclared.
            Exception: it cannot be made now.
        """
        raise NotImplementedError

    @property
    def is_translated(self) -> bool:
        """As ``Primitive`` has it. Whether the words of forms and serializers are lazy shows when it is completed."""
        return self.reads_database or is_translated(self._definition)

    @property
    def is_late(self) -> bool:  # type: ignore[override]
        """As ``Primitive`` has it."""
        return self.reads_database and not self._is_whole

    def complete_now(self) -> None:
        """Complete the tool if apps are ready and the database can be read.

        Raises:
            Exception: it cannot be completed; said where it is declared, and not when it is first listed.
        """
        if apps.ready:
            with suppress(Error), _savepoints():
                self._fill(self.made())
                self._is_whole = True

    def find_failure(self) -> Exception | None:
        """As ``Primitive`` has it."""
        self._complete()
        return self._failure

    def forget(self) -> None:
        """Complete it anew."""
        self._failure, self._is_whole = None, False

    def settle(self, function: Function) -> None:
        """As ``Tool`` has it, with what is known of it now."""
        with self._lock:
            is_whole, self._is_whole = self._is_whole, True  # or reading what it has would complete it
            try:
                super().settle(function)
            finally:
                self._is_whole = is_whole

    def _check_preview(self) -> None:
        """What the tool takes shows when it is completed, and so does what is wrong with its preview."""

    def _check_idempotency_key(self, schema: Mapping[str, Any]) -> None:
        """Likewise."""

    def _complete(self) -> None:
        if self._is_whole or not apps.ready:
            return
        if not (self.reads_database and _is_in_event_loop()):
            self._complete_here()
            return
        # All of them, since each would need a connection of its own otherwise.
        with ThreadPoolExecutor(1, "django_mcp-late") as executor:
            executor.submit(_complete_all, self, list(self._waiting)).result()

    def _complete_here(self) -> None:
        tries = self._tries
        with self._lock:
            if self._is_whole or self._tries != tries:  # another thread did it, or found that it cannot be done now
                return
            self._tries += 1
            with queries() as asked:
                try:
                    with _savepoints():
                        whole = self.made()
                        sendable({key: whole.definition.get(key) for key in SHOWN})
                except Exception as error:  # noqa: BLE001 - whatever it is, other tools are listed
                    self._failure, self._arguments = error, Undescribed(error)
                    # Rows may be the cause, and others may be there the next time.
                    self._is_whole = isinstance(error, ImproperlyConfigured) and not asked
                    return
            self._fill(whole)
            self._failure, self._is_whole = None, True

    def _fill(self, whole: Tool) -> None:
        self.description = whole.description
        # Another object, for who keeps what was made of the one before.
        self._definition = {
            **self._definition,
            **{key: whole.definition[key] for key in SHOWN if key in whole.definition},
        }
        self._arguments, self._mirrors, self.atomic = whole.arguments, whole.mirrors, whole.atomic


SHOWN = ("description", "inputSchema")


@contextmanager
def _savepoints() -> Iterator[None]:
    """Keep an error of a database from ending the transaction that is open there."""
    with ExitStack() as stack:
        for each in connections.all(initialized_only=True):
            if each.in_atomic_block:
                stack.enter_context(transaction.atomic(each.alias))
        yield


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _complete_all(wanted: LateTool, waiting: list[LateTool]) -> None:
    try:
        for each in dict.fromkeys((wanted, *waiting)):
            each._complete_here()  # noqa: SLF001 - of the same class
    finally:
        connections.close_all()


class Undescribed(Arguments):
    """Takes no arguments at all.

    Args:
        failure: why it is not known what the tool takes.
    """

    def __init__(self, failure: Exception) -> None:
        super().__init__([], "")
        self._failure = failure

    def validate(self, values: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Say to the log what is wrong.

        Raises:
            Exception: always.
        """
        raise self._failure.with_traceback(None)  # or it would keep the frames of each call
