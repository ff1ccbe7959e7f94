"""Reading a resource as its caller may, for a client that asks for it or for code that embeds it."""

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any, TypeVar

from django.utils import translation
from django.utils.encoding import iri_to_uri

from django_mcp.core.concurrency import INLINE, Runner, run_inline
from django_mcp.core.failures import ABSENT
from django_mcp.core.known import matches
from django_mcp.core.permissions import may_use
from django_mcp.core.request import RequestContext
from django_mcp.primitives.base import Primitive, spoken
from django_mcp.primitives.resource import Resource
from django_mcp.protocol.content import ResourceContents, ResourceLink, check_uri
from django_mcp.protocol.errors import ResourceNotFound

T = TypeVar("T")


async def run(
    context: RequestContext,
    primitive: Primitive,
    arguments: dict[str, Any],
    show: Callable[[Any], T],
    runner: Runner,
    language: str | None = None,
) -> T:
    """Call a resource's or prompt's function and show what it gives, both on the side the function is on.

    Args:
        context: of the call.
        primitive: whose function it is.
        arguments: of the function, checked.
        show: takes what it returned.
        runner: runs it.
        language: that is active meanwhile; None for what is active already.
    """
    function, keywords = primitive.function, primitive.keywords(context, arguments)
    active = nullcontext() if language is None else translation.override(language)
    if function.is_async:
        with active:
            return show(await runner.coroutine(function.call, **keywords))

    def job() -> T:
        with active:  # a language is active in its own thread alone
            return show(function.call(**keywords))

    return await runner.sync(job)


async def read(context: RequestContext, uri: str, show: Callable[[Resource, Any], T], runner: Runner) -> T:
    """Read *uri*. A plain resource goes before templates, templates in order of registration.

    Args:
        context: of the caller.
        uri: of the resource.
        show: takes the resource and what its function returned.
        runner: runs the function.

    Raises:
        ResourceNotFound: there is none, or none that this caller may know of.
        InsufficientScope: the caller's credential lacks scopes, and nothing else is missing.
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
    """The contents of *uri*, read in the calling thread; raises what ``read`` does."""
    uri, context = _checked(uri), context.inline()
    found = run_inline(read(context, uri, lambda resource, value: resource.read(value), INLINE))
    return [dataclasses.replace(each, uri=each.uri or uri) for each in found]


def link_here(context: RequestContext, uri: str) -> ResourceLink:
    """A link to *uri*, with the words of the resource behind it; raises what ``read`` does, but does not read it."""
    uri = _checked(uri)
    resource, _ = run_inline(_find(context, uri, INLINE))
    told = spoken(resource.definition, context.language)
    return ResourceLink(uri, resource.name, told.get("title"), told.get("description"), resource.mime_type)


def _checked(uri: str) -> str:
    try:
        return check_uri(iri_to_uri(uri))
    except ValueError:
        raise ResourceNotFound(uri) from None
