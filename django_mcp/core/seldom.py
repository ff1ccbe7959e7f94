"""What every request would say while something is away, said now and then."""

import logging
from time import monotonic

logger = logging.getLogger("django_mcp")

SECONDS = 10.0
"""Between two records of the same words."""

_said: dict[str, tuple[float, int]] = {}


def log_seldom(level: int, words: str, *arguments: object) -> None:
    """Log, unless the same was logged a short while ago; the next record says how often it was not.

    Args:
        level: of ``logging``.
        words: of the record, with placeholders. What has the same words is the same.
        arguments: for the placeholders.
    """
    now = monotonic()
    until, unsaid = _said.get(words, (0.0, 0))
    if now < until:
        _said[words] = until, unsaid + 1
        return
    _said[words] = now + SECONDS, 0
    if unsaid:
        words = f"{words} (and {unsaid} times since this was last logged)"
    logger.log(level, words, *arguments)


def forget() -> None:
    """Log all of it again."""
    _said.clear()
