"""Authentication and scope checks of requests, with shared lookups of credentials.

Requests with the same credential share one lookup. A request never joins a lookup that began before it arrived, so a
credential revoked meanwhile is refused.

A request has one credential (RFC 6750, section 3.1), and a bad one is never treated as none (2026-07-28, Authorization,
Error Handling).
"""

import asyncio
import copy
import logging
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from django.db import DatabaseError, DataError, InterfaceError
from django.db.models import Model
from django.db.models.base import ModelState

from django_mcp.auth import protected_resource
from django_mcp.auth.api_keys import keys_in_query
from django_mcp.auth.base import (
    AuthenticationUnavailable,
    BaseAuthentication,
    InvalidToken,
    OwnAuthentication,
    RequestHead,
    bearer,
    required_authenticators,
)
from django_mcp.conf import settings
from django_mcp.core.after_fork import reset_after_fork
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import NoThread, Pool, Runner
from django_mcp.core.context import Context
from django_mcp.core.database import NOT_MIGRATED, is_unmigrated
from django_mcp.core.dispatch import named_primitives
from django_mcp.core.permissions import Right, admits, covers, find_right
from django_mcp.core.policies import policy_cache
from django_mcp.core.principal import Principal
from django_mcp.core.rate_limited_log import log_rate_limited
from django_mcp.core.request import CallSource
from django_mcp.core.server import MCPServer
from django_mcp.protocol.jsonrpc import Request
from django_mcp.protocol.meta import APPS, APPS_SETTINGS, CLIENT_CAPABILITIES, CLIENT_INFO
from django_mcp.transports.base import Refusal


class Lookups:
    """Lookups of credentials that wait for a thread, by event loop and credential. Later requests join them."""

    def __init__(self) -> None:
        self.after_fork()
        reset_after_fork(self)

    def after_fork(self) -> None:
        # A request that joined a lookup of the parent would wait for a thread that the child does not have.
        self._queued: dict[tuple[asyncio.AbstractEventLoop, Hashable], asyncio.Future[Principal | None]] = {}

    async def find(self, pool: Pool, credential: Hashable, look_up: Callable[[], Principal | None]) -> Principal | None:
        """Return the caller of a request.

        Args:
            pool: runs the lookup.
            credential: all that the lookup reads of the request; equal ones have equal callers.
            look_up: returns the caller; may block.
        """
        loop = asyncio.get_running_loop()
        key = loop, credential
        lookup = self._queued.get(key)
        if lookup is None:
            # In the table before a thread can begin it, and out of it as soon as one does.
            lookup = self._queued[key] = loop.create_future()
            lookup.add_done_callback(asyncio.Future.exception)  # retrieved even if all have left
            try:
                pool.submit(partial(self._begin, key, look_up), lookup)
            except BaseException:
                # No thread will begin this lookup, so nothing else removes it.
                del self._queued[key]
                raise
        principal = await asyncio.shield(lookup)  # a request that is cancelled must not cancel the others' lookup
        # Permissions are cached on the user, and tools may change it, so each call gets its own copy.
        return None if principal is None else replace(principal, user=_copied(principal.user))

    def _begin(
        self, key: tuple[asyncio.AbstractEventLoop, Hashable], look_up: Callable[[], Principal | None]
    ) -> Principal | None:
        del self._queued[key]  # requests that arrive from now on may know of a revocation that this lookup misses
        return look_up()


def _copied(user: Any) -> Any:
    # copy.copy() is slow for model instances.
    if not isinstance(user, Model):
        return copy.copy(user)
    own, state = type(user).__new__(type(user)), ModelState()
    vars(own).update(vars(user), _state=state)
    vars(state).update(vars(user._state), fields_cache=user._state.fields_cache.copy())  # noqa: SLF001 - documented
    return own


lookups = Lookups()


async def find_caller(head: RequestHead, server: MCPServer, runner: Runner) -> Principal:
    """Return the caller of a request.

    Raises:
        Refusal: 400 for two credentials, 401 for none or a bad one, 403 if scopes of the endpoint are missing, 503 if
            authentication is unavailable.
    """
    try:
        token = bearer(head.headers) if "authorization" in head.headers else None
        in_header = "x-api-key" in head.headers and head.headers["x-api-key"] != ""
        in_url = settings.API_KEYS_IN_URL and bool(keys_in_query(head.query))
        sent = token is not None or in_header or in_url
        if sent and (token is not None) + in_header + in_url > 1:
            raise Refusal(400, "Send one credential: either Authorization or an API key, not both.")
        known = required_authenticators(server)
        for authenticator in known:
            if authenticator.blocking or server.user_passes_test is not None:
                principal = await _look_up(authenticator, head, server, runner)
            else:
                principal = authenticator.authenticate(head, server)
            if principal is not None:
                break
        else:
            if token is not None:
                raise InvalidToken
            raise _refusal(server, 401, None, "Authentication required: this endpoint needs a credential.")
        if sent and len(known) > 1 and principal.is_anonymous:
            raise InvalidToken  # a credential of an unknown kind must not count as anonymous access
    except (InvalidToken, DataError) as error:
        raise _bad_credential(head, server, error) from None
    except (AuthenticationUnavailable, DatabaseError, InterfaceError, NoThread) as error:
        raise _unavailable(error) from error
    if principal.scopes is not None and not covers(principal.scopes, server.scopes):  # saves a call
        raise insufficient_scope(server, principal, server.scopes)
    return principal


