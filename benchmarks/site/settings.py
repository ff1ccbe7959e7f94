"""Settings of the benchmarked site: production's, with as little beside django_mcp as it allows.

Two environment variables are set by the runner:

``BENCH_DATABASE``
    path of the SQLite file, or a ``postgres://`` URL, already prepared; SQLite in memory where it is not set.
``BENCH_MIDDLEWARE``
    ``default`` for the middleware of ``startproject``, ``none`` for an empty list. Only what passes through
    Django's request handler meets them: the ASGI edge stands beside it.
"""

import os
from typing import Any
from urllib.parse import urlsplit

DEBUG = False
SECRET_KEY = "of-no-use-outside-the-benchmark"
ALLOWED_HOSTS = ["127.0.0.1"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_mcp",
    "benchmarks.site",
]

_DEFAULT_MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
MIDDLEWARE = [] if os.environ.get("BENCH_MIDDLEWARE") == "none" else _DEFAULT_MIDDLEWARE
# Lets the session middleware stand in the list without its app and table.
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"

ROOT_URLCONF = "benchmarks.site.urls"
ASGI_APPLICATION = "benchmarks.site.asgi.application"
WSGI_APPLICATION = "benchmarks.site.wsgi.application"


def _database(address: str) -> dict[str, Any]:
    if address.startswith("postgres"):
        url = urlsplit(address)
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": url.path.lstrip("/"),
            "USER": url.username or "",
            "PASSWORD": url.password or "",
            "HOST": url.hostname or "",
            "PORT": url.port or "",
            "CONN_MAX_AGE": None,
        }
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": address,
        "CONN_MAX_AGE": None,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
        },
    }


DATABASES = {"default": _database(os.environ.get("BENCH_DATABASE", ":memory:"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

# The plain endpoint is compared with servers that keep no log; the full one says for itself that it does.
DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.Public"], "LOG_CALLS": False}
