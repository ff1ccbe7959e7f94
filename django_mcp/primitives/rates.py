"""How often, in words: ``"60/m"``."""

import re
from functools import lru_cache
from typing import NamedTuple

from django.core.exceptions import ImproperlyConfigured

_RATE = re.compile(r"([1-9][0-9]{0,8})/([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Rate(NamedTuple):
    """So many calls in so many seconds."""

    most: int
    seconds: int


@lru_cache
def parse_rate(text: str | None) -> Rate | None:
    """``"60/m"``: a number, and ``s``, ``m``, ``h`` or ``d``. None is no limit.

    Raises:
        ImproperlyConfigured: it is none.
    """
    if text is None:
        return None
    found = _RATE.fullmatch(text)
    if found is None:
        msg = f"{text!r} is no rate; write a number and s, m, h or d, like '60/m' for sixty calls a minute."
        raise ImproperlyConfigured(msg)
    return Rate(int(found[1]), _SECONDS[found[2]])
