"""Files and images of models: how they are described, and read."""

import mimetypes
from typing import Any

from django.http import Http404

from django_mcp.primitives.tool import ToolError

FILE_SCHEMA = {
    "type": "object",
    "properties": {
        "uri": {"type": "string", "description": "The resource to read it from."},
        "mimeType": {"type": "string"},
        "name": {"type": "string"},
        "size": {"type": "integer", "description": "In bytes."},
    },
    "required": ["uri", "mimeType"],
    "additionalProperties": False,
}
ANY_TYPE = "application/octet-stream"


def media_type(name: str) -> str:
    """The media type that a file's name tells."""
    return mimetypes.guess_type(name)[0] or ANY_TYPE


def describe_file(file: Any, uri: str, *, in_full: bool) -> dict[str, Any]:
    """What is shown of a file: never its place in the storage, nor its URL, which would pass by our permissions.

    Args:
        file: a ``FieldFile`` with a file.
        uri: the resource to read it from.
        in_full: ask the storage for its size, which may be a request to another machine.
    """
    name = file.name.replace("\\", "/").rpartition("/")[2]
    described: dict[str, Any] = {"uri": uri, "mimeType": media_type(name), "name": name}
    if in_full and (size := size_of(file)) is not None:
        described["size"] = size
    return described


def size_of(file: Any) -> int | None:
    """Bytes; None where the storage cannot say, or has lost the file."""
    try:
        return int(file.size)
    except Exception:  # noqa: BLE001 - storages raise what they like
        return None


MOST_BYTES = 8 * 1024 * 1024
"""The largest file that is read into an answer; in Base64 it is a third longer."""


def read_file(file: Any, mime_type: str) -> str | bytes:
    """What a file holds; of a text type and in UTF-8 as text.

    Raises:
        Http404: the storage has lost it.
        ToolError: it is too large to be read in one answer.
    """
    try:
        with file.open("rb") as opened:
            data: bytes = opened.read(MOST_BYTES + 1)
    except OSError:
        raise Http404 from None
    if len(data) > MOST_BYTES:
        raise ToolError(f"The file is too large to be read here: more than {MOST_BYTES // 1024**2} MiB.")
    if mime_type.startswith("text/") or mime_type == "application/json":
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return data
