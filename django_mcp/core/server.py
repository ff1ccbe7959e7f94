"""``MCPServer``: an endpoint with its tools, resources, prompts, namespaces and extensions."""

import copy
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Union

from django.core.exceptions import ImproperlyConfigured

from django_mcp.conf import settings
from django_mcp.core.policies import NONE, policy_cache
from django_mcp.core.signals import list_changed, primitive_added, resource_updated, server_made
from django_mcp.primitives.base import NAME, Primitive, Rate, parse_rate
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.content import Icon, check_uri
from django_mcp.protocol.jsonrpc import Result


class Extension(NamedTuple):
    """A protocol extension. An endpoint declares it while one of its primitives needs it.

    Attributes:
        name: identifier, such as ``io.modelcontextprotocol/skills``.
        settings: its value among the capabilities.
        methods: method -> handler, which takes the ``Context``.
        about: takes the endpoint and the URI of such a call; returns the primitives it names.
    """

    name: str
    settings: Mapping[str, Any]
    methods: Mapping[str, Callable[[Any], Awaitable[Result]]]
    about: Callable[[Any, str], Iterable[Any]]


Where = Union["MCPServer", "Namespace", "Sequence[MCPServer | Namespace]", None]
"""Where to register: an endpoint, a namespace, several of them, or None for the default endpoint."""


class Selection:
    """The choice of the primitives that an endpoint takes from another; see the arguments of ``MCPServer``.

    *label* names the endpoint in errors.
    """

    def __init__(
        self,
        include_tags: Collection[str],
        exclude_tags: Collection[str],
        select: Callable[[Any], bool] | None,
        label: str,
        *,
        has_connector: bool = False,
    ) -> None:
        for name, tags in (("include_tags", include_tags), ("exclude_tags", exclude_tags)):
            if isinstance(tags, str):
                msg = f"{label}: {name} must be a list, like [{tags!r}]."
                raise ImproperlyConfigured(msg)
        self._include = frozenset(include_tags)
        self._exclude = frozenset(exclude_tags)
        self._select = select
        self._is_closed = has_connector and not (include_tags or exclude_tags) and select is None

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude) or self._select is not None or self._is_closed

    def takes(self, primitive: Primitive) -> bool:
        return (
            not self._is_closed
            and self._fits(primitive.tags)
            and (self._select is None or bool(self._select(primitive)))
        )

    def takes_model(self, tags: Collection[str]) -> bool:
        """Return True if a model with *tags* is selected; never with ``select``, which needs the model's primitives."""
        return not self._is_closed and self._select is None and self._fits(frozenset(tags))

    @property
    def how_to_take_a_model(self) -> str:
        if self._is_closed:
            return "Add it to connector=[…], or register it there too, with server=…."
        if self._select is not None:
            return "select= takes no models: register it there too, with server=…."
        wanted = [f"one of the tags {sorted(self._include)}"] if self._include else []
        unwanted = [f"none of the tags {sorted(self._exclude)}"] if self._exclude else []
        return f"Give its ModelResource {' and '.join([*wanted, *unwanted])}."

    def _fits(self, tags: frozenset[str]) -> bool:
        return (not self._include or not tags.isdisjoint(self._include)) and tags.isdisjoint(self._exclude)


class Namespace:
    """A group of an endpoint's primitives, with a prefix for their names and with tags; see ``MCPServer.namespace``."""

    def __init__(self, server: "MCPServer", name: str, tags: Collection[str]) -> None:
        if not NAME.fullmatch(name):
            msg = f"Namespace {name!r}: use letters, digits, '_' or '-'."
            raise ImproperlyConfigured(msg)
        if isinstance(tags, str):
            msg = f"Namespace {name!r}: tags must be a list, like [{tags!r}]."
            raise ImproperlyConfigured(msg)
        self.server = server
        self.name = name
        self.tags = frozenset(tags)

    def __repr__(self) -> str:
        return f"<Namespace {self.name!r} of {self.server!r}>"

    def add(self, primitive: Primitive) -> None:
        """Register a primitive.

        Raises:
            ImproperlyConfigured: its prefixed name is too long or taken.
        """
        primitive.move_into(self.name)
        primitive.add_tags(self.tags)
        self.server.add(primitive)


_servers: dict[str, "MCPServer"] = {}

is_started = False
"""True once all ``mcp.py`` modules are imported: from then on, registration completes models and tools immediately."""

ModelArgument = Callable[[Any, str | None, int], tuple[list[dict[str, Any]], str | None]]
"""From context, cursor and limit to entries of ``resources/list`` and the next cursor."""

