"""``APIKeys``: callers who send an API key. One query, and every few minutes one more."""

import dataclasses
import logging
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from django.db import DatabaseError, connections, router, transaction
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.base import Authenticator, Head, InvalidToken, bearer
from django_mcp.auth.keys import hash_of, is_key, is_well_formed
from django_mcp.conf import settings
from django_mcp.core.database import Prepared
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_mcp.models import APIKey

PARAMETER = "api_key"
"""Its name in a URL's query."""
MOST_TOGETHER = 32
"""Keys in one query."""
USED_EVERY = timedelta(minutes=5)
"""How exact ``last_used`` is."""

logger = logging.getLogger("django_mcp")


class APIKeys(Authenticator):
    """API keys, as ``Authorization: Bearer mcp_key_…`` or ``X-API-Key: mcp_key_…``.

    Where ``DJANGO_MCP["API_KEYS_IN_URL"]`` is on, also as ``?api_key=mcp_key_…``. Bodies and cookies are never
    looked at.
    """

    most_together = MOST_TOGETHER

    @sensitive_variables()
    def authenticate(self, head: Head, server: MCPServer) -> Principal | None:
        """The user of a key that opens this endpoint.

        Raises:
            InvalidToken: whatever is wrong with it, or there are several.
        """
        (found,) = self.authenticate_together([head], server)
        if isinstance(found, Exception):
            raise found
        return found

    @sensitive_variables()
    def authenticate_together(self, heads: Sequence[Head], server: MCPServer) -> Sequence[Principal | Exception | None]:
        """The users of keys that open this endpoint. One query for all."""
        sent = [keys_in(head) for head in heads]
        wanted = {keys[0] for keys in sent if len(keys) == 1 and is_well_formed(keys[0])}
        rows = find_keys(wanted)
        return [self._caller(rows.get(keys[0]) if len(keys) == 1 else None, server) if keys else None for keys in sent]

    def _caller(self, row: "APIKey | None", server: MCPServer) -> Principal | InvalidToken:
        if row is None or not row.user.is_active or server.name not in row.endpoints:
            return InvalidToken()
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


def renewed(principal: Principal, server: MCPServer) -> Principal | None:
    """Return the principal with the key's current scopes, or None if it no longer opens the endpoint."""
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    good = APIKey.objects.filter(
        pk=principal.credential, user=principal.user.pk, revoked=None, expires__gt=timezone.now()
    )
    row = good.first()
    if row is None or server.name not in row.endpoints:
        return None
    return dataclasses.replace(principal, scopes=frozenset(row.scopes), expires=row.expires)


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
    return find_keys([key]).get(key)


@sensitive_variables()
def find_keys(keys: Collection[str]) -> "dict[str, APIKey]":
    """The rows of those that are neither revoked nor expired, and their users, by key. One query, or none for none."""
    if not keys:
        return {}
    hashes = {hash_of(key): key for key in keys}
    given = list(hashes)
    size = 1 << (len(given) - 1).bit_length()  # few sizes, so that few statements have to be put together
    given += given[-1:] * (size - len(given))
    named = {f"hash_{place}": each for place, each in enumerate(given)}
    return {hashes[row.key_hash]: row for row in _prepared(size).all(now=timezone.now(), **named)}


def _live(now: datetime, **hashes: str) -> "QuerySet[APIKey]":
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    return APIKey.objects.filter(key_hash__in=list(hashes.values()), revoked=None, expires__gt=now)


@cache
def _prepared(size: int) -> Prepared:
    return Prepared(_live, related=["user"], now=datetime, **{f"hash_{place}": str for place in range(size)})


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
