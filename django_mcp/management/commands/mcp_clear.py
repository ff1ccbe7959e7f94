"""``manage.py mcp_clear``."""

import json
import sys
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandParser

from django_mcp.approvals.approval_requests import expire_all
from django_mcp.management.base import Progress
from django_mcp.pubsub.event_store import clear


class Command(BaseCommand):
    """Delete what has expired, and self-registered OAuth clients that nobody uses. Run it daily, like
    ``clearsessions``; and ``cleartokens`` with it, where there is an authorization server.
    """

    help = (
        "Delete what has expired: MCP sessions, tasks, events and steps, approvals and the log of calls as old as the "
        "settings say, and self-registered OAuth clients out of use."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """For people or for programs."""
        parser.add_argument("--json", action="store_true", help="print how many of each kind as a JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        """Delete them and say how many there were."""
        while expire_all():  # so that it is noted, and what nobody asks about again can be deleted one day
            pass
        progress = Progress(sys.stderr)
        try:
            deleted = dict(clear(note=progress if progress.is_seen else None))
        finally:
            progress.close()
        if apps.is_installed("oauth2_provider"):
            from django_mcp.oauth.cleanup import prune_clients, prune_documents  # noqa: PLC0415 - not every site has it

            deleted["registered clients"] = prune_clients()
            deleted["clients with a document"] = prune_documents()
        if options["json"]:
            self.stdout.write(json.dumps({kind.replace(" ", "_"): count for kind, count in deleted.items()}))
        elif options["verbosity"]:
            self.stdout.write(", ".join(f"{count} {kind}" for kind, count in deleted.items()) + " deleted.")
