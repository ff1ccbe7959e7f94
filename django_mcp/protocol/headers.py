"""Request headers that mirror the body (2026-07-28, Streamable HTTP, Request Metadata).

Header names in mappings are lower case.
"""

import base64
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from django_mcp.protocol.errors import HeaderMismatch, InvalidParams

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION = "mcp-session-id"
LAST_EVENT = "last-event-id"
IDEMPOTENCY_KEY = "idempotency-key"

NAMED_BY: Mapping[str, str] = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
"""Method -> the parameter that ``Mcp-Name`` mirrors."""

_OPEN, _CLOSE = "=?base64?", "?="
_PLAIN = re.compile(r"[\t\x20-\x7e]*")
_DECIMAL = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_MAX_EXACT_INTEGER = 2**53 - 1
_STRING = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)" *(;.*)?')
_TOKEN = re.compile(r'[^\s",;]+')


def decode_value(raw: str) -> str:
    """Return a header's value, decoded if it is in the ``=?base64?…?=`` form (Value Encoding).

    Raises:
        HeaderMismatch: not Base64 of UTF-8, or a plain value with characters that require that form.
    """
    value = raw.strip(" \t")
    if not (value.startswith(_OPEN) and value.endswith(_CLOSE) and len(value) >= len(_OPEN) + len(_CLOSE)):
        if not _PLAIN.fullmatch(value):
            message = (
                f"Header value {raw[:200]!r} must be visible ASCII, or =?base64?…?= around the Base64 of its "
                "UTF-8 bytes."
            )
            raise HeaderMismatch(message)
        return value
    held = value[len(_OPEN) : -len(_CLOSE)]
    try:
        decoded = base64.b64decode(held, validate=True)
        # Non-canonical Base64 could be read as different values (RFC 4648, section 3.5).
        if base64.b64encode(decoded).decode() == held:
            return decoded.decode()
    except ValueError:
        pass
    raise HeaderMismatch(f"Header value {raw[:200]!r} is not valid Base64 of UTF-8 text.")


def encode_value(text: str) -> str:
    """Return *text* as a header value; the inverse of ``decode_value`` (Value Encoding)."""
    if _PLAIN.fullmatch(text) and text == text.strip(" \t") and not text.startswith(_OPEN):
        return text
    return f"{_OPEN}{base64.b64encode(text.encode()).decode()}{_CLOSE}"


def idempotency_key(raw: str) -> str:
    """Return the key of an ``Idempotency-Key`` header (draft-ietf-httpapi-idempotency-key-header, section 2.1).

    It is an RFC 8941 string. Many clients omit the quotation marks, so a bare token is accepted as well.

    Raises:
        InvalidParams: it is neither.
    """
    value = raw.strip(" \t")
    if (quoted := _STRING.fullmatch(value)) is not None:
        return re.sub(r"\\(.)", r"\1", quoted[1])
    if _TOKEN.fullmatch(value):
        return value
    raise InvalidParams(f"The Idempotency-Key header must be one quoted string, not {raw[:200]!r}.")


def check_mirrors(headers: Mapping[str, str], method: str, params: Mapping[str, Any]) -> None:
    """Compare ``Mcp-Method`` and ``Mcp-Name`` with the body. ``Mcp-Name`` is optional for task ids.

    Raises:
        HeaderMismatch: a header is missing, malformed, or differs from the body.
    """
    raw = headers.get(METHOD)
    if raw != method:
        _compare("Mcp-Method", None if raw is None else raw.strip(" \t"), method, "method")
    named_by = NAMED_BY.get(method)
    if named_by is None:
        return
    raw, named = headers.get(NAME), params.get(named_by)
    if raw is not None and raw == named and raw.isidentifier() and raw.isascii():
        return  # fast path: most names need no decoding
    if not isinstance(named, str) or (raw is None and named_by == "taskId"):
        return  # existing clients omit it for tasks, and no routing here depends on it
    _compare("Mcp-Name", None if raw is None else decode_value(raw), named, f"params.{named_by}")


def check_parameters(
    headers: Mapping[str, str], mirrors: Iterable[tuple[str, tuple[str, ...]]], arguments: Mapping[str, Any]
) -> None:
    """Compare the ``Mcp-Param-…`` headers of a tool with its arguments (Server Behavior for Custom Headers).

    A header without its argument is rejected too: a router would see a value that the tool does not.

    Args:
        headers: of the request.
        mirrors: header, and path in the arguments: ``("Mcp-Param-Region", ("region",))``.
        arguments: ``params.arguments``. Types that no header can hold are not compared.

    Raises:
        HeaderMismatch: a header is missing, malformed, or differs from the body.
    """
    for header, path in mirrors:
        raw = headers.get(header.lower())
        given = None if raw is None else decode_value(raw)
        value = _value_at(arguments, path)
        member = ".".join(("arguments", *path))
        if value is None:
            if given is not None:
                message = (
                    f"Header mismatch: {header} is {given[:200]!r}, but the body has no {member!r}. Omit the header."
                )
                raise HeaderMismatch(message)
        elif not isinstance(value, bool) and isinstance(value, int | float) and abs(value) > _MAX_EXACT_INTEGER:
            raise HeaderMismatch(f"{member!r} exceeds ±(2^53-1), the range of numbers that {header} can repeat.")
        elif given is not None or isinstance(value, str | int | float):
            expected = _spelled(value)
            _compare(header, expected if _same_number(given, value) else given, expected, member)


def parameters(mirrors: Iterable[tuple[str, tuple[str, ...]]], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the ``Mcp-Param-…`` headers that a client sends with its arguments; see ``check_parameters``."""
    found = ((header.lower(), _value_at(arguments, path)) for header, path in mirrors)
    return {header: encode_value(_spelled(value)) for header, value in found if value is not None}


def _value_at(arguments: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, Mapping) else None
    return arguments


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _same_number(given: str | None, value: Any) -> bool:
    if given is None or isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return _DECIMAL.fullmatch(given) is not None and Decimal(given) == Decimal(str(value))


def _compare(header: str, given: str | None, expected: str, member: str) -> None:
    if given is None:
        raise HeaderMismatch(f"Missing header {header}: it must repeat {member!r}, {expected[:200]!r}.")
    if given != expected:
        message = f"Header mismatch: {header} is {given[:200]!r}, but {member!r} in the body is {expected[:200]!r}."
        raise HeaderMismatch(message)
