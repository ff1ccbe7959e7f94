"""API keys: format, creation, revocation and authentication.

A key is shown once and stored as a hash, which may be a fast one for 256 random bits.
"""

import binascii
import dataclasses
import enum
import hashlib
import logging
import re
import secrets
import string
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from django.core.exceptions import ValidationError
from django.db import DatabaseError, connections, router, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.base import BaseAuthentication, InvalidToken, RequestHead, bearer
from django_mcp.conf import settings
from django_mcp.core import database
from django_mcp.core.database import Prepared
from django_mcp.core.permissions import declared
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer, servers

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from django_mcp.models import APIKey

PREFIX = "mcp_key_"
"""Tells keys from tokens, and lets secret scanners find leaked keys."""
SHOWN = len(PREFIX) + 6
"""Length of the stored beginning, which identifies a key to people."""
DAYS = 90
"""Default lifetime in days."""

_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SHAPE = re.compile(PREFIX + r"([0-9A-Za-z]{43})([0-9A-Za-z]{6})")

logger = logging.getLogger("django_mcp")


def is_key(token: str) -> bool:
    """Return True if *token* has the prefix of an API key."""
    return token.startswith(PREFIX)


def make_key() -> str:
    """Return a new key: prefix, 256 random bits in base 62, checksum."""
    secret = _base62(secrets.randbits(256), 43)
    return PREFIX + secret + _checksum(secret)


def is_well_formed(key: str) -> bool:
    """Return True if format and checksum are correct. Mistyped keys need no query."""
    match = _SHAPE.fullmatch(key)
    return match is not None and secrets.compare_digest(_checksum(match[1]), match[2])


def hash_of(key: str) -> str:
    """Return the SHA-256 that is stored of a key, in hexadecimal."""
    return hashlib.sha256(key.encode()).hexdigest()


def create_key(
    user: Any,
    name: str,
    *,
    endpoints: Collection[str] | None = None,
    scopes: Collection[str] | None = None,
    days: int | None = None,
) -> "tuple[APIKey, str]":
    """Create an API key for a user.

    Args:
        name: what the key is for.
        endpoints: names of endpoints; by default the default endpoint, if it accepts API keys.
        scopes: by default those that every call at the endpoints needs.
        days: lifetime, at most ``DJANGO_MCP["MAX_API_KEY_DAYS"]``; by default 90, or that if less.

    Returns:
        the row, and the key, which cannot be retrieved later.

    Raises:
        ValidationError: by argument.
    """
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    chosen = _default_endpoints() if endpoints is None else list(dict.fromkeys(endpoints))
    life = min(DAYS, settings.MAX_API_KEY_DAYS) if days is None else days
    problems = find_problems(user, name, chosen, scopes, life)
    if problems:
        raise ValidationError({argument: [words] for argument, words in problems.items()})
    key = make_key()
    row = APIKey.objects.create(
        key_hash=hash_of(key),
        prefix=key[:SHOWN],
        name=name.strip(),
        user=user,
        endpoints=chosen,
        scopes=sorted(_base_scopes(chosen) if scopes is None else set(scopes)),
        expires=timezone.now() + timedelta(days=life),
    )
    logger.info("API key %s was created for user %s, until %s", row.prefix, user.pk, row.expires.date())
    return row, key


def find_problems(
    user: Any, name: str, endpoints: Sequence[str], scopes: Collection[str] | None, days: int
) -> dict[str, str]:
    """Return errors in the arguments of ``create_key``, by argument."""
    served = {each.name for each in servers()}
    foreign = [each for each in endpoints if each not in served]
    unknown = [each for each in scopes or () if each not in declared()]
    checks = {
        "user": (not user.is_active, _("This user is inactive. Choose an active user.")),
        "name": (not 1 <= len(name.strip()) <= 100, _("The name must have 1 to 100 characters.")),  # noqa: PLR2004
        "endpoints": (
            bool(foreign) or not endpoints,
            _("There is no endpoint “%(wrong)s”. Available endpoints: %(right)s.")
            % {"wrong": "”, “".join(foreign), "right": ", ".join(sorted(served))}
            if foreign
            else _("Choose at least one endpoint. Available endpoints: %s.") % ", ".join(sorted(served)),
        ),
        "scopes": (
            bool(unknown),
            _("There is no scope “%(wrong)s”. Available scopes: %(right)s.")
            % {"wrong": "”, “".join(unknown), "right": ", ".join(declared())},
        ),
        "days": (
            not 1 <= days <= settings.MAX_API_KEY_DAYS,
            _("The lifetime must be from 1 to %d days (DJANGO_MCP['MAX_API_KEY_DAYS']).") % settings.MAX_API_KEY_DAYS,
        ),
    }
    return {argument: words for argument, (wrong, words) in checks.items() if wrong}


def revoke_key(row: "APIKey") -> bool:
    """Revoke a key, and end its streams and tasks.

    Returns:
        False if it was revoked before.
    """
    from django_mcp.models import APIKey  # noqa: PLC0415
    from django_mcp.pubsub.publish import end_access  # noqa: PLC0415 - needs the app registry

    now = timezone.now()
    with database.atomic():
        changed = APIKey.objects.filter(pk=row.pk, revoked=None).update(revoked=now)
        if changed:
            row.revoked = now
            end_access("api_key", str(row.pk))
    if changed:
        logger.info("API key %s of user %s was revoked", row.prefix, row.user_id)
    return bool(changed)


