"""The conformance site's settings, with an admin, and callers who are users.

Environment variables besides those of the conformance site:

``FAULTS_JOURNAL``
    the file in which the tool writes down what it does.
``APPROVAL_REQUEST_TTL``, ``APPROVAL_WAIT_TIMEOUT``
    how long calls wait, and their callers.
"""

import os

from tests.conformance.settings import *  # noqa: F403

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_mcp",
    "tests.real_browser.site",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "tests.real_browser.site.strict.OwnScriptsOnly",
]
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
ROOT_URLCONF = "tests.real_browser.site.urls"
ASGI_APPLICATION = "tests.real_browser.site.asgi.application"
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

DJANGO_MCP = {
    "AUTHENTICATION": ["tests.behaviour.users.ByName"],
    "SCOPES": {},
    "DEFAULT_SCOPES": [],
    "NAME": "bills",
    "POLL_INTERVAL": 0.05,
    "TASK_POLL_INTERVAL": 0.05,
    "TASK_LEASE_TTL": 2.0,
    "APPROVAL_REQUEST_TTL": int(os.environ.get("APPROVAL_REQUEST_TTL", "600")),
    "APPROVAL_WAIT_TIMEOUT": float(os.environ.get("APPROVAL_WAIT_TIMEOUT", "15")),
}
