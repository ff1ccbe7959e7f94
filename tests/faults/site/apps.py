"""The site's only app: the one whose ``mcp.py`` is found."""

from django.apps import AppConfig


class FaultsConfig(AppConfig):
    """Named, because "site" alone says too little as a label."""

    name = "tests.faults.site"
    label = "faults_site"
    default_auto_field = "django.db.models.BigAutoField"
