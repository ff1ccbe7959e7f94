"""Views of Django REST framework as tools."""

from django_mcp.contrib.drf.tools import api_tools

__all__ = ["api_tools"]
