"""Pagination cursors: opaque to clients, a position to us (2026-07-28, Pagination)."""

import base64
import binascii

from django_mcp.protocol.errors import InvalidParams

_SALT = b"after:"


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
        raw = base64.b64decode(str(cursor) + "=" * (-len(str(cursor)) % 4), altchars=b"-_", validate=True)
        digits = raw.removeprefix(_SALT)
        if raw == digits or not digits.isdigit() or len(digits) > 12:  # noqa: PLR2004
            raise ValueError
        return int(digits)
    except (ValueError, binascii.Error):
        message = "Invalid cursor. Ask again without one to start from the beginning."
        raise InvalidParams(message) from None
