"""``@tool``, ``@resource`` and ``@prompt``. Each registers a function and gives it back as it was."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

from django.core.exceptions import ImproperlyConfigured

from django_mcp.core import server as registry
from django_mcp.core.context import Context
from django_mcp.core.server import MCPServer, Namespace, Where
from django_mcp.primitives.base import Primitive
from django_mcp.primitives.completions import Completions
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.content import Annotations, Icon

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound="Callable[..., Any] | classmethod[Any, ..., Any]")


@overload
def tool(call: M, /) -> M: ...
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
    permission: str | Sequence[str] | None = None,
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    visible: Callable[[Context], bool] | None = None,
    tags: Collection[str] = (),
    namespace: str | None = None,
    atomic: bool | None = None,
    rate_limit: str | None = None,
    timeout: float | None = None,
    concurrency_limit: int | None = None,
    max_output_chars: int | None = None,
    idempotency_key: str | None = None,
    always_listed: bool = False,
    log_arguments: bool = True,
    task: Literal["optional", "required", "never"] = "never",
    before_task: Callable[..., Any] | None = None,
    policy: Literal["allow", "ask", "block"] | None = None,
    preview: Callable[..., Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    server: Where = None,
) -> Callable[[M], M]: ...
def tool(call: Any = None, /, *, server: Where = None, **options: Any) -> Any:
    """Offer a function as a tool. Works bare and called; the function itself is left as it is.

    Also a method of an object, a class method, a generator, anything that can be called. A method decorated in the body
    of its class is called on an object of its own for each call, so the class must be made without arguments.

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
        permission: like ``"library.change_book"``, or several in a list; without all of them the tool does not exist
            for the caller.
        groups: names of Django groups; for whoever is in none of them, superusers too, the tool does not exist.
        scopes: OAuth scopes, of ``DJANGO_MCP["SCOPES"]``, that a call needs besides those of the endpoint.
        visible: takes the ``Context``, tells whether the tool exists for the caller. A plain function; it may query. In
            lists and searches it is asked too, so it decides by who calls, not by what is called. If it raises, the
            tool is hidden.
        tags: words by which endpoints choose it (``MCPServer(include_tags=…)``), and callers find it.
        namespace: goes before the name, with ``_`` between, and is a tag. See ``MCPServer.namespace``.
        atomic: run a synchronous function in a transaction of the default database, which any error rolls back;
            by default all that is not ``read_only``.
        rate_limit: how often a caller may call it, like ``"10/m"``: a number, and s, m, h or d.
        timeout: seconds after which a call is stopped; 0 for never, by default ``DJANGO_MCP["TOOL_TIMEOUT"]``. A
            coroutine is cancelled; a function stops where it next uses its context or the database, and is rolled
            back. The time of each round of a call that asks counts by itself.
        concurrency_limit: how many calls of it run at once, in each process; what is more waits up to 5 seconds under
            ASGI, and is refused under WSGI.
        max_output_chars: the most characters of a result, as text or as JSON; 0 for no limit, by default
            ``DJANGO_MCP["MAX_OUTPUT_CHARS"]``. What is longer is an error that says how to ask for less.
        idempotency_key: the name of an argument: calls that agree in it are the same call, and it runs once. Without
            it clients may still send a key beside the arguments.
        always_listed: list it even where tools are so many that they are searched (``MCPServer(search_tools=…)``).
        log_arguments: keep the arguments of its calls in the log of calls, where the site does.
        task: let its calls go on in the background, in the server or in workers of Django's Tasks framework:
            ``"optional"`` for clients that know tasks, while others wait for the result or ask for it later;
            ``"required"`` for such clients only.
        before_task: for tools with tasks, a function that takes what the tool takes, or some of it, and runs first,
            while the client waits: it checks what can be checked at once, and asks what has to be asked before
            anything begins. What it asked has its answer when the tool asks the same.
        policy: what calls of it meet until somebody decides otherwise in the admin: ``"allow"``; ``"ask"``, where
            another person approves each call first; or ``"block"``. By default what is ``destructive`` asks, and all
            else is allowed (``DJANGO_MCP["REQUIRE_APPROVAL_FOR"]``).
        preview: a function that takes what the tool takes, or some of it, and returns what a call would change, for the
            person who is to approve it: a str, or a dict or list that is shown as it is. It is run in a transaction
            that is rolled back.
        meta: the definition's ``_meta``.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
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
    permission: str | Sequence[str] | None = None,
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    visible: Callable[[Context], bool] | None = None,
    tags: Collection[str] = (),
    namespace: str | None = None,
    completions: Completions | None = None,
    meta: Mapping[str, Any] | None = None,
    server: Where = None,
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
        permission: like ``"library.view_book"``, or several in a list; without all of them the resource does not exist
            for the caller.
        groups: names of Django groups; for whoever is in none of them it does not exist.
        scopes: OAuth scopes that it needs besides those of the endpoint.
        visible: takes the ``Context``, tells whether it exists for the caller; see ``tool``.
        tags: words by which endpoints choose it (``MCPServer(include_tags=…)``).
        namespace: goes before the name, not before the URI, and is a tag.
        completions: for variables of a template, functions that complete what is being typed; see ``prompt``.
        meta: the definition's ``_meta``.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
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
        "groups": groups,
        "scopes": scopes,
        "visible": visible,
        "tags": tags,
        "namespace": namespace,
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
    permission: str | Sequence[str] | None = None,
    groups: Sequence[str] = (),
    scopes: Sequence[str] = (),
    visible: Callable[[Context], bool] | None = None,
    tags: Collection[str] = (),
    namespace: str | None = None,
    completions: Completions | None = None,
    meta: Mapping[str, Any] | None = None,
    server: Where = None,
) -> Callable[[F], F]: ...
def prompt(call: Callable[..., Any] | None = None, /, *, server: Where = None, **options: Any) -> Any:
    """Offer a function as a prompt: from arguments to messages. Works bare and called.

    Args:
        name: 1 to 64 letters, digits, ``_`` or ``-``; by default the function's.
        title: for display.
        description: by default the docstring, whose parameter section describes the arguments.
        icons: images for display.
        permission: like ``"library.view_book"``, or several in a list; without all of them the prompt does not exist
            for the caller.
        groups: names of Django groups; for whoever is in none of them it does not exist.
        scopes: OAuth scopes that it needs besides those of the endpoint.
        visible: takes the ``Context``, tells whether it exists for the caller; see ``tool``.
        tags: words by which endpoints choose it (``MCPServer(include_tags=…)``).
        namespace: goes before the name, with ``_`` between, and is a tag.
        completions: for arguments, functions from the typed text to the strings that may be meant, the likeliest
            first: a list, a generator or a queryset of strings. They may be async, and may also take a ``Context``
            and ``arguments``, what has been chosen for other arguments. An argument annotated as ``Literal``, enum,
            choices or bool completes itself.
        meta: the definition's ``_meta``.
        server: where to register, one endpoint or namespace, or several; by default ``django_mcp.server``.
    """
    return _decorator(lambda function: Prompt(function, context_type=Context, **options), server, call)


def _decorator(make: Callable[[Callable[..., Any]], Primitive], on: Where, call: Any) -> Any:
    def register(function: F) -> F:
        for each in servers_of(on):
            each.add(make(function))
        return function

    return register if call is None else register(call)


def servers_of(given: Where) -> Sequence[MCPServer | Namespace]:
    """What a ``server`` argument means: one endpoint or namespace, several, or the default endpoint.

    Raises:
        ImproperlyConfigured: it is something else, like the name of an endpoint.
    """
    if given is None:
        return [registry.server]
    servers = [given] if isinstance(given, MCPServer | Namespace | str) else list(given)
    for each in servers:
        if not isinstance(each, MCPServer | Namespace):
            msg = f"server must be an MCPServer, not {each!r}: give the object that MCPServer(…) made."
            raise ImproperlyConfigured(msg)
    return servers
