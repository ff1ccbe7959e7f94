"""What a start needs of tasks. Where no tool has any, what runs and keeps them is not imported for it."""

import logging
from typing import Any

from django.conf import settings as django_settings
from django.db.models.signals import post_save

from django_mcp.conf import settings
from django_mcp.core.server import MCPServer
from django_mcp.core.signals import access_ended, primitive_added
from django_mcp.primitives.tool import Tool

logger = logging.getLogger("django_mcp")


def connect() -> None:
    """Hear of tools that have tasks, and of those who may no longer have what they asked for."""
    primitive_added.connect(_on_added, dispatch_uid="django_mcp.tasks")
    access_ended.connect(_on_access_ended, dispatch_uid="django_mcp.tasks.revocation.access")
    user = django_settings.AUTH_USER_MODEL
    post_save.connect(_on_user_saved, sender=user, dispatch_uid="django_mcp.tasks.revocation.inactive")


def prepare() -> None:
    """Have a worker's process know what it is to run: some run nothing that was not imported when they started."""
    try:
        is_set = django_settings.is_overridden("TASKS")  # type: ignore[misc] # the plugin knows only settings
        if is_set or settings.TASK_BACKEND is not None:
            from django_mcp.tasks.engines import Workers, engine  # noqa: PLC0415 - most sites have no workers

            if isinstance(engine(), Workers):
                from django_mcp.tasks import job  # noqa: F401, PLC0415 - it needs a backend to be configured
    except Exception as error:  # noqa: BLE001 - there is a system check for it
        logger.debug("tasks have no workers: %s", error)


def _on_added(sender: MCPServer, primitive: Any, **_: Any) -> None:
    if isinstance(primitive, Tool) and primitive.task is not None:
        from django_mcp.tasks.registration import bring  # noqa: PLC0415 - most sites have no tasks

        bring(sender, primitive)


def _on_access_ended(kind: str, id: str, **_: Any) -> None:  # noqa: A002 - as ``Principal`` has it
    from django_mcp.tasks.revocation import cancel_of_caller  # noqa: PLC0415 - seldom needed

    cancel_of_caller(kind, id)


def _on_user_saved(instance: Any, **_: Any) -> None:
    if not instance.is_active:
        from django_mcp.tasks.revocation import cancel_of_user  # noqa: PLC0415 - seldom needed

        cancel_of_user(instance)
