"""Operations of django-ninja as tools."""

from django_mcp.contrib.ninja.publishing import ninja_tools

__all__ = ["ninja_tools"]
