"""Which resources exist for a caller, and which primitive a URI leads to."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from django.db import models

from django_mcp.core.permissions import Right, right
from django_mcp.core.principal import Principal
from django_mcp.core.registry import MCPServer
from django_mcp.core.request import RequestContext
from django_mcp.primitives.resource import Resource

AT_ONCE = 1000
"""URIs asked about in one query."""


def matches(server: MCPServer, uri: str) -> Iterable[tuple[Resource, dict[str, Any]]]:
    """What *uri* may be, with the arguments: a plain resource goes before templates, they as they were registered."""
    if (exact := server.resources.get(uri)) is not None:
        yield exact, {}
    for template in server.templates.values():
        if (arguments := template.match(uri)) is not None:
            yield template, arguments


async def known_resources(context: RequestContext, uris: Sequence[str]) -> list[str]:
    """Those of *uris* that the caller may read."""
    job = partial(find_known, context, uris)
    return await context.site_runner.sync(job) if takes_queries(context.server) else job()


def takes_queries(server: MCPServer) -> bool:
    """Whether a resource of an endpoint may depend on more than the credential of who asks."""
    return any(
        each.asks_user or each.exists is not None for each in (*server.resources.values(), *server.templates.values())
    )


def find_known(context: RequestContext, uris: Sequence[str], *, afresh: bool = False) -> list[str]:
    """``known_resources`` in the calling thread, in as many queries as there are different resources.

    Args:
        context: of the caller.
        uris: what they want to know of.
        afresh: read the caller's user anew, as a stream does that lives longer than rights.
    """
    found: dict[Resource, list[tuple[str, dict[str, Any]]]] = {}
    for uri in uris:
        for resource, arguments in matches(context.server, uri):
            found.setdefault(resource, []).append((uri, arguments))
    if afresh and any(each.asks_user or each.exists is not None for each in found):
        principal = as_of_now(context.principal, context.server)
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
    for start in range(0, len(wanted), AT_ONCE):
        part = wanted[start : start + AT_ONCE]
        answers = resource.exists(context, [arguments for _, arguments in part])
        yield from (uri for (uri, _), exists in zip(part, answers, strict=True) if exists)


renewers: dict[str, Callable[[Principal, MCPServer], Principal | None]] = {}
"""By ``Principal.kind``: what its credential allows by now; None where it opens the endpoint no longer."""


def as_of_now(principal: Principal, server: MCPServer | None) -> Principal | None:
    """Return the principal with the rights of now, or None if they may not call the endpoint any more.

    Everything that acts for a caller after their request was let in asks here first: a parked task, a call that waited,
    a stream that has something to tell. The user is read anew, and the credential, the client's policy and the
    endpoint's ``user_passes_test`` are asked again; without a *server* the user alone, for callers that tests make up.
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
    renew = renewers.get(principal.kind) if principal.credential else None  # the test client's callers have none
    renewed = principal if renew is None else renew(principal, server)
    if renewed is None or (server.user_passes_test is not None and not server.user_passes_test(renewed.user)):
        return None
    return renewed
