"""Start-up."""

from typing import Any

from django.apps import AppConfig, apps
from django.utils.module_loading import autodiscover_modules

from django_mcp.core.policies import book
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
        from django_mcp.approvals import admitting, notice_checks  # noqa: F401, PLC0415 - the second registers checks
        from django_mcp.audit import installing as audit  # noqa: PLC0415 - it knows models
        from django_mcp.auth import checks as auth_checks  # noqa: F401, PLC0415 - likewise
        from django_mcp.auth import leaving, redaction  # noqa: F401, PLC0415 - the first hears of users who leave
        from django_mcp.exposure import checks as exposure_checks  # noqa: F401, PLC0415 - registers them
        from django_mcp.exposure import registration  # noqa: PLC0415 - it knows models
        from django_mcp.live import changes, rights  # noqa: F401, PLC0415 - the first passes signals on
        from django_mcp.oauth import checks as oauth_checks  # noqa: F401, PLC0415 - registers them
        from django_mcp.policies import deciding, reading  # noqa: F401, PLC0415 - the first hears of decisions
        from django_mcp.skills.serving import skills  # noqa: PLC0415 - nobody needs it before
        from django_mcp.tasks import checks as tasks_checks  # noqa: F401, PLC0415 - registers them
        from django_mcp.tasks import engines as tasks_engines  # noqa: PLC0415 - it knows models
        from django_mcp.tasks import registration as tasks  # noqa: F401, PLC0415 - hears of tools that have them
        from django_mcp.tasks import revocation  # noqa: F401, PLC0415 - hears of credentials

        if apps.is_installed("oauth2_provider"):
            from django_mcp.oauth import policies  # noqa: F401, PLC0415 - hears of clients that are blocked

        rights.connect()
        audit.install()
        redaction.install_where_wanted()
        autodiscover_modules("mcp", register_to=_Registries())
        registration.start()
        skills.start()
        tasks_engines.prepare()
        book.admit = admitting.admit
        reading.start()
