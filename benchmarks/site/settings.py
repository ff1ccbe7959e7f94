"""Settings of the benchmarked site: production's, with as little beside django_mcp as it allows.

Two environment variables are set by the runner:

``BENCH_DATABASE``
    path of the SQLite file, or a ``postgres://`` URL, already prepared; ``none`` for a site without a database;
    SQLite in memory where it is not set.
``BENCH_MIDDLEWARE``
    ``default`` for the middleware of ``startproject``, ``none`` for an empty list. Only what passes through
    Django's request handler meets them: the ASGI edge stands beside it.
"""

import os

from benchmarks.middleware import chosen
from demo_project.settings import postgresql, sqlite

DEBUG = False
SECRET_KEY = "of-no-use-outside-the-benchmark"
ALLOWED_HOSTS = ["127.0.0.1"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "benchmarks.site",
]

MIDDLEWARE = chosen()
# Lets the session middleware stand in the list without its app and table.
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"

ROOT_URLCONF = "benchmarks.site.urls"
ASGI_APPLICATION = "benchmarks.site.asgi.application"
WSGI_APPLICATION = "benchmarks.site.wsgi.application"

_DATABASE = os.environ.get("BENCH_DATABASE", ":memory:")
_KIND = postgresql if "://" in _DATABASE else sqlite
DATABASES = {} if _DATABASE == "none" else {"default": {**_KIND(_DATABASE), "CONN_MAX_AGE": None}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

# The plain endpoint is compared with servers that keep no log; the full one says for itself that it does.
DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"], "LOG_REQUESTS": False}
