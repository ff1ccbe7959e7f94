"""Settings of the site, beside what the demo has set."""

import os

from demo_project.settings import BASE_DIR, sqlite

SECRET_KEY = "of-no-use-outside-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django_mcp", "tests.services.site"]
ROOT_URLCONF = "django_mcp.urls"
DATABASES = {"default": sqlite(os.environ.get("SERVICES_DATABASE") or str(BASE_DIR / "services.sqlite3"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"], "NAME": "services"}
