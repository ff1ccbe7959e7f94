"""Events as bytes (HTML Living Standard, Server-sent events)."""

from functools import lru_cache

from django_mcp.revisions.base import KEEP_ALIVE, Event

PING = b":\r\n\r\n"
"""A comment, which keeps proxies from closing an idle connection."""
SHORT = 1024
"""Bytes."""


def frame(event: Event) -> bytes:
    """An event's bytes."""
    if event is KEEP_ALIVE:
        return PING
    # An event without data is one all the same; a mere delay is none.
    data = event.data.decode() if event.data or event.id else None
    kind = event.kind if event.data else None
    from sse_starlette import ServerSentEvent  # noqa: PLC0415 - it brings Starlette: not before there is a stream

    return ServerSentEvent(data=data, event=kind, id=event.id or None, retry=event.retry).encode()


def frame_for_many(event: Event) -> bytes:
    """The same, made once for all streams that say it; most of what is told to many is short."""
    return _kept(event) if len(event.data) < SHORT else frame(event)


@lru_cache(maxsize=128)
def _kept(event: Event) -> bytes:
    return frame(event)
