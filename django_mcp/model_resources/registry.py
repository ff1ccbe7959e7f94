"""``register`` and ``unregister``, and building the tools and resources of an endpoint's models."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar, overload
from weakref import WeakKeyDictionary

from django.core.exceptions import ImproperlyConfigured
from django.db import models

from django_mcp.core import server as core_server
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import MCPServer, Namespace, every_server, restore_all, snapshots, together
from django_mcp.model_resources.arguments import bind_model_arguments
from django_mcp.model_resources.bound_resource import BoundResource
from django_mcp.model_resources.checks import name_taken, problems
from django_mcp.model_resources.connector import connector_tools, require_models
from django_mcp.model_resources.notifications import connect_signals
from django_mcp.model_resources.options import ModelResource
from django_mcp.model_resources.resources import list_rows, listed_models, resources
from django_mcp.model_resources.tools import read_tools, writing_tools
from django_mcp.primitives.base import Primitive

logger = logging.getLogger("django_mcp")

R = TypeVar("R", bound=type[ModelResource])


@overload
def register(
    model: type[models.Model], /, *, server: MCPServer | Sequence[MCPServer] | None = None
) -> Callable[[R], R]: ...
@overload
def register(
    model: type[models.Model], resource: R, /, *, server: MCPServer | Sequence[MCPServer] | None = None
) -> R: ...
def register(
    model: type[models.Model],
    resource: Any = None,
    /,
    *,
    server: MCPServer | Sequence[MCPServer] | None = None,
) -> Any:
    """Register a model with a ``ModelResource``: ``@register(Book)`` on the class, or ``register(Book, BookResource)``.

    Args:
        model: the model.
        resource: the class, if ``register`` is not used as a decorator.
        server: the endpoint or a list of endpoints; by default ``django_mcp.server``.

    Raises:
        ImproperlyConfigured: *model* is not a model or already registered, or *resource* is not a ``ModelResource``.
    """
    if isinstance(server, Namespace):
        msg = f"register takes endpoints, not {server!r}; use name, plural and tags of the ModelResource."
        raise ImproperlyConfigured(msg)
    servers: Any = servers_of(server)
    if not (isinstance(model, type) and issubclass(model, models.Model)):
        msg = f"register takes a model, as in @register(Book), not {model!r}."
        raise ImproperlyConfigured(msg)

    def add(declared: R) -> R:
        _require_fresh(model, declared, servers)
        with _all_or_nothing():
            for endpoint in servers:
                endpoint.model_resources[model] = BoundResource(declared(model, endpoint))
                if core_server.is_started:
                    _build_with_takers(endpoint)
        return declared

    return add if resource is None else add(resource)


def unregister(model: type[models.Model], /, *, server: MCPServer | Sequence[MCPServer] | None = None) -> None:
    """Undo ``register`` for a model, for example one of another app.

    Args:
        model: the model.
        server: the endpoint or a list of endpoints; by default ``django_mcp.server``.

    Raises:
        ImproperlyConfigured: the model is not registered there or, after start-up, a tool takes or returns its rows.
    """
    servers: Any = servers_of(server)
    for endpoint in servers:
        own = [known for known, bound in endpoint.model_resources.items() if not bound.is_taken]
        if model not in own:
            labels = ", ".join(known._meta.label for known in own) or "nothing"  # noqa: SLF001 - Django's documented API
            msg = f"{model._meta.label} is not registered at {endpoint!r}; registered there: {labels}."  # noqa: SLF001
            raise ImproperlyConfigured(msg)
    with _all_or_nothing():
        for endpoint in servers:
            del endpoint.model_resources[model]
            if core_server.is_started:
                _build_with_takers(endpoint)


@contextmanager
def _all_or_nothing() -> Iterator[None]:
    """Undo what the block changed at any endpoint if it raises."""
    before = snapshots()
    try:
        yield
    # Also for what is no Exception: a Ctrl-C in a shell must not leave half a registration.
    except BaseException:
        restore_all(before)
        raise


def _require_fresh(model: type[models.Model], declared: Any, servers: Sequence[MCPServer]) -> None:
    if not (isinstance(declared, type) and issubclass(declared, ModelResource)):
        msg = f"{declared!r} is not a subclass of ModelResource."
        raise ImproperlyConfigured(msg)
    for server in servers:
        if model in server.model_resources:
            own = server.model_resources[model].resource
            msg = f"{model._meta.label} is already registered at {server!r}, as {own!r}."  # noqa: SLF001
            raise ImproperlyConfigured(msg)


def _build_with_takers(server: MCPServer) -> None:
    build(server)
    for endpoint in every_server():
        if endpoint.source is server:
            _build_with_takers(endpoint)


def _take_models(server: MCPServer) -> None:
    there = {} if server.source is None else server.source.model_resources
    for model in [model for model, bound in server.model_resources.items() if bound.is_taken and model not in there]:
        del server.model_resources[model]
    for model, bound in there.items():
        is_taken = server.selection.takes_model(bound.resource.tags) or model in (server.connector or ())
        if is_taken and model not in server.model_resources:
            server.model_resources[model] = BoundResource(type(bound.resource)(model, server), is_taken=True)


_logged: WeakKeyDictionary[MCPServer, set[str]] = WeakKeyDictionary()
"""The errors of declarations that were logged: an endpoint is built again by each later registration."""


def build(server: MCPServer) -> None:
    """Rebuild the tools and resources of all models of an endpoint, since each may link to others.

    A declaration with errors is left out; its errors are logged and reported by a system check.

    Raises:
        ImproperlyConfigured: a name is already used, or a tool takes or returns rows of a model without declaration.
    """
    server.remove_generated()
    _take_models(server)
    require_models(server)
    for bound in server.model_resources.values():
        bound.forget_rules()
    for bound in server.model_resources.values():
        bound.problems = problems(bound)
    made = _made_without_clashes(server)
    known = _logged.setdefault(server, set())
    for bound in server.model_resources.values():
        for problem in bound.problems or ():
            words = f"{problem.msg} {problem.hint} ({problem.id})"
            if words not in known:
                known.add(words)
                logger.error("%s", words)
    for primitive in chain(*made.values(), connector_tools(server)):
        primitive.is_generated = True
        server.add(primitive)
    together(partial(bind_model_arguments, server, tool) for tool in server.tools.values())
    server.rows = list_rows if listed_models(server) else None
    for bound in made:
        connect_signals(bound)


def _made_without_clashes(server: MCPServer) -> dict[BoundResource, list[Primitive]]:
    # Without a declaration that has a duplicate name, its other names are free for the next ones.
    while True:
        made = {bound: _made(bound) for bound in server.model_resources.values() if bound.is_sound}
        taken: dict[tuple[str, str], str] = {}
        for bound, primitives in made.items():
            for primitive in primitives:
                other = server.namesake(primitive)
                name = taken.get((primitive.kind, primitive.key)) if other is None else other.label
                # A duplicate name is an error of the declaration as well.
                if name is not None:
                    bound.problems = [name_taken(bound, primitive.key, name)]
                    break
            else:
                taken |= {(primitive.kind, primitive.key): repr(bound.resource) for primitive in primitives}
        if all(bound.is_sound for bound in made):
            return made


def _made(bound: BoundResource) -> list[Primitive]:
    tools = [*read_tools(bound), *writing_tools(bound)] if bound.has_tools else []
    made: list[Primitive] = [*resources(bound), *tools]
    for primitive in made:
        primitive.add_tags(bound.resource.tags)
    return made
