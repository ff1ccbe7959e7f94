"""The app with what is added to the site."""

from django.apps import AppConfig


class ScaleSiteConfig(AppConfig):
    """Named, because the package's last part ``site`` says too little as a label."""

    name = "benchmarks.scale.site"
    label = "scale_site"
    default_auto_field = "django.db.models.BigAutoField"
