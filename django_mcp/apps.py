"""Start-up."""

from typing import Any

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules

from django_mcp.core.registry import restore_all, snapshots


class _Registries:
    """What ``autodiscover_modules`` puts back where an ``mcp.py`` fails half-way."""

    @property
    def _registry(self) -> Any:
        return snapshots()

    @_registry.setter
    def _registry(self, before: Any) -> None:
        restore_all(before)


class DjangoMCPConfig(AppConfig):
    """Imports the ``mcp`` module of every installed app, like ``admin.py``."""

    name = "django_mcp"
    label = "django_mcp"
    verbose_name = "Model Context Protocol"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Find what the site offers. An ``mcp.py`` that fails to import stops the start, loudly."""
        from django_mcp import checks  # noqa: F401, PLC0415 - registers them
        from django_mcp.live import changes  # noqa: F401, PLC0415 - passes signals on

        autodiscover_modules("mcp", register_to=_Registries())
