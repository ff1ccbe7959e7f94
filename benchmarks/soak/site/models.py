"""What tools write."""

from typing import ClassVar

from django.db import models


class Mark(models.Model):
    """A tool ran to its end and was committed. Not unique on purpose: a second run has to show."""

    uid = models.CharField(max_length=64)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["uid"], name="soak_mark_uid")]

    def __str__(self) -> str:
        return self.uid
