"""Logging of what recurs: at most now and then, or once."""

import logging
from functools import lru_cache
from time import monotonic

logger = logging.getLogger("django_mcp")

LOG_INTERVAL = 10.0
"""Interval between log records with the same text."""

_logged: dict[str, tuple[float, int]] = {}


def log_rate_limited(level: int, words: str, *arguments: object) -> None:
    """Log a recurring message at most once every ten seconds, with a count of the suppressed ones.

    The format *words* identifies the message.
    """
    now = monotonic()
    until, unsaid = _logged.get(words, (0.0, 0))
    if now < until:
        _logged[words] = until, unsaid + 1
        return
    _logged[words] = now + LOG_INTERVAL, 0
    if unsaid:
        words = f"{words} (and {'once' if unsaid == 1 else f'{unsaid} times'} since this was last logged)"
    logger.log(level, words, *arguments)


@lru_cache(maxsize=64)
def log_once(level: int, words: str) -> None:
    """Log what every request would repeat until the process is restarted."""
    logger.log(level, "%s", words)


def reset() -> None:
    _logged.clear()
    log_once.cache_clear()
