"""Calls that are waited for elsewhere: at the edges of Django's view an answer comes all at once."""

import threading
from collections.abc import Callable

from django.db import connections


def beside(function: Callable[[], object]) -> threading.Thread:
    """Call it in a thread of its own, which leaves no database connection behind."""

    def run() -> None:
        try:
            function()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    return thread
