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
    """An extension that an endpoint has as long as a primitive of its own brings it.

    Attributes:
        name: its identifier, like ``io.modelcontextprotocol/skills``.
        settings: what is told of it among the capabilities.
        methods: from method to handler, which takes the ``Context``.
        about: takes the endpoint and the URI that a call of one of them names; gives the primitives it is about.
    """

    name: str
    settings: Mapping[str, Any]
    methods: Mapping[str, Callable[[Any], Awaitable[Result]]]
    about: Callable[[Any, str], Iterable[Any]]


Where = Union["MCPServer", "Namespace", "Sequence[MCPServer | Namespace]", None]
"""Where to register: an endpoint or a namespace of one, several of them, or None for the default endpoint."""


class Selection:
    """Which primitives of another endpoint one takes over.

    Args:
        include_tags: take what has one of them; none: whatever tags it has.
        exclude_tags: leave what has one of them.
        select: takes a primitive, with its ``name``, ``kind``, ``tags`` and ``definition``; tells whether to take it.
        label: of the endpoint, for errors.
    """

    def __init__(
        self,
        include_tags: Collection[str],
        exclude_tags: Collection[str],
        select: Callable[[Any], bool] | None,
        label: str,
    ) -> None:
        for name, tags in (("include_tags", include_tags), ("exclude_tags", exclude_tags)):
            if isinstance(tags, str):
                msg = f"{label}: {name} must be a list, like [{tags!r}]."
                raise ImproperlyConfigured(msg)
        self._include = frozenset(include_tags)
        self._exclude = frozenset(exclude_tags)
        self._select = select

    def __bool__(self) -> bool:
        return bool(self._include or self._exclude) or self._select is not None

    def takes(self, primitive: Primitive) -> bool:
        """Whether a primitive is taken over."""
        return self._fits(primitive.tags) and (self._select is None or bool(self._select(primitive)))

    def takes_model(self, tags: Collection[str]) -> bool:
        """Whether a model with *tags* is; for what it will be made into, no predicate can be asked yet."""
        return self._select is None and self._fits(frozenset(tags))

    @property
    def how_to_take_a_model(self) -> str:
        """What the declaration of a model that is not taken over lacks."""
        if self._select is not None:
            return "select= takes no models: register it there too, with server=…."
        wanted = [f"one of the tags {sorted(self._include)}"] if self._include else []
        unwanted = [f"none of the tags {sorted(self._exclude)}"] if self._exclude else []
        return f"Give its ModelResource {' and '.join([*wanted, *unwanted])}."

    def _fits(self, tags: frozenset[str]) -> bool:
        return (not self._include or not tags.isdisjoint(self._include)) and tags.isdisjoint(self._exclude)


class Namespace:
    """A part of an endpoint: what is registered here has a name that begins with it, and its tags.

    ``MCPServer.namespace`` makes it; it goes where a ``server=`` is wanted.

    Args:
        server: the endpoint.
        name: letters, digits, ``_`` or ``-``.
        tags: for everything in it.
    """

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
        """Register a primitive in it.

        Raises:
            ImproperlyConfigured: its name is too long then, or taken.
        """
        primitive.move_into(self.name)
        primitive.add_tags(self.tags)
        self.server.add(primitive)


_servers: dict[str, "MCPServer"] = {}

is_started = False
"""True once every ``mcp.py`` has been imported: from then on models and tools are completed as they are registered."""

ModelArgument = Callable[[Any, str | None, int], tuple[list[dict[str, Any]], str | None]]
"""From a context, a cursor and the most entries to those of ``resources/list``, and the cursor for the next ones."""

FINDERS = frozenset({"search_tools", "call_tool"})
"""Names of the tools that find others (``core.tool_search``)."""

Snapshot = tuple[dict[Any, Any], ...]


