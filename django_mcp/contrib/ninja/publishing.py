"""``ninja_tools``: an API becomes tools."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from ninja import NinjaAPI, Router

from django_mcp import Context
from django_mcp.adapters.methods import hints
from django_mcp.contrib.ninja.arguments import OperationArguments
from django_mcp.contrib.ninja.calling import Endpoint
from django_mcp.contrib.ninja.operations import Published, callbacks, operations, within
from django_mcp.contrib.ninja.outputs import output_schema
from django_mcp.core.decorators import servers_of
from django_mcp.core.server import Where
from django_mcp.core.signatures import function, shaped
from django_mcp.primitives.function import EMPTY
from django_mcp.primitives.tool import Tool


def ninja_tools(
    source: NinjaAPI | Router,
    *,
    api: NinjaAPI | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    with_tags: Collection[str] | None = None,
    auth: Callable[[Any], Any] | None = None,
    headers: Mapping[str, str] | None = None,
    tags: Collection[str] = (),
    server: Where = None,
    **options: Any,
) -> None:
    """Offer the operations of a django-ninja API as tools. The API stays as it was.

    A call is a request as the calling user, through the operation's decorators, throttles and validation.

    Args:
        source: the API, or one of its routers with all below it. What is added to it later is not offered.
        api: for a router, the API it is part of.
        include: the only operations to offer, by ``operation_id`` or the name of their function; also those that are
            not in the API's schema.
        exclude: those not to offer.
        with_tags: offer what has one of these tags.
        auth: who may call operations that are guarded by a bearer token, an API key or a password, which a tool does
            not have: ``ninja.security.django_auth`` for every user that is signed in. Takes the request; what it
            returns is ``request.auth``. Other guards, such as ``django_auth_superuser``, are asked as they are.
        headers: of every request.
        tags: of the tools, besides those of the operations.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
        **options: of each tool, those of ``tool``: ``permission``, ``namespace``, ``rate_limit``, ….

    Raises:
        ImproperlyConfigured: there is no such operation, or one that cannot be called without saying more.
    """
    sent = {name.lower().replace("_", "-"): value for name, value in (headers or {}).items()}
    chosen = _chosen(source, api, include, exclude, with_tags)
    for each in chosen:
        _guard(each, auth)
    arguments = [OperationArguments(each.operation, sent, f"ninja_tools: {each.label}") for each in chosen]
    for one in servers_of(server):
        for each, taken in zip(chosen, arguments, strict=True):
            one.add(_tool(each, taken, sent, tags, options))


def _tool(
    published: Published,
    arguments: OperationArguments,
    headers: Mapping[str, str],
    tags: Collection[str],
    options: Mapping[str, Any],
) -> Tool:
    operation, endpoint = published.operation, Endpoint(published, arguments, headers)
    name = f"{published.prefix}_{published.name}" if published.prefix else published.name
    output = output_schema(published)
    returns = EMPTY if output is None else shaped(output)
    words = operation.description or operation.summary
    own: dict[str, Any] = {
        "name": name,
        "title": operation.summary,
        "description": f"Deprecated. {words}" if operation.deprecated else words,
        **hints(published.method),
    }
    return Tool(
        function(endpoint, name, "", [], published, returns),
        context_type=Context,
        arguments=arguments,
        tags=[*tags, *(operation.tags or ())],
        **{**own, **options},
    )


def _guard(published: Published, auth: Callable[[Any], Any] | None) -> None:
    """Put what can be asked in place of what reads credentials."""
    operation = published.operation
    asked = callbacks(operation, auth)
    if asked is None:
        guards = ", ".join(type(each).__name__ for each in operation.auth_callbacks)
        msg = (
            f"ninja_tools: {published.label} is guarded by {guards}, for which a tool has no credential. Say who may "
            "call it: auth=ninja.security.django_auth for every user that is signed in, or a function of the request."
        )
        raise ImproperlyConfigured(msg)
    operation.auth_callbacks = asked


def _chosen(
    source: NinjaAPI | Router,
    api: NinjaAPI | None,
    include: Collection[str] | None,
    exclude: Collection[str],
    with_tags: Collection[str] | None,
) -> list[Published]:
    every = list(_operations(source, api))
    for option, given, known in (
        ("include", include, {name for each in every for name in _names(each)}),
        ("exclude", exclude, {name for each in every for name in _names(each)}),
        ("with_tags", with_tags, {tag for each in every for tag in each.operation.tags or ()}),
    ):
        if unknown := set(given or ()) - known:
            msg = f"ninja_tools: {option} has {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}."
            raise ImproperlyConfigured(msg)
    return [each for each in every if _is_chosen(each, include, exclude, with_tags)]


def _is_chosen(
    published: Published, include: Collection[str] | None, exclude: Collection[str], with_tags: Collection[str] | None
) -> bool:
    names, operation = _names(published), published.operation
    if names.intersection(exclude) or (with_tags is not None and not set(operation.tags or ()).intersection(with_tags)):
        return False
    return operation.include_in_schema if include is None else bool(names.intersection(include))


def _names(published: Published) -> set[str]:
    return {published.name, published.operation.operation_id or published.operation.view_func.__name__}


def _operations(source: NinjaAPI | Router, api: NinjaAPI | None) -> Iterator[Published]:
    match source, api:
        case NinjaAPI(), None:
            yield from operations(source)
        case Router(), NinjaAPI():
            routers = list(within(source))
            found = [each for each in operations(api) if each.router in routers]
            if not found:
                msg = f"ninja_tools: the router has no operations in {api.title!r}, or is not part of it."
                raise ImproperlyConfigured(msg)
            yield from found
        case Router(), None:
            msg = (
                "ninja_tools: a router answers as the API that it is part of; say which: ninja_tools(router, api=api)."
            )
            raise ImproperlyConfigured(msg)
        case _:
            msg = f"ninja_tools takes a NinjaAPI, or a Router and its api, not {source!r}."
            raise ImproperlyConfigured(msg)
