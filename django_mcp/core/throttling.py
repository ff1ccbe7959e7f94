"""How often a caller may call tools: so many in a fixed window, counted in Django's default cache.

Agents in a loop call fifty times in a breath. Processes count together where they share a cache. While it is away
nobody is counted, and everybody let through: a site must not stand still for want of its cache.
"""

import hashlib
import logging
import threading
import time
from typing import TYPE_CHECKING

from django.core.cache import DEFAULT_CACHE_ALIAS, caches
from django.core.cache.backends.base import BaseCache

from django_mcp.conf import settings
from django_mcp.core.failures import log_seldom
from django_mcp.core.principal import Principal
from django_mcp.primitives.base import Rate, parse_rate
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
    caller = f"{server.name} {principal.kind} {principal.id}"
    _count(server.rate, caller, "calls of tools")
    _count(tool.rate, f"{caller} {tool.name}", f"calls of {tool.name!r}")


def _is_first(resumed: str) -> bool:
    key = f"django_mcp.rate.{hashlib.sha256(resumed.encode()).hexdigest()[:32]}.resumed"
    try:
        return bool(_cache().add(key, 1, settings.INPUT_SECONDS))
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        log_seldom(logging.WARNING, "rounds of calls are not counted, for the cache fails: %r", error)
        return True


def seconds_to_wait(rate: str | None, what: str, times: int = 1) -> int:
    """Count one more of *what*: 0, or after how many seconds the next may come. Blocks, if the cache does.

    Args:
        rate: how often, like ``"20/h"``; None for no limit.
        what: who does what.
        times: by how much the rate is multiplied.
    """
    limit = parse_rate(rate)
    try:
        _count(limit and limit._replace(most=limit.most * times), what, "requests")
    except TooManyRequests as error:
        return int(error.data["retryAfter"])
    return 0


def _count(rate: Rate | None, what: str, calls: str) -> None:
    if rate is None:
        return
    now = time.time()
    window = int(now // rate.seconds)
    key = f"django_mcp.rate.{hashlib.sha256(what.encode()).hexdigest()[:32]}.{window}"
    try:
        number = _number(key, rate)
    except Exception as error:  # noqa: BLE001 - each cache has errors of its own
        log_seldom(logging.WARNING, "%s are not counted, for the cache fails: %r", calls, error)
        return
    if number > rate.most:
        seconds = int((window + 1) * rate.seconds - now) + 1
        raise TooManyRequests(seconds, f"Too many {calls}: {rate} may be made.")


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
