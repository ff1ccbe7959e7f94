"""Views of Django REST framework as tools."""

from django_mcp.contrib.rest_framework.publishing import api_tools

__all__ = ["api_tools"]
