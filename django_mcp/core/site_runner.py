"""Runs the site's own code within its context managers, ``DJANGO_MCP["CALL_CONTEXT_MANAGERS"]``."""

import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, sync_to_async
from django.utils.module_loading import import_string

from django_mcp.conf import settings
from django_mcp.core.concurrency import Runner

T = TypeVar("T")
Manager = Callable[[Any], AbstractContextManager[object]]


def context_managers() -> Sequence[Manager]:
    """Return what the setting names, the outermost first."""
    return [import_string(each) if isinstance(each, str) else each for each in settings.CALL_CONTEXT_MANAGERS]


class SiteRunner:
    """Another runner, whose work is done within the site's context managers, in the thread that does it.

    Packages keep the acting user in variables of a thread as well as in those of a context, so a manager is entered
    where the code runs, for each function anew; a function within another one is within its managers already.

    Args:
        runner: does the work.
        request: gives the Django request of the call, whose ``user`` is the caller.
    """

    def __init__(self, runner: Runner, request: Callable[[], Any]) -> None:
        self._runner, self._request = runner, request
        self.is_inline = runner.is_inline

    @property
    def is_overloaded(self) -> bool:
        """See ``Runner``."""
        return self._runner.is_overloaded

    async def sync(self, function: Callable[[], T]) -> T:
        """Call it within the managers."""
        return await self._runner.sync(partial(self._within, function))

    async def coroutine(self, function: Callable[..., Awaitable[T]], /, **keywords: Any) -> T:
        """Await it within the managers, which are entered in the thread of its ``sync_to_async``.

        That is what Django does with a synchronous middleware before an async view.
        """

        async def run() -> T:
            return await function(**keywords)

        if self.is_inline:
            with _entered(self._request):
                return await self._runner.coroutine(run)
            raise _suppressed()
        return await self._runner.coroutine(sync_to_async(partial(self._within, async_to_sync(run))))

    async def later(self, function: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """See ``Runner``."""
        await self._runner.later(function)

    def _within(self, function: Callable[[], T]) -> T:
        with _entered(self._request):
            return function()
        raise _suppressed()


_of_thread = threading.local()


@contextmanager
def _entered(request: Callable[[], Any]) -> Iterator[None]:
    if getattr(_of_thread, "is_entered", False):
        yield
        return
    with ExitStack() as stack:
        for manager in context_managers():
            stack.enter_context(manager(request()))
        _of_thread.is_entered = True
        stack.callback(setattr, _of_thread, "is_entered", False)
        yield


def _suppressed() -> RuntimeError:
    return RuntimeError("A context manager of CALL_CONTEXT_MANAGERS suppressed an exception; it has to let it through.")
