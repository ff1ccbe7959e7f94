"""``drf_tools``: APIs of Django REST framework as tools."""

from django_mcp.contrib.drf.tools import drf_tools

__all__ = ["drf_tools"]
