"""Content blocks that only sampling knows, and reading the blocks a client sends (2026-07-28, Sampling)."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django_mcp.protocol.content import AudioContent, Content, ImageContent, TextContent


@dataclass(frozen=True, slots=True)
class ToolUseContent(Content):
    """The model wants to use a tool."""

    id: str
    name: str
    input: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        """``{"type": "tool_use", …}``."""
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": dict(self.input)}


@dataclass(frozen=True, slots=True)
class ToolResultContent(Content):
    """What the tool gave, for the next message to the model."""

    tool_use_id: str
    content: Sequence[Content]
    is_error: bool = False

    def to_wire(self) -> dict[str, Any]:
        """``{"type": "tool_result", …}``."""
        blocks = [block.to_wire() for block in self.content]
        error = {"isError": True} if self.is_error else {}
        return {"type": "tool_result", "toolUseId": self.tool_use_id, "content": blocks, **error}


def read_content(block: Any) -> Content:
    """A block of a client's message.

    Raises:
        ValueError: it is none, with what is wrong.
    """
    match block:
        case {"type": "text", "text": str(text)}:
            return TextContent(text)
        case {"type": "image", "data": str(data), "mimeType": str(mime_type)}:
            return ImageContent(_bytes(data), mime_type)
        case {"type": "audio", "data": str(data), "mimeType": str(mime_type)}:
            return AudioContent(_bytes(data), mime_type)
        case {"type": "tool_use", "id": str(id_), "name": str(name), "input": dict(given)}:
            return ToolUseContent(id_, name, given)
    kind = block.get("type") if isinstance(block, Mapping) else block
    msg = f"{str(kind)[:40]!r} is no content block of a known kind with all its members"
    raise ValueError(msg)


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:  # binascii.Error is one, and letters outside of ASCII are another
        msg = "its data is not Base64"
        raise ValueError(msg) from None
