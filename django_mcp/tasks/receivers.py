"""Receivers that prepare tools with tasks, and cancel tasks when access is revoked."""

import logging
from collections.abc import Iterable
from typing import Any

from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.db.models.signals import post_save

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.server import MCPServer
from django_mcp.core.signals import access_ended, classes_of, primitive_added
from django_mcp.models import Task
from django_mcp.primitives.tool import Tool
from django_mcp.tasks import store

logger = logging.getLogger("django_mcp")


def cancel_of_caller(kind: str, id: str) -> None:  # noqa: A002 - as ``Principal`` has it
    _cancel(Task.objects.filter(principal_kind=kind, principal_id=id))


def cancel_of_user(user: Any) -> None:
    _cancel(Task.objects.filter(user_id=user.pk))


def _cancel(tasks: Any) -> None:
    unfinished: Iterable[Task] = tasks.filter(status__in=store.UNFINISHED)
    with database.unless_unmigrated(), database.atomic():
        for task in unfinished:
            store.cancel(task)


def connect() -> None:
    primitive_added.connect(_on_added, dispatch_uid="django_mcp.tasks")
    access_ended.connect(_on_access_ended, dispatch_uid="django_mcp.tasks.revocation.access")
    for user in classes_of(get_user_model()):
        post_save.connect(_on_user_saved, sender=user, dispatch_uid="django_mcp.tasks.revocation.inactive")


def prepare() -> None:
    # Some workers know only jobs that are imported when they start.
    try:
        is_set = django_settings.is_overridden("TASKS")  # type: ignore[misc] # the plugin knows only settings
        if is_set or settings.TASK_BACKEND is not None:
            from django_mcp.tasks.backends import DjangoTasksBackend, task_backend  # noqa: PLC0415 - most sites have no workers

            if isinstance(task_backend(), DjangoTasksBackend):
                from django_mcp.tasks import job  # noqa: F401, PLC0415 - requires a configured backend
    except Exception as error:  # noqa: BLE001 - reported by a system check
        logger.debug("the task backend could not be loaded: %s", error)


def _on_added(sender: MCPServer, primitive: Any, **_: Any) -> None:
    if isinstance(primitive, Tool) and primitive.task is not None:
        from django_mcp.tasks.methods import prepare_server  # noqa: PLC0415 - most sites have no tasks

        prepare_server(sender, primitive)


def _on_access_ended(kind: str, id: str, **_: Any) -> None:  # noqa: A002 - as ``Principal`` has it
    # Sent when access is taken back, not when an OAuth token expires: its client renews it.
    cancel_of_caller(kind, id)


def _on_user_saved(instance: Any, **_: Any) -> None:
    if not instance.is_active:
        cancel_of_user(instance)
