"""``drf_tools``: APIs of Django REST framework as tools."""

try:
    import drf_spectacular  # noqa: F401 - a site with an API need not have it
except ModuleNotFoundError as error:
    msg = "drf_tools describes APIs with drf-spectacular: pip install 'django-mcp-toolkit[drf]'"
    raise ImportError(msg) from error

from django_mcp.contrib.drf.tools import drf_tools

__all__ = ["drf_tools"]
