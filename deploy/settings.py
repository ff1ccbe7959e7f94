"""The demo's settings for several workers behind nginx, with PostgreSQL and Redis; the environment has the rest."""

import os

from django.core.exceptions import ImproperlyConfigured

from demo_project.settings import *  # noqa: F403
from demo_project.settings import BASE_DIR
from demo_project.settings import DJANGO_MCP as DEMO
from django_mcp.oauth import oauth_defaults

NEEDED = ("BASE_URL", "DATABASE_URL", "DJANGO_SECRET_KEY", "REDIS_URL")
# The demo has values for one's own machine in place of these. A site that others reach should not start with them.
if missing := [name for name in NEEDED if not os.environ.get(name)]:
    raise ImproperlyConfigured(f"Set {', '.join(missing)} in the environment; deploy/.env.example says how.")

DEBUG = False
STATIC_ROOT = BASE_DIR / "static"
STATIC_URL = "/static/"

# nginx sets this header in every request, whatever its client sent. Nobody else reaches the workers.
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# Limits are counted by all workers together, and each is told at once when another one has news for its streams.
CACHES = {"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": os.environ["REDIS_URL"]}}
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.core.RedisChannelLayer",
        "CONFIG": {"hosts": [os.environ["REDIS_URL"]]},
    }
}

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}},
    "root": {"handlers": ["console"], "level": "INFO"},
}

DJANGO_MCP = {**DEMO, "CLIENT_DOCUMENTS": True, "CLIENT_ADDRESS_HEADER": "X-Real-IP"}
OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP)
SILENCED_SYSTEM_CHECKS = [
    "django_mcp.W004",  # /open/mcp is meant to be open, and nothing can be written there
    "oauth2_provider.W008",  # programs on a person's own computer are sent to http, as docs/checks.md says
]
