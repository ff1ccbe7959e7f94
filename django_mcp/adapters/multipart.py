"""``multipart/form-data`` (RFC 7578), as browsers write it."""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from django.core.files.uploadedfile import UploadedFile

Files = Mapping[str, "UploadedFile[Any] | Sequence[UploadedFile[Any]]"]
"""By the name of their field; several of one field in a list."""


def multipart(fields: Iterable[tuple[str, str]], files: Files) -> tuple[str, bytes]:
    """The boundary and the body of a form's fields and files.

    The boundary is drawn anew, for a view may tell of the one it was sent, and no value may end its part.
    """
    boundary = secrets.token_hex(24)
    parts = [_part(boundary, f'name="{_quoted(name)}"', "", text.encode()) for name, text in fields]
    for name, file in _each(files):
        head = f'name="{_quoted(name)}"; filename="{_quoted(file.name or name)}"'
        kind = f"Content-Type: {_quoted(file.content_type or 'application/octet-stream')}\r\n"
        parts.append(_part(boundary, head, kind, file.read()))
    return boundary, b"".join([*parts, f"--{boundary}--\r\n".encode()])


def _each(files: Files) -> Iterator[tuple[str, "UploadedFile[Any]"]]:
    for name, given in files.items():
        for file in [given] if isinstance(given, UploadedFile) else given:
            yield name, file


def _part(boundary: str, head: str, more: str, data: bytes) -> bytes:
    return f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n{more}\r\n".encode() + data + b"\r\n"


def _quoted(name: str) -> str:
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
