"""The site's only app: the one whose ``mcp.py`` is found."""

from django.apps import AppConfig


class DoctorSiteConfig(AppConfig):
    """Named, because "site" alone says too little as a label."""

    name = "tests.doctor.site"
    label = "doctor_site"
    default_auto_field = "django.db.models.BigAutoField"
