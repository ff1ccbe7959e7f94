"""Rate limits of tool calls, client registrations, client metadata documents and client secrets."""

import hashlib
import logging
import threading
import time
from typing import TYPE_CHECKING

from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.base import BaseCache
from django.utils.module_loading import import_string

from django_mcp.conf import settings
from django_mcp.core.principal import Principal
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.primitives.base import Rate
from django_mcp.protocol.errors import TooManyRequests

if TYPE_CHECKING:
    from django_mcp.core.server import MCPServer
    from django_mcp.primitives.tool import Tool

CLAIM_SECONDS = 60
"""Lifetime of a claimed number in caches without atomic ``incr``; longer than any race for it."""


_of_thread = threading.local()


def _cache() -> BaseCache:
    # This is one object per thread. Django's ``cache`` is one per context, and the ASGI application creates a context
    # for each request: every call would open a Redis connection that stays open until garbage collection.
    if getattr(_of_thread, "settings", None) is not caches.settings:
        _of_thread.cache, _of_thread.settings = caches.create_connection(DEFAULT_CACHE_ALIAS), caches.settings
    cache: BaseCache = _of_thread.cache
    return cache


class RateThrottle:
    """A rate limit in a fixed window, counted in Django's default cache.

    Modelled on REST framework's ``SimpleRateThrottle``; one is made per request. To change the policy, name a subclass
    in ``DJANGO_MCP["THROTTLE_CLASS"]``. Processes that share a cache count together. While the cache is unavailable,
    all requests are allowed.

    Args:
        scope: what is counted: ``"calls of tools"``, ``"calls of 'search'"`` for one tool, ``"registrations"``,
            ``"documents of clients"`` or ``"failing client secrets"``.
        rate: the limit; None for none.
    """

    def __init__(self, scope: str, rate: Rate | None) -> None:
        self.scope = scope
        self.rate = rate
        self.now = time.time()

    def get_cache_key(self, ident: str, principal: Principal | None) -> str | None:  # noqa: ARG002 - for subclasses
        """Return the cache key to count under, or None for no limit.

        Args:
            ident: identifies a caller at an endpoint, an IP address or network, or a user.
            principal: the caller of a tool, if any.
        """
        return f"django_mcp.rate.{_digest(f'{self.scope} {ident}')}"

    def allow_request(self, ident: str, principal: Principal | None = None) -> bool:
        """Count a request. Return False if it exceeds the limit. Blocks if the cache does."""
        key = self.get_cache_key(ident, principal)
        if key is None or self.rate is None:
            return True
        try:
            number = _number(f"{key}.{int(self.now // self.rate.seconds)}", self.rate)
        # A cache that is away must not close the endpoint.
        except Exception as error:  # noqa: BLE001 - each cache has errors of its own
            log_rate_limited(logging.WARNING, "%s are not counted because the cache failed: %r", self.scope, error)
            return True
        return number <= self.rate.most

    def wait(self) -> int:
        """Return the seconds until the next request is allowed."""
        seconds = self.rate.seconds if self.rate else 0
        return int(seconds - self.now % seconds) + 1 if seconds else 1


def make_throttle(scope: str, rate: Rate | None) -> RateThrottle:
    throttle: RateThrottle = import_string(settings.THROTTLE_CLASS)(scope, rate)
    return throttle


def count(server: "MCPServer", tool: "Tool", principal: Principal, resumed: str = "") -> None:
    """Count a call against the limits of its endpoint and tool. Blocks if the cache does.

    *resumed* identifies a later round of a call that was already counted; only a repeat of that round counts.

    Raises:
        TooManyRequests: a limit is exceeded.
    """
    if resumed and _is_first(resumed):
        return
    ident = f"{server.name} {principal.kind} {principal.id}"
    for scope, rate in (("calls of tools", server.rate), (f"calls of {tool.name!r}", tool.rate)):
        if rate is not None and not (throttle := make_throttle(scope, rate)).allow_request(ident, principal):
            raise TooManyRequests(throttle.wait(), f"Too many {scope}; the limit is {throttle.rate}.")


def _is_first(resumed: str) -> bool:
    try:
        return bool(_cache().add(f"django_mcp.rate.{_digest(resumed)}.resumed", 1, settings.ELICITATION_TTL))
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        log_rate_limited(logging.WARNING, "rounds of calls are not counted because the cache failed: %r", error)
        return True


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _number(key: str, rate: Rate) -> int:
    cache, lifetime = _cache(), rate.seconds + 1
    # Django's own is not atomic and resets the expiry.
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
    # Used without an atomic incr(): find the first number that only this process could add.
    number: int = cache.get(key, 0)
    while number < most:
        number += 1
        claim = f"{key}.{number}"
        # A failed write is visible to no process and counts as claimed.
        if cache.add(claim, 1, min(lifetime, CLAIM_SECONDS)) or cache.get(claim) is None:
            cache.set(key, number, lifetime)
            return number
    return most + 1
