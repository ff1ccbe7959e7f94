"""Pagination cursors: opaque to clients, a position to us (2026-07-28, Pagination)."""

import base64

from django_mcp.protocol.errors import InvalidParams

_SALT = b"after:"
_MOST = 10**12


def encode_cursor(position: int) -> str:
    """A cursor for "what comes after *position*"."""
    return base64.urlsafe_b64encode(_SALT + str(position).encode()).decode().rstrip("=")


def decode_cursor(cursor: object) -> int:
    """The position a cursor stands for; -1, the beginning, for None.

    Raises:
        InvalidParams: it is not one of ours.
    """
    if cursor is None:
        return -1
    try:
        raw = base64.urlsafe_b64decode(f"{cursor}==")
        position = int(raw.removeprefix(_SALT)) if isinstance(cursor, str) else -1
    except ValueError:
        position = -1
    # Only the spelling that encode_cursor gives is one of ours.
    if not 0 <= position < _MOST or encode_cursor(position) != cursor:
        raise InvalidParams("Invalid cursor. Omit the cursor to start from the first page.")
    return position


def is_cursor(cursor: object) -> bool:
    """Whether it is none, or one that ``encode_cursor`` gave."""
    try:
        decode_cursor(cursor)
    except InvalidParams:
        return False
    return True
