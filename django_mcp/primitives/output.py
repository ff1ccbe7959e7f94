"""Results of tools: content blocks, structured content and size limits."""

import inspect
import io
import json
import math
import mimetypes
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from django.core.files import File
from django.db.models import Model, QuerySet
from django.utils.functional import Promise
from pydantic_core import PydanticSerializationError, ValidationError, from_json, to_json, to_jsonable_python

from django_mcp.primitives import schema
from django_mcp.primitives.base import ToolError, lazy_text, sendable, translated
from django_mcp.primitives.function import EMPTY, leaves
from django_mcp.primitives.validation_errors import size
from django_mcp.protocol.content import (
    AudioContent,
    Content,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
)
from django_mcp.protocol.jsonrpc import UnencodableResult, encode
from django_mcp.protocol.meta import of_a_tool

T = TypeVar("T")

MAX_BYTES = 8 * 1024 * 1024
"""Maximum size of a file in a result; Base64 makes it a third longer."""
UNKNOWN = "application/octet-stream"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that all clients with images can display."""
_TEXTS = frozenset({"application/json", "application/xml", "application/x-ndjson", "image/svg+xml"})
_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_BYTES = (bytes, bytearray, memoryview)
_FILES = (File, io.IOBase, Path)
_OPEN = (typing.IO, typing.BinaryIO, typing.TextIO)


def is_block(value: Any) -> bool:
    return isinstance(value, (Content, *_BYTES, *_FILES)) or _is_image(value) or _is_temporary(value)


def block_of(value: Any) -> Content:
    """Return the content block of a value: an image, audio or embedded resource.

    Files are read from their start and closed, as by Django's ``FileResponse``.

    Raises:
        ToolError: the file does not exist or is too large.
    """
    if isinstance(value, Content):
        return value
    if isinstance(value, _BYTES):
        return _media_block(bytes(value), None, None)
    if _is_image(value):
        return _picture(value)
    return _file(value)


def promises_block(annotation: Any) -> bool:
    return any(_is_type(leaf) for leaf in leaves(annotation))


def _is_type(annotation: Any) -> bool:
    annotation = typing.get_origin(annotation) or annotation
    if not isinstance(annotation, type):
        return False
    pillow = _pillow()
    kinds = (Content, *_BYTES, *_FILES) if pillow is None else (Content, *_BYTES, *_FILES, pillow.Image)
    return annotation in _OPEN or issubclass(annotation, kinds)


def _pillow() -> Any:
    return sys.modules.get("PIL.Image")


def _is_image(value: Any) -> bool:
    pillow = _pillow()
    return pillow is not None and isinstance(value, pillow.Image)


def _is_temporary(value: Any) -> bool:
    # Files of tempfile do not derive from io.IOBase.
    return type(value).__module__ == "tempfile" and isinstance(getattr(value, "file", None), io.IOBase)


def _picture(image: Any) -> ImageContent:
    kind = image.format if image.format in {"JPEG", "PNG", "GIF", "WEBP"} else "PNG"
    if kind == "PNG" and image.mode not in {"1", "L", "LA", "P", "RGB", "RGBA"}:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return ImageContent(_bounded(buffer.getvalue()), f"image/{kind.lower()}")


def _file(file: Any) -> Content:
    if isinstance(file, Path):
        if not file.is_file():
            raise ToolError("The file does not exist.")
        with file.open("rb") as opened:
            return _media_block(_bounded(opened.read(MAX_BYTES + 1)), file.name, None)
    if isinstance(file, File) and not file:
        raise ToolError("The field has no file.")
    name = getattr(file, "name", None)
    with file.open("rb") if isinstance(file, File) else file as opened:
        if opened.seekable():
            opened.seek(0)
        data = opened.read(MAX_BYTES + 1)
    name = Path(name).name if isinstance(name, str) else None
    if isinstance(data, str):
        return _embedded(data, name, (name and mimetypes.guess_type(name)[0]) or "text/plain")
    return _media_block(_bounded(data), name, getattr(file, "content_type", None))


def _bounded(data: bytes) -> bytes:
    if len(data) > MAX_BYTES:
        raise ToolError(f"The file is too large for a result: more than {size(MAX_BYTES)}.")
    return data


def _media_block(data: bytes, name: str | None, media_type: str | None) -> Content:
    media_type = media_type or (mimetypes.guess_type(name)[0] if name else None) or _by_beginning(data)
    if media_type in IMAGES:
        return ImageContent(data, media_type)
    if media_type.startswith("audio/"):
        return AudioContent(data, media_type)
    if media_type.startswith("text/") or media_type in _TEXTS:
        try:
            return _embedded(data.decode(), name, media_type)
        except UnicodeDecodeError:
            pass
    return _embedded(data, name, media_type)


def _by_beginning(data: bytes) -> str:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for beginning, media_type in _BEGINNINGS if data.startswith(beginning)), UNKNOWN)


def _embedded(data: str | bytes, name: str | None, media_type: str) -> EmbeddedResource:
    # A URI is required, but only names the file here.
    return EmbeddedResource(ResourceContents(data, f"attachment:///{quote(name or 'result', safe='')}", media_type))


class OutputTooLarge(Exception):
    """A result exceeds the limit of its tool.

    Attributes:
        unit: ``"characters"``, ``"bytes of binary content"`` or, of a resource, ``"bytes"``.
    """

    def __init__(self, size: int, limit: int, unit: str) -> None:
        super().__init__(f"{size} {unit}; the limit is {limit}")
        self.size = size
        self.limit = limit
        self.unit = unit


def check_size(
    content: Iterable[Mapping[str, Any]], structured: int, most_characters: int | None, most_bytes: int | None
) -> None:
    """Check the size of a result. Models read the text or the structured content, so the longer one counts.

    Args:
        content: blocks as sent.
        structured: length of the structured content's JSON.
        most_characters, most_bytes: limits of text and of binary content; None for no limit.

    Raises:
        OutputTooLarge: the result exceeds a limit.
    """
    characters = size = 0
    for block in content:
        held = block.get("resource", block)
        characters += len(held.get("text", ""))
        size += len(held.get("data", held.get("blob", ""))) * 3 // 4  # Base64
    characters = max(characters, structured)
    if most_characters is not None and characters > most_characters:
        raise OutputTooLarge(characters, most_characters, "characters")
    if most_bytes is not None and size > most_bytes:
        raise OutputTooLarge(size, most_bytes, "bytes of binary content")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Promise) else to_jsonable_python(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, default=_plain)


def json_start(value: Any, most: int) -> str:
    """Return *value* as JSON, or only its beginning if it has more than *most* characters. The rest is not encoded."""
    parts, length = [], 0
    for part in _ENCODER.iterencode(value):
        parts.append(part[: most + 1])
        length += len(part)
        if length > most:
            break
    return "".join(parts)


def shortened(value: Any, most: int | None) -> Any:
    """Return *value*, or a text of its first characters if it has more than *most*, as text or else as JSON."""
    if most is None:
        return value
    try:
        text = value if isinstance(value, str) else json_start(value, most)
    except (TypeError, ValueError, RecursionError):  # such as keys that are no text
        try:
            text = encode(value).decode()
        except UnencodableResult:
            return value  # what sends it says what is wrong
    return value if len(text) <= most else f"{text[:most]}… [cut after {most:,} characters]"


NOTHING = "The tool returned nothing."
LAZY = (QuerySet, Iterator)
PLAIN = frozenset({str, int, float, bool, type(None), dict, list})


class ToolResult(Generic[T]):
    """A result whose text differs from its structured content.

    Annotated as ``-> ToolResult[Flights]``, a tool has the output schema of ``Flights``.

    Args:
        structured: the structured content, or None.
        text: the text; by default the JSON of *structured*. Some clients show the model only this, so it should be
            complete.
        content: further blocks, after *text*.
        meta: the result's ``_meta``. Keys that begin with ``django-mcp/`` are removed.

    Attributes:
        is_of_package: True if this package made the result; ``meta`` is then sent whole.
    """

    __slots__ = ("content", "meta", "structured", "text")
    is_of_package = False

    def __init__(
        self,
        structured: T | None = None,
        *,
        text: str | None = None,
        content: Sequence[Content] = (),
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        self.structured = structured
        self.text = text
        self.content = content
        self.meta = meta


class Output:
    """Conversion of a tool's return values to results.

    A value of one JSON type is the structured content; a union or null is wrapped as ``{"result": …}``. Clients of
    older versions get all but objects wrapped, by their revision. ``str``, content blocks, ``None`` and unannotated
    functions have no schema.

    Attributes:
        schema: the output schema, or None.
        is_wrapped: the value is the member ``result`` of the structured content.
    """

    def __init__(self, returns: Any, label: str) -> None:
        self.schema: dict[str, Any] | None = None
        self.is_wrapped = self._is_scalar = False
        if typing.get_origin(returns) is ToolResult:
            (returns,) = typing.get_args(returns)
        elif _is_plain(returns):
            return
        checked = schema.result(returns, label)
        self.schema, self.is_wrapped = checked.schema, checked.is_wrapped
        self._validate, self._dump = checked.validate, checked.dump
        self._is_scalar = checked.dump is None

    def fields(self, value: Any, most_characters: int | None = None, most_bytes: int | None = None) -> dict[str, Any]:
        """Return the ``CallToolResult`` for the function's return value.

        Raises:
            OutputTooLarge: the result exceeds a limit.
            pydantic.ValidationError: the value does not match the return annotation.
            ValueError: the value contains NaN or infinity.
        """
        if type(value) in PLAIN:  # the common case; isinstance() with an abstract class is slow
            if self._is_scalar:
                return self._scalar(value, most_characters)
            return self._fields(value, None, [], most_characters, most_bytes)
        if isinstance(value, LAZY) and not is_block(value):
            value = list(value)
        if isinstance(value, Promise):
            value = str(value)
        if isinstance(value, ToolResult):
            content = [_block(block).to_wire() for block in value.content]
            text = None if value.text is None else str(value.text)
            fields = self._fields(value.structured, text, content, most_characters, most_bytes, is_structured=True)
            if value.meta is not None:
                fields["_meta"] = sendable(dict(value.meta) if value.is_of_package else of_a_tool(value.meta))
            return fields
        return self._fields(value, None, [], most_characters, most_bytes)

    def _scalar(self, value: Any, most_characters: int | None) -> dict[str, Any]:
        value = self._validate(value)
        text = _json(value)
        content = [{"type": "text", "text": text}]
        if most_characters is not None and len(text) > most_characters:
            check_size(content, len(text), most_characters, None)
        return {"content": content, "structuredContent": value}

    def _fields(
        self,
        value: Any,
        text: str | None,
        content: list[dict[str, Any]],
        most_characters: int | None,
        most_bytes: int | None,
        *,
        is_structured: bool = False,
    ) -> dict[str, Any]:
        structured: Any = None
        encoded = ""
        if self.schema is not None:
            value, encoded = self._checked(value)
            text = encoded if text is None else text
            structured = {"result": value} if self.is_wrapped else value
        elif _is_blocks(value):
            content = [*(_block(item).to_wire() for item in value), *content]
        elif isinstance(value, str):
            text = value if text is None else text
            structured = value if is_structured else None
        elif is_block(value):
            content = [block_of(value).to_wire(), *content]
        elif value is not None:
            is_structured = is_structured or isinstance(value, dict | list)
            value, encoded = _encoded(value)
            text = encoded if text is None else text
            structured = value if is_structured else None
        if text is not None:
            content = [{"type": "text", "text": text}, *content]
        if text is not encoded or len(content) > 1 or not text:
            content = without_blanks(sendable(content), encoded)
        # The common case, one text within the limit, needs no further check.
        most = most_characters or 0
        if text is None or len(content) > 1 or len(text) > most or len(encoded) > most:
            check_size(content, len(encoded), most_characters, most_bytes)
        fields: dict[str, Any] = {"content": content}
        if structured is not None:
            fields["structuredContent"] = structured
        return fields

    def _checked(self, value: Any) -> tuple[Any, str]:
        try:
            return self._dumped(value)
        except (ValidationError, PydanticSerializationError):
            pass
        # With a lazy translation, or else the same error again. pydantic warns of one in a field for text.
        return self._dumped(translated(value), fallback=lazy_text, warnings=False)

    def _dumped(self, value: Any, **options: Any) -> tuple[Any, str]:
        value = self._validate(value)
        if self._dump is not None:
            value = self._dump(value, mode="json", by_alias=True, **options)
        return value, _json(value)


def without_blanks(content: Sequence[Mapping[str, Any]], instead: str = "") -> list[dict[str, Any]]:
    # Model providers reject blank texts, and a result without any content.
    kept = [dict(block) for block in content if block["type"] != "text" or block["text"].strip()]
    return kept or [{"type": "text", "text": instead or NOTHING}]


def _is_blocks(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and any(is_block(item) for item in value)


def _block(item: Any) -> Content:
    if is_block(item):
        return block_of(item)
    return TextContent(str(item) if isinstance(item, str | Promise) else _encoded(item)[1])


def _encoded(value: Any) -> tuple[Any, str]:
    try:
        return value, _json(value)
    except (TypeError, PydanticSerializationError):
        text = _json(translated(value), _read)
    return from_json(text), text


def _json(value: Any, fallback: Callable[[Any], Any] | None = None) -> str:
    if type(value) is int:
        return str(value)
    text = to_json(value, inf_nan_mode="constants", fallback=fallback or _refuse).decode()
    if "NaN" in text or "Infinity" in text:
        for place, number in _numbers(from_json(text), ""):  # a word in a string is none
            if not math.isfinite(number):
                msg = f"{place or 'the value'} is {number}, which JSON cannot express; return None instead"
                raise ValueError(msg)
    return text


def _numbers(value: Any, place: str) -> Iterator[tuple[str, float]]:
    # Places look like "rows[2].price".
    if isinstance(value, float):
        yield place, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _numbers(inner, f"{place}.{name}" if place else name)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _numbers(inner, f"{place}[{number}]")


def _read(value: Any) -> Any:
    return str(value) if isinstance(value, Promise) else _refuse(value)


def _refuse(value: Any) -> Any:
    if isinstance(value, Model):
        hint = "; register its model with a ModelResource, which lists the readable fields, or return plain values"
    elif inspect.iscoroutine(value):
        value.close()
        hint = "; a decorator hides that the function is async: make it async too, or use markcoroutinefunction"
    else:
        hint = ""
    msg = f"{type(value).__name__} is not JSON serializable{hint}"
    raise TypeError(msg)


def _is_plain(returns: Any) -> bool:
    if returns in (EMPTY, None, type(None), Any, object, str, ToolResult):
        return True
    if isinstance(returns, type) and issubclass(returns, str):
        return True
    every = [leaf for leaf in leaves(returns) if leaf not in (None, type(None), Ellipsis)]
    return promises_block(returns) and all(leaf is str or promises_block(leaf) for leaf in every)
