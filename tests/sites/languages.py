"""Pages under ``i18n_patterns``, with fewer ``LANGUAGES`` than Django has, and ``LocaleMiddleware``."""

from tests.sites.base import *  # noqa: F403
from tests.sites.base import MIDDLEWARE

LANGUAGE_CODE = "en-us"
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
MIDDLEWARE = [*MIDDLEWARE[:2], "django.middleware.locale.LocaleMiddleware", *MIDDLEWARE[2:]]
ROOT_URLCONF = "tests.sites.languages_urls"
