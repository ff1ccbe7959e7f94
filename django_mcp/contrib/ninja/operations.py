"""The operations of an API, each a copy of its own that a tool can call."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.urls.resolvers import RoutePattern
from ninja import NinjaAPI, Router
from ninja.operation import Operation
from ninja.security.apikey import APIKeyBase
from ninja.security.http import HttpAuthBase
from ninja.security.session import SessionAuth, SessionAuthSuperUser


@dataclass(frozen=True)
class Published:
    """One operation.

    Attributes:
        operation: with the decorators, throttles and tags of the API and the routers above it.
        method: of the request.
        route: where it is below the API.
        name: its ``operation_id``, or that of its function.
        prefix: what sets names apart where one router is in an API twice.
        router: that it was declared on.
    """

    operation: Operation
    method: str
    route: RoutePattern
    name: str
    prefix: str | None
    router: Router

    @property
    def label(self) -> str:
        """For messages to the site's owner."""
        function = self.operation.view_func
        return f"{self.method} {self.operation.path} ({function.__module__}.{function.__qualname__})"


def operations(api: NinjaAPI) -> Iterator[Published]:
    """All operations of an API, in the order of its routers."""
    for bound in _bound(api):
        patterns = iter(bound.urls_paths(bound.prefix))
        for view in bound.path_operations.values():
            for operation in view.operations:
                operation.api = api
                route = next(patterns).pattern
                for method in operation.methods:
                    name = operation.operation_id or operation.view_func.__name__
                    name = name if len(operation.methods) == 1 else f"{name}_{method.lower()}"
                    yield Published(operation, method, route, name, bound.url_name_prefix, bound.template)


def _bound(api: NinjaAPI) -> Any:
    """The routers of an API as it binds them itself for its URLs, but bound for us alone.

    Binding copies operations, so what tools do to theirs does not reach the API. It also closes routers, which those of
    a site that has not read its URLconf yet must not be: they are opened again.
    """
    own: Any = copy.copy(api)
    own._bound_routers_cache = None  # noqa: SLF001 - ninja has no other way to its operations
    known = [each for _, router, *_ in own._router_registrations for each in within(router)]  # noqa: SLF001
    before = [(router, router._frozen) for router in known]  # noqa: SLF001
    try:
        return own._get_bound_routers()  # noqa: SLF001
    finally:
        for router, frozen in before:
            router._frozen = frozen  # noqa: SLF001


def within(router: Router) -> Iterator[Router]:
    """A router, and all that were added to it."""
    yield router
    for _, child, *_ in router._routers:  # noqa: SLF001
        yield from within(child)


def callbacks(operation: Operation, auth: Callable[[Any], Any] | None) -> list[Callable[[Any], Any]] | None:
    """What to ask in place of an operation's own ``auth``; None where that cannot be known.

    A callback that looks for a credential in the request finds none: *auth* takes its place, or it is left out. All
    others, which look at the request's user or at anything else, are asked as ever.
    """
    kept: list[Callable[[Any], Any]] = []
    for each in operation.auth_callbacks:
        if not _wants_credential(each):
            kept.append(each)
        elif auth is not None and auth not in kept:
            kept.append(auth)
    return kept if kept or not operation.auth_callbacks else None


def _wants_credential(callback: Any) -> bool:
    is_session = isinstance(callback, SessionAuth | SessionAuthSuperUser)
    return isinstance(callback, HttpAuthBase | APIKeyBase) and not is_session
