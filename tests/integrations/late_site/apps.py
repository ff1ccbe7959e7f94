"""The app whose ``mcp.py`` is found."""

from django.apps import AppConfig


class LateSiteConfig(AppConfig):
    """Names the tables."""

    name = "tests.integrations.late_site"
    label = "late_site"
    default_auto_field = "django.db.models.BigAutoField"
