"""Bytes, images and files as content blocks."""

import io
import mimetypes
import sys
import typing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.core.files import File

from django_mcp.primitives.annotations import leaves
from django_mcp.primitives.errors import ToolError
from django_mcp.primitives.words import size
from django_mcp.protocol.content import AudioContent, Content, EmbeddedResource, ImageContent, ResourceContents

MOST_BYTES = 8 * 1024 * 1024
"""The largest file that is read into an answer; in Base64 it is a third longer."""
UNKNOWN = "application/octet-stream"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Media types that every client that shows images at all can show."""
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
    """Whether a value is shown as a content block, and not as JSON."""
    return isinstance(value, (Content, *_BYTES, *_FILES)) or _is_image(value) or _is_temporary(value)


def block_of(value: Any) -> Content:
    """The content block of a value that ``is_block``: an image, sound, or an embedded resource.

    Files are read from their beginning and closed, as Django's ``FileResponse`` does it.

    Raises:
        ToolError: there is no file, or it is too large for an answer.
    """
    if isinstance(value, Content):
        return value
    if isinstance(value, _BYTES):
        return _block(bytes(value), None, None)
    if _is_image(value):
        return _picture(value)
    return _file(value)


def promises_block(annotation: Any) -> bool:
    """Whether a return annotation is of blocks: alone, optional, several kinds, or a list of them."""
    return any(_is_type(leaf) for leaf in leaves(annotation))


def _is_type(annotation: Any) -> bool:
    annotation = typing.get_origin(annotation) or annotation
    if not isinstance(annotation, type):
        return False
    pillow = _pillow()
    kinds = (Content, *_BYTES, *_FILES) if pillow is None else (Content, *_BYTES, *_FILES, pillow.Image)
    return annotation in _OPEN or issubclass(annotation, kinds)


def _pillow() -> Any:
    """Pillow's module of images, where the site uses it: it is not imported for having a look."""
    return sys.modules.get("PIL.Image")


def _is_image(value: Any) -> bool:
    pillow = _pillow()
    return pillow is not None and isinstance(value, pillow.Image)


def _is_temporary(value: Any) -> bool:
    """Whether it is one of ``tempfile``, which are no files themselves."""
    return type(value).__module__ == "tempfile" and isinstance(getattr(value, "file", None), io.IOBase)


def _picture(image: Any) -> ImageContent:
    """Pillow's image, in the format it came in where clients can show that, else as PNG."""
    kind = image.format if image.format in {"JPEG", "PNG", "GIF", "WEBP"} else "PNG"
    if kind == "PNG" and image.mode not in {"1", "L", "LA", "P", "RGB", "RGBA"}:
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return ImageContent(_bounded(buffer.getvalue()), f"image/{kind.lower()}")


def _file(file: Any) -> Content:
    if isinstance(file, Path):
        if not file.is_file():
            raise ToolError("There is no such file.")
        with file.open("rb") as opened:
            return _block(_bounded(opened.read(MOST_BYTES + 1)), file.name, None)
    if isinstance(file, File) and not file:
        raise ToolError("There is no file.")
    name = getattr(file, "name", None)
    with file.open("rb") if isinstance(file, File) else file as opened:
        if opened.seekable():
            opened.seek(0)
        data = opened.read(MOST_BYTES + 1)
    name = Path(name).name if isinstance(name, str) else None
    if isinstance(data, str):
        return _embedded(data, name, (name and mimetypes.guess_type(name)[0]) or "text/plain")
    return _block(_bounded(data), name, getattr(file, "content_type", None))


def _bounded(data: bytes) -> bytes:
    if len(data) > MOST_BYTES:
        raise ToolError(f"The file is too large for an answer: more than {size(MOST_BYTES)}.")
    return data


def _block(data: bytes, name: str | None, media_type: str | None) -> Content:
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
    """With a URI, which an embedded resource must have: one that says what it is called, and leads nowhere."""
    return EmbeddedResource(ResourceContents(data, f"attachment:///{quote(name or 'result', safe='')}", media_type))
