"""Sessions, in the database, so that any worker can serve any request (2025-11-25, Transports, Session Management).

Many clients ``initialize`` on each connect and never come back, so a session that was not used yet lives shortly.
"""

import datetime
import hashlib
import secrets
from collections.abc import Collection
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.database import Prepared
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.models import Event, Session
from django_mcp.protocol.errors import ProtocolError, RequestId
from django_mcp.protocol.meta import ClientInfo
from django_mcp.pubsub import event_store
from django_mcp.pubsub.event_store import clear

UNUSED_SECONDS = 600
"""How long a session lives that was opened and never used."""
CLEAR_EVERY = 100
"""After how many new sessions expired ones are deleted, for sites that never run ``mcp_clear``."""
CLEAR_MOST = 500


class SessionNotFound(ProtocolError):
    """The session is unknown, expired, or somebody else's; the client has to ``initialize`` again."""

    code = -32600
    http_status = 404
    broken_envelope = True

    def __init__(self, request_id: RequestId | None = None) -> None:
        super().__init__("There is no such session. Send 'initialize' again.", request_id=request_id)


def open_session(server: MCPServer, principal: Principal, version: str, client: Any, capabilities: Any) -> str | None:
    """A new session's id: visible ASCII, 256 random bits. None for a site without a database."""
    if not database.has_database():
        return None
    _end_oldest(server, principal)
    session_id = secrets.token_urlsafe(32)
    session = Session.objects.create(
        key=_hash(session_id),
        server=server.name,
        principal_kind=principal.kind,
        principal_id=principal.id,
        version=version,
        # Icons, descriptions and the like are not read, and may be large.
        client={name: text for name, text in ClientInfo.read(client)._asdict().items() if text},
        capabilities=capabilities if isinstance(capabilities, dict) else {},
        expires=_in(min(UNUSED_SECONDS, settings.SESSION_SECONDS)),
    )
    if session.pk % CLEAR_EVERY == 0:
        clear(CLEAR_MOST)
    return session_id


def _end_oldest(server: MCPServer, principal: Principal) -> None:
    """Make room for one more session of a caller: end those that were used longest ago.

    To refuse the new one would lock out, for a day, the users of a client that ends none of its sessions.
    """
    mine = Session.objects.filter(
        principal_kind=principal.kind, principal_id=principal.id, server=server.name, expires__gt=timezone.now()
    )
    most = settings.SESSIONS_PER_CALLER - 1
    for session in mine.order_by("-expires", "-pk")[most : most + CLEAR_MOST]:
        end_session(session)


def find_session(session_id: str, server: MCPServer, principal: Principal) -> Session:
    """The session, whose life begins anew.

    Raises:
        SessionNotFound: it is unknown, expired, of another endpoint or another caller: all in the same words.
    """
    session: Session | None = _LIVE.first(
        key=_hash(session_id),
        server=server.name,
        principal_kind=principal.kind,
        principal_id=principal.id,
        now=timezone.now(),
    )
    if session is None:
        raise SessionNotFound
    # Not written with each request: only when a tenth of its life is over.
    if session.expires < _in(settings.SESSION_SECONDS * 9 // 10):
        Session.objects.filter(pk=session.pk).update(expires=_in(settings.SESSION_SECONDS))
    return session


def _live(now: datetime.datetime, **which: str) -> QuerySet[Session]:
    return Session.objects.filter(**which, expires__gt=now)


_LIVE = Prepared(_live, key=str, server=str, principal_kind=str, principal_id=str, now=datetime.datetime)


def end_session(session: Session) -> None:
    """Delete it, with its calls, and end its streams."""
    Event.objects.filter(topic__in=[f"stream:{key}" for key in session.calls.values_list("key", flat=True)]).delete()
    event_store.append([(topic(session), '{"ended": true}')])
    session.delete()


def subscriptions_of(pk: int) -> list[str]:
    """The URIs that a session is subscribed to by now; none where it has ended."""
    return Session.objects.filter(pk=pk).values_list("subscriptions", flat=True).first() or []


def forget_subscriptions(pk: int, uris: Collection[str]) -> None:
    """Take *uris* out of those that a session is subscribed to."""
    with database.atomic():
        locked = Session.objects.select_for_update().filter(pk=pk).first()
        if locked is not None:
            locked.subscriptions = [each for each in locked.subscriptions if each not in uris]
            locked.save(update_fields=["subscriptions"])


def topic(session: Session) -> str:
    """Under which is logged what concerns a session as a whole."""
    return f"session:{session.pk}"


def _hash(session_id: str) -> str:
    return hashlib.sha256(session_id.encode()).hexdigest()


def _in(seconds: float) -> datetime.datetime:
    return timezone.now() + datetime.timedelta(seconds=seconds)
