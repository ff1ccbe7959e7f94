"""Deleting what has expired."""

from collections.abc import Mapping

from django.utils import timezone

from django_mcp.models import Call, Event, Session, Step, Task

MODELS = (Session, Call, Event, Step, Task)


def clear(most: int | None = None) -> Mapping[str, int]:
    """Delete expired rows, with those that depend on them; how many of each kind.

    Args:
        most: rows of each kind, the longest expired first; None for all.
    """
    deleted: dict[str, int] = {}
    for model in MODELS:
        expired = model.objects.filter(expires__lt=timezone.now())
        if most is not None:
            expired = model.objects.filter(pk__in=list(expired.order_by("expires").values_list("pk", flat=True)[:most]))
        deleted[str(model._meta.verbose_name_plural)] = expired.count()  # noqa: SLF001 - Django's documented API
        expired.delete()
    return deleted
