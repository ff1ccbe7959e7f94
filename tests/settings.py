"""The demo project's settings, as the tests want them."""

import os
import tempfile
from pathlib import Path

from demo_project.settings import *  # noqa: F403
from demo_project.settings import postgresql, sqlite

# SQLite whatever DATABASE_URL says, unless asked: every run should have run there.
ON_POSTGRESQL = os.environ.get("TEST_ON") == "postgresql"
DATABASES = {"default": postgresql(os.environ["DATABASE_URL"]) if ON_POSTGRESQL else sqlite(":memory:")}
if not ON_POSTGRESQL:
    # A file, as sites have it: in memory nobody waits for a lock, so threads that write side by side fail at once.
    name = f"django_mcp_tests_{os.getpid()}.sqlite3"
    DATABASES["default"]["TEST"] = {"NAME": str(Path(tempfile.gettempdir()) / name)}

DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1", "[::1]"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
