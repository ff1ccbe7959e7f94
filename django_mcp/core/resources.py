"""Finding resources by URI, reading them, and refreshing principals."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from django.db import models
from django.utils.encoding import iri_to_uri

from django_mcp.core.concurrency import INLINE, Pool, Runner, checks_pool, free_pool, run_inline
from django_mcp.core.failures import ABSENT
from django_mcp.core.permissions import Right, may_call, may_use, right
from django_mcp.core.principal import Principal
from django_mcp.core.request import RequestContext
from django_mcp.core.server import MCPServer
from django_mcp.primitives.base import Primitive, translated
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.content import ResourceContents, ResourceLink, check_uri
from django_mcp.protocol.errors import ResourceNotFound

T = TypeVar("T")

MAX_URIS_PER_QUERY = 1000
"""URIs per query."""
MAX_SHORT = 64 * 1024
"""Characters of a text that is encoded on the event loop."""


def matches(server: MCPServer, uri: str) -> Iterable[tuple[Resource, dict[str, Any]]]:
    """Yield the resources that match *uri*, with their arguments: a plain one first, then templates in order."""
    if (exact := server.resources.get(uri)) is not None:
        yield exact, {}
    for template in server.templates.values():
        if (arguments := template.match(uri)) is not None:
            yield template, arguments


async def readable_uris(context: RequestContext, uris: Sequence[str]) -> list[str]:
    job = partial(find_known, context, uris)
    return await context.site_runner.checks.sync(job) if may_query(context.server) else job()


def may_query(server: MCPServer) -> bool:
    """Return True if finding out which resources are readable may query the database."""
    return any(
        resource.asks_user or resource.exists is not None
        for resource in (*server.resources.values(), *server.templates.values())
    )


def find_known(context: RequestContext, uris: Sequence[str], *, afresh: bool = False) -> list[str]:
    """``readable_uris`` in the calling thread, with one query per matching resource.

    If *afresh*, the caller's user is reloaded, for streams that outlive permissions.
    """
    found: dict[Resource, list[tuple[str, dict[str, Any]]]] = {}
    for uri in uris:
        for resource, arguments in matches(context.server, uri):
            found.setdefault(resource, []).append((uri, arguments))
    if afresh and any(resource.asks_user or resource.exists is not None for resource in found):
        principal = refresh_principal(context.principal, context.server)
        if principal is None:
            return []
        context.principal = principal
    known: set[str] = set()
    for resource, wanted in found.items():
        if right(context, resource) is Right.USE:
            known.update(_existing(context, resource, wanted))
    return [uri for uri in uris if uri in known]


def _existing(
    context: RequestContext, resource: Resource, wanted: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterable[str]:
    if resource.exists is None:
        yield from (uri for uri, _ in wanted)
        return
    for start in range(0, len(wanted), MAX_URIS_PER_QUERY):
        part = wanted[start : start + MAX_URIS_PER_QUERY]
        answers = resource.exists(context, [arguments for _, arguments in part])
        yield from (uri for (uri, _), exists in zip(part, answers, strict=True) if exists)


renewers: dict[str, Callable[[Principal, MCPServer], Principal | None]] = {}
"""By ``Principal.kind``: return the principal with the credential's current rights, or None if it lost access."""


credential_checks: list[Callable[[Sequence[Principal], MCPServer], Sequence[Principal]]] = []
"""Each returns those callers of an endpoint whose credentials are no longer valid."""


site_checks: list[Callable[[MCPServer], bool]] = []
"""Each returns True if ``credential_checks`` of an endpoint run the site's code."""


def checking_pool(server: MCPServer) -> Pool:
    # The site's threads if any of its code takes part; otherwise slow tools must not delay a revocation.
    asks_site = server.user_passes_test is not None or any(check(server) for check in site_checks)
    return checks_pool() if asks_site else free_pool()


