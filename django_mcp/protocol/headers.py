"""The request headers that mirror the body (2026-07-28, Streamable HTTP, Request Metadata).

Header mappings here have lower-case names.
"""

import base64
from collections.abc import Mapping
from typing import Any

from django_mcp.protocol.errors import HeaderMismatch

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION = "mcp-session-id"

NAMED_BY: Mapping[str, str] = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Method -> the parameter that ``Mcp-Name`` repeats."""

_OPEN, _CLOSE = "=?base64?", "?="


def decode_value(raw: str) -> str:
    """A header's value with the ``=?base64?…?=`` form undone (Value Encoding).

    Raises:
        HeaderMismatch: the form is there but what it holds is not Base64 of UTF-8.
    """
    value = raw.strip(" \t")
    if not (value.startswith(_OPEN) and value.endswith(_CLOSE) and len(value) >= len(_OPEN) + len(_CLOSE)):
        return value
    try:
        return base64.b64decode(value[len(_OPEN) : -len(_CLOSE)], validate=True).decode()
    except ValueError:
        raise HeaderMismatch(f"Header value {raw[:200]!r} is not Base64 of UTF-8 text.") from None


def check_mirrors(headers: Mapping[str, str], method: str, params: Mapping[str, Any]) -> None:
    """Compare ``Mcp-Method`` and ``Mcp-Name`` with the body they repeat.

    Raises:
        HeaderMismatch: one is missing, malformed, or says something else than the body.
    """
    raw = headers.get(METHOD)
    _compare("Mcp-Method", None if raw is None else raw.strip(" \t"), method, "method")
    named_by = NAMED_BY.get(method)
    if named_by is not None and isinstance(params.get(named_by), str):
        raw = headers.get(NAME)
        _compare("Mcp-Name", None if raw is None else decode_value(raw), params[named_by], f"params.{named_by}")


def _compare(header: str, given: str | None, expected: str, member: str) -> None:
    if given is None:
        raise HeaderMismatch(f"The header {header} is missing; it must repeat {member!r}, {expected[:200]!r}.")
    if given != expected:
        message = f"Header mismatch: {header} is {given[:200]!r}, but {member!r} in the body is {expected[:200]!r}."
        raise HeaderMismatch(message)
