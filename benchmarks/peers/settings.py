"""Settings that every peer which is a Django site shares: production's, like those of ``benchmarks.site``.

Each peer's own settings take what they need from here. The middleware is told apart as it is for our own site:
``BENCH_MIDDLEWARE`` is ``default`` for that of ``startproject`` or ``none`` for an empty list.
"""

from benchmarks.middleware import chosen

DEBUG = False
SECRET_KEY = "of-no-use-outside-the-benchmark-and-long-enough"
ALLOWED_HOSTS = ["127.0.0.1"]

MIDDLEWARE = chosen()
# Lets the session middleware stand in the list without its app and table.
SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"

# No peer asks the database anything for an addition.
DATABASES: dict[str, dict[str, str]] = {}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
