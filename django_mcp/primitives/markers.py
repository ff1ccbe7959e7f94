"""Markers of parameters: ``HeaderParam`` (2026-07-28, Custom Headers from Tool Parameters), ``Secret``, ``Upload``."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin

from django.core.exceptions import ImproperlyConfigured
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from django_mcp.primitives.function import COLLECTIONS, leaves, replaced
from django_mcp.primitives.validation_errors import size
from django_mcp.protocol.json_schema import resolve, takes_null

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler

KEY = "x-mcp-header"

# RFC 9110, section 5.6.2, without the underscore: WSGI and many proxies drop it or confuse it with a hyphen.
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]+")
_TYPES = ("string", "integer", "boolean")
_NAMED = {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
_DATA = {"default", "const", "enum", "examples"}


class _Hook:
    """Pydantic's hook of a marker. A marker in the place of a type is refused with the way to write it."""

    def __init__(self, usage: str) -> None:
        self._usage = usage

    def __get__(self, marker: Any, owner: type) -> Any:
        def hook(source: Any, handler: "GetCoreSchemaHandler") -> CoreSchema:
            if marker is None or source is marker:
                from pydantic import PydanticUserError  # noqa: PLC0415 - pydantic calls this

                raise PydanticUserError(f"{owner.__name__} is not a type: write {self._usage}.", code=None)
            own = getattr(marker, "core_schema", None)
            return handler(source) if own is None else own(source, handler)

        return hook


@dataclass(frozen=True, slots=True)
class HeaderParam:
    """Let clients repeat a tool's parameter in a request header: ``Annotated[str, HeaderParam("Region")]``.

    The parameter must be a str, int or bool, an enum or ``Literal`` of these, or optional. Do not use it for passwords
    or personal data: proxies read headers.

    Args:
        name: the part after ``Mcp-Param-``; letters, digits and hyphens.
    """

    name: str

    __get_pydantic_core_schema__ = _Hook('Annotated[str, HeaderParam("Region")]')

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        # Clients reject a header parameter without a single type. The function may still be called with None: no header
        # is sent for it.
        schema = _inlined(handler(core_schema), handler)
        match schema:
            case {"anyOf": [inner, {"type": "null"}], **others}:
                schema = {**_inlined(inner, handler), **others}
        return {**schema, KEY: self.name}


class Mirror(NamedTuple):
    """A parameter that a header repeats.

    Attributes:
        header: such as ``"Mcp-Param-Region"``.
        path: names from the arguments down to the parameter.
        type: ``"string"``, ``"integer"`` or ``"boolean"``.
    """

    header: str
    path: tuple[str, ...]
    type: str


def _inlined(schema: dict[str, Any], handler: Any) -> dict[str, Any]:
    if "$ref" not in schema:
        return schema
    return {key: value for key, value in handler.resolve_ref_schema(schema).items() if key != "title"}


