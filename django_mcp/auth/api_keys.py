"""``APIKeys``: callers who send an API key. One query, and every few minutes one more."""

import logging
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from django.db import DatabaseError, connections, router, transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.base import Authenticator, Head, InvalidToken, bearer
from django_mcp.auth.keys import hash_of, is_key, is_well_formed
from django_mcp.conf import settings
from django_mcp.core.prepared import Prepared
from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_mcp.models import APIKey

PARAMETER = "api_key"
"""Its name in a URL's query."""
USED_EVERY = timedelta(minutes=5)
"""How exact ``last_used`` is."""

logger = logging.getLogger("django_mcp")


class APIKeys(Authenticator):
    """API keys, as ``Authorization: Bearer mcp_key_…`` or ``X-API-Key: mcp_key_…``.

    Where ``DJANGO_MCP["API_KEYS_IN_URL"]`` is on, also as ``?api_key=mcp_key_…``. Bodies and cookies are never
    looked at.
    """

    @sensitive_variables()
    def authenticate(self, head: Head, server: MCPServer) -> Principal | None:
        """The user of a key that opens this endpoint.

        Raises:
            InvalidToken: whatever is wrong with it, or there are several.
        """
        keys = keys_in(head)
        if not keys:
            return None
        row = find_key(keys[0]) if len(keys) == 1 and is_well_formed(keys[0]) else None
        if row is None or not row.user.is_active or server.name not in row.endpoints:
            raise InvalidToken
        note_use(row)
        return Principal(
            kind="api_key",
            id=str(row.pk),
            user=row.user,
            scopes=frozenset(row.scopes),
            credential=str(row.pk),
            expires=row.expires,
        )

    @sensitive_variables()
    def shown(self, head: Head) -> tuple[str, ...]:
        """The keys."""
        return tuple(keys_in(head))


@sensitive_variables()
def keys_in(head: Head) -> list[str]:
    """Every API key that a request holds where one may be."""
    token = bearer(head.headers)
    keys = [token] if token is not None and is_key(token) else []
    if key := head.headers.get("x-api-key", "").strip():
        keys.append(key)
    if settings.API_KEYS_IN_URL:
        keys += keys_in_query(head.query)
    return keys


@sensitive_variables()
def keys_in_query(query: str) -> list[str]:
    """The values of ``api_key`` in a query string, decoded; an empty one is a value too."""
    return [value for name, value in parse_qsl(query, keep_blank_values=True) if name == PARAMETER]


@sensitive_variables("key")
def find_key(key: str) -> "APIKey | None":
    """The row of a key that is neither revoked nor expired, and its user. One query."""
    found: APIKey | None = _LIVE.first(key_hash=hash_of(key), now=timezone.now())
    return found


def _live(key_hash: str, now: datetime) -> "QuerySet[APIKey]":
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    return APIKey.objects.filter(key_hash=key_hash, revoked=None, expires__gt=now)


_LIVE = Prepared(_live, related=["user"], key_hash=str, now=datetime)


def note_use(row: "APIKey") -> None:
    """Write down that a key was used, where that was not done lately.

    Of requests that come together one writes. A database that cannot be written to now is no reason to turn anybody
    away.
    """
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    now = timezone.now()
    if row.last_used is not None and now - row.last_used < USED_EVERY:
        return
    connection = connections[router.db_for_write(APIKey)]
    # In a transaction of somebody else's, a statement that fails must not take all the others with it.
    guard = transaction.atomic(connection.alias) if connection.in_atomic_block else nullcontext()
    try:
        with guard:
            unchanged = APIKey.objects.filter(pk=row.pk, last_used=row.last_used)
            unchanged.update(last_used=now)
    except DatabaseError as error:
        logger.debug("the last use of API key %s could not be written: %s", row.prefix, error)
