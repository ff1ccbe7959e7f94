"""The app."""

from django.apps import AppConfig


class PackagesSiteConfig(AppConfig):
    """Names the tables."""

    name = "tests.integrations.admin_site.packages_site"
    label = "packages_site"
    default_auto_field = "django.db.models.BigAutoField"
