"""The site's only app: the one whose ``mcp.py`` is found."""

from django.apps import AppConfig


class AppsConfig(AppConfig):
    """Named, because "site" alone says too little as a label."""

    name = "tests.real_browser.apps.site"
    label = "apps_site"
