"""Who calls an endpoint, and whether their credential is enough for what they ask: 401 and 403, before any answer.

One credential a request (RFC 6750, section 3.1); a bad one is never as good as none; and every refusal says what a
client needs to do better (2026-07-28, Authorization, Error Handling).
"""

import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from django.db import DatabaseError, InterfaceError

from django_mcp.auth import protected_resource
from django_mcp.auth.api_keys import keys_in_query
from django_mcp.auth.base import Authenticator, AuthorizationServerAway, Head, InvalidToken, authenticators, bearer
from django_mcp.conf import settings
from django_mcp.core.channel import Channel
from django_mcp.core.concurrency import Pool, Runner
from django_mcp.core.context import Context
from django_mcp.core.database import NOT_MIGRATED, is_unmigrated
from django_mcp.core.dispatch import named
from django_mcp.core.failures import log_seldom
from django_mcp.core.permissions import Right, covers, find_right
from django_mcp.core.policies import book
from django_mcp.core.principal import Principal
from django_mcp.core.server import MCPServer
from django_mcp.endpoint.lookups import Outcome, lookups
from django_mcp.endpoint.messages import Refusal


async def find_caller(head: Head, server: MCPServer, runner: Runner) -> Principal:
    """The caller of a request.

    Raises:
        Refusal: 400 for two credentials, 401 for none or a bad one, 403 where every call needs more scopes than it has,
            503 where nobody can tell just now.
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
            raise _refusal(server, 401, None, "This endpoint needs a credential.")
        if sent and principal.is_anonymous and len(authenticators(server)) > 1:
            raise InvalidToken  # of no kind that is known here; whoever sends one does not mean to be nobody
    except InvalidToken:
        raise _refusal(server, 401, "invalid_token", protected_resource.INVALID_TOKEN) from None
    except (AuthorizationServerAway, DatabaseError, InterfaceError) as error:
        raise _away(error) from error
    if principal.scopes is not None and not covers(principal.scopes, server.scopes):
        raise too_little(server, principal, server.scopes)
    return principal


def _away(error: Exception) -> Refusal:
    """503: a client that were told 401 would throw away a credential that may be good."""
    log_seldom(logging.ERROR, "Nobody can be recognised: %s", error)
    after = error.retry_after if isinstance(error, AuthorizationServerAway) else 5
    headers = [("Retry-After", f"{after:.0f}"), ("Cache-Control", "no-store")]
    words = "It cannot be told just now who is calling. Try again later."
    return Refusal(503, NOT_MIGRATED if is_unmigrated(error) else words, headers)


class _Asked(NamedTuple):
    """What an authenticator looks at in a request."""

    host: str
    shown: Hashable

    def __repr__(self) -> str:
        """Without the credential: error reports show what variables are called."""
        return f"_Asked({self.host})"


async def _look_up(authenticator: Authenticator, head: Head, server: MCPServer, runner: Runner) -> Principal | None:
    shown = authenticator.shown(head)
    if shown is not None and not shown:  # it holds nothing for this one, and a thread need not say so
        return None
    if shown is None or not isinstance(runner, Pool):
        return await runner.sync(partial(_recognise, authenticator, head, server))
    asked = _Asked(head.host, shown)
    most = 1 if server.user_passes_test is not None else authenticator.most_together
    group = (authenticator, server) if most > 1 else (authenticator, server, asked)
    return await lookups.find(runner, group, asked, head, partial(_recognise_all, authenticator, server), most)


def _recognise_all(authenticator: Authenticator, server: MCPServer, heads: Sequence[Head]) -> Sequence[Outcome]:
    """``_recognise`` for requests that come together."""
    if len(heads) > 1:
        return authenticator.authenticate_together(heads, server)
    try:
        return [_recognise(authenticator, heads[0], server)]
    except Exception as error:  # noqa: BLE001 - it belongs to who asked
        return [error]


def _recognise(authenticator: Authenticator, head: Head, server: MCPServer) -> Principal | None:
    """In one hop: who it is, and whether the endpoint is for them."""
    principal = authenticator.authenticate(head, server)
    if principal is not None and server.user_passes_test is not None and not server.user_passes_test(principal.user):
        raise InvalidToken
    return principal


async def require_scopes(
    server: MCPServer, principal: Principal, runner: Runner, edge: Callable[[], Any], value: Any
) -> None:
    """Turn down messages for which the caller's client has to ask for more scopes first.

    It is decided here, before anything is run or sent: once a stream is open, a client does not step up. What the
    caller may not know of anyhow is let through, to be answered like anything else that does not exist.

    Args:
        server: the endpoint.
        principal: the caller, whose client can ask for more.
        runner: for permissions, which may be queries.
        edge: gives a Django request for it.
        value: the message or batch, decoded but not looked at.

    Raises:
        Refusal: 403 ``insufficient_scope``, with all scopes that are needed.
    """
    needed: set[str] = set()
    for message in value if isinstance(value, list) else [value]:
        match message:
            case {"method": str(method), "params": dict(params)}:
                context = Context(server, principal, runner, edge, 0, method, params, None, {}, Channel())
                for primitive in named(server, method, params):
                    right = await find_right(context, primitive)
                    if right is Right.KNOW and book.is_due:  # what was blocked meanwhile asks for no scopes
                        await book.refresh(runner)
                        right = await find_right(context, primitive)
                    if right is Right.USE:
                        break
                    if right is Right.KNOW:
                        needed |= primitive.scopes
                        break
    if needed:
        raise too_little(server, principal, needed)


def too_little(server: MCPServer, principal: Principal, needed: Iterable[str]) -> Refusal:
    """403, with all that the client should ask for: what it has too, for it may replace its token by the new one."""
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
    refusal.is_of_caller = error is not None  # without a credential a client only asks where to get one
    return refusal
