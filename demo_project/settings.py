"""Settings of the demo project. It is made for your own machine; do not put it on the internet as it is."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "insecure-key-for-the-demo-on-your-own-machine-only")
DEBUG = os.environ.get("DEBUG", "1").lower() in {"1", "true", "yes", "on"}
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]"]

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "django_mcp",
    "demo_project.travel",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "demo_project.urls"
ASGI_APPLICATION = "demo_project.asgi.application"
WSGI_APPLICATION = "demo_project.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]


def sqlite(path: str) -> dict[str, object]:
    """A SQLite database that readers and a writer can share.

    With a write-ahead log readers never wait. Transactions take the write lock when they begin, so that one
    which reads before it writes waits for its turn instead of failing with ``database is locked``.
    """
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": path,
        "OPTIONS": {
            "timeout": 20,
            "transaction_mode": "IMMEDIATE",
            "init_command": "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;",
        },
    }


def postgresql(url: str) -> dict[str, object]:
    """The database of ``postgres://user:password@host:port/name``."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured("DATABASE_URL must look like postgres://user:password@host:port/name.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": str(parts.port or ""),
    }


DATABASE_URL = os.environ.get("DATABASE_URL", "")
DATABASES = {
    "default": postgresql(DATABASE_URL)
    if DATABASE_URL
    else sqlite(os.environ.get("DEMO_DATABASE") or str(BASE_DIR / "demo.sqlite3"))
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = True
USE_TZ = True

STATIC_URL = "static/"

DJANGO_MCP = {
    # Everybody who can reach the site may call: right for a demo that listens on this machine only.
    "AUTHENTICATION": ["django_mcp.Public"],
    "NAME": "travel-agency",
    "TITLE": "Travel agency",
    "INSTRUCTIONS": (
        "You are connected to a travel agency: flights, hotels, weather, activities, past trips, documents and a "
        "calendar for some seventy cities. The resource travel://guide says what there is, and travel://cities lists "
        "the cities. Cities are given by name, slug or IATA code; dates as YYYY-MM-DD; prices are in euros. Look "
        "things up rather than guess, and ask before you write into the calendar; book_hotel asks the traveller "
        "itself."
    ),
}
