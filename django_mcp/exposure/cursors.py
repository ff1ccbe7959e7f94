"""Cursors of rows: a place between two rows, that says nothing to whoever holds it.

A cursor holds values of the row it stands behind, and that row may be one its reader may not see, so it is encrypted
(``sealing``). It is good for the caller and the question it was given to, and no other.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from pydantic_core import from_json, to_json

from django_mcp.core.context import Context
from django_mcp.exposure.sealing import opened, seal
from django_mcp.protocol.errors import InvalidParams

_MOST_CHARACTERS = 4096
_PADDED_TO = 128
"""Bytes."""


def encode(ctx: Context, question: object, place: Sequence[Any]) -> str:
    """A cursor for *place*.

    Args:
        ctx: the call, whose caller alone may use it.
        question: what was asked, the place aside; anything JSON can hold.
        place: values JSON can hold.
    """
    said = to_json([_digest(ctx, question), place])
    # As long as others, so that its length does not tell how long a value of a hidden row is.
    return seal(said.ljust(-(-len(said) // _PADDED_TO) * _PADDED_TO))


def decode(ctx: Context, question: object, cursor: str) -> list[Any]:
    """The place that *cursor* stands for.

    Raises:
        InvalidParams: it is none of ours, somebody else's, or an answer to another question.
    """
    if len(cursor) <= _MOST_CHARACTERS and cursor.isascii():
        for payload in map(from_json, opened(cursor)):
            if payload[0] == _digest(ctx, question):
                return list(payload[1])
    raise invalid()


def invalid() -> InvalidParams:
    """The error for a cursor that cannot be used; it does not say which of the reasons it was."""
    return InvalidParams("Invalid cursor: it belongs to another question. Ask again without one, from the beginning.")


def _digest(ctx: Context, question: object) -> str:
    caller = ctx.principal
    said = to_json([ctx.server.name, caller.kind, caller.id, question])
    return hashlib.blake2s(said, digest_size=8).hexdigest()
