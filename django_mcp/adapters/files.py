"""Files in the arguments of a call: objects with a name and content in Base64, for what pages send as files."""

import mimetypes
import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import SuspiciousFileOperation, ValidationError
from django.core.files.uploadedfile import SimpleUploadedFile
from pydantic_core import PydanticCustomError

from django_mcp.model_resources.schema import without_nul
from django_mcp.primitives.markers import MOST_BYTES, Upload
from django_mcp.primitives.schema import ArgumentError
from django_mcp.primitives.validation_errors import about_argument, kind_name, size

FILE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "filename": {"type": "string", "minLength": 1},
        "content": {"type": "string", "contentEncoding": "base64"},
        "content_type": {"type": "string", "description": "Media type; by default told from the name."},
    },
    "required": ["filename", "content"],
    "additionalProperties": False,
}


def file_note(most_bytes: int = MOST_BYTES) -> str:
    """What the schema of a file cannot say."""
    return f"The file itself, not where it is; {size(most_bytes)} at most."


def file_argument(name: str, value: Any) -> SimpleUploadedFile:
    """The file that an argument is.

    Args:
        name: of the argument.
        value: of JSON.

    Raises:
        ArgumentError: it is none.
    """
    try:
        return read_file(value)
    except ValidationError as error:
        raise ArgumentError([about_argument([name], each) for each in error.messages]) from None


_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+(?: *; *[\w.+-]+=[\w.+-]+)*", re.ASCII)


def read_file(value: Any, most_bytes: int = MOST_BYTES) -> SimpleUploadedFile:
    """A file, as a form takes it.

    Args:
        value: of JSON.
        most_bytes: how large it may be.

    Raises:
        ValidationError: it is none; the code is ``"kind"``.
    """
    if not isinstance(value, dict):
        raise _wrong(f"must be an object with 'filename' and 'content', not {kind_name(value)}.")
    known = FILE_SCHEMA["properties"]
    if wrong := sorted(value.keys() - known.keys()):
        raise _wrong(f"It has no {wrong[0][:100]!r}; it takes {', '.join(known)}.")
    name, content = (_required(value, key) for key in FILE_SCHEMA["required"])
    try:
        file = SimpleUploadedFile(_last_part(without_nul(name)), Upload(most_bytes).read(content))
    except PydanticCustomError as error:
        raise _wrong(f"Its 'content': {error.message()}.") from None
    except (SuspiciousFileOperation, ValueError):
        raise _wrong("Its 'filename' cannot be the name of a file.") from None
    told = value.get("content_type")
    is_type = isinstance(told, str) and _MEDIA_TYPE.fullmatch(told)
    file.content_type = told if is_type else mimetypes.guess_type(str(file.name))[0] or "application/octet-stream"
    return file


def _last_part(name: str) -> str:
    """The name without the folders that it had at the caller, as Django's parser of forms leaves it."""
    last = re.split(r"[/\\]", name)[-1].strip()
    return "".join(each for each in last if each.isprintable())


def _required(value: Mapping[str, Any], key: str) -> str:
    if not isinstance(value.get(key), str):
        raise _wrong(f"Its {key!r} must be there, and be a string.")
    text: str = value[key]
    return text


def _wrong(words: str) -> ValidationError:
    return ValidationError(words, code="kind")
