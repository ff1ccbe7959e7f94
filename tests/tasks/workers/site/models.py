"""Something for tools to write."""

from django.db import models


class Note(models.Model):
    """A row that a tool wrote; it is there, or it was rolled back."""

    text = models.CharField(max_length=100)

    def __str__(self) -> str:
        return self.text
