"""Settings of the soaked site: those of the benchmarked one, with Redis for bell and cache, and the log of calls.

Environment variables, all set by the soak:

``BENCH_DATABASE``
    a ``postgres://`` URL, see ``benchmarks.site.settings``.
``SOAK_REDIS_URL``
    where Channels' layer and the cache are.
"""

import os

from benchmarks.site.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "benchmarks.soak.site",
]
ASGI_APPLICATION = "benchmarks.soak.site.asgi.application"

REDIS_URL = os.environ["SOAK_REDIS_URL"]
CHANNEL_LAYERS = {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}}
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": REDIS_URL}}

DJANGO_MCP = {
    # Small, so that a body that is too large costs little.
    "MAX_BODY_BYTES": 65_536,
    # So high that nobody is refused: it is there for its way to the cache, which Redis takes away.
    "RATE_LIMIT": "1000000/m",
    # Streams and questions are over in seconds here; what is kept for them is to reach its steady state soon.
    "ELICITATION_TTL": 60,
    # Shorter than clients wait: who waits longer repeats the call, and who asks for a task hears that its worker died.
    "APPROVAL_WAIT_TIMEOUT": 15.0,
    "TASK_LEASE_TTL": 5.0,
    "KEEP_ALIVE_INTERVAL": 5.0,
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
}