def without_null_defaults(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an ``inputSchema`` without defaults of null that their type does not allow."""
    properties = {
        name: {key: value for key, value in part.items() if (key, value) != ("default", None)}
        if KEY in part or not takes_null(part, schema)
        else part
        for name, part in schema["properties"].items()
    }
    return {**schema, "properties": properties}


def mirrored(schema: Mapping[str, Any], label: str) -> tuple[Mirror, ...]:
    """Return the header parameters of an ``inputSchema``.

    Raises:
        ImproperlyConfigured: an ``x-mcp-header`` for which clients must ignore the tool; the message says where.
    """
    found: dict[str, Mirror] = {}
    for where, position in _positions(schema, ()):
        if KEY in position:
            mirror = _mirror(where, position, label)
            first = found.setdefault(mirror.header.lower(), mirror)
            if first is not mirror:
                both = f"{'.'.join(first.path)!r} and {'.'.join(mirror.path)!r}"
                msg = f"{label}: {both} have the same {KEY}, {position[KEY]!r}. Give each its own name."
                raise ImproperlyConfigured(msg)
    return tuple(found.values())


def _positions(schema: Any, where: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if not isinstance(schema, Mapping):
        return
    yield where, schema
    for key, value in schema.items():
        if key in _NAMED and isinstance(value, Mapping):
            for name, part in value.items():
                yield from _positions(part, (*where, key, name))
        elif isinstance(value, list) and key not in _DATA:
            for index, part in enumerate(value):
                yield from _positions(part, (*where, key, str(index)))
        elif key not in _DATA:
            yield from _positions(value, (*where, key))


def _mirror(where: tuple[str, ...], position: Mapping[str, Any], label: str) -> Mirror:
    if set(where[::2]) != {"properties"}:
        msg = (
            f"{label}: {KEY} at {'/'.join(where) or 'the top'} of the input schema. Clients only find it under "
            "'properties'. Mark a parameter of the function itself, not a field of its model."
        )
        raise ImproperlyConfigured(msg)
    path, name, kind = where[1::2], position[KEY], position.get("type")
    parameter = f"{label}: parameter {'.'.join(path)!r}"
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        msg = f"{parameter}: {KEY} {name!r} must be letters, digits and hyphens, such as 'Region'."
        raise ImproperlyConfigured(msg)
    if kind not in _TYPES:
        shape = f"of type {kind!r}" if isinstance(kind, str) else "of no single type"
        msg = f"{parameter} is {shape}, which a header cannot repeat. {KEY} requires string, integer or boolean."
        raise ImproperlyConfigured(msg)
    if position.get("format") == "password":
        msg = f"{parameter} is a secret, and proxies can read headers. Remove {KEY}."
        raise ImproperlyConfigured(msg)
    return Mirror(f"Mcp-Param-{name}", path, kind)


Schemas = tuple[Mapping[str, Any], ...]

MAX_STEPS = 50
_SAME_PLACE = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True, slots=True)
class Secret:
    """Keep an argument out of the request log and approval pages: ``Annotated[str, Secret()]``.

    Pydantic's ``SecretStr`` and ``SecretBytes``, and ``"writeOnly": true`` in a hand-written schema, have the same
    effect. Fields of pydantic models may be marked too.
    """

    __get_pydantic_core_schema__ = _Hook("Annotated[str, Secret()]")

    def __get_pydantic_json_schema__(self, core_schema: Any, handler: Any) -> dict[str, Any]:
        return {**handler(core_schema), "writeOnly": True}


def mentions_secrets(schema: Any) -> bool:
    match schema:
        case Mapping():
            return _is_marked(schema) or any(map(mentions_secrets, schema.values()))
        case list():
            return any(map(mentions_secrets, schema))
    return False


def is_secret(schemas: Schemas, root: Mapping[str, Any]) -> bool:
    return any(map(_is_marked, _same_place(schemas, root)))


def declares(schemas: Schemas, name: str, root: Mapping[str, Any]) -> bool:
    listed = (form.get("properties") for form in _same_place(schemas, root))
    return any(isinstance(names, Mapping) and name in names for names in listed)


def below(schemas: Schemas, key: str | int, root: Mapping[str, Any]) -> Schemas:
    """Return the schemas of the property or item *key*; references point into *root*."""
    return tuple(step for schema in _same_place(schemas, root) for step in _steps(schema, key))


def _is_marked(schema: Mapping[str, Any]) -> bool:
    return schema.get("writeOnly") is True or schema.get("format") == "password"


def _same_place(schemas: Iterable[Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    waiting, seen = [part for part in schemas if isinstance(part, Mapping)], 0
    while waiting and seen < MAX_STEPS:
        schema, seen = waiting.pop(), seen + 1
        yield schema
        if target := resolve(schema.get("$ref"), root):
            waiting.append(target)
        for keyword in _SAME_PLACE:
            if isinstance(parts := schema.get(keyword), list):
                waiting += [part for part in parts if isinstance(part, Mapping)]


def _steps(schema: Mapping[str, Any], key: str | int) -> Iterator[Any]:
    if isinstance(key, int):
        first = schema.get("prefixItems")
        yield first[key] if isinstance(first, list) and key < len(first) else schema.get("items")
        return
    named = schema.get("properties")
    if isinstance(named, Mapping) and key in named:
        yield named[key]
        return
    yield schema.get("additionalProperties")
    if isinstance(patterns := schema.get("patternProperties"), Mapping):
        yield from patterns.values()  # whether or not they match: better one secret too many


MAX_BYTES = 1024 * 1024
_PREFIX = 200
_PLAIN = str.maketrans("-_", "+/", " \t\r\n")


@dataclass(frozen=True, slots=True)
class Upload:
    """Limits of a bytes argument: ``Annotated[bytes, Upload(max_bytes=5_000_000, media_type="image/*")]``.

    The caller sends Base64, standard or URL-safe, or a ``data:`` URL. Plain ``bytes`` are the same as ``Upload()``.

    Args:
        max_bytes: maximum size; 1 MiB by default. ``DJANGO_MCP["MAX_BODY_BYTES"]`` limits the whole request.
        media_type: expected type, shown to the caller; may be a pattern such as ``image/*``. A ``data:`` URL of another
            type is rejected.
    """

    max_bytes: int = MAX_BYTES
    media_type: str | None = None

    __get_pydantic_core_schema__ = _Hook("bytes, or Annotated[bytes, Upload(…)]")

    def core_schema(self, source: Any, handler: "GetCoreSchemaHandler") -> CoreSchema:
        """Return pydantic's schema of a type that is marked."""
        if get_origin(source) in COLLECTIONS or bytes not in leaves(source):
            shown = getattr(source, "__name__", source)
            msg = f"Upload must annotate bytes: write Annotated[bytes, Upload(…)], not Annotated[{shown}, Upload(…)]."
            from pydantic import PydanticUserError  # noqa: PLC0415 - pydantic calls this

            raise PydanticUserError(msg, code=None)
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: Any) -> dict[str, Any]:
        longest = -(-self.max_bytes // 3) * 4 + _PREFIX
        described = {"description": f"Base64-encoded; at most {size(self.max_bytes)} when decoded."}
        media = {} if self.media_type is None else {"contentMediaType": self.media_type}
        return {"type": "string", "contentEncoding": "base64", **media, "maxLength": longest, **described}

    def read(self, value: Any) -> Any:
        """Return the decoded bytes.

        Raises:
            PydanticCustomError: the value is not Base64, too large, or of another media type.
        """
        if isinstance(value, bytes):  # a default
            return value
        if not isinstance(value, str):
            raise PydanticCustomError("upload", "Input should be a Base64 string")
        if value.startswith("data:"):
            value = self._without_prefix(value)
        try:
            data = decode(value)
        except ValueError:
            raise PydanticCustomError("upload", "Input should be Base64 and nothing else") from None
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
        return PydanticCustomError("upload", "must be at most {most} when decoded, not {length}", sizes)


def decode(text: str) -> bytes:
    """Decode Base64 of either alphabet, with or without padding and line breaks.

    Raises:
        ValueError: the text is not Base64.
    """
    padded = text.translate(_PLAIN)
    plain = padded.rstrip("=")
    if padded != plain and len(padded) % 4:
        raise ValueError("invalid padding")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def with_uploads(annotation: Any) -> Any:
    return replaced(annotation, _encoded)


def _encoded(annotation: Any) -> Any:
    if annotation is bytes:
        return Annotated[bytes, Upload()]
    if get_origin(annotation) is Annotated:
        base, *metadata = get_args(annotation)
        others = [mark for mark in metadata if not isinstance(mark, Secret | HeaderParam)]
        if base is bytes and any(hasattr(other, "__get_pydantic_core_schema__") for other in others):
            return annotation
    return None
