"""``MCPServer``: one endpoint and what is registered on it."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from django_mcp.conf import settings
from django_mcp.core.signals import list_changed, resource_updated
from django_mcp.primitives.base import NAME, Primitive
from django_mcp.primitives.prompt import Prompt
from django_mcp.primitives.rates import Rate, parse_rate
from django_mcp.primitives.resource import Resource
from django_mcp.primitives.tool import Tool
from django_mcp.protocol.content import Icon, check_uri
from django_mcp.protocol.results import Result

_servers: dict[str, "MCPServer"] = {}


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
            refuses to start; ``[Public()]`` lets everybody in.
        page_size: the most entries in one page of a list.
        ttl: seconds for which a client may keep a list.
        rate_limit: how often a caller may call tools here, like ``"60/m"``; s, m, h or d.

    What is None comes from the ``DJANGO_MCP`` setting.

    Attributes:
        capabilities: the ``ServerCapabilities``: just what is registered.
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
        page_size: int = 250,
        ttl: int = 60,
        rate_limit: str | None = None,
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
        if website_url is not None:
            try:
                check_uri(website_url)
            except ValueError as error:
                msg = f"MCPServer {name!r}, website_url: {error}"
                raise ImproperlyConfigured(msg) from None
        self._title = title
        self._version = version
        self._instructions = instructions
        self._icons = icons
        self._website_url = website_url
        self._authentication = authentication
        self._rate_limit = rate_limit
        parse_rate(rate_limit)
        self.page_size = page_size
        self.ttl_ms = ttl * 1000
        self._positions = itertools.count()
        self.tools: dict[str, Tool] = {}
        self.resources: dict[str, Resource] = {}
        self.templates: dict[str, Resource] = {}
        self.prompts: dict[str, Prompt] = {}
        self.pages: dict[tuple[str, int], Result] = {}
        self.capabilities: dict[str, Any] = {}
        _servers[name] = self

    def __repr__(self) -> str:
        return f"<MCPServer {self.name!r} at {self.path!r}>"

    # What it says of itself

    @property
    def authentication(self) -> Sequence[Any]:
        """Authenticators or dotted paths, own or from ``DJANGO_MCP["AUTHENTICATION"]``."""
        return settings.AUTHENTICATION if self._authentication is None else self._authentication

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

    # Registration

    def add(self, primitive: Primitive) -> None:
        """Register a primitive.

        Raises:
            ImproperlyConfigured: its name or URI is taken.
        """
        registry = self._registry_of(primitive)
        if (other := registry.get(primitive.key)) is not None:
            msg = f"{primitive.label} and {other.label} have the same key {primitive.key!r} on {self!r}; rename one."
            raise ImproperlyConfigured(msg)
        primitive.position = next(self._positions)
        registry[primitive.key] = primitive
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
        self.pages.clear()
        list_changed.send(sender=self, kind=kind)

    def notify_resource_updated(self, uri: str) -> None:
        """Tell clients that subscribed to a resource that its contents changed, once the transaction is committed.

        Args:
            uri: of the resource, as clients read it.
        """
        resource_updated.send(sender=self, uri=uri)

    def snapshot(self) -> tuple[dict[str, Any], ...]:
        """Copies of all registries, for ``restore``."""
        return dict(self.tools), dict(self.resources), dict(self.templates), dict(self.prompts)

    def restore(self, snapshot: tuple[dict[str, Any], ...]) -> None:
        """Undo every registration since *snapshot*."""
        self.tools, self.resources, self.templates, self.prompts = map(dict, snapshot)
        self._changed()

    def _changed(self) -> None:
        offered = {"tools": self.tools, "resources": self.resources or self.templates, "prompts": self.prompts}
        self.capabilities = {capability: {} for capability, primitives in offered.items() if primitives}
        registries: tuple[Mapping[str, Primitive], ...] = (self.tools, self.resources, self.templates, self.prompts)
        if any(each.function.context for registry in registries for each in registry.values()):
            self.capabilities["logging"] = {}
        completable: tuple[Prompt | Resource, ...] = (*self.prompts.values(), *self.templates.values())
        if any(each.completers for each in completable):
            self.capabilities["completions"] = {}
        self.pages.clear()


server = MCPServer("default", path="mcp")
"""The endpoint that decorators register on unless told otherwise. Settings speak of this one."""


def servers() -> Iterator[MCPServer]:
    """Every endpoint that is to be served: all but a default one left empty beside others."""
    for each in _servers.values():
        if each is not server or not each.is_empty() or len(_servers) == 1:
            yield each


def snapshots() -> dict[str, tuple[dict[str, Any], ...]]:
    """A snapshot of every server, for ``restore_all``."""
    return {name: each.snapshot() for name, each in _servers.items()}


def restore_all(before: Mapping[str, tuple[dict[str, Any], ...]]) -> None:
    """Undo every registration, and every server made, since ``snapshots``."""
    for name in list(_servers):
        if name in before:
            _servers[name].restore(before[name])
        else:
            del _servers[name]
