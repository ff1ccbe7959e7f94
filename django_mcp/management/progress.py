"""How far a command is that takes its time, for those who look at it."""

import time
from collections.abc import Callable
from typing import TextIO

WIDTH = 24
SECONDS = 0.1
"""Between two changes of the line; drawing is not what takes the time."""


class Progress:
    """A bar on a line of its own, which is drawn anew and gone at the end; nothing where no person looks.

    Args:
        stream: where it is drawn.
        clock: gives seconds.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._due, self._drawn = clock() + SECONDS, 0  # what is over at once needs none
        self.is_seen = stream.isatty()

    def __call__(self, kind: str, done: int, total: int) -> None:
        """Draw how many of how many are done."""
        if not self.is_seen or self._clock() < self._due:
            return
        self._due = self._clock() + SECONDS
        total = max(total, done)  # others went on meanwhile
        filled = WIDTH * done // total if total else WIDTH
        line = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {kind}: {done:,} of {total:,}"
        self._stream.write(f"\r{line.ljust(self._drawn)}")
        self._stream.flush()
        self._drawn = len(line)

    def close(self) -> None:
        """Take the line away."""
        if self._drawn:
            self._stream.write(f"\r{' ' * self._drawn}\r")
            self._stream.flush()
            self._drawn = 0
