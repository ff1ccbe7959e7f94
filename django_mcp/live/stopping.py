"""Whether the server of this process was told to stop, which ASGI says only when the last connection has ended."""

import signal
import threading
from collections.abc import Callable
from types import FrameType

Handler = Callable[[int, FrameType | None], object]


class _Ear:
    """Stands before the server's own handler of SIGTERM, which still has the word.

    Attributes:
        was_told: the signal came.
    """

    def __init__(self, server: Handler) -> None:
        self.was_told = False
        self._server = server

    def __call__(self, number: int, frame: FrameType | None) -> object:
        """Note it, and let the server do what it does."""
        self.was_told = True
        return self._server(number, frame)


def server_stops() -> bool:
    """Whether this process was told to stop, as far as its server can be asked or ``listen_for_stop`` heard of it.

    uvicorn, alone or under gunicorn, handles signals with a method of the server, which has the answer; gunicorn's own
    workers do so with one of the worker.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if isinstance(handler, _Ear):
        return handler.was_told
    server = getattr(handler, "__self__", None)
    return bool(getattr(server, "should_exit", False)) or getattr(server, "alive", True) is False


def listen_for_stop() -> None:
    """Hear of SIGTERM from now on, under a server that cannot be asked.

    granian has its event loop handle signals, waits for open connections, and tells nobody. An event loop learns of
    signals by a file descriptor; the handler in Python stands beside it and can be preceded by another. A process
    without one is ended by the signal itself, and left alone.
    """
    handler = signal.getsignal(signal.SIGTERM)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return
    if isinstance(handler, _Ear | signal.Handlers) or hasattr(getattr(handler, "__self__", None), "should_exit"):
        return
    signal.signal(signal.SIGTERM, _Ear(handler))
    signal.siginterrupt(signal.SIGTERM, False)  # as event loops have it
