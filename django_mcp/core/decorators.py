"""The decorators ``@tool``, ``@resource`` and ``@prompt``, which register a function and return it unchanged, and
``ui``.
"""

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, Unpack, overload

from django.core.exceptions import ImproperlyConfigured

from django_mcp.core import server as registry
from django_mcp.core.apps import App, Permission, app_of
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


class PrimitiveOptions(TypedDict, total=False):
    """Options of all decorators."""

    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon]
    permission: str | Sequence[str] | None
    groups: Sequence[str]
    scopes: Sequence[str]
    visible: Callable[[Context], bool] | None
    tags: Collection[str]
    namespace: str | None
    meta: Mapping[str, Any] | None


class ToolOptions(PrimitiveOptions, total=False):
    """Options of ``@tool``."""

    input_schema: Mapping[str, Any] | None
    read_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    atomic: bool | None
    rate_limit: str | None
    timeout: float | None
    concurrency_limit: int | None
    max_output_chars: int | None
    idempotency_key: str | None
    always_listed: bool
    log_arguments: bool
    task: Literal["optional", "required", "never"]
    before_task: Callable[..., Any] | None
    policy: Literal["allow", "ask", "block"] | None
    preview: Callable[..., Any] | None
    self_approval: bool | None
    app: App | str | None
    visibility: Collection[Literal["model", "app"]]


class PromptOptions(PrimitiveOptions, total=False):
    """Options of ``@prompt``."""

    completions: Completions | None


class ResourceOptions(PromptOptions, total=False):
    """Options of ``@resource``."""

    mime_type: str | None
    size: int | None
    annotations: Annotations | None
    unchecked: Collection[str]


class AppOptions(PrimitiveOptions, total=False):
    """Options of ``ui``."""

    connect_domains: Sequence[str]
    resource_domains: Sequence[str]
    frame_domains: Sequence[str]
    base_uri_domains: Sequence[str]
    permissions: Sequence[Permission]
    domain: str | None
    prefers_border: bool | None


@overload
def tool(call: M, /) -> M: ...
@overload
def tool(*, server: Where = None, **options: Unpack[ToolOptions]) -> Callable[[M], M]: ...
def tool(call: Any = None, /, *, server: Where = None, **options: Any) -> Any:
    """Register a function as a tool. Usable with and without arguments.

    Accepts any callable, such as a method of an object, a class method or a generator function. A method decorated in
    its class body is called on a new instance for each call, so the class must take no arguments.

    Args:
        name: 1 to 64 letters, digits, ``_`` or ``-``; by default the function's name.
        title: display title.
        description: for models; by default the docstring, whose parameter section describes the arguments.
        icons: images for display.
        input_schema: JSON Schema to publish instead of that of the signature, which still validates the arguments.
        read_only: True if the tool changes nothing.
        destructive: True if it may delete or overwrite. Clients assume so; False if it is ``read_only``.
        idempotent: True if repeating a call has no further effect.
        open_world: True if it reaches systems outside this site. Clients assume so.
        permission: required permission, such as ``"library.change_book"``, or a list; the tool does not exist for
            callers that lack one.
        groups: names of Django groups; the tool does not exist for users in none of them, superusers included.
        scopes: OAuth scopes of ``DJANGO_MCP["SCOPES"]`` required in addition to the endpoint's.
        visible: takes the ``Context`` and returns whether the tool exists for the caller. A plain function; it may
            query. Lists and searches call it too, so it must depend on the caller, not on the call. If it raises, the
            tool is hidden.
        tags: words by which endpoints select the tool (``MCPServer(include_tags=…)``) and searches find it.
        namespace: prefix of the name, joined with ``_``, and a tag. See ``MCPServer.namespace``.
        atomic: run a synchronous function in a transaction of the default database, which any error rolls back; by
            default True unless ``read_only``.
        rate_limit: calls per caller, such as ``"10/m"``: a number, and s, m, h or d.
        timeout: seconds after which a call is stopped; 0 for no limit, by default ``DJANGO_MCP["TOOL_TIMEOUT"]``. A
            coroutine is cancelled; a function stops when it next uses its context or the database, and is rolled back.
            Each round of a call that asks has its own limit.
        concurrency_limit: concurrent calls per process; further ones wait up to 5 seconds under ASGI, and are rejected
            under WSGI.
        max_output_chars: maximum characters of a result, as text or JSON; 0 for no limit, by default
            ``DJANGO_MCP["MAX_OUTPUT_CHARS"]``. A longer result is an error that says how to request less.
        idempotency_key: name of an argument; calls with the same value of it are the same call, which runs once.
            Clients may also send a key outside the arguments.
        always_listed: list the tool even if the endpoint's tools are searched (``MCPServer(search_tools=…)``).
        log_arguments: False to keep arguments out of the request log.
        task: run calls in the background, in the server or in workers of Django's Tasks framework: ``"optional"`` if
            clients without task support may wait for the result or fetch it later, ``"required"`` for clients with task
            support only.
        before_task: for tools with tasks, a function that takes all or some of the tool's parameters and runs first,
            while the client waits, to validate and ask. An answer it got is reused when the tool asks the same.
        policy: ``"allow"``, ``"ask"`` (each call requires approval) or ``"block"``, until changed in the admin; by
            default destructive tools ask (``DJANGO_MCP["REQUIRE_APPROVAL_FOR"]``).
        preview: a function that takes all or some of the tool's parameters and returns what a call would change, for
            the approver: a str, dict or list. It runs in a transaction that is rolled back.
        self_approval: True if staff may decide their own calls, in the admin, without the permission to approve; False
            if another person has to decide, whatever ``DJANGO_MCP["SELF_APPROVAL"]`` says.
        app: a template, by name, that clients with MCP Apps show in place of the text of the result, or what ``ui``
            returns. The template's context has ``result``, the structured content (or the text of a tool without), and
            ``arguments``.
        visibility: who may call the tool in clients with MCP Apps: ``"model"``, ``"app"``, or both. A tool for apps
            only does not exist for other clients.
        meta: ``_meta`` of the definition.
        server: endpoint or namespace, or several; by default ``django_mcp.server``.
    """
    if "app" in options:
        options["app"] = app_of(options["app"], "@tool")
    return _decorator(lambda function: Tool(function, context_type=Context, **options), server, call)


