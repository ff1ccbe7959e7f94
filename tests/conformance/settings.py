"""Settings of the site that the conformance suite is run against: as little beside django_mcp as it allows.

Environment variables, all set by the harness:

``CONFORMANCE_DATABASE``
    path of the SQLite file.
``DATABASE_URL``
    where it is set, PostgreSQL is used instead.
``CONFORMANCE_REDIS_URL``
    where it is set, Channels' layer is in Redis, else in memory.
``CONFORMANCE_URL``
    where it is set, this is the site's address, and tokens with scopes are recognised (see ``authentication.py``).
"""

import os

from demo_project.settings import BASE_DIR, postgresql, sqlite
from tests.conformance.scopes import BASELINE, FULL, TOKENS

SECRET_KEY = "of-no-use-outside-the-conformance-suite"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "tests.conformance",
]
# Only the Django view meets them: the ASGI application stands beside Django.
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "tests.conformance.urls"
ASGI_APPLICATION = "tests.conformance.asgi.application"
WSGI_APPLICATION = "tests.conformance.wsgi.application"

DATABASE_URL = os.environ.get("DATABASE_URL", "")
SQLITE_FILE = os.environ.get("CONFORMANCE_DATABASE") or str(BASE_DIR / "conformance.sqlite3")
DATABASES = {"default": postgresql(DATABASE_URL) if DATABASE_URL else sqlite(SQLITE_FILE)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = os.environ.get("CONFORMANCE_REDIS_URL", "")
IN_MEMORY = {"BACKEND": "channels.layers.InMemoryChannelLayer"}
IN_REDIS = {
    "BACKEND": "channels_redis.core.RedisChannelLayer",
    # Processes with one database are one site; others on the same Redis are not to hear of it.
    "CONFIG": {"hosts": [REDIS_URL], "prefix": f"conformance:{DATABASES['default']['NAME']}"},
}
CHANNEL_LAYERS = {"default": IN_REDIS if REDIS_URL else IN_MEMORY}

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True

# Without DEBUG Django would mail its errors; the harness reads them in the server's output.
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"console": {"class": "logging.StreamHandler"}, "nowhere": {"class": "logging.NullHandler"}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    # There is a scenario that comes from a foreign host.
    "loggers": {"django.security.DisallowedHost": {"handlers": ["nowhere"], "propagate": False}},
}

DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"], "NAME": "conformance"}
CONFORMANCE_URL = os.environ.get("CONFORMANCE_URL")
if CONFORMANCE_URL:
    DJANGO_MCP |= {
        "AUTHENTICATION": ["tests.conformance.authentication.ScopeTokens", "django_mcp.AllowAny"],
        "BASE_URL": CONFORMANCE_URL,
        "DEFAULT_SCOPES": [BASELINE],
        "SCOPES": dict.fromkeys(TOKENS[FULL], "Run a scenario"),
    }
