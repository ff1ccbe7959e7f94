"""``mcp_notify``: deliver notices of pending approvals."""

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error as DatabaseError
from django.db import connections

from django_mcp.approvals.notices import deliver_due
from django_mcp.management.base import count_of

logger = logging.getLogger("django_mcp")

LOOK_SECONDS = 2.0


class Command(BaseCommand):
    """See ``help``. Only needed if the server process runs no threads."""

    help = "Delivers due e-mails and webhooks about pending approvals."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--forever", action="store_true", help="run until SIGTERM or SIGINT")

    def handle(self, *_: Any, **options: Any) -> None:
        if not options["forever"]:
            self._report(deliver_due())
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        while not stop.is_set():
            self._deliver()
            # A signal ends this wait, unlike time.sleep().
            stop.wait(LOOK_SECONDS)

    def _report(self, number: int) -> None:
        self.stdout.write(f"{count_of(number, 'notice', 'notices')} delivered.")

    def _deliver(self) -> None:
        try:
            if count := deliver_due():
                self._report(count)
        except DatabaseError as error:
            logger.warning("approval notices cannot be read, retrying: %s", error)
            # The next attempt gets a new connection, in case this one broke with the database.
            connections.close_all()
