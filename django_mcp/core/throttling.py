"""Rate limits: count the calls of tools, registrations and documents of clients, and say when the next may come."""

import hashlib
import logging
import threading
import time
from typing import TYPE_CHECKING

from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.base import BaseCache
from django.utils.module_loading import import_string

from django_mcp.conf import settings
from django_mcp.core.failures import log_rate_limited
from django_mcp.core.principal import Principal
from django_mcp.primitives.base import Rate
from django_mcp.protocol.errors import TooManyRequests

if TYPE_CHECKING:
    from django_mcp.core.server import MCPServer
    from django_mcp.primitives.tool import Tool

CLAIM_SECONDS = 60
"""How long a number is claimed, where a cache cannot count: longer than two processes think of the same one."""


_of_thread = threading.local()


def _cache() -> BaseCache:
    """The default cache, one object for each thread.

    Django's ``cache`` is one for each context, and at the ASGI edge each request has its own: Redis would be connected
    to anew for every call, by connections that stay open until they are collected.
    """
    if getattr(_of_thread, "settings", None) is not caches.settings:
        _of_thread.cache, _of_thread.settings = caches.create_connection(DEFAULT_CACHE_ALIAS), caches.settings
    cache: BaseCache = _of_thread.cache
    return cache


class RateThrottle:
    """Allow so many requests in a fixed window, counted in Django's default cache.

    It is shaped like REST framework's ``SimpleRateThrottle``, and one is made for each request. To limit otherwise,
    name a subclass in ``DJANGO_MCP["THROTTLE_CLASS"]``.

    Processes count together where they share a cache. While it is away nobody is counted, and everybody let through: a
    site must not stand still for want of its cache.

    Args:
        scope: what is counted, in words: ``"calls of tools"``, ``"calls of 'search'"`` for one tool,
            ``"registrations"`` or ``"documents of clients"``.
        rate: the limit; None for none.
    """

    def __init__(self, scope: str, rate: Rate | None) -> None:
        self.scope = scope
        self.rate = rate
        self.now = time.time()

    def get_cache_key(self, ident: str, principal: Principal | None) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the key of the cache to count under, or None to count nothing.

        Args:
            ident: names who is counted: a caller at an endpoint, or an IP address.
            principal: the caller of a tool; None where nobody has signed in.
        """
        return f"django_mcp.rate.{_digest(f'{self.scope} {ident}')}"

    def allow_request(self, ident: str, principal: Principal | None = None) -> bool:
        """Count one more request, and return False if it is one too many. Blocks, if the cache does.

        Args:
            ident: as for ``get_cache_key``.
            principal: likewise.
        """
        key = self.get_cache_key(ident, principal)
        if key is None or self.rate is None:
            return True
        try:
            number = _number(f"{key}.{int(self.now // self.rate.seconds)}", self.rate)
        except Exception as error:  # noqa: BLE001 - each cache has errors of its own
            log_rate_limited(logging.WARNING, "%s are not counted, for the cache fails: %r", self.scope, error)
            return True
        return number <= self.rate.most

    def wait(self) -> int:
        """Return after how many seconds the next request may come, once one was not allowed."""
        seconds = self.rate.seconds if self.rate else 0
        return int(seconds - self.now % seconds) + 1 if seconds else 1


def make_throttle(scope: str, rate: Rate | None) -> RateThrottle:
    """Make the throttle that the site has chosen; see ``RateThrottle``."""
    throttle: RateThrottle = import_string(settings.THROTTLE_CLASS)(scope, rate)
    return throttle


def count(server: "MCPServer", tool: "Tool", principal: Principal, resumed: str = "") -> None:
    """Count a call against the limits of its endpoint and its tool. Blocks, if the cache does.

    Args:
        server: the endpoint.
        tool: that is called.
        principal: the caller.
        resumed: names the round of a call that was counted in its first one; the same again counts as another call.

    Raises:
        TooManyRequests: there were too many before it.
    """
    if resumed and _is_first(resumed):
        return
    ident = f"{server.name} {principal.kind} {principal.id}"
    for scope, rate in (("calls of tools", server.rate), (f"calls of {tool.name!r}", tool.rate)):
        if rate is not None and not (throttle := make_throttle(scope, rate)).allow_request(ident, principal):
            raise TooManyRequests(throttle.wait(), f"Too many {scope}: {throttle.rate} may be made.")


def _is_first(resumed: str) -> bool:
    try:
        return bool(_cache().add(f"django_mcp.rate.{_digest(resumed)}.resumed", 1, settings.ELICITATION_TTL))
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        log_rate_limited(logging.WARNING, "rounds of calls are not counted, for the cache fails: %r", error)
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _number(key: str, rate: Rate) -> int:
    """Of a call in its window; more than there may be where it is one too many."""
    cache, lifetime = _cache(), rate.seconds + 1
    # Django's own reads and writes, and forgets when the entry was to expire.
    if getattr(cache.incr, "__func__", None) is BaseCache.incr:
        return _claimed_number(cache, key, rate.most, lifetime)
    if cache.add(key, 1, lifetime):
        return 1
    try:
        return cache.incr(key)
    except ValueError:  # it has just expired
        cache.set(key, 1, lifetime)
        return 1


def _claimed_number(cache: BaseCache, key: str, most: int, lifetime: int) -> int:
    """The same where a cache can only add: the first number that nobody has, which only one of several can add."""
    number: int = cache.get(key, 0)
    while number < most:
        number += 1
        claim = f"{key}.{number}"
        # What could not be written is there for nobody, and counts as claimed.
        if cache.add(claim, 1, min(lifetime, CLAIM_SECONDS)) or cache.get(claim) is None:
            cache.set(key, number, lifetime)
            return number
    return most + 1
