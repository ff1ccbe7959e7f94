"""Content blocks of results, prompt messages and sampling (2026-07-28, Tools, Tool Result; Sampling)."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Role = Literal["user", "assistant"]

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")


def check_uri(uri: str) -> str:
    """Return *uri* if it is valid (RFC 3986). Clients reject whole lists for an invalid one.

    Raises:
        ValueError: no scheme, or characters that must be percent-encoded.
    """
    if not _URI.fullmatch(uri):
        msg = (
            f"{uri[:100]!r} is not a valid URI. It needs a scheme; spaces, quotes, <, > and non-ASCII must "
            "be percent-encoded."
        )
        raise ValueError(msg)
    return uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Hints to the client about how to use or display content.

    Attributes:
        audience: the intended readers.
        priority: 0.0 (optional) to 1.0 (required).
        last_modified: ISO 8601 timestamp.
    """

    audience: Sequence[Role] = ()
    priority: float | None = None
    last_modified: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return _present(audience=list(self.audience) or None, priority=self.priority, lastModified=self.last_modified)


@dataclass(frozen=True, slots=True)
class Icon:
    """An image for a server, tool, resource or prompt.

    Attributes:
        src: an https: or data: URI; clients must reject other schemes.
        mime_type: media type, if the URI does not show it.
        sizes: such as ``["48x48"]``, or ``["any"]`` for SVG.
        theme: the background it is made for.
    """

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] = ()
    theme: Literal["light", "dark"] | None = None

    def __post_init__(self) -> None:
        if not self.src.startswith(("https:", "http:", "data:")):
            msg = f"Icon.src must be an https: or data: URI, not {self.src[:60]!r}."
            raise ValueError(msg)
        check_uri(self.src)

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        return _present(src=self.src, mimeType=self.mime_type, sizes=list(self.sizes) or None, theme=self.theme)


class Content:
    """Base class of content blocks."""

    __slots__ = ()

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class TextContent(Content):
    """Text."""

    text: str
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def to_wire(self) -> dict[str, Any]:
        return _block("text", self, text=self.text)


@dataclass(frozen=True, slots=True)
class ImageContent(Content):
    """An image, as raw bytes and media type."""

    data: bytes = field(repr=False)
    mime_type: str
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def to_wire(self) -> dict[str, Any]:
        return _block("image", self, data=_base64(self.data), mimeType=self.mime_type)


@dataclass(frozen=True, slots=True)
class AudioContent(Content):
    """Audio, as raw bytes and media type."""

    data: bytes = field(repr=False)
    mime_type: str
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def to_wire(self) -> dict[str, Any]:
        return _block("audio", self, data=_base64(self.data), mimeType=self.mime_type)


@dataclass(frozen=True, slots=True)
class ResourceLink(Content):
    """A link to a resource that the client may read. The resource need not be listed."""

    uri: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        check_uri(self.uri)

    def to_wire(self) -> dict[str, Any]:
        described = _present(title=self.title, description=self.description, mimeType=self.mime_type, size=self.size)
        return _block("resource_link", self, uri=self.uri, name=self.name, **described)


@dataclass(frozen=True, slots=True)
class ResourceContents:
    """The contents of a resource.

    Attributes:
        data: text, or bytes (sent as ``blob``).
        uri: the resource's URI; None for the requested one.
        mime_type: media type of the data.
    """

    data: str | bytes = field(repr=False)
    uri: str | None = None
    mime_type: str | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if self.uri is not None:
            check_uri(self.uri)

    def to_wire(self, uri: str, mime_type: str | None = None) -> dict[str, Any]:
        """Return a ``TextResourceContents`` or ``BlobResourceContents`` object, with the arguments as defaults."""
        body = {"text": self.data} if isinstance(self.data, str) else {"blob": _base64(self.data)}
        head = _present(uri=self.uri or uri, mimeType=self.mime_type or mime_type)
        return {**head, **body, **_present(_meta=self.meta and dict(self.meta))}


@dataclass(frozen=True, slots=True)
class EmbeddedResource(Content):
    """A resource's contents, which must have a URI, inside a result or message."""

    resource: ResourceContents
    annotations: Annotations | None = None
    meta: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        if not self.resource.uri:
            msg = "EmbeddedResource requires ResourceContents with a uri."
            raise ValueError(msg)

    def to_wire(self) -> dict[str, Any]:
        return _block("resource", self, resource=self.resource.to_wire(self.resource.uri or ""))


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """A message of a prompt.

    Attributes:
        content: a block, or a str for text.
        role: the speaker.
    """

    content: Content | str = ""
    role: Role = "user"

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON object."""
        block = self.content if isinstance(self.content, Content) else TextContent(str(self.content))  # may be lazy
        return {"role": self.role, "content": block.to_wire()}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _present(**members: Any) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}


def _block(kind: str, block: Any, **members: Any) -> dict[str, Any]:
    if block.annotations is not None:
        members["annotations"] = block.annotations.to_wire()
    if block.meta is not None:
        members["_meta"] = dict(block.meta)
    return {"type": kind, **members}


@dataclass(frozen=True, slots=True)
class ToolUseContent(Content):
    """A model's request to use a tool."""

    id: str
    name: str
    input: Mapping[str, Any] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": dict(self.input)}


@dataclass(frozen=True, slots=True)
class ToolResultContent(Content):
    """The result of a tool use, for the next message to the model."""

    tool_use_id: str
    content: Sequence[Content]
    is_error: bool = False

    def to_wire(self) -> dict[str, Any]:
        blocks = [block.to_wire() for block in self.content]
        error = {"isError": True} if self.is_error else {}
        return {"type": "tool_result", "toolUseId": self.tool_use_id, "content": blocks, **error}


def read_content(block: Any) -> Content:
    """Return the content block of a client's message.

    Raises:
        ValueError: it is not a block of a known type.
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
    msg = f"{str(kind)[:40]!r} is not a complete content block of a known type"
    raise ValueError(msg)


def _bytes(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except ValueError:  # such as binascii.Error, or non-ASCII characters
        msg = "its data is not valid Base64"
        raise ValueError(msg) from None
