"""Settings of the demo project. It is made for your own machine; do not put it on the internet as it is."""

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import django
from django.core.exceptions import ImproperlyConfigured

from django_mcp.oauth import oauth_defaults

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = os.environ.get("DJANGO_SECRET_KEY", "insecure-key-for-the-demo-on-your-own-machine-only")
DEBUG = os.environ.get("DEBUG", "1").lower() in {"1", "true", "yes", "on"}

# The address under which clients know the site. Tokens are issued for it, so it is never taken from a request.
BASE_URL = os.environ.get("BASE_URL", "http://127.0.0.1:8000").rstrip("/")
IS_HTTPS = BASE_URL.startswith("https://")
ALLOWED_HOSTS = ["localhost", "127.0.0.1", "[::1]", urlsplit(BASE_URL).hostname or ""]
# Behind a proxy or a tunnel that speaks https, browsers send this origin with the login form.
CSRF_TRUSTED_ORIGINS = [BASE_URL]
CSRF_COOKIE_SECURE = SESSION_COOKIE_SECURE = IS_HTTPS

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "oauth2_provider",
    "rest_framework",
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

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = LOGOUT_REDIRECT_URL = "index"

# Mail is kept, to be read at /outbox/.
OUTBOX = "demo_project.travel.outbox.OutboxBackend"
if django.VERSION >= (6, 1):
    MAILERS = {"default": {"BACKEND": OUTBOX}}
else:
    EMAIL_BACKEND = OUTBOX
DEFAULT_FROM_EMAIL = "Travel agency <trips@travel.example>"

# The API is for the site's own pages; its tools know their caller from the endpoint.
REST_FRAMEWORK = {"DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.SessionAuthentication"]}

DJANGO_MCP = {
    # Authentication of endpoints without their own: users through an OAuth client, and programs with an API key.
    "AUTHENTICATION": ["django_mcp.OAuth2Authentication", "django_mcp.APIKeyAuthentication"],
    "BASE_URL": BASE_URL,
    # Scopes, with descriptions for the consent page.
    "SCOPES": {
        "travel:read": "Look up flights, hotels, weather and documents, and see your bookings and your calendar",
        "travel:write": {
            "text": "Book and cancel trips, and write into your calendar, on your behalf",
            "implies": ["travel:read"],
        },
        "travel:staff": {
            "text": "Work as one of the agency’s staff: see the bookings of all customers",
            "implies": ["travel:read"],
        },
        "travel:office": "Work in the agency’s back office: see what you see in the admin, and ask for changes there",
    },
    "DEFAULT_SCOPES": ["travel:read"],
    # Clients register themselves, so that they can sign in without the internet too. On a public site leave this out.
    "CLIENT_DOCUMENTS": False,
    # The MCP Inspector calls from a page of its own.
    "ALLOWED_ORIGINS": ["http://localhost:6274", "http://127.0.0.1:6274"],
    "NAME": "travel-agency",
    "TITLE": "Travel agency",
    "VERSION": "1.0.0",
    # For directories of connectors; see docs/listing.md.
    "DESCRIPTION": "Search and book flights and hotels, and look up weather, activities and past trips.",
    "PRIVACY_POLICY_URL": f"{BASE_URL}/privacy/",
    "SERVER_CARD": True,
    "INSTRUCTIONS": (
        "This is a travel agency's server: flights, hotels, weather, activities, past trips, documents and a "
        "calendar for about seventy cities. Read the resource travel://guide for an overview, and travel://cities for "
        "the cities. Cities are names, slugs or IATA codes; dates are YYYY-MM-DD; prices are in euros. Look up facts "
        "instead of guessing, and ask the user before you create calendar events or cancel a booking. book_hotel asks "
        "the traveller itself."
    ),
}
OAUTH2_PROVIDER = oauth_defaults(DJANGO_MCP)
