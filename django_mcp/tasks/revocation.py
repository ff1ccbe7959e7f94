"""Tasks end with the credential they were asked for with, when somebody takes it back, and with their user."""

from collections.abc import Iterable
from typing import Any

from django_mcp.core import database
from django_mcp.models import Task
from django_mcp.tasks import rows


def cancel_of_caller(kind: str, id: str) -> None:  # noqa: A002 - as ``Principal`` has it
    """Cancel what was asked for with a credential."""
    _cancel(Task.objects.filter(principal_kind=kind, principal_id=id))


def cancel_of_user(user: Any) -> None:
    """Cancel what was asked for in the name of a user."""
    _cancel(Task.objects.filter(user_id=user.pk))


def _cancel(tasks: Any) -> None:
    """Cancel those that are under way; whatever runs them finds out."""
    unfinished: Iterable[Task] = tasks.filter(status__in=rows.UNFINISHED)
    with database.atomic():
        for task in unfinished:
            rows.cancel(task)
