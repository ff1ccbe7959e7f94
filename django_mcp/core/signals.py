"""Signals, internal and public, and what receivers of models' signals share. ``pubsub`` forwards changes to clients."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

from django.apps import apps
from django.db import models
from django.dispatch import Signal

list_changed = Signal()
"""A list of an endpoint changed. Arguments: ``sender``, the ``MCPServer``; ``kind``, such as ``"tools"``."""

resource_updated = Signal()
"""A resource has new contents. Arguments: ``sender``, the ``MCPServer``; ``uri``."""

rows_changed = Signal()
"""Rows of models that are resources changed and were committed. Arguments: ``sender``, None; ``changes``."""

server_made = Signal()
"""An endpoint was created. Arguments: ``sender``, the ``MCPServer``."""

primitive_added = Signal()
"""Sent before registration, which an exception stops. Arguments: ``sender``, the ``MCPServer``; ``primitive``."""

urls_made = Signal()
"""The URLs of all endpoints are being made, which is after all apps are ready. Arguments: ``sender``, None."""

access_ended = Signal()
"""A credential was revoked. Arguments: ``sender``, None; ``kind`` and ``id`` of its ``Principal`` objects."""

server_stopped = Signal()
"""The server process is shutting down and has answered all requests. Arguments: ``sender``, None. Receivers may block,
and are called with ``send_robust``."""

request_logged = Signal()
"""A list, read or call was served or denied. Arguments: ``sender``, the ``MCPServer``; ``entry``, the saved
``RequestLog`` without its primary key. Sent with ``send_robust``; in the ASGI application concurrently with the
response."""

rights_changed = Signal()
"""Permissions of users changed. Arguments: ``sender``, None; ``users``, primary keys as text."""


class Change(NamedTuple):
    """A change of rows to publish.

    Attributes:
        server: the ``MCPServer``.
        uri: URI of the changed resource; None if the list of resources changed.
        about: URIs of the rows. Only callers for whom one of them exists are notified; if empty, all.
    """

    server: Any
    uri: str | None
    about: Sequence[str] = ()


def classes_of(model: Any) -> list[Any]:
    # Signals are sent by the class that is saved or deleted.
    return [] if model is None else [kind for kind in apps.get_models() if issubclass(kind, model)]


def differs(instance: models.Model, names: Iterable[str], update_fields: Collection[str] | None) -> bool:
    """Return True if fields of a row to be saved differ from the database. At most one query."""
    own = {field.name for field in instance._meta.concrete_fields}  # noqa: SLF001 - Django's documented API
    names = [name for name in names if name in own and (update_fields is None or name in update_fields)]
    if instance._state.adding or not names:  # noqa: SLF001 - likewise
        return False
    rows = type(instance)._base_manager.using(instance._state.db)  # noqa: SLF001 - likewise
    before = rows.filter(pk=instance.pk).values(*names).first()
    return before is not None and any(getattr(instance, name) != value for name, value in before.items())
