"""The demo project's settings, as the tests want them."""

import os
import tempfile
from pathlib import Path

from demo_project.settings import *  # noqa: F403
from demo_project.settings import DJANGO_MCP as DEMO
from demo_project.settings import INSTALLED_APPS, postgresql, sqlite
from tests.tables import NoMigrations

# SQLite whatever DATABASE_URL says, unless asked: every run should have run there.
ON_POSTGRESQL = os.environ.get("TEST_ON") == "postgresql"
ON_MARIADB = os.environ.get("TEST_ON") == "mariadb"
if ON_MARIADB:
    from tests.mariadb import mariadb

    DATABASES = {"default": mariadb(os.environ["MARIADB_URL"])}
else:
    DATABASES = {"default": postgresql(os.environ["DATABASE_URL"]) if ON_POSTGRESQL else sqlite(":memory:")}
if ON_POSTGRESQL or ON_MARIADB:
    # One for each of several processes that share the tests among them.
    DATABASES["default"]["TEST"] = {
        "NAME": "_".join(["test", DATABASES["default"]["NAME"], os.environ.get("PYTEST_XDIST_WORKER", "")]).rstrip("_")
    }
else:
    # A file, as sites have it: in memory nobody waits for a lock, so threads that write side by side fail at once.
    name = f"django_mcp_tests_{os.getpid()}.sqlite3"
    DATABASES["default"]["TEST"] = {"NAME": str(Path(tempfile.gettempdir()) / name)}

MIGRATION_MODULES = NoMigrations()

INSTALLED_APPS = [
    *INSTALLED_APPS,
    "tests.model_resources.library",
    "tests.model_resources.family",
    "tests.contrib.drf.snippets",
    "tests.integrations.back_office",
]
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost", "127.0.0.1", "[::1]"]
# Most tests are of what endpoints do, for whom there is no need to sign in. The demo's own settings, with OAuth and API
# keys, are met in tests/demo/test_endpoints.py.
DJANGO_MCP = {**DEMO, "AUTHENTICATION": ["django_mcp.AllowAny"]}
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
