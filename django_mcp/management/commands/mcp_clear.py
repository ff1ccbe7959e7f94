"""``manage.py mcp_clear``."""

from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand

from django_mcp.approvals.tickets import expire_all
from django_mcp.live.clearing import clear


class Command(BaseCommand):
    """Delete what has expired, and self-registered OAuth clients that nobody uses. Run it daily, like
    ``clearsessions``; and ``cleartokens`` with it, where there is an authorization server.
    """

    help = (
        "Delete what has expired: MCP sessions, tasks, events and steps, approvals and the log of calls as old as the "
        "settings say, and self-registered OAuth clients out of use."
    )

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        """Delete them and say how many there were."""
        while expire_all():  # so that it is noted, and what nobody asks about again can be deleted one day
            pass
        deleted = dict(clear())
        if apps.is_installed("oauth2_provider"):
            from django_mcp.oauth.pruning import prune_clients, prune_documents  # noqa: PLC0415 - not every site has it

            deleted["registered clients"] = prune_clients()
            deleted["clients with a document"] = prune_documents()
        self.stdout.write(", ".join(f"{count} {kind}" for kind, count in deleted.items()) + " deleted.")