def resource(uri: str, *, server: Where = None, **options: Unpack[ResourceOptions]) -> Callable[[F], F]:
    """Register a function as the resource of a URI, or of every URI of a template such as ``travel://{city}``.

    The parameters are the template's variables, converted by their annotations. A URI with values that cannot be
    converted does not exist. For missing objects, raise ``Http404`` or let ``DoesNotExist`` propagate.

    Args:
        uri: a URI, or an RFC 6570 template with ``{name}``, ``{+name}`` or a final ``{?a,b}``.
        name: for programs; by default the function's name.
        title: display title.
        description: by default the docstring.
        mime_type: media type of the contents.
        size: bytes, if known.
        annotations: audience, priority, last modification.
        icons: images for display.
        permission: required permission, such as ``"library.view_book"``, or a list; the resource does not exist for
            callers that lack one.
        groups: names of Django groups; the resource does not exist for users in none of them.
        scopes: OAuth scopes required in addition to the endpoint's.
        visible: takes the ``Context`` and returns whether the resource exists for the caller; see ``tool``.
        tags: words by which endpoints select the resource (``MCPServer(include_tags=…)``).
        namespace: prefix of the name (not of the URI), and a tag.
        completions: completion functions for template variables; see ``prompt``.
        unchecked: variables that may have any value. Values of others that could lead out of a folder, such as
            ``../x``, ``/etc/passwd`` or ``C:x``, and those with control characters do not match.
        meta: ``_meta`` of the definition.
        server: endpoint or namespace, or several; by default ``django_mcp.server``.
    """
    return _decorator(lambda function: Resource(function, uri, context_type=Context, **options), server, None)  # type: ignore[no-any-return]


