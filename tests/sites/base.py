"""A small site as ``startproject`` makes it, with an endpoint. The other modules here say what is unlike it."""

import os
from pathlib import Path

from django_mcp.oauth import oauth_defaults

FOLDER = Path(os.environ["SITE_FOLDER"])
BASE_URL = "http://localhost"

SECRET_KEY = "of-a-site-that-tests-make"
DEBUG = False
ALLOWED_HOSTS = ["*"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "oauth2_provider",
    "django_mcp",
    "tests.sites.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "tests.sites.urls"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]


def sqlite(name: str) -> dict[str, object]:
    """A database in a file, as ``startproject`` has it."""
    return {"ENGINE": "django.db.backends.sqlite3", "NAME": FOLDER / f"{name}.sqlite3", "OPTIONS": {"timeout": 20}}


DATABASES = {"default": sqlite("default")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = True
LANGUAGE_CODE = "en-us"
STATIC_URL = "static/"
LOGIN_URL = "login"
SILENCED_SYSTEM_CHECKS = ["security.W009"]

DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.OAuth2Authentication", "django_mcp.APIKeyAuthentication"],
    "BASE_URL": BASE_URL,
    "APPROVAL_WAIT_TIMEOUT": 0.05,
    "SCOPES": {"shop": "Look and buy"},
    "DEFAULT_SCOPES": ["shop"],
    "SERVER_CARD": True,
}
OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP)
