"""What there is to choose."""

from django.db import models


class Room(models.Model):
    """A room that can be booked."""

    name = models.CharField(max_length=50, unique=True)
    seats = models.PositiveSmallIntegerField(default=2)

    def __str__(self) -> str:
        return self.name