def refresh_principal(principal: Principal, server: MCPServer | None) -> Principal | None:
    """Return the principal with its current rights, or None if it may no longer call the endpoint.

    Everything that acts for a caller after the original request must call this first: tasks, pending calls, streams. It
    reloads the user, and checks the credential, the client's policy, and the endpoint's ``user_passes_test`` and scopes
    again.
    Without a *server* (for the test client's callers), only the user is reloaded.
    """
    user = principal.user
    if isinstance(user, models.Model) and user.pk is not None:
        manager = user.__class__._default_manager  # noqa: SLF001 - Django's documented API
        now = manager.using(user._state.db).filter(pk=user.pk).first()  # noqa: SLF001 - likewise
        if now is None or not getattr(now, "is_active", True):
            return None
        principal = dataclasses.replace(principal, user=now)
    if server is None:
        return principal
    renew = renewers.get(principal.kind) if principal.credential else None  # the test client's have none
    renewed: Principal | None = principal
    if renew is not None:
        renewed = renew(principal, server)
    elif any(check([principal], server) for check in credential_checks):  # of a site's own authentication class
        renewed = None
    return renewed if renewed is not None and may_call(renewed, server) else None


def find_ended(principals: Sequence[Principal], server: MCPServer) -> list[Principal]:
    """Return those of *principals* whose user is gone or inactive, or whose credential no longer opens the endpoint.

    For open streams, which hear of most ends by an event, but not of those in SQL. A few queries for all.
    """
    ended = list(_without_user(principals))
    for check in credential_checks:
        ended += check(principals, server)
    return ended


def _without_user(principals: Iterable[Principal]) -> Iterable[Principal]:
    of_model: dict[tuple[type[models.Model], str | None], list[Principal]] = {}
    for principal in principals:
        user = principal.user
        if isinstance(user, models.Model) and user.pk is not None:
            of_model.setdefault((user.__class__, user._state.db), []).append(principal)  # noqa: SLF001 - documented
    for (model, alias), theirs in of_model.items():
        rows = model._default_manager.using(alias).filter(pk__in={context.user.pk for context in theirs})  # noqa: SLF001
        active = {row.pk for row in rows if getattr(row, "is_active", True)}
        yield from (principal for principal in theirs if principal.user.pk not in active)


async def run(
    context: RequestContext,
    primitive: Primitive,
    arguments: dict[str, Any],
    show: Callable[[Any], T],
    runner: Runner,
) -> T:
    """Call a resource's or prompt's function and convert its result with *show* in the same thread."""
    function, keywords = primitive.function, primitive.keywords(context, arguments)
    if function.is_async:
        value = await runner.coroutine(function.call, **keywords)
        if isinstance(value, str) and len(value) < MAX_SHORT:
            return show(value)
        return await runner.checks.sync(partial(show, value))  # others are encoded in a thread
    return await runner.sync(lambda: show(function.call(**keywords)))


async def read(context: RequestContext, uri: str, show: Callable[[Resource, Any], T], runner: Runner) -> T:
    """Return *show* of the matched resource and its function's result.

    Plain resources match first, then templates in order.

    Raises:
        ResourceNotFound: the resource does not exist for the caller.
        InsufficientScope: only scopes are missing.
    """
    resource, arguments = await _find(context, uri, runner)
    try:
        return await run(context, resource, arguments, partial(show, resource), runner)
    except ABSENT:
        raise ResourceNotFound(uri) from None


async def _find(context: RequestContext, uri: str, runner: Runner) -> tuple[Resource, dict[str, Any]]:
    for resource, arguments in matches(context.server, uri):
        if await may_use(context, resource, runner):
            return resource, arguments
    raise ResourceNotFound(uri)


def read_here(context: RequestContext, uri: str) -> list[ResourceContents]:
    """Return the contents of *uri*, read in the calling thread. Raises as ``read`` does."""
    uri, context = _checked(uri), context.inline()
    found = run_inline(read(context, uri, lambda resource, value: resource.read(value), INLINE))
    return [dataclasses.replace(contents, uri=contents.uri or uri) for contents in found]


def link_here(context: RequestContext, uri: str) -> ResourceLink:
    """Return a link to *uri* with the title and description of its resource. Raises as ``read`` does."""
    uri = _checked(uri)
    resource, _ = run_inline(_find(context, uri, INLINE))
    told = translated(resource.definition)
    return ResourceLink(uri, resource.name, told.get("title"), told.get("description"), resource.mime_type)


def _checked(uri: str) -> str:
    try:
        return check_uri(iri_to_uri(uri))
    except ValueError:
        raise ResourceNotFound(uri) from None
