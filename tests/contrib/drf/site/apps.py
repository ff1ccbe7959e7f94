"""The app whose ``mcp.py`` is found."""

from django.apps import AppConfig


class SiteConfig(AppConfig):
    """Named, because "site" alone says too little as a label."""

    name = "tests.contrib.drf.site"
    label = "snippets_site"
