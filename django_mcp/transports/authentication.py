"""Authentication and scope checks of requests, with shared lookups of credentials.

A request that arrives during a lookup waits for the next one, which it shares with all other waiting requests. So a
credential revoked meanwhile is refused.

Requests that arrive in the same turns of the event loop are looked up together, and stay together in the tool and the
request log. A single request does not wait.

A request has one credential (RFC 6750, section 3.1), and a bad one is never treated as none (2026-07-28, Authorization,
Error Handling).
"""

import asyncio
import contextvars
import copy
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError
from django.db.models import Model
from django.db.models.base import ModelState

from django_mcp.auth import protected_resource
from django_mcp.auth.api_keys import keys_in_query
from django_mcp.auth.base import (
    AuthorizationServerAway,
    BaseAuthentication,
    InvalidToken,
    RequestHead,
    authenticators,
    bearer,
)
from django_mcp.conf import settings
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import Pool, Runner, contained
from django_mcp.core.context import Context
from django_mcp.core.database import NOT_MIGRATED, is_unmigrated
from django_mcp.core.dispatch import named
from django_mcp.core.failures import log_rate_limited
from django_mcp.core.permissions import Right, covers, find_right
from django_mcp.core.policies import policy_cache
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.transports.base import Refusal

Outcome = Principal | Exception | None
"""The caller, an exception to raise, or None without credential."""
Find = Callable[[Sequence[RequestHead]], Sequence[Outcome]]

MAX_TURNS = 4
"""Turns of the event loop to wait for more requests."""


class _Request(NamedTuple):
    asked: Hashable
    head: RequestHead
    find: Find
    found: asyncio.Future[Principal | None]
    context: contextvars.Context


_Key = tuple[asyncio.AbstractEventLoop, Hashable]


