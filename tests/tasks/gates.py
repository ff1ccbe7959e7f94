"""What tools of tests wait for."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

from django_mcp import Context
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


def endless(kind: str, gate: Gate, rows: Callable[[str], object], ended: list[str]) -> Callable[..., Any]:
    """A tool, ``"sync"`` or ``"async"``, that runs until it is stopped, and says in *ended* that it was."""

    def plain(ctx: Context) -> str:
        rows("written")
        gate.came.set()
        try:
            while True:
                ctx.check_cancelled()
        finally:
            ended.append("ended")

    async def coroutine() -> str:
        try:
            await gate.await_()
            return "done"
        finally:
            ended.append("ended")

    return plain if kind == "sync" else coroutine
