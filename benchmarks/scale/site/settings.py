"""The benchmarked site's settings, with a Channels layer that processes share.

``BENCH_REDIS`` is the address of Redis; without it processes look into the database instead.
"""

import os

from benchmarks.site.settings import *  # noqa: F403
from benchmarks.site.settings import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "benchmarks.scale.site"]
ASGI_APPLICATION = "benchmarks.scale.site.asgi.application"

if _REDIS := os.environ.get("BENCH_REDIS"):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": "channels_redis.core.RedisChannelLayer",
            "CONFIG": {"hosts": [_REDIS], "prefix": os.environ.get("BENCH_PREFIX", "benchmarks")},
        }
    }
