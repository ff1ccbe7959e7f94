"""The site's only app: the one whose ``mcp.py`` is found."""

from django.apps import AppConfig


class BenchmarkSiteConfig(AppConfig):
    """Named, because the package's last part ``site`` says too little as a label."""

    name = "benchmarks.site"
    label = "benchmark_site"
