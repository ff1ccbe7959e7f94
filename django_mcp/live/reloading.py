"""Under ``runserver``: when an ``mcp.py`` was changed and read anew, clients that listen look at the lists again.

Django's autoreloader watches every module that was imported, and starts a new process for a change. Clients keep their
sessions, which are in the database; this tells them that there may be something new.
"""

import logging
from typing import Any

from django.db import DatabaseError, connections
from django.utils.autoreload import autoreload_started

from django_mcp.core.server import servers
from django_mcp.live.changes import KINDS

logger = logging.getLogger("django_mcp")


def connect() -> None:
    """Tell clients once this process serves, which the autoreloader has started."""
    autoreload_started.connect(_tell, dispatch_uid="django_mcp.live.reloading")


def _tell(**_: Any) -> None:
    try:
        for server in servers():
            for kind in KINDS:
                server.notify_list_changed(kind)
    except DatabaseError as error:  # as before the first "migrate"; what serves must not end for it
        logger.warning("nobody who listens is told that the site was read anew: %s", error)
    finally:
        connections.close_all()  # the reloader's thread has no other use for one
