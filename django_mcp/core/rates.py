"""How often a caller may call tools: so many in a fixed window, counted in Django's default cache.

Agents in a loop call fifty times in a breath. Processes count together where they share a cache.
"""

import hashlib
import time
from typing import TYPE_CHECKING

from django.core.cache import cache

from django_mcp.core.principal import Principal
from django_mcp.primitives.rates import Rate
from django_mcp.protocol.errors import TooManyRequests

if TYPE_CHECKING:
    from django_mcp.core.registry import MCPServer
    from django_mcp.primitives.tool import Tool


def count(server: "MCPServer", tool: "Tool", principal: Principal) -> None:
    """Count a call against the limits of its endpoint and its tool. Blocks, if the cache does.

    Raises:
        TooManyRequests: there were too many before it.
    """
    caller = f"{server.name} {principal.kind} {principal.id}"
    _count(server.rate, caller)
    _count(tool.rate, f"{caller} {tool.name}")


def _count(rate: Rate | None, what: str) -> None:
    if rate is None:
        return
    now = time.time()
    window = int(now // rate.seconds)
    key = f"django_mcp.rate.{hashlib.sha256(what.encode()).hexdigest()[:32]}.{window}"
    calls = 1
    if not cache.add(key, 1, rate.seconds + 1):
        try:
            calls = cache.incr(key)
        except ValueError:  # it has just expired
            cache.set(key, 1, rate.seconds + 1)
    if calls > rate.most:
        raise TooManyRequests(int((window + 1) * rate.seconds - now) + 1)
