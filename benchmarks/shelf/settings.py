"""Settings of the site with two tables.

``BENCH_DATABASE`` is the path of a SQLite file, or the address of a PostgreSQL database; what is measured is a
database beside that one, ``test_`` and its name.
"""

import os
from pathlib import Path

from demo_project.settings import postgresql, sqlite

DEBUG = False
SECRET_KEY = "of-no-use-outside-the-benchmark"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_mcp", "benchmarks.shelf"]

_DATABASE = os.environ.get("BENCH_DATABASE", "shelf.sqlite3")
if "://" in _DATABASE:
    DATABASES = {"default": postgresql(_DATABASE)}
else:
    _BESIDE = Path(_DATABASE).with_name(f"test_{Path(_DATABASE).name}")
    DATABASES = {"default": {**sqlite(_DATABASE), "TEST": {"NAME": str(_BESIDE)}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

# All that is measured is one caller.
DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    "MAX_STREAMS_PER_CALLER": 100_000,
    "MAX_SESSIONS_PER_CALLER": 1_000_000,
}
