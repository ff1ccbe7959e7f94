"""Sent when something clients may have been told about is no longer so. ``pubsub.publish`` passes it on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.dispatch import Signal

list_changed = Signal()
"""A list of an endpoint changed. Arguments: ``sender``, the ``MCPServer``; ``kind``, like ``"tools"``."""

resource_updated = Signal()
"""A resource has new contents. Arguments: ``sender``, the ``MCPServer``; ``uri``."""

rows_changed = Signal()
"""Rows of models that are resources changed, and that is committed. Arguments: ``sender``, None; ``changes``."""

server_made = Signal()
"""There is an endpoint more. Arguments: ``sender``, the ``MCPServer``."""

primitive_added = Signal()
"""Something is about to be registered. Arguments: ``sender``, the ``MCPServer``; ``primitive``. An error stops it."""

access_ended = Signal()
"""A credential was taken back. Arguments: ``sender``, None; ``kind`` and ``id``, those of its ``Principal``s."""

server_stopped = Signal()
"""The server of this process ends in good order; all requests are answered. Arguments: ``sender``, None. Receivers may
block, and are called with ``send_robust``."""

call_logged = Signal()
"""A list, read or call was served or refused. Arguments: ``sender``, the ``MCPServer``; ``call``, a ``RequestLog`` that
was written already and has no primary key here. Sent with ``send_robust``; at the ASGI edge beside the answer."""

rights_changed = Signal()
"""Users may use other things than before. Arguments: ``sender``, None; ``users``, primary keys as text."""


class Change(NamedTuple):
    """One thing there is to tell of rows.

    Attributes:
        server: the ``MCPServer``.
        uri: of the resource that has new contents; None where it is the list of resources that changed.
        about: what it is about, as URIs: told to those only for whom one of them exists. Empty: to everybody.
    """

    server: Any
    uri: str | None
    about: Sequence[str] = ()
