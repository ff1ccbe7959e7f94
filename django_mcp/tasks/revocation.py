"""Tasks end with the credential they were asked for with, when somebody takes it back, and with their user."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.signals import post_save
from django.dispatch import receiver

from django_mcp.core.signals import access_ended
from django_mcp.models import Task
from django_mcp.tasks import rows


@receiver(access_ended, dispatch_uid="django_mcp.tasks.revocation.access")
def _on_access_ended(kind: str, id: str, **_: Any) -> None:  # noqa: A002 - as ``Principal`` has it
    _cancel(Task.objects.filter(principal_kind=kind, principal_id=id))


@receiver(post_save, sender=settings.AUTH_USER_MODEL, dispatch_uid="django_mcp.tasks.revocation.inactive")
def _on_user_saved(instance: Any, **_: Any) -> None:
    if not instance.is_active:
        _cancel(Task.objects.filter(user_id=instance.pk))


def _cancel(tasks: Any) -> None:
    """Cancel those that are under way; whatever runs them finds out."""
    unfinished: Iterable[Task] = tasks.filter(status__in=rows.UNFINISHED)
    with transaction.atomic():
        for task in unfinished:
            rows.cancel(task)
