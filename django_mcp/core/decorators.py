"""``@tool``, ``@resource`` and ``@prompt``. Each registers a function and gives it back as it was."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, overload

from django_mcp.core import registry
from django_mcp.core.context import Context
from django_mcp.core.registry import MCPServer
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.completions import Completions
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.content import Annotations, Icon

F = TypeVar("F", bound=Callable[..., Any])


@overload
def tool(call: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[Icon] = (),
    input_schema: Mapping[str, Any] | None = None,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    permission: str | None = None,
    atomic: bool | None = None,
    rate_limit: str | None = None,
    meta: Mapping[str, Any] | None = None,
    server: MCPServer | None = None,
) -> Callable[[F], F]: ...
def tool(call: Callable[..., Any] | None = None, /, *, server: MCPServer | None = None, **options: Any) -> Any:
    """Offer a function as a tool. Works bare and called; the function itself is left as it is.

    Args:
        name: 1 to 64 letters, digits, ``_`` or ``-``; by default the function's.
        title: for display.
        description: for the model; by default the docstring, whose parameter section describes the arguments.
        icons: images for display.
        input_schema: published as it stands instead of the schema made from the signature; arguments are checked by
            the signature all the same.
        read_only: it changes nothing.
        destructive: it may delete or overwrite; a client assumes so of what is not read-only.
        idempotent: the same call again changes nothing more.
        open_world: it reaches things outside this site; a client assumes so.
        permission: like ``"library.change_book"``; without it the tool does not exist for the caller.
        atomic: run a synchronous function in a transaction of the default database, which any error rolls back;
            by default all that is not ``read_only``.
        rate_limit: how often a caller may call it, like ``"10/m"``: a number, and s, m, h or d.
        meta: the definition's ``_meta``.
        server: where to register; by default on ``django_mcp.server``.
    """
    return _decorator(lambda function: Tool(function, context_type=Context, **options), server, call)


def resource(
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    annotations: Annotations | None = None,
    icons: Sequence[Icon] = (),
    permission: str | None = None,
    completions: Completions | None = None,
    meta: Mapping[str, Any] | None = None,
    server: MCPServer | None = None,
) -> Callable[[F], F]:
    """Offer what a function returns under a URI, or under every URI of a template such as ``travel://{city}``.

    The function's parameters are the template's variables, converted by their annotations; a URI whose values
    do not convert does not exist. Raise ``Http404`` or let ``DoesNotExist`` through for what is not there.

    Args:
        uri: a URI, or an RFC 6570 template with ``{name}``, ``{+name}`` or a final ``{?a,b}``.
        name: for programs; by default the function's.
        title: for display.
        description: by default the docstring.
        mime_type: media type of the contents.
        size: bytes, where known beforehand.
        annotations: audience, priority, last modification.
        icons: images for display.
        permission: like ``"library.view_book"``; without it the resource does not exist for the caller.
        completions: for variables of a template, functions that complete what is being typed; see ``prompt``.
        meta: the definition's ``_meta``.
        server: where to register; by default on ``django_mcp.server``.
    """
    options: dict[str, Any] = {
        "name": name,
        "title": title,
        "description": description,
        "mime_type": mime_type,
        "size": size,
        "annotations": annotations,
        "icons": icons,
        "permission": permission,
        "completions": completions,
        "meta": meta,
    }
    return _decorator(lambda function: Resource(function, uri, context_type=Context, **options), server, None)  # type: ignore[no-any-return]


@overload
def prompt(call: F, /) -> F: ...
@overload
def prompt(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    icons: Sequence[Icon] = (),
    permission: str | None = None,
    completions: Completions | None = None,
    meta: Mapping[str, Any] | None = None,
    server: MCPServer | None = None,
) -> Callable[[F], F]: ...
def prompt(call: Callable[..., Any] | None = None, /, *, server: MCPServer | None = None, **options: Any) -> Any:
    """Offer a function as a prompt: from arguments to messages. Works bare and called.

    Args:
        name: 1 to 64 letters, digits, ``_`` or ``-``; by default the function's.
        title: for display.
        description: by default the docstring, whose parameter section describes the arguments.
        icons: images for display.
        permission: like ``"library.view_book"``; without it the prompt does not exist for the caller.
        completions: for arguments, functions from the typed text to the strings that may be meant, the likeliest
            first: a list, a generator or a queryset of strings. They may be async, and may also take a ``Context``
            and ``arguments``, what has been chosen for other arguments. An argument annotated as ``Literal``, enum,
            choices or bool completes itself.
        meta: the definition's ``_meta``.
        server: where to register; by default on ``django_mcp.server``.
    """
    return _decorator(lambda function: Prompt(function, context_type=Context, **options), server, call)


def _decorator(make: Callable[[Callable[..., Any]], Primitive], on: MCPServer | None, call: Any) -> Any:
    def register(function: F) -> F:
        (registry.server if on is None else on).add(make(function))
        return function

    return register if call is None else register(call)