_VARIABLE = re.compile(r"\$\{\w+(?::-[^}]*)?\}|\$\w+|%\w+%|\$\{(?:env|input):[\w-]+\}")


def _bad_credential(head: RequestHead, server: MCPServer, error: Exception) -> Refusal:
    # The database rejects credentials with a NUL or with a number that is too large. That is no outage.
    if isinstance(error, DataError):
        log_rate_limited(logging.WARNING, "the database rejected a credential: %s", error)
    _scheme, _space, token = head.headers.get("authorization", "").partition(" ")
    sent = token.strip() or head.headers.get("x-api-key", "").strip()
    is_name = _VARIABLE.fullmatch(sent[:200]) is not None
    words = protected_resource.UNSET_VARIABLE if is_name else protected_resource.INVALID_TOKEN
    return _refusal(server, 401, "invalid_token", words)


def _unavailable(error: Exception) -> Refusal:
    # After a 401 the client would discard a credential that may be valid.
    log_rate_limited(logging.ERROR, "authentication is unavailable: %s", error)
    after = error.retry_after if isinstance(error, AuthenticationUnavailable) else 5
    headers = [("Retry-After", f"{after:.0f}"), ("Cache-Control", "no-store")]
    words = "Authentication is temporarily unavailable. Retry later."
    return Refusal(503, NOT_MIGRATED if is_unmigrated(error) else words, headers)


class _Credential(NamedTuple):
    """What a lookup depends on."""

    authenticator: BaseAuthentication
    server: MCPServer
    host: str
    key: Hashable

    def __repr__(self) -> str:
        # The credential is left out, because error reports show local variables.
        return f"_Credential({self.host})"


async def _look_up(
    authenticator: BaseAuthentication, head: RequestHead, server: MCPServer, runner: Runner
) -> Principal | None:
    key = authenticator.credential_key(head)
    if key is not None and not key:  # no credential for this class
        return None
    look_up: Callable[[], Principal | None]
    if (
        key is not None
        and isinstance(authenticator, OwnAuthentication)
        and authenticator.is_exact
        and server.user_passes_test is None
    ):
        look_up, runner = partial(authenticator.authenticate_key, key, server), runner.own
    else:
        look_up, runner = partial(_authenticate, authenticator, head, server), runner.checks
    if key is None or not isinstance(runner, Pool):
        return await runner.sync(look_up)
    return await lookups.find(runner, _Credential(authenticator, server, head.host, key), look_up)


def _authenticate(authenticator: BaseAuthentication, head: RequestHead, server: MCPServer) -> Principal | None:
    principal = authenticator.authenticate(head, server)
    if principal is not None and not admits(server, principal.user):
        raise InvalidToken
    return principal


async def require_scopes(
    server: MCPServer, principal: Principal, runner: Runner, get_django_request: Callable[[], Any], value: Any
) -> None:
    """Refuse messages for which the client must first request more scopes.

    Checked before anything runs: clients ignore the error once a stream is open. Primitives that the caller may not
    know of pass, to be answered as unknown. *value* is the decoded message or batch, unvalidated.

    Raises:
        Refusal: 403 ``insufficient_scope``, with all required scopes.
    """
    needed: set[str] = set()
    about: Any = None
    for message in value if isinstance(value, list) else [value]:
        match message:
            case {"method": str(method), "params": dict(params)}:
                client, declared = _client_of(params)
                source = CallSource(server, principal, runner, get_django_request)
                context = Context(source, Request(0, method, params), Channel(), client, declared)
                for primitive in named_primitives(server, method, params):
                    right = await find_right(context, primitive)
                    if right is Right.KNOW and policy_cache.is_due:  # a tool blocked meanwhile requires no scopes
                        await policy_cache.refresh(runner)
                        right = await find_right(context, primitive)
                    if right is Right.USE:
                        break
                    if right is Right.KNOW:
                        needed |= primitive.scopes
                        about = message if about is None else about
                        break
    if needed:
        refusal = insufficient_scope(server, principal, needed)
        refusal.about = about
        raise refusal


def _client_of(params: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    # Older clients have theirs in the session, which is read later. They are treated as clients that show apps, so that
    # these can request the scopes of tools for apps. For other clients, such a tool is unknown once they have the
    # scopes.
    found = params.get("_meta")
    found = found if isinstance(found, dict) else {}
    declared = found.get(CLIENT_CAPABILITIES)
    shows_apps = {"extensions": {APPS: APPS_SETTINGS}}
    return found.get(CLIENT_INFO), declared if isinstance(declared, dict) else shows_apps


def insufficient_scope(server: MCPServer, principal: Principal, needed: Iterable[str]) -> Refusal:
    """Return a 403 with all scopes to request, present ones too: the new token may replace the old."""
    scopes = {*server.scopes, *needed, *(principal.scopes or ())}
    refusal = _refusal(server, 403, "insufficient_scope", "The access token does not allow this operation.", scopes)
    refusal.principal = principal
    return refusal


def _refusal(
    server: MCPServer, status: int, error: str | None, description: str, scopes: Iterable[str] | None = None
) -> Refusal:
    value = protected_resource.challenge(server, error, description if error else "", scopes)
    headers = [("WWW-Authenticate", value), ("Cache-Control", "no-store")]
    code = error or "invalid_token"
    refusal = Refusal(status, description, headers, protected_resource.body(code, description))
    refusal.is_of_caller = error is not None  # without a credential clients only discover where to get one
    return refusal
