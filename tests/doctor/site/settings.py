"""Settings of the site, as a server process and the command see them; each may be given others.

Environment variables:

``DOCTOR_DATABASE``
    path of the SQLite file.
``DOCTOR_BASE_URL``
    the public address; without it none.
``DOCTOR_REDIS``
    where it is set, Channels' layer is in Redis.
``DOCTOR_PREFIX``
    goes before what that layer writes: processes with another one do not hear each other.
``DOCTOR_DOCUMENTS``
    see ``tests.doctor.site.documents``.
``DOCTOR_DEBUG``
    "1" for ``DEBUG``.
``DOCTOR_CACHE``
    the table of the cache; "local" for one in the memory of each process.
``DOCTOR_SILENCED``
    ids of system checks that somebody has thought about.
``DOCTOR_MCP``
    JSON: more keys of ``DJANGO_MCP``.
"""

import json
import os

from demo_project.settings import sqlite
from django_mcp.oauth import oauth_defaults

SECRET_KEY = "of-no-use-outside-these-tests"
DEBUG = os.environ.get("DOCTOR_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
    "django_mcp",
    "tests.doctor.site",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
]
ROOT_URLCONF = "tests.doctor.site.urls"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
LOGIN_URL = "login"
DATABASES = {"default": sqlite(os.environ["DOCTOR_DATABASE"])}
CACHED = os.environ.get("DOCTOR_CACHE", "cached")
CACHES = {
    "default": {
        "BACKEND": f"django.core.cache.backends.{'locmem.LocMemCache' if CACHED == 'local' else 'db.DatabaseCache'}",
        "LOCATION": CACHED,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
SILENCED_SYSTEM_CHECKS = os.environ.get("DOCTOR_SILENCED", "").split()
PREFIX = os.environ.get("DOCTOR_PREFIX", "")
if url := os.environ.get("DOCTOR_REDIS"):
    CHANNEL_LAYERS = {
        "default": {
            "BACKEND": os.environ.get("DOCTOR_LAYER", "channels_redis.core.RedisChannelLayer"),
            "CONFIG": {"hosts": [url], "prefix": f"doctor:{os.environ['DOCTOR_DATABASE']}{PREFIX}"},
        }
    }
DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.OAuth2Authentication", "django_mcp.APIKeyAuthentication"],
    "BASE_URL": os.environ.get("DOCTOR_BASE_URL") or None,
    "KEEP_ALIVE_INTERVAL": 0.5,  # each run waits for one; twice as often, polling would seem to deliver
    **json.loads(os.environ.get("DOCTOR_MCP", "{}")),
}
if DJANGO_MCP["BASE_URL"]:
    fetcher = "tests.doctor.site.documents.Fetcher"
    OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP, CIMD_METADATA_FETCHER=fetcher)
