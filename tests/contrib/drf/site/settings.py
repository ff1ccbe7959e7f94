"""Settings of the tutorial's site, beside what the demo has set."""

import os

from demo_project.settings import BASE_DIR, sqlite

SECRET_KEY = "of-no-use-outside-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "rest_framework",
    "django_mcp",
    "tests.contrib.drf.snippets",
    "tests.contrib.drf.site",
]
ROOT_URLCONF = "tests.contrib.drf.site.urls"
DATABASES = {"default": sqlite(os.environ.get("SNIPPETS_DATABASE") or str(BASE_DIR / "snippets.sqlite3"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True

REST_FRAMEWORK = {
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 2,
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
}
DJANGO_MCP = {
    "AUTHENTICATION": ["tests.contrib.drf.site.callers.OneUser"],
    "NAME": "snippets",
    "REQUIRE_APPROVAL_FOR": None,  # which would be another story
}