class Lookups:
    """Shared lookups, separate for each event loop. Only ``find`` functions run in threads."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, list[_Request]] = {}

    async def find(
        self, pool: Pool, group: Hashable, asked: Hashable, head: RequestHead, find: Find, most: int = 1
    ) -> Principal | None:
        """Return the caller of a request.

        Args:
            pool: worker threads, the same for the whole group.
            group: requests of a group have one lookup at a time.
            asked: key of the credential; equal keys have equal outcomes.
            head: the request's head.
            find: returns the outcomes of heads with different keys; may block.
            most: maximum number of heads per lookup.
        """
        loop = asyncio.get_running_loop()
        key = loop, group
        request = _Request(asked, head, find, loop.create_future(), contextvars.copy_context())
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [request]
            loop.call_soon(self._gather, pool, key, most, 1, MAX_TURNS)  # after all who come in this turn
        else:
            waiting.append(request)
        return await request.found

    def _gather(self, pool: Pool, key: _Key, most: int, before: int, turns: int) -> None:
        """Start the lookup once a turn of the loop adds no request.

        Args:
            pool, key, most: see ``find``.
            before: number of waiting requests one turn ago.
            turns: remaining turns to wait.
        """
        waiting = len(self._waiting[key])
        if turns and waiting > before:
            key[0].call_soon(self._gather, pool, key, most, waiting, turns - 1)
        else:
            self._look(pool, key, most)

    def _look(self, pool: Pool, key: _Key, most: int) -> None:
        waiting = [each for each in self._waiting.pop(key) if not each.found.done()]
        if not waiting:
            return
        first = {each.asked: each.head for each in waiting[:most]}
        taken = [each for each in waiting if each.asked in first]
        self._waiting[key] = [each for each in waiting if each.asked not in first]
        looking = waiting[0].context.run(pool.submit, partial(waiting[0].find, list(first.values())))
        looking.add_done_callback(partial(self._done, pool, key, most, taken, list(first)))

    def _done(
        self,
        pool: Pool,
        key: _Key,
        most: int,
        requests: Sequence[_Request],
        asked: Sequence[Hashable],
        looking: "asyncio.Future[Sequence[Outcome]]",
    ) -> None:
        try:
            _hand_over(requests, asked, looking)
        except Exception as error:  # noqa: BLE001 - raised in waiting requests; later ones are still looked up
            for each in requests:
                if not each.found.done():
                    each.found.set_exception(error)
        self._gather(pool, key, most, 1, MAX_TURNS)


def _hand_over(
    requests: Sequence[_Request], asked: Sequence[Hashable], looking: "asyncio.Future[Sequence[Outcome]]"
) -> None:
    error = looking.exception()
    outcomes = dict(zip(asked, [error] * len(asked) if error is not None else looking.result(), strict=True))
    given: set[Hashable] = set()
    for each in requests:
        outcome = outcomes[each.asked]
        if each.found.done():  # the request was cancelled
            continue
        if isinstance(outcome, BaseException):
            each.found.set_exception(contained(outcome))
            continue
        # Permissions are cached on the user, and tools may change it, so each call gets its own copy.
        each.found.set_result(_with_own_user(outcome) if each.asked in given else outcome)
        given.add(each.asked)


def _with_own_user(principal: Principal | None) -> Principal | None:
    return None if principal is None else replace(principal, user=_copied(principal.user))


def _copied(user: Any) -> Any:
    """Copy a user; ``copy.copy`` is slow for model instances."""
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
        for authenticator in authenticators(server):
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
        if sent and principal.is_anonymous and len(authenticators(server)) > 1:
            raise InvalidToken  # a credential of an unknown kind must not count as anonymous access
    except InvalidToken:
        raise _refusal(server, 401, "invalid_token", protected_resource.INVALID_TOKEN) from None
    except (AuthorizationServerAway, DatabaseError, InterfaceError) as error:
        raise _away(error) from error
    if principal.scopes is not None and not covers(principal.scopes, server.scopes):
        raise too_little(server, principal, server.scopes)
    return principal


def _away(error: Exception) -> Refusal:
    """Return a 503: after a 401 the client would discard a credential that may be valid."""
    log_rate_limited(logging.ERROR, "authentication is unavailable: %s", error)
    after = error.retry_after if isinstance(error, AuthorizationServerAway) else 5
    headers = [("Retry-After", f"{after:.0f}"), ("Cache-Control", "no-store")]
    words = "Authentication is temporarily unavailable. Retry later."
    return Refusal(503, NOT_MIGRATED if is_unmigrated(error) else words, headers)


class _Asked(NamedTuple):
    """What an authentication class reads of a request."""

    host: str
    shown: Hashable

    def __repr__(self) -> str:
        """Hide the credential, since error reports show local variables."""
        return f"_Asked({self.host})"


async def _look_up(
    authenticator: BaseAuthentication, head: RequestHead, server: MCPServer, runner: Runner
) -> Principal | None:
    shown = authenticator.shown(head)
    if shown is not None and not shown:  # no credential for this class
        return None
    if shown is None or not isinstance(runner, Pool):
        return await runner.sync(partial(_recognise, authenticator, head, server))
    asked = _Asked(head.host, shown)
    most = 1 if server.user_passes_test is not None else authenticator.most_together
    group = (authenticator, server) if most > 1 else (authenticator, server, asked)
    return await lookups.find(runner, group, asked, head, partial(_recognise_all, authenticator, server), most)


def _recognise_all(
    authenticator: BaseAuthentication, server: MCPServer, heads: Sequence[RequestHead]
) -> Sequence[Outcome]:
    if len(heads) > 1:
        return authenticator.authenticate_together(heads, server)
    try:
        return [_recognise(authenticator, heads[0], server)]
    except Exception as error:  # noqa: BLE001 - raised in the request
        return [error]


def _recognise(authenticator: BaseAuthentication, head: RequestHead, server: MCPServer) -> Principal | None:
    """Authenticate, and check ``user_passes_test``, in one thread."""
    principal = authenticator.authenticate(head, server)
    if principal is not None and server.user_passes_test is not None and not server.user_passes_test(principal.user):
        raise InvalidToken
    return principal


async def require_scopes(
    server: MCPServer, principal: Principal, runner: Runner, edge: Callable[[], Any], value: Any
) -> None:
    """Refuse messages for which the client must first request more scopes.

    Checked before anything runs: clients ignore the error once a stream is open. Primitives that the caller may not
    know of pass, to be answered as unknown. *value* is the decoded message or batch, unvalidated.

    Raises:
        Refusal: 403 ``insufficient_scope``, with all required scopes.
    """
    needed: set[str] = set()
    for message in value if isinstance(value, list) else [value]:
        match message:
            case {"method": str(method), "params": dict(params)}:
                context = Context(server, principal, runner, edge, 0, method, params, None, {}, Channel())
                for primitive in named(server, method, params):
                    right = await find_right(context, primitive)
                    if right is Right.KNOW and policy_cache.is_due:  # a tool blocked meanwhile requires no scopes
                        await policy_cache.refresh(runner)
                        right = await find_right(context, primitive)
                    if right is Right.USE:
                        break
                    if right is Right.KNOW:
                        needed |= primitive.scopes
                        break
    if needed:
        raise too_little(server, principal, needed)


def too_little(server: MCPServer, principal: Principal, needed: Iterable[str]) -> Refusal:
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
