"""Extensions of the protocol: methods and capabilities that come with what needs them (2026-07-28, Extensions)."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

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
