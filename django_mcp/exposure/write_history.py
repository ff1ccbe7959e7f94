"""What was written for a user is in the history that the admin shows of a row."""

import json
from collections.abc import Sequence
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, router
from django.db.models import Model

from django_mcp.core.context import Context

ADDED, CHANGED, DELETED = 1, 2, 3
"""``django.contrib.admin.models`` has the same, which can be imported only where the admin is installed."""


def note(ctx: Context, obj: Model, action: int, message: Sequence[dict[str, Any]]) -> None:
    """Make a ``LogEntry``, in the transaction of what was written; where there is an admin, and the caller is a user.

    Args:
        ctx: of the call.
        obj: what was written; not yet deleted.
        action: what was done.
        message: what the admin would write of it.
    """
    if not ctx.user.is_authenticated or not apps.is_installed("django.contrib.admin"):
        return
    from django.contrib.admin.models import LogEntry  # noqa: PLC0415 - where it is installed
    from django.contrib.contenttypes.models import ContentType  # noqa: PLC0415 - likewise

    if router.db_for_write(LogEntry) != DEFAULT_DB_ALIAS:  # the transaction of a tool is of that one
        return
    LogEntry.objects.create(
        user_id=ctx.user.pk,
        content_type_id=ContentType.objects.get_for_model(obj, for_concrete_model=False).pk,
        object_id=str(obj.pk),
        object_repr=str(obj)[:200],
        action_flag=action,
        change_message=json.dumps(message) if message else "",
    )
