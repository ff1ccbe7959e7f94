"""How often, in words: ``"60/m"``."""

import re
from functools import lru_cache
from typing import NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.utils.translation.trans_null import gettext_noop  # the other one asks settings, which are being read

NO_RATE = gettext_noop("%(rate)r is no rate; write a number and s, m, h or d, like '60/m' for sixty calls a minute.")
"""A message for ``gettext``: what is raised is in English, for it may be before there are translations."""

_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_WORDS = {1: "a second", 60: "a minute", 3600: "an hour", 86400: "a day"}


class Rate(NamedTuple):
    """So many calls in so many seconds."""

    most: int
    seconds: int

    def __str__(self) -> str:
        """For a sentence: ``60 a minute``."""
        return f"{self.most} {_WORDS[self.seconds]}"


def parse_rate(text: str | None, label: str | None = None) -> Rate | None:
    """``"60/m"``: a number, and ``s``, ``m``, ``h`` or ``d``. None is no limit.

    Args:
        text: as a site wrote it.
        label: whose it is, for the error.

    Raises:
        ImproperlyConfigured: it is none.
    """
    if text is None:
        return None
    found = _parsed(text) if isinstance(text, str) else None
    if found is None:
        of = "" if label is None else f"{label}: rate_limit "
        raise ImproperlyConfigured(of + NO_RATE % {"rate": text})
    return found


@lru_cache
def _parsed(text: str) -> Rate | None:
    found = _RATE.fullmatch(text)
    return Rate(int(found[1]), _SECONDS[found[2]]) if found else None
