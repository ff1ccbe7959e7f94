"""Base class and manager of the package's models."""

from typing import Any, TypeVar

from django.db import models, router

M = TypeVar("M", bound=models.Model)


class PrimaryManager(models.Manager[M]):
    """Reads from the database that is written to, as a replica may lag behind."""

    def get_queryset(self) -> models.QuerySet[M]:
        rows = super().get_queryset()
        hints: dict[str, Any] = self._hints  # type: ignore[attr-defined] # the stubs do not know it
        return rows.using(self._db or router.db_for_write(self.model, **hints))


class Stored(models.Model):
    """Abstract base of the package's models, read from the primary database, also through relations."""

    objects = PrimaryManager()

    class Meta:
        abstract = True
        base_manager_name = "objects"
