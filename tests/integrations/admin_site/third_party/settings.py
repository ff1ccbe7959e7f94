"""Settings of the site. ``THEME`` is the app of a theme, whose templates come before Django's."""

import os

THEME = os.environ.get("THEME", "")
THEMES = {"unfold": ["unfold"], "jazzmin": ["jazzmin"], "admin_interface": ["admin_interface", "colorfield"]}
SECRET_KEY = "of-no-use-outside-the-tests"
DEBUG = False
ALLOWED_HOSTS = ["testserver", "127.0.0.1"]
INSTALLED_APPS = [
    *THEMES.get(THEME, ["colorfield"]),
    "modeltranslation",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "constance",
    "django_celery_beat",
    "django_ckeditor_5",
    "django_countries",
    "django_object_actions",
    "django_summernote",
    "admin_auto_filters",
    "admin_confirm",
    "adminsortable2",
    "djangoql",
    "djmoney",
    "easy_thumbnails",
    "filer",
    "fsm_admin",
    "guardian",
    "import_export",
    "inline_actions",
    "mptt",
    "nested_admin",
    "ordered_model",
    "parler",
    "phonenumber_field",
    "polymorphic",
    "rangefilter",
    "reversion",
    "safedelete",
    "simple_history",
    "solo",
    "taggit",
    "tinymce",
    "treebeard",
    "django_mcp",
    "tests.integrations.admin_site.third_party.apps.ThirdPartyConfig",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "simple_history.middleware.HistoryRequestMiddleware",
]
ROOT_URLCONF = "tests.integrations.admin_site.third_party.urls"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", "guardian.backends.ObjectPermissionBackend"]
USE_TZ = True
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "German")]
PARLER_LANGUAGES = {None: ({"code": "en"}, {"code": "de"})}
MODELTRANSLATION_DEFAULT_LANGUAGE = "en"
MODELTRANSLATION_TRANSLATION_FILES = ("tests.integrations.admin_site.third_party.translation",)
CONSTANCE_BACKEND = "constance.backends.database.DatabaseBackend"
CONSTANCE_CONFIG = {"GREETING": ("Hello", "Shown at the top."), "LIMIT": (7, "At most.")}
STATIC_URL = "/static/"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
X_FRAME_OPTIONS = "SAMEORIGIN"
SILENCED_SYSTEM_CHECKS = ["security.W019"]
CKEDITOR_5_CONFIGS = {"default": {"toolbar": ["bold"]}}
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
DJANGO_MCP = {
    "AUTHENTICATION": ["django_mcp.AllowAny"],
    "VIEW_MIDDLEWARE": ["simple_history.middleware.HistoryRequestMiddleware"],
}
