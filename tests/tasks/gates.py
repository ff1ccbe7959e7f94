"""What tools of tests wait for."""

import asyncio
import threading

from tests.exchange import WITHIN


class Gate:
    """Closed until it is opened; counts who came."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.came = threading.Event()

    def wait(self) -> None:
        """Until it is open."""
        self.came.set()
        assert self._event.wait(WITHIN), "nobody opened the gate"

    async def await_(self) -> None:
        """The same in a coroutine, where it can be cancelled."""
        self.came.set()
        while not self._event.is_set():  # noqa: ASYNC110 - it is opened in another thread
            await asyncio.sleep(0.005)

    def reached(self) -> None:
        """Wait until a tool has come here."""
        assert self.came.wait(WITHIN), "nobody came to the gate"

    def open(self) -> None:
        """Let everybody through."""
        self._event.set()
