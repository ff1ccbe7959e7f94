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
from collections.abc import Collection, Iterable, Sequence
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from django.core.exceptions import ValidationError
from django.db import DatabaseError, connections, router, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_variables

from django_mcp.auth.base import Credential, InvalidToken, OwnAuthentication, RequestHead, authenticators, bearer
from django_mcp.conf import APPROVALS_SCOPE, settings
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
    return token.startswith(PREFIX)


def make_key() -> str:
    secret = _base62(secrets.randbits(256), 43)
    return PREFIX + secret + _checksum(secret)


def is_well_formed(key: str) -> bool:
    # The checksum saves a query for mistyped keys.
    match = _SHAPE.fullmatch(key)
    return match is not None and secrets.compare_digest(_checksum(match[1]), match[2])


def hash_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def create_key(
    user: Any,
    name: str,
    *,
    endpoints: Collection[str] | None = None,
    scopes: Collection[str] | None = None,
    days: int | None = None,
    read_only: bool = False,
) -> "tuple[APIKey, str]":
    """Create an API key for a user.

    Args:
        name: what the key is for.
        endpoints: names of endpoints; by default the default endpoint, if it accepts API keys.
        scopes: by default those that every call at the endpoints needs.
        days: lifetime, at most ``DJANGO_MCP["MAX_API_KEY_DAYS"]``; by default 90, or that if less.
        read_only: True limits the key to tools that change nothing, resources and prompts.

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
        read_only=read_only,
        expires=timezone.now() + timedelta(days=life),
    )
    logger.info("API key %s was created for user %s, until %s", row.prefix, user.pk, row.expires.date())
    return row, key


def find_problems(
    user: Any, name: str, endpoints: Sequence[str], scopes: Collection[str] | None, days: int
) -> dict[str, str]:
    """Return errors in the arguments of ``create_key``, by argument."""
    served = {server.name for server in servers()}
    foreign = [endpoint for endpoint in endpoints if endpoint not in served]
    offered = scopes_of_keys()
    unknown = [scope for scope in scopes or () if scope not in offered]
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
            % {"wrong": "”, “".join(unknown), "right": ", ".join(offered)},
        ),
        "days": (
            not 1 <= days <= settings.MAX_API_KEY_DAYS,
            _("The lifetime must be from 1 to %d days (DJANGO_MCP['MAX_API_KEY_DAYS']).") % settings.MAX_API_KEY_DAYS,
        ),
    }
    return {argument: words for argument, (wrong, words) in checks.items() if wrong}


def scopes_of_keys() -> list[str]:
    # Approvals are decided by people, and a program may hold a key.
    return [name for name in declared() if name != APPROVALS_SCOPE]


@database.retry_conflicts
def revoke_key(row: "APIKey") -> bool:
    """Revoke a key, and end its streams and tasks.

    Returns:
        False if it was revoked before.
    """
    from django_mcp.models import APIKey  # noqa: PLC0415
    from django_mcp.pubsub.publish import end_access  # noqa: PLC0415 - needs the app registry

    now = timezone.now()
    with database.atomic():
        # Of several concurrent requests, one changes the row and ends the streams.
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
    return any(isinstance(authenticator, APIKeyAuthentication) for authenticator in authenticators(server))


def _default_endpoints() -> list[str]:
    return [server.name for server in servers() if server.name == "default" and takes_keys(server)]


def _base_scopes(endpoints: Collection[str]) -> set[str]:
    return {scope for server in servers() if server.name in endpoints for scope in server.scopes}


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
USED_EVERY = timedelta(minutes=5)
"""Resolution of ``last_used``."""


class APIKeyAuthentication(OwnAuthentication, is_exact=True):
    """API keys, as ``Authorization: Bearer mcp_key_…`` or ``X-API-Key: mcp_key_…``.

    With ``DJANGO_MCP["API_KEYS_IN_URL"]`` also as ``?api_key=mcp_key_…``.
    """

    @sensitive_variables()
    def authenticate(self, head: RequestHead, server: MCPServer) -> Principal | None:
        keys = APIKeyAuthentication.credential_key(self, head)  # a subclass may share lookups by more
        return self.authenticate_key(keys, server) if keys else None

    @sensitive_variables()
    def authenticate_key(self, key: tuple[str, ...], server: MCPServer) -> Principal:
        row: APIKey | None = None
        if len(key) == 1 and is_well_formed(key[0]):
            row = _LIVE.first(key_hash=hash_of(key[0]), now=timezone.now())
        principal = _principal_of(row, server)
        if row is None or principal is None:
            raise InvalidToken
        note_use(row)
        return principal

    def find_ended(self, principals: Sequence[Principal], server: MCPServer) -> Iterable[Principal]:
        from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

        # The test client's callers have no key.
        mine = [principal for principal in principals if principal.kind == "api_key" and principal.credential]
        if not mine:
            return []
        # A replica may not know yet of a revocation.
        keys = APIKey.objects.using(router.db_for_write(APIKey))
        rows = keys.filter(pk__in={principal.credential for principal in mine}, revoked=None)
        found = {str(row.pk): row for row in rows.filter(expires__gt=timezone.now()).select_related("user")}
        now = [_principal_of(found.get(principal.credential), server) for principal in mine]
        return [
            principal
            for principal, current in zip(mine, now, strict=True)
            if current is None
            or (current.user.pk, current.scopes, current.read_only)
            != (principal.user.pk, principal.scopes, principal.read_only)
        ]

    @sensitive_variables()
    def credential_key(self, head: RequestHead) -> tuple[str, ...]:
        """Return every API key in a request."""
        token = bearer(head.headers) if "authorization" in head.headers else None
        keys = [token] if token is not None and is_key(token) else []
        if key := head.headers.get("x-api-key", "").strip():
            keys.append(Credential(key))
        if settings.API_KEYS_IN_URL:
            keys += keys_in_query(head.query)
        return tuple(keys)


def _principal_of(row: "APIKey | None", server: MCPServer) -> Principal | None:
    if row is None or not row.user.is_active or server.name not in row.endpoints:
        return None
    return Principal(
        kind="api_key",
        id=str(row.pk),
        user=row.user,
        scopes=frozenset(row.scopes),
        credential=str(row.pk),
        expires=row.expires,
        read_only=row.read_only,
    )


def renewed(principal: Principal, server: MCPServer) -> Principal | None:
    """Return the principal with the key's current scopes, or None if the key no longer opens the endpoint."""
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    keys = APIKey.objects.using(router.db_for_write(APIKey))  # likewise
    good = keys.filter(pk=principal.credential, user=principal.user.pk, revoked=None, expires__gt=timezone.now())
    row = good.first()
    if row is None or server.name not in row.endpoints:
        return None
    return dataclasses.replace(principal, scopes=frozenset(row.scopes), expires=row.expires, read_only=row.read_only)


@sensitive_variables()
def keys_in_query(query: str) -> list[Credential]:
    return [Credential(value) for name, value in parse_qsl(query, keep_blank_values=True) if name == PARAMETER]


def _live(key_hash: str, now: datetime) -> "QuerySet[APIKey]":
    from django_mcp.models import APIKey  # noqa: PLC0415 - needs the app registry

    return APIKey.objects.filter(key_hash=key_hash, revoked=None, expires__gt=now)


_LIVE = Prepared(_live, related=["user"], key_hash=str, now=datetime)


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
            # The value that was read is compared: of requests that come together, one writes.
            unchanged = APIKey.objects.filter(pk=row.pk, last_used=row.last_used)
            unchanged.update(last_used=now)
    except DatabaseError as error:
        logger.debug("last_used of API key %s could not be saved: %s", row.prefix, error)
