"""Settings of a site whose shop is in a second database."""

SECRET_KEY = "of-no-use-outside-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver"]
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django_mcp",
    "tests.integrations.back_office",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
ROOT_URLCONF = "tests.integrations.back_office.urls"
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"},
    "second": {"ENGINE": "django.db.backends.sqlite3", "NAME": "file:second?mode=memory&cache=shared"},
}
DATABASE_ROUTERS = ["tests.testing.admin.two_databases_settings.Router"]
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
DJANGO_MCP = {"AUTHENTICATION": ["django_mcp.AllowAny"]}


class Router:
    """The shop is in the second database, all else in the first."""

    def db_for_read(self, model, **hints):
        return "second" if model._meta.app_label == "back_office" else "default"

    db_for_write = db_for_read

    def allow_migrate(self, db, app_label, **hints):
        return (db == "second") is (app_label == "back_office")