class MCPServer:
    """An endpoint: a URL, who may call, and the tools, resources and prompts it offers.

    Args:
        name: identifies it in URLs' names and to clients (``serverInfo.name``).
        path: its URL path below where ``django_mcp.urls`` is included; both with and without a final slash.
        title: for display.
        version: of the site, not of the protocol.
        instructions: for the model: what this endpoint is good for and how its parts belong together.
        icons: images for display.
        website_url: the site's address for people.
        authentication: authenticators, or their dotted paths, tried in order. Without any, the endpoint
            refuses to start; ``[AllowAny()]`` lets everybody in.
        scopes: OAuth scopes, of ``DJANGO_MCP["SCOPES"]``, that every call here needs; clients ask for these first.
        user_passes_test: takes a Django user, tells whether they may use this endpoint at all; may be a query.
        can_approve: takes a Django user with the permission to approve calls, tells whether they may decide about
            those at this endpoint; may be a query. By default they may at all endpoints.
        page_size: the most entries in one page of a list.
        ttl: seconds for which a client may keep a list.
        rate_limit: how often a caller may call tools here, like ``"60/m"``; s, m, h or d.
        include_tags: offer, besides what is registered here, what *source* has with one of these tags, whether that
            is registered before or after. Models too, by the tags of their ``ModelResource``.
        exclude_tags: of that, nothing with one of these.
        select: of that, only what this says: it takes a tool, resource or prompt, with its ``name``, ``kind``, ``tags``
            and ``definition``. Models are not taken then.
        source: the endpoint to take from; by default ``django_mcp.server``. Without the three above, all of it.
        search_tools: where a caller may use more tools than this, list just ``search_tools``, ``call_tool`` and those
            that are ``always_listed``; 0 for never, True for always.
        skills: serve the skills of installed apps that do not say where; by default the default endpoint does.
        log_calls: write down each list, read and call.

    What is None comes from the ``DJANGO_MCP`` setting.

    Attributes:
        capabilities: the ``ServerCapabilities``: just what is registered.
        model_resources: the ``BoundResource`` of each model that is registered.
        rows: lists their rows.
        extensions: those of the protocol, by name: just what is registered brings.
        policies: what people decided about its tools.
        refresh: brings what was made of files up to date, before each call; None outside development.
        is_translated: something here is described in the language of the request.
    """

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
        source: "MCPServer | None" = None,
        search_tools: int | None = None,
        skills: bool | None = None,
        log_calls: bool | None = None,
    ) -> None:
        if not NAME.fullmatch(name):
            msg = f"MCPServer name {name!r}: use 1 to 64 letters, digits, '_' or '-'."
            raise ImproperlyConfigured(msg)
        self.name = name
        self.path = (f"{name}/mcp" if path is None else path).strip("/")
        for other in _servers.values():
            if self.name == other.name or self.path == other.path:
                msg = f"There is an MCPServer {other.name!r} at {other.path!r} already; choose another name and path."
                raise ImproperlyConfigured(msg)
        self._check_kinds(website_url, scopes, source, search_tools)
        self._title = title
        self._version = version
        self._instructions = instructions
        self._icons = icons
        self._website_url = website_url
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
        self.pages: dict[tuple[str, int, str], Result] = {}
        self.is_translated = False
        self.capabilities: dict[str, Any] = {}
        self.extensions: dict[str, Extension] = {}
        self.refresh: Callable[[], object] | None = None
        self.policies = NONE
        self._skills = skills
        self._log_calls = log_calls
        self._search_tools = search_tools
        self.selection = Selection(include_tags, exclude_tags, select, f"MCPServer {name!r}")
        self.source = source or (server if self.selection else None)
        _servers[name] = self
        if self.source is not None:
            for primitive in self.source.registered():
                self._take(primitive)
        server_made.send(sender=self)

    def _check_kinds(self, website_url: str | None, scopes: Any, source: Any, search_tools: Any) -> None:
        """Refuse what is of the wrong kind, or no URI."""
        if website_url is not None:
            try:
                check_uri(website_url)
            except ValueError as error:
                msg = f"MCPServer {self.name!r}, website_url: {error}"
                raise ImproperlyConfigured(msg) from None
        if isinstance(scopes, str):
            msg = f"MCPServer {self.name!r}: scopes must be a list, like [{scopes!r}]."
            raise ImproperlyConfigured(msg)
        if source is not None and not isinstance(source, MCPServer):
            msg = f"MCPServer {self.name!r}: source must be an MCPServer, the object, not {source!r}."
            raise ImproperlyConfigured(msg)
        if search_tools is not None and not (isinstance(search_tools, int) and search_tools >= 0):
            msg = (
                f"MCPServer {self.name!r}: search_tools must be a number of tools, True or False, not {search_tools!r}."
            )
            raise ImproperlyConfigured(msg)

    def __repr__(self) -> str:
        return f"<MCPServer {self.name!r} at {self.path!r}>"

    # What it says of itself

    @property
    def authentication(self) -> Sequence[Any]:
        """Authenticators or dotted paths, own or from ``DJANGO_MCP["AUTHENTICATION"]``."""
        return settings.AUTHENTICATION if self._authentication is None else self._authentication

    @property
    def names_authentication(self) -> bool:
        """Whether its authenticators are its own, and not those of the setting."""
        return self._authentication is not None

    @property
    def scopes(self) -> frozenset[str]:
        """OAuth scopes that every call needs, own or ``DJANGO_MCP["DEFAULT_SCOPES"]``."""
        return frozenset(settings.DEFAULT_SCOPES if self._scopes is None else self._scopes)

    @property
    def instructions(self) -> str | None:
        """Guidance for the model."""
        return self._instructions if self._instructions is not None else settings.INSTRUCTIONS

    @cached_property
    def rate(self) -> Rate | None:
        """How often a caller may call tools, own or from ``DJANGO_MCP["RATE_LIMIT"]``."""
        return parse_rate(self._rate_limit or settings.RATE_LIMIT)

    @cached_property
    def implementation(self) -> dict[str, Any]:
        """The ``Implementation`` object: ``serverInfo``."""
        is_default = self is server
        info: dict[str, Any] = {"name": settings.NAME or self.name if is_default else self.name}
        title = self._title or (settings.TITLE if is_default else None)
        info["version"] = self._version or settings.VERSION
        if title:
            info["title"] = title
        if self._website_url:
            info["websiteUrl"] = self._website_url
        if self._icons:
            info["icons"] = [icon.to_wire() for icon in self._icons]
        return info

    def is_empty(self) -> bool:
        """Whether nothing is registered."""
        return not self.capabilities

    @property
    def search_above(self) -> int:
        """How many tools a caller may use before they are searched instead of listed; 0 for never."""
        return settings.TOOL_SEARCH_THRESHOLD if self._search_tools is None else self._search_tools

    @property
    def log_calls(self) -> bool:
        """Whether calls are written down, own or ``DJANGO_MCP["LOG_CALLS"]``."""
        return settings.LOG_CALLS if self._log_calls is None else self._log_calls

    @property
    def takes_skills(self) -> bool:
        """Whether skills that do not say where are served here. A default endpoint left empty stays so."""
        return self in servers() and self is server if self._skills is None else self._skills

    # Registration

    def namespace(self, name: str, *, tags: Collection[str] = ()) -> Namespace:
        """A part of this endpoint, to be given as ``server=`` for what belongs together.

        What is registered in ``server.namespace("billing")`` has a name that begins with ``billing_``, and the tag
        ``billing``. Resources keep their URIs.

        Args:
            name: letters, digits, ``_`` or ``-``.
            tags: further ones for everything in it.

        Raises:
            ImproperlyConfigured: no tool's name can begin like this.
        """
        return Namespace(self, name, tags)

    def registered(self) -> list[Primitive]:
        """All there is but what was made for models, in the order in which it was registered."""
        registries: tuple[Mapping[str, Primitive], ...] = (self.tools, self.resources, self.templates, self.prompts)
        found = (each for registry in registries for each in registry.values() if not each.is_generated)
        return sorted(found, key=lambda each: each.position)

    def add(self, primitive: Primitive) -> None:
        """Register a primitive.

        Raises:
            ImproperlyConfigured: its name or URI is taken.
        """
        registry = self._registry_of(primitive)
        if registry is self.tools and primitive.key in FINDERS and self.search_above:
            msg = f"{primitive.label}: {self!r} finds its tools with one of that name; rename it, or search_tools=0."
            raise ImproperlyConfigured(msg)
        if (other := registry.get(primitive.key)) is not None:
            msg = f"{primitive.label} and {other.label} have the same key {primitive.key!r} on {self!r}; rename one."
            raise ImproperlyConfigured(msg)
        if not primitive.is_generated:
            primitive_added.send(sender=self, primitive=primitive)
        primitive.position = next(self._positions)
        registry[primitive.key] = primitive
        self._changed()
        if not primitive.is_generated:  # each endpoint has its own of models
            for each in every_server():
                if each.source is self:
                    each._take(primitive)  # noqa: SLF001 - of the same class

    def namesake(self, primitive: Primitive) -> Primitive | None:
        """Return what is registered under the name or URI of *primitive*, if anything."""
        found: Primitive | None = self._registry_of(primitive).get(primitive.key)
        return found

    def _take(self, primitive: Primitive) -> None:
        """Offer what another endpoint has, if it is selected; at a place of its own in lists."""
        if self.selection.takes(primitive):
            self.add(copy.copy(primitive))

    def remove_generated(self) -> None:
        """Take back what was made for models."""
        self.remove(lambda primitive: primitive.is_generated and primitive.kind != "finder")

    def remove(self, is_meant: Callable[[Primitive], bool]) -> None:
        """Take back all that *is_meant*."""
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
        """Tell clients that listen that a list is no longer what it was, once the transaction is committed.

        From any code of the site, in any process, on an event loop or not.

        Args:
            kind: ``"tools"``, ``"prompts"`` or ``"resources"``.

        Raises:
            ValueError: there is no such list.
        """
        if kind not in {"tools", "prompts", "resources"}:
            msg = f"there is no list of {kind!r}; use 'tools', 'prompts' or 'resources'"
            raise ValueError(msg)
        self.pages = {}
        list_changed.send(sender=self, kind=kind)

    def notify_resource_updated(self, uri: str) -> None:
        """Tell clients that subscribed to a resource that its contents changed, once the transaction is committed.

        Args:
            uri: of the resource, as clients read it.
        """
        resource_updated.send(sender=self, uri=uri)

    def lists(self) -> dict[str, list[Primitive]]:
        """What is in each list that clients can hear of, templates among the resources."""
        resources: list[Primitive] = [*self.resources.values(), *self.templates.values()]
        return {"tools": [*self.tools.values()], "prompts": [*self.prompts.values()], "resources": resources}

    def snapshot(self) -> Snapshot:
        """Copies of all registries, for ``restore``."""
        return tuple(map(dict, self._registries()))

    def restore(self, snapshot: Snapshot) -> None:
        """Undo every registration since *snapshot*."""
        self.tools, self.resources, self.templates, self.prompts, self.model_resources = map(dict, snapshot)
        self._changed()

    def _registries(self) -> tuple[Mapping[Any, Any], ...]:
        return self.tools, self.resources, self.templates, self.prompts, self.model_resources

    def _changed(self) -> None:
        offered = {"tools": self.tools, "resources": self.resources or self.templates, "prompts": self.prompts}
        self.capabilities = {capability: {} for capability, primitives in offered.items() if primitives}
        registries: tuple[Mapping[str, Primitive], ...] = (self.tools, self.resources, self.templates, self.prompts)
        if any(each.is_interactive and each.function.context for registry in registries for each in registry.values()):
            self.capabilities["logging"] = {}
        completable: tuple[Prompt | Resource, ...] = (*self.prompts.values(), *self.templates.values())
        if any(each.completers for each in completable):
            self.capabilities["completions"] = {}
        brought = (each.extension for registry in registries for each in registry.values())
        self.extensions = {each.name: each for each in brought if each is not None}
        self.is_translated = any(each.is_translated for registry in registries for each in registry.values())
        self.pages = {}
        policy_cache.expire()


server = MCPServer("default", path="mcp")
"""The endpoint that decorators register on unless told otherwise. Settings speak of this one."""


def servers() -> Iterator[MCPServer]:
    """Every endpoint that is to be served: all but a default one left empty beside others."""
    for each in _servers.values():
        if each is not server or not each.is_empty() or len(_servers) == 1:
            yield each


def every_server() -> list[MCPServer]:
    """Every endpoint there is, served or not."""
    return list(_servers.values())


def together(steps: Iterable[Callable[[], Any]]) -> None:
    """Run all *steps* and raise their configuration errors as one.

    Raises:
        ImproperlyConfigured: steps failed; the message is made of the messages of all of them.
    """
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
    """A snapshot of every server, for ``restore_all``."""
    return {name: each.snapshot() for name, each in _servers.items()}


def restore_all(before: Mapping[str, Snapshot]) -> None:
    """Undo every registration, and every server made, since ``snapshots``."""
    for name in list(_servers):
        if name in before:
            _servers[name].restore(before[name])
        else:
            del _servers[name]