FINDERS = frozenset({"search_tools", "call_read_tool", "call_write_tool", "call_destructive_tool"})
"""Names of the tools for tool search (``core.tool_search``)."""

Snapshot = tuple[dict[Any, Any], ...]


class MCPServer:
    """An endpoint: a URL, its authentication, and the tools, resources and prompts it offers.

    Arguments that are None come from the ``DJANGO_MCP`` setting.

    Args:
        name: identifies it in URL names and to clients (``serverInfo.name``).
        path: URL path below ``django_mcp.urls``. A trailing slash is optional.
        title: display title.
        version: version of the site, not of the protocol.
        instructions: for models: the purpose of this endpoint and how its parts work together.
        icons: images for display.
        website_url: address of the website.
        description: one sentence of at most 100 characters, for people who choose a server.
        registry_name: name in registries, in reverse-DNS form: ``com.example.travel/booking``; by default the host of
            ``BASE_URL`` and the endpoint's name.
        server_card: publish a server card; by default ``DJANGO_MCP["SERVER_CARD"]``, and not with
            ``user_passes_test``.
        authentication: authentication classes, or their dotted paths, tried in order; without any, the endpoint does
            not start. ``[AllowAny()]`` makes it public.
        scopes: OAuth scopes of ``DJANGO_MCP["SCOPES"]`` that every call requires; clients request these first.
        user_passes_test: takes a Django user and returns whether they may use this endpoint. May query.
        can_approve: takes a Django user with the permission to approve calls and returns whether they may decide at
            this endpoint; by default True. May query.
        page_size: maximum number of entries per page of a list.
        ttl: seconds for which clients may cache a list.
        rate_limit: tool calls per caller, such as ``"60/m"``; s, m, h or d.
        include_tags: also offer primitives of *source* with any of these tags, whenever registered; models by the tags
            of their ``ModelResource``.
        exclude_tags: leave out primitives of *source* with any of these tags.
        select: takes a tool, resource or prompt (``name``, ``kind``, ``tags``, ``definition``) of *source* and returns
            whether to offer it. Excludes models.
        connector: models of the endpoint or of *source* that the tools ``search`` and ``fetch`` cover, for ChatGPT's
            deep research; by default those with ``connector = True``. Without the three options above, nothing else of
            *source* is taken.
        source: the endpoint to take primitives from; by default ``django_mcp.server``. Without the four options above,
            all are taken.
        search_tools: number of a caller's tools above which only ``search_tools``, the three tools that call what it
            finds, and ``always_listed`` tools are listed; 0 for never, True for always. Default:
            ``DJANGO_MCP["TOOL_SEARCH_THRESHOLD"]``, else 40 if the endpoint has tools of ``admin_tools``.
        skills: serve the skills of installed apps that name no endpoint; by default only the default endpoint does.
        log_requests: log each list, read and call.

    Attributes:
        capabilities: the ``ServerCapabilities``, derived from what is registered.
        model_resources: model -> ``BoundResource``.
        rows: lists rows of models.
        extensions: protocol extensions by name, derived from what is registered.
        policies: the tool policies.
        refresh: updates primitives made from files, before each call; None outside development.
        is_translated: True if texts depend on the language of the request.
    """

    _search_by_default = 0

    def __init__(
        self,
        name: str,
        *,
        path: str | None = None,
        title: str | None = None,
        version: str | None = None,
        instructions: str | None = None,
        icons: Sequence[Icon] = (),
        website_url: str | None = None,
        description: str | None = None,
        registry_name: str | None = None,
        server_card: bool | None = None,
        authentication: Sequence[Any] | None = None,
        scopes: Sequence[str] | None = None,
        user_passes_test: Callable[[Any], bool] | None = None,
        can_approve: Callable[[Any], bool] | None = None,
        page_size: int = 250,
        ttl: int = 60,
        rate_limit: str | None = None,
        include_tags: Collection[str] = (),
        exclude_tags: Collection[str] = (),
        select: Callable[[Any], bool] | None = None,
        connector: Sequence[type] | None = None,
        source: "MCPServer | None" = None,
        search_tools: int | None = None,
        skills: bool | None = None,
        log_requests: bool | None = None,
    ) -> None:
        if not NAME.fullmatch(name):
            msg = f"MCPServer name {name!r}: use 1 to 64 letters, digits, '_' or '-'."
            raise ImproperlyConfigured(msg)
        self.name = name
        self.path = (f"{name}/mcp" if path is None else path).strip("/")
        for other in _servers.values():
            if self.name == other.name or self.path == other.path:
                msg = f"An MCPServer {other.name!r} at {other.path!r} already exists; choose another name and path."
                raise ImproperlyConfigured(msg)
        self._check_kinds(website_url, scopes, connector, source, search_tools)
        self._title = title
        self._version = version
        self._instructions = instructions
        self._icons = icons
        self._website_url = website_url
        self._description = description
        self._registry_name = registry_name
        self._server_card = server_card
        self._authentication = authentication
        self._scopes = scopes
        self.user_passes_test = user_passes_test
        self.can_approve = can_approve
        self._rate_limit = rate_limit
        parse_rate(rate_limit, f"MCPServer {name!r}")
        self.page_size = page_size
        self.ttl_ms = ttl * 1000
        self._positions = itertools.count()
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.templates: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.model_resources: dict[Any, Any] = {}
        self.rows: ModelArgument | None = None
        self.pages: dict[tuple[str, int, str, bool], Result] = {}
        self.is_translated = False
        self.capabilities: dict[str, Any] = {}
        self.extensions: dict[str, Extension] = {}
        self.refresh: Callable[[], object] | None = None
        self.policies = NONE
        self._skills = skills
        self._log_requests = log_requests
        self._search_tools = search_tools
        self.connector = connector
        self.selection = Selection(
            include_tags, exclude_tags, select, f"MCPServer {name!r}", has_connector=connector is not None
        )
        self.source = source or (server if self.selection else None)
        self.is_made = False  # True once it has taken what it selects
        _servers[name] = self
        if self.source is not None:
            for primitive in self.source.registered():
                self._take(primitive)
        self.is_made = True
        server_made.send(sender=self)

    def _check_kinds(
        self, website_url: str | None, scopes: Any, connector: Any, source: Any, search_tools: Any
    ) -> None:
        if website_url is not None:
            try:
                check_uri(website_url)
            except ValueError as error:
                msg = f"MCPServer {self.name!r}, website_url: {error}"
                raise ImproperlyConfigured(msg) from None
        if isinstance(scopes, str):
            msg = f"MCPServer {self.name!r}: scopes must be a list, like [{scopes!r}]."
            raise ImproperlyConfigured(msg)
        if connector is not None and not (
            isinstance(connector, list | tuple) and connector and all(isinstance(kind, type) for kind in connector)
        ):
            msg = f"MCPServer {self.name!r}: connector must be a list of models, like [Offer], not {connector!r}."
            raise ImproperlyConfigured(msg)
        if source is not None and not isinstance(source, MCPServer):
            msg = f"MCPServer {self.name!r}: source must be an MCPServer object, not {source!r}."
            raise ImproperlyConfigured(msg)
        if search_tools is not None and not (isinstance(search_tools, int) and search_tools >= 0):
            msg = (
                f"MCPServer {self.name!r}: search_tools must be a number of tools, True or False, not {search_tools!r}."
            )
            raise ImproperlyConfigured(msg)

    def __repr__(self) -> str:
        return f"<MCPServer {self.name!r} at {self.path!r}>"

    # Options

    @property
    def authentication(self) -> Sequence[Any]:
        """The authentication classes or their dotted paths, by default ``DJANGO_MCP["AUTHENTICATION"]``."""
        return settings.AUTHENTICATION if self._authentication is None else self._authentication

    @property
    def names_authentication(self) -> bool:
        """True if it has authentication of its own instead of the setting's."""
        return self._authentication is not None

    @property
    def scopes(self) -> frozenset[str]:
        """OAuth scopes that every call requires, by default ``DJANGO_MCP["DEFAULT_SCOPES"]``."""
        return frozenset(settings.DEFAULT_SCOPES if self._scopes is None else self._scopes)

    @property
    def instructions(self) -> str | None:
        """Instructions for models."""
        return self._instructions if self._instructions is not None else settings.INSTRUCTIONS

    @property
    def registry_name(self) -> str | None:
        """Name in registries, None for the default: the host of ``BASE_URL`` and the endpoint's name."""
        return self._registry_name or (settings.REGISTRY_NAME if self is server else None)

    @property
    def server_card(self) -> bool:
        """True if a server card is published."""
        if self._server_card is not None:
            return self._server_card
        return settings.SERVER_CARD and self.user_passes_test is None

    @cached_property
    def rate(self) -> Rate | None:
        """Rate limit of tool calls per caller, by default ``DJANGO_MCP["RATE_LIMIT"]``."""
        return parse_rate(self._rate_limit or settings.RATE_LIMIT)

    @cached_property
    def implementation(self) -> dict[str, Any]:
        """``serverInfo``, an ``Implementation`` object."""
        is_default = self is server
        info: dict[str, Any] = {"name": settings.NAME or self.name if is_default else self.name}
        title = self._title or (settings.TITLE if is_default else None)
        info["version"] = self._version or settings.VERSION
        if title:
            info["title"] = title
        if description := self._description or (settings.DESCRIPTION if is_default else None):
            info["description"] = description
        if self._website_url:
            info["websiteUrl"] = self._website_url
        if self._icons:
            info["icons"] = [icon.to_wire() for icon in self._icons]
        return info

    def is_empty(self) -> bool:
        """Return True if nothing is registered."""
        return not self.capabilities

    @property
    def search_above(self) -> int:
        """Number of a caller's tools above which they are searched instead of listed; 0 for never."""
        chosen = self._chosen_search
        if chosen is not None:
            return chosen
        return self._search_by_default if FINDERS.isdisjoint(self.tools) else 0

    @property
    def _chosen_search(self) -> int | None:
        """What the site says about tool search, or None."""
        return settings.TOOL_SEARCH_THRESHOLD if self._search_tools is None else self._search_tools

    @property
    def log_requests(self) -> bool:
        """True if calls are logged, by default ``DJANGO_MCP["LOG_REQUESTS"]``."""
        return settings.LOG_REQUESTS if self._log_requests is None else self._log_requests

    @property
    def takes_skills(self) -> bool:
        """True if it serves skills that name no endpoint. An unused default endpoint does not."""
        return self in servers() and self is server if self._skills is None else self._skills

    # Registration

    def namespace(self, name: str, *, tags: Collection[str] = ()) -> Namespace:
        """Return a namespace of this endpoint, to pass as ``server=``.

        Primitives registered in ``server.namespace("billing")`` get the name prefix ``billing_`` and the tag
        ``billing``. Resources keep their URIs.

        Args:
            name: letters, digits, ``_`` or ``-``.
            tags: further tags of its primitives.

        Raises:
            ImproperlyConfigured: *name* is not a valid prefix.
        """
        return Namespace(self, name, tags)

    def registered(self) -> list[Primitive]:
        """Return all primitives in order of registration, except those generated for models."""
        registries: tuple[Mapping[str, Primitive], ...] = (self.tools, self.resources, self.templates, self.prompts)
        found = (primitive for registry in registries for primitive in registry.values() if not primitive.is_generated)
        return sorted(found, key=lambda primitive: primitive.position)

    def add(self, primitive: Primitive) -> None:
        """Register a primitive.

        Raises:
            ImproperlyConfigured: its name or URI is taken.
        """
        registry = self._registry_of(primitive)
        if registry is self.tools and primitive.key in FINDERS and self._chosen_search:
            msg = f"{primitive.label}: tool search of {self!r} uses this name; rename it, or set search_tools=0."
            raise ImproperlyConfigured(msg)
        if (other := registry.get(primitive.key)) is not None:
            msg = f"{primitive.label} and {other.label} have the same key {primitive.key!r} on {self!r}; rename one."
            raise ImproperlyConfigured(msg)
        if not primitive.is_generated:
            primitive_added.send(sender=self, primitive=primitive)
        primitive.position = next(self._positions)
        registry[primitive.key] = primitive
        if isinstance(primitive, Tool) and primitive.search_above:
            self._search_by_default = primitive.search_above
        self._changed()
        if isinstance(primitive, Tool) and primitive.app is not None:
            self._add_app(primitive.app)
        if not primitive.is_generated:  # each endpoint generates its own
            for server in every_server():
                if server.source is self:
                    server._take(primitive)  # noqa: SLF001 - of the same class

    def _add_app(self, app: Resource) -> None:
        # Other tools may share the page.
        found = self.resources.get(app.uri)
        if found is None:
            self.add(copy.copy(app))
        elif found.label != app.label:
            msg = f"{app.label} and {found.label} have the same URI on {self!r}; give one another with ui(…)."
            raise ImproperlyConfigured(msg)

    def namesake(self, primitive: Primitive) -> Primitive | None:
        """Return the primitive with the same name or URI, or None."""
        found: Primitive | None = self._registry_of(primitive).get(primitive.key)
        return found

    def _take(self, primitive: Primitive) -> None:
        is_there = isinstance(primitive, Resource) and primitive.for_apps and primitive.uri in self.resources
        opens = primitive.opens if isinstance(primitive, Tool) else ""
        # A form's page is selected with the form's tool.
        meant = self.source.tools[opens] if self.source is not None and opens else primitive
        if self.selection.takes(meant) and not is_there:
            self.add(copy.copy(primitive))

    def remove_generated(self) -> None:
        """Remove the primitives generated for models."""
        self.remove(lambda primitive: primitive.is_generated and primitive.kind != "finder")

    def remove(self, is_meant: Callable[[Primitive], bool]) -> None:
        """Remove the primitives for which *is_meant* returns True."""
        for registry in (self.tools, self.resources, self.templates, self.prompts):
            for key in [key for key, primitive in registry.items() if is_meant(primitive)]:
                del registry[key]
        self._changed()

    def _registry_of(self, primitive: Primitive) -> dict[str, Any]:
        match primitive:
            case Tool():
                return self.tools
            case Resource():
                return self.templates if primitive.is_template else self.resources
            case Prompt():
                return self.prompts
        msg = f"not a tool, resource or prompt: {primitive!r}"
        raise TypeError(msg)

    # Changes

    def notify_list_changed(self, kind: str) -> None:
        """Notify clients after commit that a list changed. Callable from any code, process or event loop.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``.

        Raises:
            ValueError: unknown list.
        """
        if kind not in {"tools", "prompts", "resources"}:
            msg = f"there is no list of {kind!r}; use 'tools', 'prompts' or 'resources'"
            raise ValueError(msg)
        self.pages = {}
        list_changed.send(sender=self, kind=kind)

    def notify_resource_updated(self, uri: str) -> None:
        """Notify subscribers of a resource after commit that its contents changed."""
        resource_updated.send(sender=self, uri=uri)

    def lists(self) -> dict[str, list[Primitive]]:
        """Return the primitives of each list that clients can subscribe to; resources include templates."""
        resources: list[Primitive] = [*self.resources.values(), *self.templates.values()]
        return {"tools": [*self.tools.values()], "prompts": [*self.prompts.values()], "resources": resources}

    def snapshot(self) -> Snapshot:
        """Return copies of all registries, for ``restore``."""
        return tuple(map(dict, self._registries()))

    def restore(self, snapshot: Snapshot) -> None:
        """Undo all registrations since *snapshot*."""
        self.tools, self.resources, self.templates, self.prompts, self.model_resources = map(dict, snapshot)
        self._changed()

    def _registries(self) -> tuple[Mapping[Any, Any], ...]:
        return self.tools, self.resources, self.templates, self.prompts, self.model_resources

    def _changed(self) -> None:
        offered = {"tools": self.tools, "resources": self.resources or self.templates, "prompts": self.prompts}
        self.capabilities = {capability: {} for capability, primitives in offered.items() if primitives}
        registries: tuple[Mapping[str, Primitive], ...] = (self.tools, self.resources, self.templates, self.prompts)
        if any(
            primitive.is_interactive and primitive.function.context
            for registry in registries
            for primitive in registry.values()
        ):
            self.capabilities["logging"] = {}
        completable: tuple[Prompt | Resource, ...] = (*self.prompts.values(), *self.templates.values())
        if any(primitive.completers for primitive in completable):
            self.capabilities["completions"] = {}
        brought = (primitive.extension for registry in registries for primitive in registry.values())
        self.extensions = {extension.name: extension for extension in brought if extension is not None}
        self.is_translated = any(primitive.is_translated for registry in registries for primitive in registry.values())
        self.pages = {}
        policy_cache.expire()


server = MCPServer("default", path="mcp")
"""The default endpoint, for decorators without ``server`` and for settings."""


def servers() -> Iterator[MCPServer]:
    """Yield every endpoint to serve: all except an unused default endpoint next to others."""
    for known in _servers.values():
        if known is not server or not known.is_empty() or len(_servers) == 1:
            yield known


def server_named(name: str) -> MCPServer | None:
    """Return an endpoint, served or not."""
    return _servers.get(name)


def every_server() -> list[MCPServer]:
    """Return all endpoints, served or not."""
    return list(_servers.values())


def together(steps: Iterable[Callable[[], Any]]) -> None:
    """Run all *steps* and raise their ``ImproperlyConfigured`` errors as one."""
    errors: list[ImproperlyConfigured] = []
    for step in steps:
        try:
            step()
        except ImproperlyConfigured as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ImproperlyConfigured("\n".join(map(str, errors)))


def snapshots() -> dict[str, Snapshot]:
    return {name: server.snapshot() for name, server in _servers.items()}


def restore_all(before: Mapping[str, Snapshot]) -> None:
    for name in list(_servers):
        if name in before:
            _servers[name].restore(before[name])
        else:
            del _servers[name]
