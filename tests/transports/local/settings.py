"""Settings of the site for clients on the same machine.

Environment variables beside those of ``tests.conformance.settings``:

``LOCAL_SESSION_SECONDS``
    how long an unused session lives.
"""

import os

from tests.conformance.settings import *  # noqa: F403
from tests.conformance.settings import INSTALLED_APPS as CONFORMANCE_APPS

INSTALLED_APPS = [*CONFORMANCE_APPS, "tests.transports.local"]
ROOT_URLCONF = "tests.transports.local.urls"
ASGI_APPLICATION = "tests.transports.local.asgi.application"
ALLOWED_HOSTS = [".agency.example", "localhost", "127.0.0.1"]

DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    "NAME": "local",
    "MAX_BODY_BYTES": 100_000,
    "SESSION_TTL": int(os.environ.get("LOCAL_SESSION_SECONDS", "3600")),
    "POLL_INTERVAL": 0.05,
    "HTTP_SSE": True,
}
