"""Settings of the site. ``LATE_SITE_DATABASE`` is the path of its SQLite file."""

import os

SECRET_KEY = "of-no-use-outside-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "localhost"]
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.staticfiles",
    "rest_framework",
    "django_mcp",
    "tests.integrations.late_site",
]
ROOT_URLCONF = "tests.integrations.late_site.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["LATE_SITE_DATABASE"]}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
STATIC_URL = "static/"
STATIC_ROOT = "there-is-none"
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}
