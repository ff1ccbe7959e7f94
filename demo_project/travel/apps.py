"""The app's configuration."""

from django.apps import AppConfig


class TravelConfig(AppConfig):
    """The travel agency."""

    name = "demo_project.travel"
    label = "travel"
    verbose_name = "Travel agency"
    default_auto_field = "django.db.models.BigAutoField"