class State(enum.Enum):
    """The state of an API key."""

    ACTIVE = "active"
    REVOKED = "revoked"
    EXPIRED = "expired"
    USER_INACTIVE = "user inactive"


def state_of(row: "APIKey") -> State:
    """Return a key's state: the first reason why it cannot be used."""
    if row.revoked is not None:
        return State.REVOKED
    if row.expires <= timezone.now():
        return State.EXPIRED
    return State.ACTIVE if row.user.is_active else State.USER_INACTIVE


def takes_keys(server: MCPServer) -> bool:
    """Return True if an endpoint accepts API keys."""
    from django_mcp.auth.base import authenticators  # noqa: PLC0415

    return any(isinstance(each, APIKeyAuthentication) for each in authenticators(server))


def _default_endpoints() -> list[str]:
    return [each.name for each in servers() if each.name == "default" and takes_keys(each)]


def _base_scopes(endpoints: Collection[str]) -> set[str]:
    return {scope for each in servers() if each.name in endpoints for scope in each.scopes}


def _checksum(secret: str) -> str:
    return _base62(binascii.crc32(secret.encode()), 6)


def _base62(number: int, length: int) -> str:
    digits = ""
    for _place in range(length):
        number, digit = divmod(number, 62)
        digits = _DIGITS[digit] + digits
    return digits


PARAMETER = "api_key"
"""Name of the query parameter."""
MAX_TOGETHER = 32
"""Maximum number of keys per query."""
USED_EVERY = timedelta(minutes=5)
"""Resolution of ``last_used``."""


class APIKeyAuthentication(BaseAuthentication):
    """API keys, as ``Authorization: Bearer mcp_key_…`` or ``X-API-Key: mcp_key_…``.

    With ``DJANGO_MCP["API_KEYS_IN_URL"]`` also as ``?api_key=mcp_key_…``.
    """

    most_together = MAX_TOGETHER

    @sensitive_variables()
    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        """Return the user of a key for this endpoint.

        Raises:
            InvalidToken: the key is invalid, or there are several.
        """
        (found,) = self.authenticate_together([head], server)
        if isinstance(found, Exception):
            raise found
        return found

    @sensitive_variables()
    def authenticate_together(
        self, heads: Sequence[RequestHead], server: MCPServer
    ) -> Sequence[Principal | Exception | None]:
        """Look up several keys with one query."""
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
    def shown(self, head: RequestHead) -> tuple[str, ...]:
        """Return the keys."""
        return tuple(keys_in(head))


def renewed(principal: Principal, server: MCPServer) -> Principal | None:
    """Return the principal with the key's current scopes, or None if the key no longer opens the endpoint."""
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    good = APIKey.objects.filter(
        pk=principal.credential, user=principal.user.pk, revoked=None, expires__gt=timezone.now()
    )
    row = good.first()
    if row is None or server.name not in row.endpoints:
        return None
    return dataclasses.replace(principal, scopes=frozenset(row.scopes), expires=row.expires)


@sensitive_variables()
def keys_in(head: RequestHead) -> list[str]:
    """Return every API key in a request."""
    token = bearer(head.headers)
    keys = [token] if token is not None and is_key(token) else []
    if key := head.headers.get("x-api-key", "").strip():
        keys.append(key)
    if settings.API_KEYS_IN_URL:
        keys += keys_in_query(head.query)
    return keys


@sensitive_variables()
def keys_in_query(query: str) -> list[str]:
    """Return the values of ``api_key`` in a query string, even empty ones."""
    return [value for name, value in parse_qsl(query, keep_blank_values=True) if name == PARAMETER]


@sensitive_variables("key")
def find_key(key: str) -> "APIKey | None":
    """Return a valid key's row and user, or None. One query."""
    return find_keys([key]).get(key)


@sensitive_variables()
def find_keys(keys: Collection[str]) -> "dict[str, APIKey]":
    """Return rows and users of valid keys, by key. At most one query."""
    if not keys:
        return {}
    hashes = {hash_of(key): key for key in keys}
    given = list(hashes)
    size = 1 << (len(given) - 1).bit_length()  # powers of two, to limit the number of prepared statements
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
    """Update ``last_used`` every ``USED_EVERY``.

    One of several concurrent requests writes. Database errors must not deny a request.
    """
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    now = timezone.now()
    if row.last_used is not None and now - row.last_used < USED_EVERY:
        return
    connection = connections[router.db_for_write(APIKey)]
    # A failed statement must not break a transaction that is already open.
    guard = transaction.atomic(connection.alias) if connection.in_atomic_block else nullcontext()
    try:
        with guard:
            unchanged = APIKey.objects.filter(pk=row.pk, last_used=row.last_used)
            unchanged.update(last_used=now)
    except DatabaseError as error:
        logger.debug("last_used of API key %s could not be saved: %s", row.prefix, error)
