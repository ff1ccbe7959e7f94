"""A model whose changes two packages record."""

from auditlog.registry import auditlog
from django.db import models
from simple_history.models import HistoricalRecords


class Shelf(models.Model):
    """Of a library."""

    name = models.CharField(max_length=20)
    history = HistoricalRecords()

    def __str__(self) -> str:
        return self.name


auditlog.register(Shelf)
