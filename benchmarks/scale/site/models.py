"""What a call leaves behind."""

from django.db import models


class Note(models.Model):
    """A row that a call wrote; a call that was run twice has two."""

    text = models.CharField(max_length=100, db_index=True)

    def __str__(self) -> str:
        return self.text
