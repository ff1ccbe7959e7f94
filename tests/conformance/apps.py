"""The site's only app: the one whose ``mcp.py`` is found."""

from django.apps import AppConfig


class ConformanceConfig(AppConfig):
    """Named, because "conformance" alone says too little as a label."""

    name = "tests.conformance"
    label = "conformance_site"
