"""How many calls of a tool run at once, in this process."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

WAIT_SECONDS = 5.0
"""How long a call waits for one that is under way, where waiting holds no thread."""

LOOK_SECONDS = 0.5
"""How often who waits longer looks whether it is to wait on."""


class Slots:
    """So many at once; who waits is served in the order of arrival. Whatever thread a call ends in gives its slot back.

    Args:
        most: how many there are.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    def take(self, turn: "Future[None] | None" = None) -> bool:
        """Whether there was one.

        Args:
            turn: where there was none, becomes done when there is.
        """
        with self._lock:
            if self._taken < self._most:
                self._taken += 1
                return True
            if turn is not None:
                self._waiting.append(turn)
            return False

    async def wait(self) -> bool:
        """Whether there was one within ``WAIT_SECONDS``."""
        turn: Future[None] = Future()
        if self.take(turn):
            return True
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.wrap_future(turn)
        except BaseException as error:
            if not turn.cancel():  # it came in the same moment
                self.give_back()
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def wait_here(self, check: Callable[[], object]) -> None:
        """Wait in this thread for as long as it takes.

        Args:
            check: called now and then; may raise.
        """
        turn: Future[None] = Future()
        if self.take(turn):
            return
        while True:
            try:
                turn.result(LOOK_SECONDS)
            except TimeoutError:
                try:
                    check()
                except BaseException:
                    if not turn.cancel():
                        self.give_back()
                    raise
            else:
                return

    def give_back(self) -> None:
        """Let the next one have it."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                if turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._taken -= 1
