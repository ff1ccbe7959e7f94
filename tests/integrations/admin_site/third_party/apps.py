"""The app."""

from django.apps import AppConfig


class ThirdPartyConfig(AppConfig):
    """Names the tables."""

    name = "tests.integrations.admin_site.third_party"
    label = "third_party"
    default_auto_field = "django.db.models.BigAutoField"
