"""The messages of a prompt while its template is rendered."""

import re
import secrets
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

from django_mcp.core.context import Context
from django_mcp.core.resources import link_here
from django_mcp.protocol.content import Content, EmbeddedResource, PromptMessage, Role

_VARIABLE = re.compile(r"\{(\+?)(\w+)\}")


class Messages:
    """What the tags of one rendering say.

    A tag puts a mark into the text where its message belongs. The mark is drawn anew for each rendering, so nothing
    a caller sends can be taken for one.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._mark = f"\ue000{secrets.randbits(64)}-{{}}\ue001"  # digits, which no filter turns into anything else
        self._parts: list[tuple[Role, str] | list[Content]] = []

    def add(self, role: Role, text: str) -> str:
        """The mark of a message. *text* may have marks itself."""
        return self._marked((role, text))

    def embed(self, uri: str, variables: dict[str, Any]) -> str:
        """The mark of a resource: *uri*, with each ``{name}`` replaced by the variable, percent-encoded."""
        return self._marked([EmbeddedResource(each) for each in self._context.read(_expanded(uri, variables))])

    def link(self, uri: str, variables: dict[str, Any]) -> str:
        """The mark of a link to a resource."""
        return self._marked([link_here(self._context, _expanded(uri, variables))])

    def _marked(self, part: tuple[Role, str] | list[Content]) -> str:
        self._parts.append(part)
        return self._mark.format(len(self._parts) - 1)

    def split(self, text: str, role: Role = "user") -> Iterator[PromptMessage]:
        """The messages in a rendered text, in their order. What stands outside of all tags is *role*'s."""
        pieces = re.split(self._mark.format(r"(\d+)"), text)
        for plain, index in zip(pieces[::2], [*pieces[1::2], None], strict=True):
            if plain.strip():
                yield PromptMessage(plain.strip(), role)
            if index is not None:
                yield from self._messages(self._parts[int(index)], role)

    def _messages(self, part: tuple[Role, str] | list[Content], role: Role) -> Iterator[PromptMessage]:
        if isinstance(part, tuple):
            yield from self.split(part[1], part[0])
        else:
            yield from (PromptMessage(block, role) for block in part)


rendering: ContextVar[Messages | None] = ContextVar("rendering", default=None)
"""The messages of the prompt whose template is being rendered."""


def _expanded(uri: str, variables: dict[str, Any]) -> str:
    if not variables:
        return uri
    return _VARIABLE.sub(lambda found: quote(str(variables[found[2]]), safe="/" if found[1] else ""), uri)
