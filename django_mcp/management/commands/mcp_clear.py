"""``manage.py mcp_clear``."""

from typing import Any

from django.core.management.base import BaseCommand

from django_mcp.live.clearing import clear


class Command(BaseCommand):
    """Delete expired sessions, calls, events and steps. Run it daily, like ``clearsessions``."""

    help = "Delete expired MCP sessions, calls, events and steps."

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Delete them and say how many there were."""
        deleted = clear()
        self.stdout.write(", ".join(f"{count} {kind}" for kind, count in deleted.items()) + " deleted.")
