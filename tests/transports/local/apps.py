"""The app whose ``mcp.py`` is found."""

from django.apps import AppConfig


class LocalConfig(AppConfig):
    """Named, because "local" alone says too little as a label."""

    name = "tests.transports.local"
    label = "local_site"
