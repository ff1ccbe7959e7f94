"""``mcp_clear``: delete expired data."""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from django_mcp.approvals.approval_requests import expire_all
from django_mcp.auth.checks import uses_oauth
from django_mcp.auth.oauth import has_toolkit
from django_mcp.management.base import Progress, count_of
from django_mcp.pubsub.cleanup import clear


class Command(BaseCommand):
    """See ``help``. Run it daily, as ``clearsessions``, together with ``cleartokens`` if the site has an authorization
    server.
    """

    help = (
        "Deletes expired MCP sessions, tasks, events and steps, approvals and request log entries older than the "
        "settings allow, and unused self-registered OAuth clients. Renews metadata documents of OAuth clients."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the numbers as a JSON object")

    def handle(self, *_: Any, **options: Any) -> None:
        while expire_all():  # record expiry, so that these approvals can be deleted later
            pass
        progress = Progress(sys.stderr)
        try:
            deleted = dict(clear(note=progress if progress.is_seen else None))
        finally:
            progress.close()
        withdrawn = 0
        if has_toolkit() and uses_oauth():
            from django_mcp.oauth.cimd import renew_documents  # noqa: PLC0415 - only with an authorization server
            from django_mcp.oauth.cleanup import prune_clients, prune_documents  # noqa: PLC0415

            withdrawn = renew_documents()
            deleted["registered clients"] = prune_clients()
            deleted["clients with a document"] = prune_documents()
        if options["json"]:
            self.stdout.write(json.dumps({kind.replace(" ", "_"): count for kind, count in deleted.items()}))
        elif options["verbosity"]:
            numbers = (count_of(count, _singular(kind), kind) for kind, count in deleted.items())
            self.stdout.write(f"{', '.join(numbers)} deleted.")
            if withdrawn:
                self.stdout.write(f"{count_of(withdrawn, 'client', 'clients')} with a withdrawn document found.")


def _singular(kind: str) -> str:
    # "logged calls", "clients with a document"
    noun, *rest = kind.split(" with ")
    return " with ".join([noun.removesuffix("s"), *rest])
