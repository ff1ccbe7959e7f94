"""Whether streams come through as they are: at once, and for as long as they are open."""

import time

from django_mcp.conf import settings
from django_mcp.doctor.findings import Stop
from django_mcp.doctor.visit import Visit
from django_mcp.doctor.web import Stream

FIRST_SECONDS = 3.0
"""Within which the first event has to come: the endpoint sends it at once."""
SLACK_SECONDS = 3.0
_NO_STREAMS = "needs an ASGI server"
_HELD = ("no-store", "no-cache")


def streams(visit: Visit) -> str:
    """Open ``subscriptions/listen``, and see that its first event comes at once. The stream stays open."""
    stream = open_one(visit, {"Accept-Encoding": "gzip, deflate, br, zstd"})
    encoding = stream.headers.get("content-encoding", "identity")
    if encoding != "identity":
        visit.found("streams.compressed", encoding=encoding)
        stream.close()
        stream = open_one(visit, {})
    if "text/event-stream" not in stream.headers.get("content-type", ""):
        said = stream.rest().decode("utf-8", "replace")
        stream.close()
        if _NO_STREAMS in said:
            visit.found("streams.wsgi")
            return ""
        raise Stop("streams.error", evidence=f"{stream.status} {' '.join(said.split())[:200]}")
    visit.listening = stream
    cacheable = stream.headers.get("cache-control", "missing")
    if not any(word in cacheable for word in _HELD):
        visit.found("streams.cacheable", value=cacheable)
    began = time.monotonic()
    if not stream.line(FIRST_SECONDS):
        lose(visit)
        raise Stop("streams.buffered", seconds=f"{FIRST_SECONDS:g}")
    visit.holds_streams = True
    return f"the first event came after {(time.monotonic() - began) * 1000:.0f} ms"


def open_one(visit: Visit, more: dict[str, str]) -> Stream:
    """A stream of changes.

    Raises:
        Stop: not even its head came.
    """
    given, body = visit.compose("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    timeout, visit.web.timeout = visit.web.timeout, FIRST_SECONDS
    try:
        stream = visit.web.open("POST", {**given, **more}, body)
    finally:
        visit.web.timeout = timeout
    if stream is None:
        raise Stop("streams.buffered", seconds=f"{FIRST_SECONDS:g}")
    return stream


def idle(visit: Visit) -> str:
    """See that the stream which is open is not cut off, and hear its next sign of life."""
    stream = visit.listening
    if stream is None:
        return "there is no stream"
    within = settings.KEEP_ALIVE_SECONDS + SLACK_SECONDS
    deadline = stream.opened + within
    while (line := stream.line(max(SLACK_SECONDS, deadline - time.monotonic()))) is not None:
        after = time.monotonic() - stream.opened
        if not line:
            lose(visit)
            raise Stop("streams.cut", seconds=f"{after:.0f}")
        if line.startswith(":"):
            return f"a sign of life came within {after:.0f} s"
    lose(visit)
    raise Stop("streams.silent", seconds=f"{within:.0f}", every=f"{settings.KEEP_ALIVE_SECONDS:g}")


def lose(visit: Visit) -> None:
    """The stream is of no further use."""
    if visit.listening is not None:
        visit.listening.close()
        visit.listening = None
