"""Bytes that a caller sends, which in JSON are Base64."""

import base64
import binascii
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from django_mcp.primitives.annotations import COLLECTIONS, leaves, replaced
from django_mcp.primitives.words import size

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

MOST_BYTES = 1024 * 1024
_PREFIX = 200
"""The longest beginning of a data: URL."""
_PLAIN = str.maketrans("-_", "+/", " \t\r\n")


@dataclass(frozen=True, slots=True)
class Upload:
    """What the bytes of an argument may be: ``Annotated[bytes, Upload(max_bytes=5_000_000, media_type="image/*")]``.

    The caller sends them in Base64, also that for URLs, or as a ``data:`` URL. ``bytes`` alone are like ``Upload()``.

    Args:
        max_bytes: the most; 1 MiB. ``DJANGO_MCP["MAX_BODY_BYTES"]`` bounds the whole request.
        media_type: what they are, told to the caller; ``image/*`` for several. A ``data:`` URL of another is refused.
    """

    max_bytes: int = MOST_BYTES
    media_type: str | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: "GetCoreSchemaHandler") -> CoreSchema:
        """Bytes, decoded before anything else looks at them."""
        if get_origin(source) in COLLECTIONS or bytes not in leaves(source):
            shown = getattr(source, "__name__", source)
            msg = f"Upload says more of bytes: write Annotated[bytes, Upload(…)], not Annotated[{shown}, Upload(…)]."
            from pydantic import PydanticUserError  # noqa: PLC0415 - which calls this

            raise PydanticUserError(msg, code=None)
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        """A string with its encoding, and the limit in the unit in which a schema can tell it."""
        longest = -(-self.max_bytes // 3) * 4 + _PREFIX
        described = {"description": f"In Base64, {size(self.max_bytes)} at most when decoded."}
        media = {} if self.media_type is None else {"contentMediaType": self.media_type}
        return {"type": "string", "contentEncoding": "base64", **media, "maxLength": longest, **described}

    def read(self, value: Any) -> Any:
        """The bytes.

        Raises:
            PydanticCustomError: they are none, are too many, or of another media type.
        """
        if isinstance(value, bytes):  # a default
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("upload", "Input should be a string in Base64")
        if value.startswith("data:"):
            value = self._without_prefix(value)
        try:
            data = decode(value)
        except ValueError:
            raise PydanticCustomError("upload", "Input should be Base64, without anything else in it") from None
        if len(data) > self.max_bytes:
            raise self._too_large(len(data))
        return data

    def _without_prefix(self, url: str) -> str:
        head, comma, body = url[5:].partition(",")
        media_type = head.partition(";")[0]
        if not comma or not head.endswith(";base64"):
            raise PydanticCustomError("upload", "Input should be Base64, or a data: URL like data:image/png;base64,…")
        if self.media_type is not None and media_type and not fnmatch(media_type, self.media_type):
            words = "Input should be of the media type {wanted}"
            raise PydanticCustomError("upload", words, {"wanted": self.media_type})
        return body

    def _too_large(self, length: int) -> PydanticCustomError:
        sizes = {"most": size(self.max_bytes), "length": size(length)}
        return PydanticCustomError("upload", "must have {most} at most when decoded; these are {length}", sizes)


def decode(text: str) -> bytes:
    """The bytes of Base64, of either alphabet, with or without padding and line breaks.

    Raises:
        ValueError: it is something else.
    """
    padded = text.translate(_PLAIN)
    plain = padded.rstrip("=")
    if padded != plain and len(padded) % 4:
        raise ValueError("padding that does not fit")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def with_uploads(annotation: Any) -> Any:
    """*annotation* in which ``bytes`` that say no more of themselves are uploads."""
    return replaced(annotation, _encoded)


def _encoded(annotation: Any) -> Any:
    if annotation is bytes:
        return Annotated[bytes, Upload()]
    if get_origin(annotation) is Annotated:
        base, *metadata = get_args(annotation)
        if base is bytes and any(hasattr(each, "__get_pydantic_core_schema__") for each in metadata):
            return annotation
    return None
