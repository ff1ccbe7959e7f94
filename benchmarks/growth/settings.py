"""Settings of the site whose tables grow: all that keeps rows is in use.

``BENCH_DATABASE`` is the path of a SQLite file or the address of a PostgreSQL server's database; what is filled is a
database beside it, named by ``BENCH_NAME``.
"""

import os

from demo_project.settings import postgresql, sqlite
from django_mcp.oauth import oauth_defaults

DEBUG = False
SECRET_KEY = "of-no-use-outside-the-benchmark"
ALLOWED_HOSTS = ["127.0.0.1"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "oauth2_provider",
    "django_mcp",
    "benchmarks.growth",
]
MIDDLEWARE: list[str] = []
ROOT_URLCONF = "benchmarks.site.urls"

_DATABASE = os.environ.get("BENCH_DATABASE", ":memory:")
_KIND = postgresql if "://" in _DATABASE else sqlite
DATABASES = {
    "default": {
        **_KIND(_DATABASE),
        "CONN_MAX_AGE": None,
        "TEST": {"NAME": os.environ.get("BENCH_NAME", "benchmarks_growth")},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.OAuth2Authentication", "django_mcp.APIKeyAuthentication"],
    "BASE_URL": "https://growth.example.com",
    # Nobody waits: what is timed is the queries, and these would only be asked more often.
    "APPROVAL_WAIT_TIMEOUT": 0.05,
    "TASK_WAIT_TIMEOUT": 5.0,
    "APPROVAL_WEBHOOK": "http://127.0.0.1:9/",  # nobody listens there: a notice that is tried, and kept for later
    "APPROVAL_WEBHOOK_SECRET": "of-no-use-outside-the-benchmark",
}
OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP)
# That the notices are not delivered is meant.
LOGGING = {"version": 1, "disable_existing_loggers": False, "loggers": {"django_mcp": {"level": "ERROR"}}}
