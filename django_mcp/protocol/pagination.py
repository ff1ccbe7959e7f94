"""Pagination cursors: opaque to clients, a position to the server (2026-07-28, Pagination)."""

import base64

from django_mcp.protocol.errors import InvalidParams

_SALT = b"after:"
_MAX_POSITION = 10**12


def encode_cursor(position: int) -> str:
    return base64.urlsafe_b64encode(_SALT + str(position).encode()).decode().rstrip("=")


def decode_cursor(cursor: object) -> int:
    """Return the position of a cursor; -1, the beginning, for None and "".

    Raises:
        InvalidParams: ``encode_cursor`` did not make it.
    """
    if cursor is None or cursor == "":
        return -1
    try:
        raw = base64.urlsafe_b64decode(f"{cursor}==")
        position = int(raw.removeprefix(_SALT)) if isinstance(cursor, str) else -1
    except ValueError:
        position = -1
    # Reject other spellings of the same position.
    if not 0 <= position < _MAX_POSITION or encode_cursor(position) != cursor:
        raise InvalidParams("Invalid cursor. Omit the cursor to start from the first page.")
    return position


def is_cursor(cursor: object) -> bool:
    """Return True for None and for cursors made by ``encode_cursor``."""
    try:
        decode_cursor(cursor)
    except InvalidParams:
        return False
    return True
