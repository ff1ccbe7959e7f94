"""``manage.py mcp_notify``."""

import logging
import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.db import Error as DatabaseError
from django.db import connections

from django_mcp.approvals.notices import deliver_due

logger = logging.getLogger("django_mcp")

LOOK_SECONDS = 2.0


class Command(BaseCommand):
    """See ``help``. Sites whose server runs no threads need it. In others the serving processes do this themselves."""

    help = "Delivers e-mails and webhooks that are due because a call waits for approval."

    def add_arguments(self, parser: CommandParser) -> None:
        """Once or for ever."""
        parser.add_argument("--forever", action="store_true", help="go on until SIGTERM or SIGINT")

    def handle(self, *_: Any, **options: Any) -> None:
        """Deliver them and say how many there were."""
        if not options["forever"]:
            self.stdout.write(f"{deliver_due()} notices delivered.")
            return
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        while not stop.is_set():
            self._deliver()
            stop.wait(LOOK_SECONDS)

    def _deliver(self) -> None:
        try:
            if count := deliver_due():
                self.stdout.write(f"{count} notices delivered.")
        except DatabaseError as error:
            logger.warning("notices of calls that wait cannot be read just now, trying again: %s", error)
            connections.close_all()
