"""The base of the package's models."""

from typing import Any, TypeVar

from django.db import models, router

M = TypeVar("M", bound=models.Model)


class PrimaryManager(models.Manager[M]):
    """Reads rows where they are written: a replica may lag behind, and not have what was made a moment ago."""

    def get_queryset(self) -> models.QuerySet[M]:
        """See ``Manager.get_queryset``."""
        rows = super().get_queryset()
        hints: dict[str, Any] = self._hints  # type: ignore[attr-defined] # the stubs do not know it
        return rows.using(self._db or router.db_for_write(self.model, **hints))


class Stored(models.Model):
    """A row of the package's own, read where it is written, also by way of relations."""

    objects = PrimaryManager()

    class Meta:
        abstract = True
        base_manager_name = "objects"
