"""Settings of the site. ``PACKAGES_SITE`` is "middleware" or "managers", by which it tells packages who acts."""

import os

SECRET_KEY = "of-no-use-outside-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "simple_history",
    "auditlog",
    "django_otp",
    "django_mcp",
    "tests.integrations.admin_site.packages_site.apps.PackagesSiteConfig",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django_otp.middleware.OTPMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
    "auditlog.middleware.AuditlogMiddleware",
]
ROOT_URLCONF = "tests.integrations.admin_site.packages_site.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
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
HERE = "tests.integrations.admin_site.packages_site"
DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    **(
        {
            "VIEW_MIDDLEWARE": [
                "simple_history.middleware.HistoryRequestMiddleware",
                "auditlog.middleware.AuditlogMiddleware",
            ]
        }
        if os.environ.get("PACKAGES_SITE") == "middleware"
        else {"CALL_CONTEXT_MANAGERS": [f"{HERE}.managers.history_of", f"{HERE}.managers.actor_of"]}
    ),
}
