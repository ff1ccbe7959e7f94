"""Pieces of code that people keep."""

from typing import Any

from django.conf import settings
from django.db import models
from django.utils.html import escape


class Snippet(models.Model):
    """A few lines of code."""

    class Language(models.TextChoices):
        """What it is written in."""

        PYTHON = "python", "Python"
        SQL = "sql", "SQL"
        SHELL = "sh", "Shell script"

    title = models.CharField(max_length=100, blank=True, default="")
    code = models.TextField(help_text="The lines themselves.")
    linenos = models.BooleanField("line numbers", default=False)
    language = models.CharField(max_length=20, choices=Language, default=Language.PYTHON)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="snippets")
    page = models.TextField(editable=False)
    created = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["created", "pk"]

    def __str__(self) -> str:
        return self.title or f"snippet {self.pk}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Keep the page that shows it up to date."""
        lines = [escape(line) for line in self.code.splitlines()]
        if self.linenos:
            lines = [f"{number} {line}" for number, line in enumerate(lines, 1)]
        shown = "\n".join(lines)
        self.page = f"<html><body><h1>{escape(self.title)}</h1><pre>{shown}</pre></body></html>"
        super().save(*args, **kwargs)