def ui(uri: str, *, template: str, server: Where = None, **options: Unpack[AppOptions]) -> App:
    """Register a template as the page of an MCP App and return it, for ``@tool(app=…)``.

    A template that extends ``django_mcp/app.html`` (blocks ``head``, ``content``, ``scripts``), or is only the content
    of such a page, is rendered with each result. Any other whole page is sent once, and its own scripts show the result
    (``{% include "django_mcp/apps/bridge.html" %}``).

    Args:
        uri: begins with ``ui://``.
        template: name of the template.
        name: for programs; by default from the URI.
        title: display title.
        description: what the app shows.
        icons: images for display.
        connect_domains: origins that its scripts may connect to, like ``"https://maps.example.com"``.
        resource_domains: origins of scripts, styles, images, fonts and media, in addition to those that the page itself
            refers to; for a template with ``{% static %}``, that of ``STATIC_URL``.
        frame_domains: origins of nested frames.
        base_uri_domains: origins for ``<base>``.
        permissions: ``"camera"``, ``"microphone"``, ``"geolocation"``, ``"clipboardWrite"``; a host may deny them.
        domain: dedicated origin of the app, in the format of its host.
        prefers_border: whether the host should draw a border and background.
        permission: required permission, or a list. By default the page exists for callers that may know of a tool with
            this app.
        groups: names of Django groups.
        scopes: OAuth scopes required in addition to the endpoint's.
        visible: takes the ``Context`` and returns whether the page exists for the caller.
        tags: words by which endpoints select the app.
        meta: ``_meta`` of the definition.
        server: endpoint or namespace, or several; by default ``django_mcp.server``.

    Raises:
        ImproperlyConfigured: an option is invalid, or the URI is taken.
    """
    app = App(uri, template, **{name: value for name, value in options.items() if value is not None})  # type: ignore[arg-type]
    for owner in servers_of(server):
        owner.add(copy.copy(app))
    return app


@overload
def prompt(call: F, /) -> F: ...
@overload
def prompt(*, server: Where = None, **options: Unpack[PromptOptions]) -> Callable[[F], F]: ...
def prompt(call: Callable[..., Any] | None = None, /, *, server: Where = None, **options: Any) -> Any:
    """Register a function that returns messages as a prompt. Usable with and without arguments.

    Args:
        name: 1 to 64 letters, digits, ``_`` or ``-``; by default the function's name.
        title: display title.
        description: by default the docstring, whose parameter section describes the arguments.
        icons: images for display.
        permission: required permission, such as ``"library.view_book"``, or a list; the prompt does not exist for
            callers that lack one.
        groups: names of Django groups; the prompt does not exist for users in none of them.
        scopes: OAuth scopes required in addition to the endpoint's.
        visible: takes the ``Context`` and returns whether the prompt exists for the caller; see ``tool``.
        tags: words by which endpoints select the prompt (``MCPServer(include_tags=…)``).
        namespace: prefix of the name, joined with ``_``, and a tag.
        completions: completion functions for arguments, which take the typed text and return strings, the best first,
            as a list, generator or queryset. They may be async, and take a ``Context`` and ``arguments``, the values of
            other arguments. ``Literal``, enum, choices and bool arguments complete themselves.
        meta: ``_meta`` of the definition.
        server: endpoint or namespace, or several; by default ``django_mcp.server``.
    """
    return _decorator(lambda function: Prompt(function, context_type=Context, **options), server, call)


def _decorator(make: Callable[[Callable[..., Any]], Primitive], on: Where, call: Any) -> Any:
    def register(function: F) -> F:
        register_at(on, lambda _: [make(function)])
        return function

    return register if call is None else register(call)


def register_at(where: Where, make: Callable[[Any], Iterable[Primitive]]) -> None:
    """Register what *make* returns for each endpoint. Copies of a tool have the first one as ``origin``."""
    originals: list[Primitive] = []
    for server in servers_of(where):
        for number, primitive in enumerate(make(server)):
            if number == len(originals):
                originals.append(primitive)
            if isinstance(primitive, Tool):
                primitive.origin = originals[number]
            server.add(primitive)


def servers_of(given: Where) -> Sequence[MCPServer | Namespace]:
    """Return the endpoints and namespaces of a ``server`` argument.

    Raises:
        ImproperlyConfigured: it is something else, such as the name of an endpoint.
    """
    if given is None:
        return [registry.server]
    servers = [given] if isinstance(given, MCPServer | Namespace | str) else list(given)
    for server in servers:
        if not isinstance(server, MCPServer | Namespace):
            msg = f"server must be an MCPServer, not {server!r}: give the object that MCPServer(…) made."
            raise ImproperlyConfigured(msg)
    return servers
