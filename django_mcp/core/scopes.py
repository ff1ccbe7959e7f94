"""OAuth scopes: what they are called for people, and which includes which.

They are declared once, in ``DJANGO_MCP["SCOPES"]``.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from django.core.signals import setting_changed

from django_mcp.conf import settings


class Scope(NamedTuple):
    """One scope.

    Attributes:
        text: what it lets a client do, for the person who is asked to agree.
        implies: scopes that are included.
    """

    text: Any
    implies: tuple[str, ...] = ()


def declared() -> Mapping[str, Scope]:
    """Every scope of the site, by name, in the order of the setting."""
    return {
        name: Scope(value["text"], tuple(value.get("implies", ()))) if isinstance(value, Mapping) else Scope(value)
        for name, value in settings.SCOPES.items()
    }


@lru_cache(maxsize=1024)
def expanded(granted: frozenset[str]) -> frozenset[str]:
    """*granted* and all that it includes, however deep."""
    scopes = declared()
    found: set[str] = set()
    waiting = list(granted)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += scopes[name].implies if name in scopes else ()
    return frozenset(found)


def covers(granted: frozenset[str] | None, needed: frozenset[str]) -> bool:
    """Whether *granted* is enough; None is a credential without scopes, which is enough for all."""
    return granted is None or needed <= granted or needed <= expanded(granted)


def in_order(scopes: Iterable[str]) -> str:
    """Scopes as ``scope`` parameters have them, in the order of the setting, then of the alphabet."""
    places = {name: place for place, name in enumerate(settings.SCOPES)}
    return " ".join(sorted(scopes, key=lambda name: (places.get(name, len(places)), name)))


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "DJANGO_MCP":
        expanded.cache_clear()


setting_changed.connect(_forget, dispatch_uid="django_mcp.core.scopes")
