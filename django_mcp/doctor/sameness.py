"""Whether what runs there is this site: its database, and its bell."""

import time

from django_mcp.doctor.findings import Stop
from django_mcp.doctor.speaking import greet
from django_mcp.doctor.visit import Visit
from django_mcp.pubsub.follower import SAFETY_SECONDS
from django_mcp.pubsub.notify import shared_layer
from django_mcp.revisions.legacy.sessions import end_session

SLOW_SECONDS = 2.0
SOON_SECONDS = 0.25
SETTLE_SECONDS = 0.5
"""The server rings its own bell when a stream is opened, and what it looks up then would seem to have been heard."""
"""A ring crosses in milliseconds."""


def deployment(visit: Visit) -> str:
    """A session that was opened over HTTP is in this process's database."""
    if visit.session is None and visit.row is None:
        return "no session could be opened, so it is not known"
    if visit.row is None:
        raise Stop("deployment.other", evidence="the session that it just opened is not there")
    return "it uses this process's database"


def bell(visit: Visit) -> str:
    """End this run's own session from this process: the server's stream of it ends, as soon as that is heard.

    A server that does not hear the bell looks now and then, perhaps just now. So it is asked twice: after it has looked
    it does not look again soon.
    """
    if visit.session is None or visit.row is None or not visit.holds_streams:
        return "there is no stream and session to see it by"
    took = ring(visit)
    if took > SOON_SECONDS and shared_layer() is not None:
        greet(visit)
        took = ring(visit)
        if took > SLOW_SECONDS:
            visit.found("bell.slow", seconds=f"{took:.1f}")
    return f"a stream there heard after {took * 1000:.0f} ms what happened here"


def ring(visit: Visit) -> float:
    """Open the stream of the session, end the session, and wait for the end of the stream; how long that took.

    Raises:
        Stop: it did not end.
    """
    assert visit.row is not None  # noqa: S101
    asked = {**visit.named(visit.session), **visit.credential, "Accept": "text/event-stream"}
    stream = visit.web.open("GET", asked)
    if stream is None or stream.status != 200:  # noqa: PLR2004
        raise Stop("streams.error", evidence="nothing" if stream is None else f"{stream.status} to a GET")
    try:
        stream.line(SLOW_SECONDS)
        time.sleep(SETTLE_SECONDS)
        began = time.monotonic()
        end_session(visit.row)
        visit.session = visit.row = None
        within = SAFETY_SECONDS + SLOW_SECONDS
        while (line := stream.line(max(0.0, began + within - time.monotonic()))) is not None and line:
            pass
    finally:
        stream.close()
    took = time.monotonic() - began
    if line is None:
        raise Stop("bell.unheard", seconds=f"{took:.0f}")
    return took
