"""Choosing what an endpoint offers of what is registered elsewhere, and namespaces to register in."""

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Union

from django.core.exceptions import ImproperlyConfigured

from django_mcp.primitives.base import NAME, Primitive

if TYPE_CHECKING:
    from django_mcp.core.registry import MCPServer

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
