"""The conformance site's settings, for pages of ``HOST_ORIGIN``."""

import os

from tests.conformance.settings import *  # noqa: F403
from tests.conformance.settings import INSTALLED_APPS

INSTALLED_APPS = [*(app for app in INSTALLED_APPS if app != "tests.conformance"), "tests.real_browser.apps.site"]
DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    "NAME": "apps",
    "ALLOWED_ORIGINS": [os.environ["HOST_ORIGIN"]],
}
TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True}]
