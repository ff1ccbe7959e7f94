"""Settings of the site."""

import os

from demo_project.settings import BASE_DIR, sqlite

SECRET_KEY = "of-no-use-outside-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_mcp", "tests.contrib.ninja.site"]
ROOT_URLCONF = "tests.contrib.ninja.site.urls"
DATABASES = {"default": sqlite(os.environ.get("SHELF_DATABASE") or str(BASE_DIR / "shelf.sqlite3"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

DJANGO_MCP = {
    "AUTHENTICATION": ["tests.contrib.drf.site.callers.OneUser"],
    "NAME": "shelf",
    "APPROVAL_WAIT_TIMEOUT": 0.2,  # nobody is there to approve
}
